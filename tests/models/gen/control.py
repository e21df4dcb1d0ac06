"""Models with If, Loop and Scan: branches, carried state, outer-scope names."""
import numpy as np
from onnx import helper

from .kit import BOOL, F32, I64, model


@model("nested If: both conditions are inputs, branches read values, weights and an input of both outer scopes")
def if_nested(net):
    x = net.input("x", F32, 2, 4)
    first, second = net.input("first", BOOL), net.input("second", BOOL)
    h = net.linear(x, 4, 6)
    shared = net.init(net.uniform(-1, 1, 6, 3), "shared")

    deep_then = net.sub("deep_then")
    deep_then.op("MatMul", deep_then.op("Tanh", h), shared, out="a")
    deep_then.output("a", F32, 2, 3)
    deep_else = net.sub("deep_else")
    local = deep_else.linear(x, 4, 3)
    deep_else.op("Mul", local, np.float32(2), out="b")
    deep_else.output("b", F32, 2, 3)
    outer_then = net.sub("outer_then")
    inner = outer_then.op("If", second, then_branch=deep_then.graph(), else_branch=deep_else.graph())
    outer_then.op("Add", inner, np.float32(1), out="c")
    outer_then.output("c", F32, 2, 3)
    outer_else = net.sub("outer_else")
    outer_else.op("MatMul", outer_else.op("Sigmoid", h), shared, out="d")
    outer_else.output("d", F32, 2, 3)

    y = net.op("If", first, then_branch=outer_then.graph(), else_branch=outer_else.graph())
    net.op("Neg", y, out="y")
    net.output("y", F32, 2, 3)
    data = net.uniform(-1, 1, 2, 4)
    return [[data, np.array(a), np.array(b)] for a, b in ((True, True), (True, False), (False, True))]


@model("If on the rank or size of a tensor, as PyTorch exports squeeze(): decidable before the run", opset=13)
def if_shape(net):
    x = net.input("x", F32, 1, 1, 6)
    y = net.linear(x, 6, 4)
    size = net.op("Gather", net.op("Shape", y), net.const(np.int64(1)), axis=0)
    one = net.op("Equal", size, net.const(np.int64(1)))
    then, other = net.sub("squeezed"), net.sub("kept")
    then.op("Squeeze", y, [1], out="s")
    then.output("s", F32, "A", "B")
    other.op("Identity", y, out="k")
    other.output("k", F32, "A", "B", "C")
    z = net.op("If", one, then_branch=then.graph(), else_branch=other.graph())
    net.op("Relu", z, out="y")
    net.output("y", F32, "A", 4)
    return [[net.uniform(-1, 1, 1, 1, 6)]]


@model("If on a comparison of data with two outputs; one branch hands an outer value through; symbolic batch")
def if_data(net):
    x = net.input("x", F32, "N", 3)
    total = net.op("ReduceSum", x, keepdims=0)
    big = net.op("Greater", total, np.float32(0))
    twice = net.op("Mul", x, np.float32(2))
    yes, no = net.sub("yes"), net.sub("no")
    yes.op("Identity", twice, out="yes_a")
    yes.op("Sub", x, total, out="yes_b")
    no.op("Abs", x, out="no_a")
    no.op("Identity", x, out="no_b")
    for branch, names in ((yes, ("yes_a", "yes_b")), (no, ("no_a", "no_b"))):
        for name in names:
            branch.output(name, F32, "N", 3)
    net.op("If", big, out=["a", "b"], then_branch=yes.graph(), else_branch=no.graph())
    net.output("a", F32, "N", 3)
    net.output("b", F32, "N", 3)
    return [[net.uniform(low, low + 2, n, 3)] for low, n in ((0, 2), (-2, 2), (-0.2, 5))]


@model("Loop with a constant trip count: carried state, scan outputs of rank 0 and 2, weights of the outer graph, the "
       "iteration number used")
