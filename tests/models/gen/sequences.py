"""Sequences whose length, or whose tensors' sizes, only the run knows; what onnxruntime computes is the reference."""
import numpy as np
from onnx import helper

from .kit import BOOL, F32, I64, model


def nodes(net, text, **attributes):
    """Nodes from lines `a, b = Op(c, d)`; attributes by the name of the first result."""
    for line in text.strip().splitlines():
        left, right = (part.strip() for part in line.split(" = "))
        kind, inputs = right.rstrip(")").split("(")
        outs = left.split(", ")
        net.op(kind, *inputs.split(", ") if inputs else [], out=outs, **attributes.get(outs[0], {}))


def numbers(net, **values):
    for name, value in values.items():
        net.init(np.array(value), name)


def body(net, text, lists, tensors=(), collected=(), **attributes):
    """A loop's body `i, go, tensors.., lists..`, in which what is carried as x becomes x2."""
    sub = net.sub("body")
    sub.input("i", I64)
    sub.input("go", BOOL)
    for t in tensors:
        sub.input(t, F32)
    for name in lists:
        sub.inputs.append(helper.make_tensor_sequence_value_info(name, F32, None))
    nodes(sub, text, **attributes)
    sub.output("go2", BOOL)
    for t in tensors:
        sub.output(t + "2", F32)
    for name in lists:
        sub.outputs.append(helper.make_tensor_sequence_value_info(name + "2", F32, None))
    for name in collected:
        sub.output(name, F32)
    return dict(body=sub.graph())


def at(x):
    return np.array(x, np.int64)


@model("SplitToSequence of an open axis and by sizes that are an input; SequenceLength, SequenceAt, SequenceErase, "
       "SequenceInsert at places that are inputs; ConcatFromSequence along each axis and a new one", opset=18)
def sequences_open(net):
    net.input("x", F32, "n", 4, 2), net.input("w", I64, "k"), net.input("p", I64)
    numbers(net, two=2, one=1, last=-1)
    nodes(net, """
        s = SplitToSequence(x, two)
        length = SequenceLength(s)
        tail = SequenceAt(s, last)
        some = SequenceAt(s, p)
        t = SequenceErase(s, p)
        u = SequenceInsert(t, x, one)
        joined = ConcatFromSequence(u)
        rows = SplitToSequence(x)
        row = SequenceAt(rows, p)
        stack = ConcatFromSequence(rows)
        beside = ConcatFromSequence(rows)
        widths = SplitToSequence(x, w)
        wide = SequenceAt(widths, p)
        longer = SequenceInsert(widths, x, p)
        all = ConcatFromSequence(longer)
        pair = SequenceConstruct(x, tail)
        either = SequenceAt(pair, one)
        picked = SequenceAt(pair, p)
    """, s=dict(axis=0), joined=dict(axis=0), rows=dict(axis=0, keepdims=0), stack=dict(axis=1, new_axis=1),
          beside=dict(axis=1), widths=dict(axis=1), all=dict(axis=1))
    net.open_outputs += "length tail some joined row stack beside wide all either picked".split()
    return [[net.uniform(-1, 1, n, 4, 2), at(w), at(p)] for n, w, p in
            ((5, [1, 3], 0), (6, [4, 0], 1), (3, [1, 0, 2, 1], -1))]


@model("loops that append a tensor a trip, as exporters write repeat_interleave, whose sizes data decide; "
       "tensors of one size, of growing sizes, scalars; SequenceMap with two results", opset=18)
def sequence_appended(net):
    net.input("x", F32, "n", 2), net.input("repeats", I64, "n")
    numbers(net, axis1=[1], one1=[1], flat=[-1, 2], zero1=[0], one=1, ten=np.float32(10))
    mapped = net.sub("mapped")
    mapped.inputs.append(helper.make_tensor_value_info("e", F32, None))
    mapped.inputs.append(helper.make_tensor_value_info("f", F32, None))
    nodes(mapped, "sum = Add(e, f)\ntotal = ReduceSum(e)", total=dict(keepdims=0))
    mapped.outputs += [helper.make_tensor_value_info(o, F32, None) for o in ("sum", "total")]
    repeat = body(net, """
        r = SequenceAt(counts, i)
        e = SequenceAt(rows, i)
        e1 = Unsqueeze(e, axis1)
        shape = Concat(one1, r, one1)
        many = Expand(e1, shape)
        piece = Reshape(many, flat)
        l2 = SequenceInsert(l, piece)
        go2 = Identity(go)
    """, ["l"], shape=dict(axis=0))
    grow = body(net, """
        more = Add(i, one)
        end = Unsqueeze(more, zero1)
        piece = Slice(x, zero1, end)
        size = ReduceSum(piece)
        square = Mul(size, size)
        l2 = SequenceInsert(l, piece)
        m2 = SequenceInsert(m, square)
        go2 = Identity(go)
    """, ["l", "m"], size=dict(keepdims=0))
    nodes(net, """
        counts = SplitToSequence(repeats)
        rows = SplitToSequence(x)
        trips = SequenceLength(rows)
        none = SequenceEmpty()
        repeated = Loop(trips, , none)
        interleaved = ConcatFromSequence(repeated)
        prefixes, sums = Loop(trips, , none, none)
        all_prefixes = ConcatFromSequence(prefixes)
        all_sums = ConcatFromSequence(sums)
        second = SequenceAt(prefixes, one)
        mapped_rows, mapped_sums = SequenceMap(prefixes, ten)
        all_mapped = ConcatFromSequence(mapped_rows)
        all_mapped_sums = ConcatFromSequence(mapped_sums)
    """, counts=dict(axis=0), rows=dict(axis=0), repeated=repeat, interleaved=dict(axis=0), prefixes=grow,
          all_prefixes=dict(axis=0), all_sums=dict(axis=0, new_axis=1),
          mapped_rows=dict(body=mapped.graph()), all_mapped=dict(axis=0),
          all_mapped_sums=dict(axis=0, new_axis=1))
    net.open_outputs += "interleaved all_prefixes all_sums second all_mapped all_mapped_sums".split()
    return [[net.uniform(-1, 1, len(r), 2), at(r)] for r in ([2, 0, 3, 1], [1, 4], [40, 7, 90])]


