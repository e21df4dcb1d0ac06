"""Which operators does onnx.reference lack or compute wrongly for our models, and what do they compute?

Each class replaces one operator of ReferenceEvaluator, straight from the text of the standard:
  LSTM, GRU, RNN   sequence_lens, clip, other activations, input_forget (the stock ones ignore these)
  Loop             scan outputs of any rank (the stock one glues them with vstack)
  Scan             axes and directions other than 0
  ConvTranspose    groups with more than one channel each, explicit output_shape
  Upsample, Resize the attribute and the two-input forms of opsets 7 to 10
  Softmax family   before opset 13, which flattens to two dimensions at `axis`
  LogSoftmax       without log(0) for values far below the largest
  BatchNormalization  before opset 14: the running statistics are used as they are (the stock one trains)
  LRN              every channel (the stock one stops at the batch size)
  Pad              negative amounts, which cut
  GridSample, DeformConv  places far outside, infinite ones and NaN (far to the left)
  OptionalGetElement  of what Optional made (the stock one leaves its list)
  QuantizeLinear, DequantizeLinear  before opset 19
  MatMulNBits (com.microsoft)  any number of bits, where onnxruntime computes 2, 4 and 8
  StringNormalizer  letters keep their accents (the stock one takes them away, and cuts what gets longer)
"""
import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_conv_transpose import ConvTranspose as StockConvTranspose
from onnx.reference.ops.op_deform_conv import DeformConv as StockDeformConv
from onnx.reference.ops.op_grid_sample import GridSample as StockGridSample
from onnx.reference.ops.op_loop import Loop as StockLoop


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "sigmoid": lambda x, a, b: sigmoid(x),
    "tanh": lambda x, a, b: np.tanh(x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "hardsigmoid": lambda x, a, b: np.clip((0.2 if a is None else a) * x + (0.5 if b is None else b), 0, 1),
    "affine": lambda x, a, b: (1.0 if a is None else a) * x + (0.0 if b is None else b),
    "leakyrelu": lambda x, a, b: np.where(x < 0, (0.01 if a is None else a) * x, x),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
}
TAKES_ALPHA = {"hardsigmoid", "affine", "leakyrelu"}
TAKES_BETA = {"hardsigmoid", "affine"}


class Recurrent(OpRun):
    """What the three recurrent operators share: directions, lengths, layouts.  `cell` is one step of one direction."""

    op_domain = ""
    gates, states, default = 0, 1, ()

    def functions(self, direction):
        names = [n.lower() for n in (self.activations or list(self.default) * 2)]
        alphas, betas = list(self.activation_alpha or []), list(self.activation_beta or [])
        chosen = []
        for name in names:
            alpha = alphas.pop(0) if name in TAKES_ALPHA and alphas else None
            beta = betas.pop(0) if name in TAKES_BETA and betas else None
            chosen.append(lambda x, f=ACTIVATIONS[name], a=alpha, b=beta: f(x, a, b))
        count = len(self.default)
        return chosen[direction * count : direction * count + count]

    def limit(self, x):
        return np.clip(x, -self.clip, self.clip) if self.clip else x

    def sweep(self, X, W, R, B, lens, initial, peephole=None):
        layout = getattr(self, "layout", 0) or 0
        if layout:
            X = np.swapaxes(X, 0, 1)
            initial = [None if s is None else np.swapaxes(s, 0, 1) for s in initial]
        steps, batch, _ = X.shape
        directions, hidden = W.shape[0], R.shape[-1]
        if B is None:
            B = np.zeros((directions, 2 * self.gates * hidden), X.dtype)
        lens = np.full(batch, steps) if lens is None else lens
        Y = np.zeros((steps, directions, batch, hidden), X.dtype)
        last = [np.zeros((directions, batch, hidden), X.dtype) for _ in range(self.states)]
        for d in range(directions):
            backward = self.direction == "reverse" or d == 1
            for b in range(batch):
                state = [np.zeros((1, hidden), X.dtype) if s is None else s[d, b : b + 1] for s in initial]
                times = range(int(lens[b]))
                for t in reversed(times) if backward else times:
                    extra = None if peephole is None else peephole[d]
                    state = self.cell(X[t, b : b + 1], W[d], R[d], B[d], state, self.functions(d), extra)
                    Y[t, d, b] = state[0][0]
                for i, s in enumerate(state):
                    last[i][d, b] = s[0]
        if layout:
            Y = np.transpose(Y, (2, 0, 1, 3))
            last = [np.swapaxes(s, 0, 1) for s in last]
        return tuple([Y] + last)[: len(self.onnx_node.output)]