def loop_fixed(net):
    x = net.input("x", F32, 2, 5)
    w = net.weight(5, 5, fan=5, name="w")
    body = net.sub("body")
    step, going = body.input("step", I64), body.input("going", BOOL)
    state = body.input("state", F32, 2, 5)
    body.op("Identity", going, out="still")
    moved = body.op("Tanh", body.op("MatMul", state, w))
    scaled = body.op("Mul", body.op("Cast", step, to=F32), np.float32(0.1))
    body.op("Add", moved, scaled, out="next")
    body.op("ReduceMax", "next", out="peak", keepdims=0)
    body.op("Slice", "next", [0], [3], [1], out="part")
    body.output("still", BOOL)
    body.output("next", F32, 2, 5)
    body.output("peak", F32)
    body.output("part", F32, 2, 3)
    net.op("Loop", net.const(np.int64(4)), "", x, out=["final", "peaks", "parts"], body=body.graph())
    net.output("final", F32, 2, 5)
    net.output("peaks", F32, 4)
    net.output("parts", F32, 4, 2, 3)
    return [[net.uniform(-1, 1, 2, 5)]]


@model("Loop whose trip count is computed from initialisers, two carried values, a Gather at the iteration number")
def loop_trip_initialiser(net):
    x = net.input("x", F32, 3, 4)
    layers = net.init(net.uniform(-0.8, 0.8, 5, 4, 4), "layers")
    count = net.op("Sub", net.init(np.int64(7), "seven"), net.init(np.int64(2), "two"))
    body = net.sub("layer")
    step, going = body.input("i", I64), body.input("cond_in", BOOL)
    h, total = body.input("h", F32, 3, 4), body.input("total", F32)
    body.op("Identity", going, out="cond_out")
    body.op("Relu", body.op("MatMul", h, body.op("Gather", layers, step, axis=0)), out="h_out")
    body.op("Add", total, body.op("ReduceSum", "h_out", keepdims=0), out="total_out")
    body.output("cond_out", BOOL)
    body.output("h_out", F32, 3, 4)
    body.output("total_out", F32)
    net.op("Loop", count, net.init(np.array(True), "always"), x, net.const(np.float32(0)), out=["y", "sum"],
           body=body.graph())
    net.output("y", F32, 3, 4)
    net.output("sum", F32)
    return [[net.uniform(-1, 1, 3, 4)]]


@model("Loop as while: ends when the carried value is small, at most M times (M is an input); If inside the body")
def loop_while(net):
    x, limit = net.input("x", F32, 4), net.input("limit", I64)
    body = net.sub("halve")
    step, _ = body.input("i", I64), body.input("c", BOOL)
    value = body.input("v", F32, 4)
    even, odd = body.sub("even"), body.sub("odd")
    even.op("Mul", value, np.float32(0.5), out="ev")
    odd.op("Mul", value, np.float32(-0.75), out="od")
    even.output("ev", F32, 4)
    odd.output("od", F32, 4)
    parity = body.op("Equal", body.op("Mod", step, np.int64(2)), np.int64(0))
    body.op("If", parity, out="next", then_branch=even.graph(), else_branch=odd.graph())
    size = body.op("ReduceMax", body.op("Abs", "next"), keepdims=0)
    body.op("Greater", size, np.float32(0.05), out="more")
    body.output("more", BOOL)
    body.output("next", F32, 4)
    net.op("Loop", limit, np.array(True), x, out="y", body=body.graph())
    net.output("y", F32, 4)
    data = net.uniform(0.6, 1, 4)
    return [[data, np.array(m, np.int64)] for m in (100, 3, 0)]


