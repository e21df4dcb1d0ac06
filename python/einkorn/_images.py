"""The operator ImageDecoder, served by the package Pillow: a model that has it is cut there. What decodes is done
between the parts, which are compiled."""
import io

import numpy

from ._errors import ModelError, UnsupportedError


def decode(encoded, pixel_format="RGB"):
    """The pixels of an encoded image (bytes, or their array): uint8, height by width by channels.

    pixel_format: "RGB", "BGR" or "Grayscale". Raises UnsupportedError without Pillow, ModelError for other formats
    and for bytes that are no image."""
    try:
        import PIL.Image
    except ImportError:
        raise UnsupportedError("ImageDecoder needs the package Pillow: pip install pillow") from None
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise ModelError("ImageDecoder: pixel_format is %r; RGB, BGR or Grayscale is expected" % (pixel_format,))
    try:
        with PIL.Image.open(io.BytesIO(bytes(encoded))) as image:
            pixels = numpy.asarray(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise ModelError("ImageDecoder: %s" % error) from None
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return numpy.ascontiguousarray(pixels[:, :, ::-1] if pixel_format == "BGR" else pixels)


def pixel_format(node):
    """Of a NodeProto."""
    return next((a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "pixel_format"), "RGB")


def decoders(model):
    """The nodes of a ModelProto's main graph that decode images."""
    return [n for n in model.graph.node if n.op_type == "ImageDecoder" and n.domain in ("", "ai.onnx")]


def without(model, node):
    """(a model that computes what `node` decodes, or None where that is an input; the model without the node: what it
    gives is an input of that name)."""
    from onnx import TensorProto, helper
    after = type(model)()
    after.CopyFrom(model)
    after.graph.node.remove(node)
    pixels = helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, [None, None, None])
    after.graph.input.append(pixels)
    source = node.input[0]
    if any(v.name == source for v in model.graph.input) and all(t.name != source for t in model.graph.initializer):
        return None, after
    before = type(model)()
    before.CopyFrom(model)
    del before.graph.output[:]
    before.graph.output.append(helper.make_tensor_value_info(source, TensorProto.UINT8, None))
    _keep_needed(before.graph)
    return before, after


def _keep_needed(graph):
    """Removes the nodes that no output needs."""
    needed = {o.name for o in graph.output}
    for node in reversed(list(graph.node)):
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(_read(node))


def _read(node):
    """Names that a node reads, those of its subgraphs too."""
    names = set(node.input)
    for a in node.attribute:
        for g in ([a.g] if a.HasField("g") else []) + list(a.graphs):
            for n in g.node:
                names |= _read(n)
            names.update(o.name for o in g.output)
    return names