class LSTM(Recurrent):
    gates, states, default = 4, 2, ("Sigmoid", "Tanh", "Tanh")

    def cell(self, x, W, R, B, state, functions, peephole):
        h, c = state
        f, g, k = functions
        i_, o_, f_, c_ = np.split(x @ W.T + h @ R.T + B[: len(B) // 2] + B[len(B) // 2 :], 4, -1)
        p_i, p_o, p_f = (0, 0, 0) if peephole is None else np.split(peephole, 3)
        keep = f(self.limit(f_ + p_f * c))
        take = 1 - keep if self.input_forget else f(self.limit(i_ + p_i * c))
        new = keep * c + take * g(self.limit(c_))
        return [f(self.limit(o_ + p_o * new)) * k(new), new]

    def _run(self, X, W, R, B=None, lens=None, h0=None, c0=None, P=None, **_):
        return self.sweep(X, W, R, B, lens, [h0, c0], P)


class GRU(Recurrent):
    gates, states, default = 3, 1, ("Sigmoid", "Tanh")

    def cell(self, x, W, R, B, state, functions, _):
        h = state[0]
        f, g = functions
        w_z, w_r, w_h = np.split(x @ W.T + B[: len(B) // 2], 3, -1)
        r_z, r_r, r_h = np.split(R, 3)
        b_z, b_r, b_h = np.split(B[len(B) // 2 :], 3)
        z = f(self.limit(w_z + h @ r_z.T + b_z))
        r = f(self.limit(w_r + h @ r_r.T + b_r))
        inner = r * (h @ r_h.T + b_h) if self.linear_before_reset else (r * h) @ r_h.T + b_h
        return [(1 - z) * g(self.limit(w_h + inner)) + z * h]

    def _run(self, X, W, R, B=None, lens=None, h0=None, **_):
        return self.sweep(X, W, R, B, lens, [h0])


class RNN(Recurrent):
    gates, states, default = 1, 1, ("Tanh",)

    def cell(self, x, W, R, B, state, functions, _):
        return [functions[0](self.limit(x @ W.T + state[0] @ R.T + B[: len(B) // 2] + B[len(B) // 2 :]))]

    def _run(self, X, W, R, B=None, lens=None, h0=None, **_):
        return self.sweep(X, W, R, B, lens, [h0])


class Loop(StockLoop):
    op_domain = ""

    def _run(self, M, cond, *args, context=None, body=None, attributes=None, bindings=None):
        names = self.body.input_names
        carried, scanned = list(args), [[] for _ in range(self.K)]
        step, going = 0, True if cond is None else bool(cond)
        while going and (M is None or step < int(M)):
            inputs = dict(context or {})
            inputs.update(zip(names, [np.array(step, np.int64), np.array(going), *carried]))
            outputs = self._run_body(inputs, attributes=attributes, bindings=bindings)
            going, carried = bool(outputs[0]), list(outputs[1 : 1 + self.N])
            for kept, value in zip(scanned, outputs[1 + self.N :]):
                kept.append(value)
            step += 1
        return tuple(carried + [np.stack(s) for s in scanned])


class Scan(OpRun):
    op_domain = ""

    def need_context(self):
        return True

    def _run(self, *args, context=None, bindings=None, **_):
        count = self.num_scan_inputs
        states, sequences = list(args[:-count]), args[-count:]
        n_out = len(self.body.output_names) - len(states)
        axes_in, axes_out = self.scan_input_axes or [0] * count, self.scan_output_axes or [0] * n_out
        back_in, back_out = self.scan_input_directions or [0] * count, self.scan_output_directions or [0] * n_out
        sequences = [np.moveaxis(s, a, 0)[:: -1 if d else 1] for s, a, d in zip(sequences, axes_in, back_in)]
        kept = [[] for _ in range(n_out)]
        for slices in zip(*sequences):
            inputs = dict(context or {})
            inputs.update(zip(self.body.input_names, states + list(slices)))
            outputs = self._run_body(inputs, bindings=bindings)
            states = list(outputs[: len(states)])
            for k, value in zip(kept, outputs[len(states) :]):
                k.append(value)
        results = [np.stack(k[:: -1 if d else 1], axis=a) for k, a, d in zip(kept, axes_out, back_out)]
        return tuple(states + results)


class ConvTranspose(StockConvTranspose):
    """Every group by itself; `output_shape` becomes pads."""

    op_domain = ""

    def _run(self, X, W, B=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, output_padding=None,
             output_shape=None, pads=None, strides=None):
        rank, group = X.ndim - 2, group or 1
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        extra = output_padding or [0] * rank
        if output_shape is not None:
            full = [strides[i] * (X.shape[i + 2] - 1) + extra[i] + (W.shape[i + 2] - 1) * dilations[i] + 1
                    for i in range(rank)]
            total = [f - o for f, o in zip(full, output_shape)]
            small, large = [t // 2 for t in total], [t - t // 2 for t in total]
            pads = small + large if auto_pad == "SAME_UPPER" else large + small
        parts = []
        for x, w, g in zip(np.split(X, group, 1), np.split(W, group, 0), range(group)):
            bias = None if B is None else np.split(B, group)[g]
            parts.append(super()._run(x, w, bias, None, dilations, 1, kernel_shape, extra, None, pads, strides)[0])
        return (np.concatenate(parts, 1),)


def old_resize(x, scales, mode):
    """Opsets 7 to 10: position = output / scale; nearest takes the floor, linear clamps at the far edge."""
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        size = x.shape[axis]
        at = np.arange(int(np.floor(size * scale)), dtype=np.float32) / np.float32(scale)
        low = np.minimum(np.floor(at).astype(np.int64), size - 1)
        if mode == "nearest":
            x = np.take(x, low, axis)
            continue
        part = (at - low).astype(np.float32).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, size - 1), axis) * part
    return x.astype(np.float32)


class Upsample(OpRun):
    op_domain = ""

    def _run(self, x, scales_in=None, mode=None, scales=None):
        return (old_resize(x, scales if scales_in is None else scales_in, mode or "nearest"),)


class Resize(OpRun):
    op_domain = ""

    def _run(self, x, scales, mode=None, **_):
        return (old_resize(x, scales, mode or "nearest"),)


class Flattened(OpRun):
    op_domain = ""

    def _run(self, x, axis=None):
        axis = (1 if axis is None else axis) % x.ndim
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        return (self.rows(flat - flat.max(1, keepdims=True)).reshape(x.shape).astype(x.dtype),)


class Softmax(Flattened):
    def rows(self, x):
        return np.exp(x) / np.exp(x).sum(1, keepdims=True)


class FlattenedLogSoftmax(Flattened):
    def rows(self, x):
        return x - np.log(np.exp(x).sum(1, keepdims=True))


class LogSoftmax(OpRun):
    op_domain = ""

    def _run(self, x, axis=None):
        x = x - x.max(axis=axis, keepdims=True)
        return ((x - np.log(np.exp(x).sum(axis=axis, keepdims=True))).astype(x.dtype),)


class BatchNormalization(OpRun):
    op_domain = ""

    def _run(self, x, scale, bias, mean, var, epsilon=None, **_):
        if scale.ndim == 1:
            scale, bias, mean, var = (v.reshape([-1] + [1] * (x.ndim - 2)) for v in (scale, bias, mean, var))
        return ((scale * (x - mean) / np.sqrt(var + np.float32(epsilon)) + bias).astype(x.dtype),)


class StringNormalizer(OpRun):
    op_domain = ""

    def _run(self, x, case_change_action=None, is_case_sensitive=None, locale=None, stopwords=None):
        case = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}[case_change_action or "NONE"]
        same = str if is_case_sensitive else str.lower
        stops = {same(w) for w in stopwords or []}
        left = [case(w) for w in x.ravel().tolist() if same(w) not in stops]
        return (np.array(left or [""]).reshape(x.shape[:-1] + (-1,)),)


class LRN(OpRun):
    op_domain = ""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        before, after = (size - 1) // 2, size // 2
        sums = np.stack([(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(x.shape[1])], 1)
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


class Pad(OpRun):
    op_domain = ""

    def _run(self, x, pads, value=None, axes=None, mode=None):
        axes = range(x.ndim) if axes is None else [a % x.ndim for a in axes]
        amounts = [[0, 0] for _ in range(x.ndim)]
        for i, axis in enumerate(axes):
            amounts[axis] = [int(pads[i]), int(pads[len(axes) + i])]
        x = x[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, amounts))]
        extra = {} if mode != "constant" else {"constant_values": 0 if value is None else value}
        return (np.pad(x, [[max(0, a), max(0, b)] for a, b in amounts], mode, **extra).astype(x.dtype),)


def along(vector, rank, axis):
    """A scale or zero point, brought to the shape that broadcasts along `axis`."""
    return vector if vector.size == 1 else vector.reshape([-1 if a == axis % rank else 1 for a in range(rank)])


class QuantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x, scale, zero=None, axis=None, **_):
        zero = np.zeros((), np.uint8) if zero is None else zero
        limits = np.iinfo(zero.dtype)
        y = np.round(x / along(scale, x.ndim, axis)) + along(zero.astype(np.int32), x.ndim, axis)
        return (np.clip(y, limits.min, limits.max).astype(zero.dtype),)


class DequantizeLinear(OpRun):
    op_domain = ""

    def _run(self, x, scale, zero=None, axis=None, **_):
        shift = 0 if zero is None else along(zero.astype(np.int32), x.ndim, axis)
        return ((x.astype(np.int32) - shift).astype(np.float32) * along(scale, x.ndim, axis),)


def nearer(places, most):
    """Places farther out than `most` read the same."""
    return np.clip(np.where(np.isnan(places), -most, places), -most, most).astype(places.dtype)


class GridSample(StockGridSample):
    op_domain = ""

    def _run(self, x, grid, mode=None, padding_mode=None, align_corners=None):
        return super()._run(x, nearer(grid, 20), mode, padding_mode, align_corners)


class DeformConv(StockDeformConv):
    op_domain = ""

    def _run(self, x, w, offset, *rest, **attributes):
        return super()._run(x, w, nearer(offset, 100), *rest, **attributes)


class OptionalGetElement(OpRun):
    op_domain = ""

    def _run(self, x):
        return (x[0] if isinstance(x, list) else x,)


class MatMulNBits(OpRun):
    op_domain = "com.microsoft"

    def _run(self, x, packed, scales, zeros=None, K=None, N=None, bits=None, block_size=None):
        """Codes lie one behind the other in the bits of each block's bytes, the first one lowest; so do zero points."""
        def codes(rows, count):
            every = np.unpackbits(rows, axis=-1, bitorder="little")[..., :count * bits]
            return every.reshape(*rows.shape[:-1], count, bits) @ (1 << np.arange(bits))

        blocks = packed.shape[1]
        zero = 1 << bits - 1 if zeros is None else codes(zeros.reshape(N, -1), blocks)[..., None]
        weights = (codes(packed, block_size) - zero) * scales.reshape(N, blocks, 1).astype(np.float64)
        return ((x.astype(np.float64) @ weights.reshape(N, -1)[:, :K].T).astype(np.float32),)


def named(name, cls):
    """The class under the name that the evaluator looks for."""
    return type(name, (cls,), {"op_domain": ""})


def for_opset(opset):
    ops = [LSTM, GRU, RNN, Loop, Scan, ConvTranspose, LRN, StringNormalizer, MatMulNBits]
    ops += [LogSoftmax] if opset >= 13 else [Softmax, named("LogSoftmax", FlattenedLogSoftmax)]
    if opset >= 18:
        ops += [Pad, OptionalGetElement]
    if opset >= 20:
        ops += [GridSample, DeformConv]
    if opset < 19:
        ops += [QuantizeLinear, DequantizeLinear]
    if opset < 14:
        ops += [BatchNormalization]
    if opset <= 10:
        ops += [Upsample, Resize]
    return ops