@model("Loop in a Loop: the inner body reads the carried value and the iteration number of the outer one")
def loop_nested(net):
    x = net.input("x", F32, 3)
    outer = net.sub("outer")
    i, c, a = outer.input("i", I64), outer.input("c", BOOL), outer.input("a", F32, 3)
    weight = outer.op("Add", outer.op("Cast", i, to=F32), np.float32(1))
    inner = outer.sub("inner")
    _, d, b = inner.input("j", I64), inner.input("d", BOOL), inner.input("b", F32, 3)
    inner.op("Identity", d, out="d_out")
    turned = inner.op("Mul", inner.op("Sub", a, b), np.float32(0.25))
    inner.op("Add", b, inner.op("Mul", turned, weight), out="b_out")
    inner.op("ReduceSum", "b_out", out="s", keepdims=0)
    inner.output("d_out", BOOL)
    inner.output("b_out", F32, 3)
    inner.output("s", F32)
    outer.op("Identity", c, out="c_out")
    start = outer.op("Neg", a)
    outer.op("Loop", np.int64(3), "", start, out=["a_out", "sums"], body=inner.graph())
    outer.output("c_out", BOOL)
    outer.output("a_out", F32, 3)
    outer.output("sums", F32, 3)
    net.op("Loop", np.int64(2), "", x, out=["y", "table"], body=outer.graph())
    net.output("y", F32, 3)
    net.output("table", F32, 2, 3)
    return [[net.uniform(-1, 1, 3)]]


@model("Scan as a recurrent cell: MatMul with outer weights over time, one state, one scan output; symbolic length")
def scan_rnn(net):
    x, h = net.input("x", F32, "T", 2, 4), net.input("h", F32, 2, 6)
    w, r = net.weight(4, 6, fan=4, name="w"), net.weight(6, 6, fan=6, name="r")
    body = net.sub("cell")
    state, frame = body.input("state", F32, 2, 6), body.input("frame", F32, 2, 4)
    total = body.op("Add", body.op("MatMul", frame, w), body.op("MatMul", state, r))
    body.op("Tanh", total, out="state_out")
    body.op("ReduceMean", "state_out", out="mean", axes=[1], keepdims=0)
    body.output("state_out", F32, 2, 6)
    body.output("mean", F32, 2)
    net.op("Scan", h, x, out=["final", "means"], body=body.graph(), num_scan_inputs=1)
    net.output("final", F32, 2, 6)
    net.output("means", F32, "T", 2)
    return [[net.uniform(-1, 1, t, 2, 4), net.uniform(-1, 1, 2, 6)] for t in (5, 9)]


@model("Scan over axis 1 and backwards, two scan inputs, scan output along axis 1 and reversed; state of rank 1")
def scan_axes(net):
    a, b = net.input("a", F32, 3, 6), net.input("b", F32, 6, 3)
    body = net.sub("step")
    s, u, v = body.input("s", F32, 3), body.input("u", F32, 3), body.input("v", F32, 3)
    body.op("Add", body.op("Mul", s, np.float32(0.5)), body.op("Mul", u, v), out="s_out")
    body.op("Sub", "s_out", u, out="o")
    body.op("Max", "s_out", v, out="m")
    body.output("s_out", F32, 3)
    body.output("o", F32, 3)
    body.output("m", F32, 3)
    net.op("Scan", net.const(np.zeros(3, np.float32)), a, b, out=["s_final", "left", "right"], body=body.graph(),
           num_scan_inputs=2, scan_input_axes=[1, 0], scan_input_directions=[0, 1], scan_output_axes=[1, 0],
           scan_output_directions=[0, 1])
    net.output("s_final", F32, 3)
    net.output("left", F32, 3, 6)
    net.output("right", F32, 6, 3)
    return [[net.uniform(-1, 1, 3, 6), net.uniform(-1, 1, 6, 3)]]


