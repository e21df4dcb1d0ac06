"""A quantised model of an f32 one: the function quantize, and its report."""
import os
from typing import NamedTuple

from ._module import Module, _choice, _options

_METHODS = {"minmax": 0, "percentile": 1, "entropy": 2, "mse": 3, "gptq": 4}
_SCHEMES = {"int8": 0, "int4": 1, "bf16": 2, "caches": 3}


class QuantizedLayer(NamedTuple):
    """A node whose result is a sum of products; with scheme "caches" a state."""
    name: str
    op: str
    output: str
    kept: str  # why it stays as it was; None: it is quantised
    sqnr: float  # signal to noise of its result in the quantised model, dB; inf: no difference
    alone: float  # that of the outputs where this layer alone is quantised; nan: not measured
    macs: float  # its multiplications in one run, open sizes being 512; 0: not known
    ms_before: float  # milliseconds of one run in the model as it was
    ms_after: float  # and in the quantised one
    corrected: float  # what was subtracted from its results: the root of its mean square; 0: nothing


class Smoothed(NamedTuple):
    """An input of layers whose channels were divided by factors."""
    tensor: str
    alpha: float  # the exponent: how much of the magnitudes moved into weights
    multiplied: bool  # by a Mul that was added; else constants of what computes it were divided


class Quantized(NamedTuple):
    """What quantize() came to."""
    layers: list  # of QuantizedLayer, in the model's order
    outputs: dict  # name -> (SQNR in dB, rows of a hundred whose greatest element is another one, least of others)
    smoothed: list  # of Smoothed: what `smooth` did
    quantized: int  # number of layers that are quantised
    share: float  # of all layers' multiplications, the part in quantised ones
    observed: int  # samples that ranges were taken from
    compared: int  # samples that the errors were measured on
    ms_before: float  # milliseconds of the kernels of one run
    ms_after: float
    bytes_before: int
    bytes_after: int


def quantize(model, samples, path, *, method="minmax", percentile=99.999, per_channel=False, exclude=(),
             least_sqnr=0.0, most_changed=None, only_faster=False, smooth=None, correct_bias=True, scheme="int8",
             bits=4, block_size=32, zero_points=False, accuracy_level=0, **options):
    """Writes a quantised model of an f32 one, with QuantizeLinear and DequantizeLinear of the ONNX standard, or, of
    weights alone, with onnxruntime's MatMulNBits: a Quantized.

    model         as for compile()
    samples       dicts of arrays by input name: the ranges of tensors are measured on them; of five or more the last
                  fifth only measures the error, with a budget the last half, which also decides. There may be none with
                  scheme "int4", but for method "gptq", budgets and only_faster; then nothing is measured
    path          NAME.onnx: where the model is written
    method        how a range follows from the values: "minmax", "percentile", "entropy" or "mse"; with scheme "int4"
                  "minmax", "mse" or "gptq"
    percentile    with method "percentile": so many of a hundred absolute values are within
    per_channel   constants have a scale for each output channel
    exclude       patterns of the names of nodes that stay as they are (* and ?)
    least_sqnr    a budget: layers stay f32 until the SQNR of each output is at least so many dB on other samples, with
                  probability 0.99, by how much samples vary
    most_changed  a budget: so many of a hundred rows of the outputs may have another greatest element
    only_faster   layers that take longer in int8 than in f32, measured on this machine, stay as they are
    smooth        SmoothQuant: so much of the magnitudes of a layer's input (above 0, at most 1) moves, channel by
                  channel, into its weights; "auto": what makes the error least
    correct_bias  with "int8": the mean error of each channel of a layer, over the samples, is subtracted from its bias
    scheme        "int8": both factors of products; "int4": constant matrices alone, in blocks with a scale each;
                  "bf16": both factors are rounded to bf16, for precision="bf16"; "caches": what `states` (of the
                  options) ties, such as the caches of keys and values of a decoder, in int8; samples are of the other
                  inputs, and each begins with empty caches; per_channel: a scale for each place of the last axis
    bits          with "int4": of a weight: 2, 3 (stored in 4), 4 or 8
    block_size    with "int4": weights that share a scale: 16, 32, 64, 128 or 256
    zero_points   with "int4": each block has a zero point, too
    accuracy_level  with "int4": 4: engines may round the other factor to eight bits
    options       as for compile()
    """
    chosen = _options(**options)
    with Module(model, dict(chosen, evaluate=1, cache=None, watch=[])) as module:
        found = module._quantize(chosen, [dict(sample) for sample in samples], os.fspath(path),
                                 _choice("method", method, _METHODS), percentile, bool(per_channel), list(exclude),
                                 least_sqnr, -1.0 if most_changed is None else most_changed, bool(only_faster),
                                 -1.0 if smooth is None else 0.0 if smooth == "auto" else float(smooth),
                                 bool(correct_bias),
                                 (_choice("scheme", scheme, _SCHEMES), bits, block_size, bool(zero_points),
                                  accuracy_level))
    return Quantized(**dict(found, layers=[QuantizedLayer(*row) for row in found["layers"]],
                            smoothed=[Smoothed(*row) for row in found["smoothed"]]))
