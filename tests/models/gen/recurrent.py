"""Models with LSTM, GRU and RNN: directions, lengths, states, stacks."""
import numpy as np

from .kit import F32, I32, model


def cells(net, kind, x, size, hidden, out, directions=1, lens="", states=(), peephole=False, bias=True, **attributes):
    """One recurrent operator with random weights; optional inputs stay empty where they are not wanted."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    w = net.weight(directions, gates * hidden, size, fan=size)
    r = net.weight(directions, gates * hidden, hidden, fan=hidden)
    b = net.init(net.uniform(-0.3, 0.3, directions, 2 * gates * hidden)) if bias else ""
    inputs = [x, w, r, b, lens, *states]
    if peephole:
        inputs += [""] * (7 - len(inputs)) + [net.init(net.uniform(-0.5, 0.5, directions, 3 * hidden))]
    while inputs[-1] == "":
        inputs.pop()
    return net.op(kind, *inputs, out=out, hidden_size=hidden, **attributes)


@model("LSTM forward with initial states, all three outputs")
def lstm_forward(net):
    x = net.input("x", F32, 6, 2, 5)
    h, c = net.input("h", F32, 1, 2, 8), net.input("c", F32, 1, 2, 8)
    cells(net, "LSTM", x, 5, 8, ["y", "y_h", "y_c"], states=(h, c))
    net.output("y", F32, 6, 1, 2, 8)
    net.output("y_h", F32, 1, 2, 8)
    net.output("y_c", F32, 1, 2, 8)
    return [[net.uniform(-1, 1, 6, 2, 5), net.uniform(-1, 1, 1, 2, 8), net.uniform(-1, 1, 1, 2, 8)]]


@model("LSTM reverse with peepholes, clip and an activation of its own")
def lstm_reverse_peephole(net):
    x = net.input("x", F32, 5, 3, 4)
    cells(net, "LSTM", x, 4, 6, ["y", "y_h", "y_c"], peephole=True, direction="reverse", clip=1.5,
          activations=["Sigmoid", "Tanh", "Softsign"])
    net.output("y", F32, 5, 1, 3, 6)
    net.output("y_h", F32, 1, 3, 6)
    net.output("y_c", F32, 1, 3, 6)
    return [[net.uniform(-1, 1, 5, 3, 4)]]


@model("LSTM bidirectional with sequence_lens as input (one of them 1, one the whole), no bias")
def lstm_bidirectional_lens(net):
    x, lens = net.input("x", F32, 7, 3, 5), net.input("lens", I32, 3)
    cells(net, "LSTM", x, 5, 6, ["y", "y_h", "y_c"], directions=2, lens=lens, bias=False, direction="bidirectional")
    net.output("y", F32, 7, 2, 3, 6)
    net.output("y_h", F32, 2, 3, 6)
    net.output("y_c", F32, 2, 3, 6)
    return [[net.uniform(-1, 1, 7, 3, 5), np.array(lens, np.int32)] for lens in ([7, 1, 4], [2, 6, 5])]


@model("two bidirectional LSTM layers with Transpose and Reshape between, only the last state used; symbolic batch "
       "and length")
def lstm_stack(net):
    x = net.input("x", F32, "T", "N", 6)
    y, _, _ = cells(net, "LSTM", x, 6, 5, ["y0", "h0", "c0"], directions=2, direction="bidirectional")
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, 10])
    w = net.init(net.uniform(-0.3, 0.3, 2, 2 * 4 * 5))
    h = net.op("LSTM", y, net.weight(2, 20, 10, fan=10), net.weight(2, 20, 5, fan=5), w, out=["", "h1"],
               hidden_size=5, direction="bidirectional")[1]
    h = net.op("Reshape", net.op("Transpose", h, perm=[1, 0, 2]), [0, 10])
    net.gemm(h, 10, 4, out="scores")
    net.output("scores", F32, "N", 4)
    return [[net.uniform(-1, 1, t, n, 6)] for t, n in ((8, 2), (3, 1), (1, 4))]


@model("streaming frame: Conv encoder, LSTM with state in one stacked tensor split by Slice, state returned by Concat")
def lstm_stateful(net):
    x, state = net.input("frame", F32, 1, 32), net.input("state", F32, 2, 1, 8)
    y = net.op("Unsqueeze", x, [1])
    y = net.op("Relu", net.conv(y, 1, 6, [5], strides=[4], pads=[2, 2]))
    y = net.op("Transpose", y, perm=[2, 0, 1])
    h, c = (net.op("Slice", state, [i], [i + 1], [0]) for i in (0, 1))
    y, h, c = cells(net, "LSTM", y, 6, 8, ["all", "h", "c"], states=(h, c))
    net.op("Concat", h, c, out="new_state", axis=0)
    y = net.op("ReduceMean", net.op("Squeeze", y, [1]), out=None, axes=[0], keepdims=0)
    net.op("Sigmoid", net.gemm(net.op("Relu", y), 8, 1), out="probability")
    net.output("probability", F32, 1, 1)
    net.output("new_state", F32, 2, 1, 8)
    return [[net.uniform(-1, 1, 1, 32), s] for s in (np.zeros((2, 1, 8), np.float32), net.uniform(-1, 1, 2, 1, 8))]


@model("LSTM with layout 1 (batch first) and initial states")
def lstm_batch_first(net):
    x = net.input("x", F32, 3, 5, 4)
    h, c = net.input("h", F32, 3, 1, 6), net.input("c", F32, 3, 1, 6)
    cells(net, "LSTM", x, 4, 6, ["y", "y_h", "y_c"], states=(h, c), layout=1)
    net.output("y", F32, 3, 5, 1, 6)
    net.output("y_h", F32, 3, 1, 6)
    net.output("y_c", F32, 3, 1, 6)
    return [[net.uniform(-1, 1, 3, 5, 4), net.uniform(-1, 1, 3, 1, 6), net.uniform(-1, 1, 3, 1, 6)]]


@model("GRU forward, linear_before_reset (as PyTorch exports it), initial state; symbolic length")
def gru_forward(net):
    x, h = net.input("x", F32, "T", 2, 5), net.input("h", F32, 1, 2, 7)
    cells(net, "GRU", x, 5, 7, ["y", "y_h"], states=(h,), linear_before_reset=1)
    net.output("y", F32, "T", 1, 2, 7)
    net.output("y_h", F32, 1, 2, 7)
    return [[net.uniform(-1, 1, t, 2, 5), net.uniform(-1, 1, 1, 2, 7)] for t in (6, 11)]


@model("GRU reverse, reset before the product (Keras v1), without bias")
def gru_reverse(net):
    x = net.input("x", F32, 6, 3, 4)
    cells(net, "GRU", x, 4, 6, ["y", "y_h"], bias=False, direction="reverse")
    net.output("y", F32, 6, 1, 3, 6)
    net.output("y_h", F32, 1, 3, 6)
    return [[net.uniform(-1, 1, 6, 3, 4)]]


@model("GRU bidirectional with sequence_lens and initial state, linear_before_reset 0")
def gru_bidirectional_lens(net):
    x, lens, h = net.input("x", F32, 6, 2, 4), net.input("lens", I32, 2), net.input("h", F32, 2, 2, 5)
    cells(net, "GRU", x, 4, 5, ["y", "y_h"], directions=2, lens=lens, states=(h,), direction="bidirectional")
    net.output("y", F32, 6, 2, 2, 5)
    net.output("y_h", F32, 2, 2, 5)
    return [[net.uniform(-1, 1, 6, 2, 4), np.array(l, np.int32), net.uniform(-1, 1, 2, 2, 5)]
            for l in ([6, 3], [1, 5])]


@model("RNN forward with Relu and initial state; RNN reverse with Tanh over its result")
def rnn_forward_reverse(net):
    x, h = net.input("x", F32, 7, 2, 4), net.input("h", F32, 1, 2, 6)
    y, _ = cells(net, "RNN", x, 4, 6, ["forward", "forward_h"], states=(h,), activations=["Relu"])
    y = net.op("Squeeze", y, [1])
    cells(net, "RNN", y, 6, 5, ["y", "y_h"], direction="reverse")
    net.output("y", F32, 7, 1, 2, 5)
    net.output("y_h", F32, 1, 2, 5)
    net.output("forward_h", F32, 1, 2, 6)
    return [[net.uniform(-1, 1, 7, 2, 4), net.uniform(0, 1, 1, 2, 6)]]


@model("RNN bidirectional with sequence_lens and another activation each way")
def rnn_bidirectional_lens(net):
    x, lens = net.input("x", F32, 5, 3, 4), net.input("lens", I32, 3)
    cells(net, "RNN", x, 4, 6, ["y", "y_h"], directions=2, lens=lens, direction="bidirectional",
          activations=["Tanh", "Relu"])
    net.output("y", F32, 5, 2, 3, 6)
    net.output("y_h", F32, 2, 3, 6)
    return [[net.uniform(-1, 1, 5, 3, 4), np.array([5, 2, 3], np.int32)]]


@model("text recognition: Conv over a strip of symbolic width, columns into a bidirectional GRU, LogSoftmax per column")
def crnn(net):
    x = net.input("strip", F32, 1, 1, 8, "W")
    y = net.op("MaxPool", net.op("Relu", net.same(x, 1, 6)), kernel_shape=[2, 2], strides=[2, 2])
    y = net.op("Relu", net.conv(y, 6, 8, [4, 3], pads=[0, 1, 0, 1]))
    y = net.op("Transpose", net.op("Squeeze", y, [2]), perm=[2, 0, 1])
    y, _ = cells(net, "GRU", y, 8, 6, ["columns", "h"], directions=2, direction="bidirectional",
                 linear_before_reset=1)
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [0, 0, -1])
    net.op("LogSoftmax", net.linear(y, 12, 9), out="letters", axis=-1)
    net.output("letters", F32, "W2", 1, 9)
    return [[net.uniform(-1, 1, 1, 1, 8, w)] for w in (16, 30)]


@model("wide RNN with sequence_lens: enough work in a step for several threads")
def rnn_wide(net):
    x, lens = net.input("x", F32, 4, 26, 6), net.input("lens", I32, 26)
    cells(net, "RNN", x, 6, 64, ["y", "y_h"], lens=lens)
    net.output("y", F32, 4, 1, 26, 64)
    net.output("y_h", F32, 1, 26, 64)
    return [[net.uniform(-1, 1, 4, 26, 6), np.arange(26, dtype=np.int32) % 4 + 1]]


@model("wide GRU, reset before the product (a step in two parts); symbolic batch and length")
def gru_wide(net):
    x = net.input("x", F32, "T", "N", 4)
    cells(net, "GRU", x, 4, 48, ["y", "y_h"])
    net.output("y", F32, "T", 1, "N", 48)
    net.output("y_h", F32, 1, "N", 48)
    return [[net.uniform(-1, 1, t, n, 4)] for t, n in ((6, 4), (1, 1), (9, 3))]


@model("a recurrence written out step by step, forwards and backwards, results of all steps side by side: one kernel "
       "for many steps, with pointers moved; symbolic batch")
def steps_written_out(net):
    steps, hidden = 7, 12
    x = net.input("x", F32, "N", steps, 8)
    w, u = net.weight(8, hidden), net.weight(hidden, hidden)
    b = net.init(net.uniform(-0.5, 0.5, hidden))
    zero = net.init(np.zeros((1, hidden), np.float32))
    for name, order in (("ahead", range(steps)), ("back", range(steps - 1, -1, -1))):
        h, made = zero, {}
        for t in order:
            at = net.op("Squeeze", net.op("Slice", x, [t], [t + 1], [1]), [1])
            h = net.op("Tanh", net.op("Add", net.op("Add", net.op("MatMul", at, w), net.op("MatMul", h, u)), b))
            made[t] = net.op("Unsqueeze", h, [1])
        net.op("Concat", *[made[t] for t in range(steps)], out=name, axis=1)
        net.output(name, F32, "N", steps, hidden)
    return [[net.uniform(-1, 1, n, steps, 8)] for n in (3, 1, 14)]