@model("an LSTM written out with Scan: Gemm, Split, Sigmoid, Tanh, two states; the same frames also through LSTM")
def scan_lstm(net):
    x = net.input("x", F32, 5, 2, 3)
    hidden = 4
    w, r = net.uniform(-1, 1, 4 * hidden, 3), net.uniform(-0.8, 0.8, 4 * hidden, hidden)
    b = net.uniform(-0.3, 0.3, 4 * hidden)
    wt, rt, bias = net.init(np.ascontiguousarray(w.T), "wt"), net.init(np.ascontiguousarray(r.T), "rt"), net.init(b)
    body = net.sub("cell")
    h, c, frame = body.input("h", F32, 2, 4), body.input("c", F32, 2, 4), body.input("frame", F32, 2, 3)
    gates = body.op("Gemm", h, rt, body.op("Gemm", frame, wt, bias))
    i, o, f, g = body.op("Split", gates, [4, 4, 4, 4], n=4, axis=1)
    kept = body.op("Mul", body.op("Sigmoid", f), c)
    body.op("Add", kept, body.op("Mul", body.op("Sigmoid", i), body.op("Tanh", g)), out="c_out")
    body.op("Mul", body.op("Sigmoid", o), body.op("Tanh", "c_out"), out="h_out")
    body.op("Identity", "h_out", out="y_out")
    for name in ("h_out", "c_out", "y_out"):
        body.output(name, F32, 2, 4)
    zero = net.const(np.zeros((2, hidden), np.float32))
    net.op("Scan", zero, zero, x, out=["h_final", "c_final", "by_scan"], body=body.graph(), num_scan_inputs=1)
    both = np.concatenate([b, np.zeros_like(b)])[None]
    net.op("LSTM", x, w[None], r[None], both, out=["by_lstm"], hidden_size=hidden)
    net.op("Sub", net.op("Squeeze", "by_lstm", [1]), "by_scan", out="difference")
    net.output("by_scan", F32, 5, 2, 4)
    net.output("by_lstm", F32, 5, 1, 2, 4)
    net.output("difference", F32, 5, 2, 4)
    return [[net.uniform(-1, 1, 5, 2, 3)]]


@model("Loop whose carried value grows by a row every trip, in the middle axis of another; ends by data; both are "
       "read inside")
def loop_grow(net):
    x, limit = net.input("x", F32, 2, 3), net.input("limit", I64)
    rows, cache = net.input("rows", F32, "R", 3), net.input("cache", F32, 2, "T", 3)
    body = net.sub("append")
    step, _ = body.input("i", I64), body.input("c", BOOL)
    held, mid = body.input("held", F32, "held_n", 3), body.input("mid", F32, 2, "mid_n", 3)
    scores = body.op("MatMul", mid, body.op("Unsqueeze", x, np.array([2])))
    weights = body.op("Softmax", scores, axis=1)
    seen = body.op("ReduceSum", body.op("Mul", weights, mid), np.array([1]), keepdims=0)
    fresh = body.op("Add", seen, body.op("Cast", step, to=F32))
    body.op("Concat", mid, body.op("Unsqueeze", fresh, np.array([1])), out="mid_out", axis=1)
    total = body.op("ReduceSum", held, np.array([0]), keepdims=1)
    body.op("Concat", held, body.op("Mul", total, np.float32(0.5)), out="held_out", axis=0)
    body.op("ReduceMax", "held_out", out="most", keepdims=0)
    body.op("Less", "most", np.float32(9), out="more")
    body.output("more", BOOL)
    body.output("held_out", F32, "held_out_n", 3)
    body.output("mid_out", F32, 2, "mid_out_n", 3)
    body.output("most", F32)
    net.op("Loop", net.op("Min", limit, np.int64(24)), "", rows, cache, out=["held_end", "mid_end", "mosts"],
           body=body.graph())
    net.op("ReduceMean", "mid_end", out="mean", axes=[1], keepdims=0)
    net.output("held_end", F32, "held_end_n", 3)
    net.output("mid_end", F32, 2, "mid_end_n", 3)
    net.output("mosts", F32, "mosts_n")
    net.output("mean", F32, 2, 3)
    runs = []
    for m, r, t in ((20, 2, 1), (3, 1, 4), (1, 3, 2)):
        data = [net.uniform(-1, 1, 2, 3), np.array(m, np.int64), net.uniform(0.5, 1, r, 3), net.uniform(-1, 1, 2, t, 3)]
        runs.append(data)
    return runs