@model("loops that only a condition on data ends, on sequences: appended to, read and erased from (a window), "
       "put in front", opset=18)
def sequence_while(net):
    net.input("x", F32, "n"), net.input("limit", F32), net.input("m", I64)
    numbers(net, one=1, zero1=[0], last=-1, zero=0, half=np.float32(0.5), yes=True, start=np.float32(0), most=10)
    until, until10 = (body(net, """
        more = Add(i, one)
        end = Unsqueeze(more, zero1)
        piece = Slice(x, zero1, end)
        size = ReduceSum(piece)
        sum2 = Add(sum, size)
        l2 = SequenceInsert(l, piece)
        go2 = Less(sum2, limit)
    """, ["l"], ["sum"], ["size"], size=dict(keepdims=0)) for _ in range(2))
    window = body(net, """
        old = SequenceAt(l, last)
        new = Mul(old, half)
        l1 = SequenceInsert(l, new)
        l2 = SequenceErase(l1, zero)
        go2 = Identity(go)
    """, ["l"])
    front = body(net, """
        p = SequenceAt(parts, i)
        l2 = SequenceInsert(l, p, zero)
        go2 = Identity(go)
    """, ["l"])
    nodes(net, """
        none = SequenceEmpty()
        total, found, sizes = Loop(, yes, start, none)
        joined = ConcatFromSequence(found)
        length = SequenceLength(found)
        final = SequenceAt(found, last)
        sum10, found10, sizes10 = Loop(most, yes, start, none)
        joined10 = ConcatFromSequence(found10)
        two = SequenceConstruct(x, x)
        moved = Loop(m, , two)
        moved_on = ConcatFromSequence(moved)
        parts = SplitToSequence(x)
        trips = SequenceLength(parts)
        first = SequenceConstruct(x)
        turned = Loop(trips, , first)
        turned_round = ConcatFromSequence(turned)
    """, total=until, sum10=until10, joined=dict(axis=0), joined10=dict(axis=0), moved=window,
          moved_on=dict(axis=0, new_axis=1), parts=dict(axis=0), turned=front, turned_round=dict(axis=0))
    net.open_outputs += "total sizes joined length final sum10 joined10 moved_on turned_round".split()
    return [[net.uniform(0.5, 1, n), np.array(limit, np.float32), at(m)] for n, limit, m in
            ((9, 20, 3), (3, 50, 1), (5, 1, 0))]


@model("a loop of a known number of trips, of which data of the model say whether it goes on, that appends tensors of "
       "several sizes and carries a tensor of a rank that grows", opset=18)
def sequence_ranks(net):
    net.input("x", F32, 4), net.input("w", F32, "m")
    numbers(net, zero1=[0], trips=3, yes=True)
    ranks = net.sub("body")
    ranks.input("i", I64), ranks.input("go", BOOL)
    ranks.inputs.append(helper.make_tensor_value_info("v", F32, None))
    ranks.input("c", BOOL)
    ranks.inputs.append(helper.make_tensor_sequence_value_info("l", F32, None))
    nodes(ranks, """
        end = Unsqueeze(i, zero1)
        piece = Slice(x, zero1, end)
        l2 = SequenceInsert(l, piece)
        v2 = Unsqueeze(v, zero1)
        c2 = Identity(c)
        go2 = Identity(c)
    """)
    ranks.output("go2", BOOL)
    ranks.outputs.append(helper.make_tensor_value_info("v2", F32, None))
    ranks.output("c2", BOOL)
    ranks.outputs.append(helper.make_tensor_sequence_value_info("l2", F32, None))
    nodes(net, """
        none = SequenceEmpty()
        deep, still, pieces = Loop(trips, , w, yes, none)
        joined = ConcatFromSequence(pieces)
    """, deep=dict(body=ranks.graph()), joined=dict(axis=0))
    net.open_outputs += "deep joined".split()
    return [[net.uniform(-1, 1, 4), net.uniform(-1, 1, m)] for m in (3, 1)]