@model("Loop whose carried value shrinks by data: what is above a threshold stays; a size found at run time inside "
       "the body")
def loop_shrink(net):
    x = net.input("x", F32, "N")
    body = net.sub("keep")
    step, _ = body.input("i", I64), body.input("c", BOOL)
    v = body.input("v", F32, "v_n")
    limit = body.op("Mul", body.op("Cast", step, to=F32), np.float32(0.2))
    body.op("Compress", v, body.op("Greater", v, limit), out="kept", axis=0)
    body.op("ReduceSum", "kept", out="sum", keepdims=0)
    body.op("Greater", "sum", np.float32(1), out="more")
    body.output("more", BOOL)
    body.output("kept", F32, "kept_n")
    body.output("sum", F32)
    net.op("Loop", np.int64(6), np.array(True), x, out=["rest", "sums"], body=body.graph())
    net.output("rest", F32, "rest_n")
    net.output("sums", F32, "sums_n")
    return [[net.uniform(0, 1, n)] for n in (9, 30, 1)]


@model("If on data whose branches give different sizes: one of them found at run time; what reads the result has that "
       "size")
def if_sizes(net):
    x, pick = net.input("x", F32, "N", 4), net.input("pick", BOOL)
    few, many = net.sub("few"), net.sub("many")
    few.op("Compress", x, few.op("Greater", few.op("ReduceMax", x, axes=[1], keepdims=0), np.float32(0.6)), out="f",
           axis=0)
    few.output("f", F32, "f_n", 4)
    many.op("Concat", x, many.op("Neg", x), x, out="m", axis=0)
    many.output("m", F32, "m_n", 4)
    net.op("If", pick, out="y", then_branch=few.graph(), else_branch=many.graph())
    net.op("MatMul", "y", net.uniform(-1, 1, 4, 5), out="z")
    net.op("ReduceSum", "z", np.array([0]), out="s", keepdims=0)
    net.output("y", F32, "y_n", 4)
    net.output("z", F32, "z_n", 5)
    net.output("s", F32, 5)
    return [[net.uniform(0, 1, n, 4), np.array(p)] for n, p in ((6, True), (6, False), (1, False))]


@model("If on whether anything was found: nothing in one branch, places of some number in the other, as detectors do "
       "it before they suppress boxes; a length by division towards 0 of a size less one")
def if_found(net):
    x = net.input("x", F32, "N")
    net.op("Compress", x, net.op("Greater", x, np.float32(0.5)), out="found", axis=0)
    none, some = net.sub("none"), net.sub("some")
    none.op("Slice", "found", np.array([0]), np.array([0]), out="n")
    none.output("n", F32, "n_n")
    some.op("Compress", "found", some.op("Less", "found", np.float32(0.9)), out="s", axis=0)
    some.output("s", F32, "s_n")
    net.op("If", net.op("Equal", net.op("Size", "found"), np.int64(0)), out="y", then_branch=none.graph(),
           else_branch=some.graph())
    half = net.op("Add", net.op("Div", net.op("Sub", net.op("Shape", x), np.array([1])), np.array([2])), np.array([1]))
    net.op("Expand", np.float32(2), half, out="h")
    net.output("y", F32, "y_n")
    net.output("h", F32, "h_n")
    return [[v.astype(np.float32)] for v in (net.uniform(0, 1, 12), net.uniform(0, 0.4, 5), net.uniform(0, 1, 41))]


@model("Sizes found at run time: Slice from and to places that are inputs (an output as long as the rest), what reads "
       "it, NonZero, Range")
def late_sizes(net):
    x, start, end = net.input("x", F32, "N", 3), net.input("start", I64, 1), net.input("end", I64, 1)
    net.op("Slice", x, start, end, np.array([0]), out="part")
    net.op("Slice", x, start, np.array([1 << 62]), np.array([0]), out="rest")
    net.op("MatMul", "rest", net.uniform(-1, 1, 3, 2), out="product")
    net.op("ReduceSum", "part", np.array([0, 1]), out="sum", keepdims=0)
    net.op("Transpose", net.op("NonZero", net.op("Greater", x, np.float32(0.2))), out="places", perm=[1, 0])
    net.op("Range", np.int64(0), net.op("Size", "part"), np.int64(2), out="even")
    net.output("part", F32, "part_n", 3)
    net.output("rest", F32, "rest_n", 3)
    net.output("product", F32, "rest_n", 2)
    net.output("sum", F32)
    net.output("places", I64, "places_n", 2)
    net.output("even", I64, "even_n")
    return [[net.uniform(-1, 1, n, 3), np.array([a]), np.array([b])] for n, a,
            b in ((20, 0, 20), (20, 3, -2), (5, -2, 9), (7, 5, 2), (40, 1, 39))]


@model("Loop as exporters write `while`: 2^63 - 1 trips, ended by its condition; and one without a number of trips")
def loop_until(net):
    x, least = net.input("x", F32, 3), net.input("least", F32)
    first, second = net.sub("halve"), net.sub("double")
    for body, factor in ((first, 0.5), (second, 2)):
        body.input("i", I64)
        body.input("c", BOOL)
        v = body.input("v", F32, 3)
        body.op("Mul", v, np.float32(factor), out="next")
        size = body.op("ReduceMax", body.op("Abs", "next"), keepdims=0)
        body.op("Greater", *((size, least) if factor < 1 else (np.float32(3), size)), out="more")
        body.output("more", BOOL)
        body.output("next", F32, 3)
    net.op("Loop", np.int64((1 << 63) - 1), np.array(True), x, out="small", body=first.graph())
    net.op("Loop", "", np.array(True), "small", out="large", body=second.graph())
    net.output("small", F32, 3)
    net.output("large", F32, 3)
    return [[net.uniform(0.5, 1, 3), np.array(t, np.float32)] for t in (0.1, 1e-5)]


@model("every operator of sequences: made, inserted into, erased from, read, mapped, split and joined")
def lists(net):
    x, y = net.input("x", F32, 2, 3), net.input("y", F32, 2, 3)
    pair = net.op("SequenceConstruct", x, net.op("Tanh", y))
    three = net.op("SequenceInsert", pair, net.op("Mul", x, y), np.int64(1))
    body = net.sub("body")
    element = body.fresh("element")
    body.inputs.append(helper.make_tensor_value_info(element, F32, [2, 3]))
    body.op("Sin", element, out="sine")
    body.output("sine", F32, 2, 3)
    mapped = net.op("SequenceMap", three, body=body.graph())
    net.op("SequenceLength", mapped, out="count")
    net.op("ConcatFromSequence", net.op("SequenceErase", mapped, np.int64(0)), out="stacked", axis=0, new_axis=1)
    net.op("Exp", net.op("SequenceAt", three, np.int64(-1)), out="last")
    parts = net.op("SplitToSequence", x, np.array([1, 2], np.int64), axis=1)
    grown = net.op("SequenceInsert", net.op("SequenceEmpty", dtype=F32), net.op("SequenceAt", parts, np.int64(1)))
    net.op("ConcatFromSequence", grown, out="joined", axis=1)
    net.output("count", I64)
    net.output("stacked", F32, 2, 2, 3)
    net.output("last", F32, 2, 3)
    net.output("joined", F32, 2, 2)
    return [[net.uniform(-1, 1, 2, 3), net.uniform(-1, 1, 2, 3)]]


@model("Optional, with a tensor in it: asked, opened", opset=18)
def optionals(net):
    x = net.input("x", F32, 4)
    box = net.op("Optional", net.op("Sin", x))
    net.op("Exp", net.op("OptionalGetElement", box), out="y")
    net.op("OptionalHasElement", box, out="there")
    net.output("y", F32, 4)
    net.output("there", BOOL)
    return [[net.uniform(-1, 1, 4)]]
