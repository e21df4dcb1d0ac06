#!/usr/bin/env python3
"""Makes the ONNX files and arrays of seeds/ that fuzzing begins with beside the models of tests/models: what those do
not have. (The texts there are written by hand.)

  old_VERSION_K.onnx   every operator in every older form of it, with all attributes and inputs of that form
  trees, training...   operators that the import replaces by others, whole and in pieces
  tensors_TYPE.onnx    initialisers of one element type in every place where numbers may lie
  sparse, attributes   sparse tensors, and attributes of every kind, of nodes, functions and Constant
  zip64, members       archives of arrays
  list, optional_KIND  files of values that are not one tensor
  types                inputs and outputs of every kind of type

They are for the reader: whether they compute something does not matter, nor does it that some are refused. Needs onnx
1.23; the tests read the committed files and need no Python.
"""

import io
import pathlib
import struct
import zipfile
import zlib

import numpy as np
import onnx
from onnx import AttributeProto as A
from onnx import TensorProto as T
from onnx import helper as h

HERE = pathlib.Path(__file__).resolve().parent / "seeds"
NODES = 12  # of a file


def tensor(name, values=(1.0, 2.0), kind=T.FLOAT, dims=None):
    return h.make_tensor(name, kind, dims if dims is not None else [len(values)], values)


def body(inputs, outputs):
    """A graph that passes its first inputs on."""
    nodes = [
        h.make_node("Identity", [inputs[min(i, len(inputs) - 1)][0] if inputs else "x"], [o])
        for i, o in enumerate(outputs)
    ]
    return h.make_graph(
        nodes,
        "body",
        [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [h.make_tensor_value_info(o, T.FLOAT, None) for o in outputs],
    )


def save(name, graph, version=21, domains=(), ir=10, functions=(), **more):
    imports = [h.make_opsetid("", version)] + [h.make_opsetid(d, v) for d, v in domains]
    m = h.make_model(
        graph, opset_imports=imports, ir_version=ir, functions=list(functions), producer_name="seeds", **more
    )
    (HERE / f"{name}.onnx").write_bytes(m.SerializeToString(deterministic=True))


# ---- older forms ----
KNOWN = {
    "axes": [1],
    "axis": 1,
    "perm": [0, 2, 3, 1],
    "pads": [0, 0, 1, 1, 0, 0, 1, 1],
    "paddings": [0, 0, 1, 1, 0, 0, 1, 1],
    "kernel_shape": [3, 3],
    "strides": [1, 1],
    "dilations": [1, 1],
    "scales": [1.0, 1.0, 2.0, 2.0],
    "height_scale": 2.0,
    "width_scale": 2.0,
    "split": [2, 2],
    "starts": [0],
    "ends": [2],
    "mode": "bilinear",
    "shape": [2, 144],
    "broadcast": 1,
    "spatial": 0,
    "num_groups": 2,
    "k": 2,
    "min": -1.0,
    "max": 1.0,
    "value": 0.5,
    "to": 1,
    "hidden_size": 4,
    "equation": "ij,jk->ik",
    "auto_pad": "NOTSET",
    "num_scan_inputs": 1,
    "direction": "forward",
}


def attribute(op, version, name, kind):
    if op == "Cast" and version < 6:
        return "FLOAT16"
    if kind == A.GRAPH:
        ins = {
            "Loop": [("i", T.INT64, []), ("c", T.BOOL, []), ("b", T.FLOAT, None)],
            "Scan": [("s", T.FLOAT, None), ("e", T.FLOAT, None)],
        }.get(op, [])
        return body(ins, {"Loop": ["c2", "b2", "y"], "Scan": ["s2", "y"]}.get(op, ["y"]))
    known = KNOWN.get(name)
    if known is not None and {A.INT: int, A.FLOAT: float, A.STRING: str, A.INTS: list, A.FLOATS: list}.get(
        kind
    ) == type(known):
        return known
    return {
        A.FLOAT: 0.5,
        A.INT: 1,
        A.STRING: "linear",
        A.TENSOR: tensor("t"),
        A.INTS: [1, 1],
        A.FLOATS: [0.5, 2.0],
        A.STRINGS: ["a", "b"],
    }.get(kind)


def old_forms():
    forms = {}
    for s in onnx.defs.get_all_schemas_with_history():
        if s.domain == "":
            forms.setdefault(s.name, []).append(s)
    by_version = {}
    for name in sorted(forms):
        versions = sorted(forms[name], key=lambda s: s.since_version)
        for s in versions[:-1]:
            by_version.setdefault(s.since_version, []).append(s)
    for version, schemas in sorted(by_version.items()):
        for at in range(0, len(schemas), NODES):
            nodes, ins = [], {}
            for s in schemas[at : at + NODES]:
                names = []
                for i, p in enumerate(s.inputs):
                    kinds = [t for t in p.types if t.startswith("tensor(")] or ["tensor(float)"]
                    kind = "float" if "tensor(float)" in kinds else sorted(kinds)[0][7:-1]
                    shape = [2, 4, 6, 6] if i == 0 else [4]
                    name = f"{kind}{len(shape)}"
                    ins[name] = h.make_tensor_value_info(name, getattr(T, kind.upper()), shape)
                    names += [name] * (2 if p.option == onnx.defs.OpSchema.FormalParameterOption.Variadic else 1)
                attrs = {n: attribute(s.name, version, n, int(a.type.value)) for n, a in s.attributes.items()}
                nodes.append(
                    h.make_node(
                        s.name,
                        names,
                        [f"{s.name}.{i}" for i in range(len(s.outputs))],
                        **{n: v for n, v in sorted(attrs.items()) if v is not None},
                    )
                )
            save(
                f"old_{version:02}_{at // NODES}",
                h.make_graph(
                    nodes, "old", list(ins.values()), [h.make_tensor_value_info(nodes[0].output[0], T.FLOAT, None)]
                ),
                version,
                ir=3 if version < 9 else 8,
            )


# ---- operators that become others ----
def replaced():
    x = h.make_tensor_value_info("x", T.FLOAT, ["N", 3])
    y = h.make_tensor_value_info("y", T.FLOAT, None)
    ml = [("ai.onnx.ml", 5)]
    trees = dict(
        nodes_treeids=[0] * 5 + [1] * 3,
        nodes_nodeids=[0, 1, 2, 3, 4, 0, 1, 2],
        nodes_featureids=[0, 0, 1, 0, 0, 2, 0, 0],
        nodes_modes="BRANCH_LT LEAF BRANCH_LEQ LEAF LEAF BRANCH_NEQ LEAF LEAF".split(),
        nodes_values=[0.5, 0, -0.5, 0, 0, 1, 0, 0],
        nodes_truenodeids=[1, 0, 3, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 4, 0, 0, 2, 0, 0],
        nodes_missing_value_tracks_true=[0, 0, 1, 0, 0, 0, 0, 0],
    )
    votes = ([0, 0, 0, 1, 1], [1, 3, 4, 1, 2], [0, 1, 0, 1, 0], [0.5, 1.5, -1.0, 2.0, 0.25])

    def voted(prefix, **more):
        return dict(
            zip((f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids", f"{prefix}_weights"), votes),
            **trees,
            **more,
        )

    def one(name, op, outputs=("y",), domain="ai.onnx.ml", inputs=("x",), **attrs):
        save(
            name,
            h.make_graph([h.make_node(op, list(inputs), list(outputs), domain=domain, **attrs)], "g", [x], [y]),
            21,
            ml,
        )

    one(
        "trees_targets",
        "TreeEnsembleRegressor",
        n_targets=2,
        aggregate_function="MAX",
        post_transform="LOGISTIC",
        base_values=[0.5, 0.25],
        **voted("target"),
    )
    wide = {
        k: tensor(k, v, T.DOUBLE)
        for k, v in (("nodes_values_as_tensor", trees["nodes_values"]), ("target_weights_as_tensor", votes[3]))
    }
    one(
        "trees_wide",
        "TreeEnsembleRegressor",
        n_targets=2,
        **{k: v for k, v in voted("target", **wide).items() if k not in ("nodes_values", "target_weights")},
    )
    one(
        "trees_classes",
        "TreeEnsembleClassifier",
        ["l", "y"],
        classlabels_strings=["a", "b"],
        base_values=[0.5, 0.25],
        **voted("class"),
    )
    one(
        "trees_one_class",
        "TreeEnsembleClassifier",
        ["l", "y"],
        classlabels_int64s=[3, 4],
        **{**voted("class"), "class_ids": [1] * 5},
    )
    tables = dict(
        nodes_splits=tensor("s", [0.5, 1.0, 2.0]),
        nodes_featureids=[0, 1, 2],
        nodes_modes=tensor("m", [0, 6, 4], T.UINT8),
        nodes_truenodeids=[1, 0, 1],
        nodes_falsenodeids=[2, 1, 2],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        nodes_missing_value_tracks_true=[0, 1, 0],
        tree_roots=[0],
        leaf_weights=tensor("w", [1.0, -2.0, 3.0]),
        leaf_targetids=[0, 1, 0],
        membership_values=tensor("v", [1.0, 2.0, float("nan")]),
        n_targets=2,
        aggregate_function=1,
        post_transform=2,
    )
    one("trees_ensemble", "TreeEnsemble", **tables)
    one("zip_map", "ZipMap", classlabels_strings=["a", "b", "c"])
    training = [("ai.onnx.preview.training", 1)]
    nodes, ins = [], [h.make_tensor_value_info("r", T.FLOAT, []), h.make_tensor_value_info("t", T.INT64, [])] + [
        h.make_tensor_value_info(f"p{i}", T.FLOAT, [2]) for i in range(8)
    ]
    for op, kinds, results in (("Adagrad", 3, 2), ("Momentum", 3, 2), ("Adam", 4, 3)):
        nodes.append(
            h.make_node(
                op,
                ["r", "t"] + [f"p{i}" for i in range(2 * kinds)],
                [f"{op}.{i}" for i in range(2 * results)],
                domain="ai.onnx.preview.training",
                mode="standard",
                alpha=0.9,
                beta=0.9,
                norm_coefficient=0.0,
            )
        )
    nodes.append(h.make_node("Adam", ["r", "t", "p0"], ["broken"], domain="ai.onnx.preview.training"))
    save("training", h.make_graph(nodes, "g", ins, [y]), 21, training)
    save(
        "training_good",
        h.make_graph(nodes[:3], "g", ins, [h.make_tensor_value_info("Adam.0", T.FLOAT, [2])]),
        21,
        training,
    )
    q = [h.make_tensor_value_info(n, T.FLOAT, [1, 2, 3, 4]) for n in "qkv"]
    mod = h.make_graph(
        [
            h.make_node("If", ["yes"], ["d"], then_branch=body([], ["t"]), else_branch=body([], ["e"])),
            h.make_node("Mul", ["s", "d"], ["m"]),
        ],
        "mod",
        [h.make_tensor_value_info("s", T.FLOAT, None)],
        [h.make_tensor_value_info("m", T.FLOAT, None)],
        [tensor("yes", [True], T.BOOL, [])],
    )
    plain = h.make_graph(
        [h.make_node("Tanh", ["s"], ["m"])],
        "",
        [h.make_tensor_value_info("s", T.FLOAT, None)],
        [h.make_tensor_value_info("m", T.FLOAT, None)],
    )
    for name, attrs in (
        ("flex_attention", dict(scale=0.5, score_mod=plain, prob_mod=plain)),
        ("flex_attention_if", dict(score_mod=mod, softmax_precision=1)),
    ):
        save(
            name,
            h.make_graph(
                [h.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **attrs)],
                "g",
                q + [x],
                [y],
            ),
            21,
            [("ai.onnx.preview", 1)],
        )
    scan = body([("s", T.FLOAT, [3]), ("e", T.FLOAT, [3])], ["s2", "o"])
    data = [
        h.make_tensor_value_info("s0", T.FLOAT, [2, 3]),
        h.make_tensor_value_info("xs", T.FLOAT, [2, 5, 3]),
        h.make_tensor_value_info("lens", T.INT64, [2]),
    ]
    save(
        "scan_batched",
        h.make_graph(
            [h.make_node("Scan", ["", "s0", "xs"], ["f", "y"], body=scan, num_scan_inputs=1, directions=[1])],
            "g",
            data,
            [y],
        ),
        8,
        ir=3,
    )
    save(
        "scan_lengths",
        h.make_graph(
            [h.make_node("Scan", ["lens", "s0", "xs"], ["f", "y"], body=scan, num_scan_inputs=1)], "g", data, [y]
        ),
        8,
        ir=3,
    )


# ---- numbers, wherever they may lie ----
def tensors():
    for name, kind in sorted(T.DataType.items(), key=lambda e: e[1]):
        all_ones = (
            h.make_tensor("typed", kind, [3], [b"a", b"bc", b""] if kind == T.STRING else [1, 0, 1])
            if kind != T.UNDEFINED
            else T(name="typed", dims=[3])
        )
        inits = [all_ones]

        def add(name, change, base=all_ones):
            t = T()
            t.CopyFrom(base)
            t.name = name
            change(t)
            inits.append(t)

        width = {
            T.DOUBLE: 8,
            T.INT64: 8,
            T.UINT64: 8,
            T.COMPLEX128: 16,
            T.COMPLEX64: 8,
            T.FLOAT: 4,
            T.INT32: 4,
            T.UINT32: 4,
            T.FLOAT16: 2,
            T.BFLOAT16: 2,
            T.INT16: 2,
            T.UINT16: 2,
        }.get(kind, 1)

        def clear(t):
            for f in (
                "float_data",
                "int32_data",
                "int64_data",
                "double_data",
                "uint64_data",
                "string_data",
                "raw_data",
            ):
                t.ClearField(f)

        def raw(t, n=3):
            clear(t)
            t.raw_data = bytes(range(1, 1 + n * width))

        def external(t, **entries):
            clear(t)
            t.data_location = T.EXTERNAL
            for k, v in entries.items():
                t.external_data.add(key=k, value=str(v))

        add("raw", raw)
        add("short", lambda t: raw(t, 2))
        add("few", lambda t: t.dims.__setitem__(0, 4))
        add("external", lambda t: external(t, location="external_data.data", offset=16, length=3 * width))
        add("external_whole", lambda t: external(t, location="./external_data.data", checksum="no"))
        add("external_far", lambda t: external(t, location="external_data.data", offset=1000, length=100))
        if kind == T.FLOAT:
            add("outside", lambda t: external(t, location="../README.md"))
            add("nowhere", lambda t: external(t, location="missing.data"))
            add("unnamed", lambda t: external(t, offset=0))
            add("offset", lambda t: external(t, location="external_data.data", offset="x"))
            add("length", lambda t: external(t, location="external_data.data", length="-1"))
            add("empty_name", lambda t: external(t, location=""))
            add("segment", lambda t: (t.segment.__setattr__("begin", 0), t.segment.__setattr__("end", 2)))
            add("negative", lambda t: t.dims.__setitem__(0, -3))
            add("huge", lambda t: t.dims.extend([1 << 40, 1 << 40]))
            add("rank", lambda t: t.dims.extend([1] * 16))
        add("none", lambda t: (clear(t), t.dims.__setitem__(0, 0)))
        nodes = [h.make_node("Identity", [t.name], [f"{t.name}.y"]) for t in inits]
        for part, chosen in (
            ("", nodes),
            ("_good", [n for n in nodes if n.input[0] in ("typed", "raw", "external", "none")]),
        ):
            if part and kind in (T.UNDEFINED, T.COMPLEX64, T.COMPLEX128, T.STRING):
                continue
            used = [t for t in inits if any(t.name in n.input for n in chosen)]
            save(
                f"tensors_{name.lower()}{part}",
                h.make_graph(
                    chosen, "g", [], [h.make_tensor_value_info(n.output[0], kind, None) for n in chosen], used
                ),
            )
        split_up(name, kind, all_ones)


def number(v):
    out = b""
    while v >= 128:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def split_up(name, kind, t):
    """The same list of numbers one by one, each with its own tag, and in two packed parts; written by hand, since no
    writer does."""
    lists = {
        T.FLOAT: (4, 4),
        T.DOUBLE: (10, 8),
        T.INT64: (7, 0),
        T.UINT64: (11, 0),
        T.UINT32: (11, 0),
        T.INT32: (5, 0),
        T.BOOL: (5, 0),
        T.INT4: (5, 0),
    }
    if kind not in lists:
        return
    field, width = lists[kind]
    value = lambda i: bytes([0] * (width - 1) + [i]) if width else number(i)
    each = b"".join(number(field << 3 | {0: 0, 4: 5, 8: 1}[width]) + value(i) for i in range(3))
    parts = b"".join(number(field << 3 | 2) + number(len(p)) + p for p in (value(1) + value(2), value(3)))
    clean = T(name="t", dims=[3], data_type=kind).SerializeToString(deterministic=True)
    for how, data in (("each", each), ("parts", parts)):
        t = T()
        t.ParseFromString(clean)
        m = h.make_model(
            h.make_graph(
                [h.make_node("Identity", ["t"], ["y"])], "g", [], [h.make_tensor_value_info("y", kind, [3])], [t]
            ),
            opset_imports=[h.make_opsetid("", 21)],
            ir_version=10,
        )
        g = m.graph.SerializeToString(deterministic=True).replace(
            number(5 << 3 | 2) + number(len(clean)) + clean,
            number(5 << 3 | 2) + number(len(clean + data)) + clean + data,
        )
        m.ClearField("graph")
        (HERE / f"tensors_{name.lower()}_{how}.onnx").write_bytes(
            m.SerializeToString(deterministic=True) + number(7 << 3 | 2) + number(len(g)) + g
        )


def zips():
    """An archive whose numbers all stand in the fields for large ones, which writers use for large files only; and one
    with a member in between that is not an array."""
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6, dtype=np.float32).reshape(2, 3))
    data = buffer.getvalue()
    crc, name, full = zlib.crc32(data), b"x.npy", 0xFFFFFFFF
    fields = struct.pack("<HHHH", 0x800, 0, 0, 0x21) + struct.pack("<III", crc, full, full)
    local = (
        b"PK\x03\x04"
        + struct.pack("<H", 45)
        + fields
        + struct.pack("<HH", len(name), 20)
        + name
        + struct.pack("<HHQQ", 1, 16, len(data), len(data))
        + data
    )
    central = (
        b"PK\x01\x02"
        + struct.pack("<HH", 45, 45)
        + fields
        + struct.pack("<HHHHHII", len(name), 36, 0, 0, 0, 0, full)
        + name
        + struct.pack("<HHI", 9, 4, 0)
        + struct.pack("<HHQQQ", 1, 24, len(data), len(data), 0)
    )
    at, size = len(local), len(central)
    end64 = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, size, at)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, at + size, 1)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, full, full, 0)
    (HERE / "zip64.npz").write_bytes(local + central + end64 + locator + end)
    words = io.BytesIO()
    np.save(words, np.array(["a", "b\u00e9\u4e16\U0001f600", ""]))
    with zipfile.ZipFile(HERE / "members.npz", "w") as z:
        for n, d in (("README", b"text"), ("words.npy", words.getvalue()), ("x.npy", data)):
            z.writestr(zipfile.ZipInfo(n), d)


def lists():
    one, two = tensor("a"), tensor("b", [3, 4], T.INT64)
    s = onnx.SequenceProto(name="s", elem_type=onnx.SequenceProto.TENSOR, tensor_values=[one, two])
    (HERE / "list.pb").write_bytes(s.SerializeToString(deterministic=True))
    for name, o in (
        ("tensor", onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR, tensor_value=one)),
        ("list", onnx.OptionalProto(elem_type=onnx.OptionalProto.SEQUENCE, sequence_value=s)),
        ("none", onnx.OptionalProto(name="none")),
    ):
        (HERE / f"optional_{name}.pb").write_bytes(o.SerializeToString(deterministic=True))


# ---- sparse tensors, attributes, types ----
def sparse(name, indices, shape, dims, values=(1.0, 2.0)):
    return h.make_sparse_tensor(tensor(name, values), h.make_tensor(f"{name}.at", T.INT64, shape, indices), dims)


def rest():
    y = h.make_tensor_value_info("y", T.FLOAT, None)
    kinds = [
        sparse("flat", [1, 4], [2], [2, 3]),
        sparse("pairs", [0, 1, 1, 2], [2, 2], [2, 3]),
        sparse("outside", [1, 9], [2], [2, 3]),
        sparse("misfit", [1, 2, 3], [3], [2, 3]),
        sparse("large", [1, 4], [2], [1 << 20, 1 << 20]),
    ]
    g = h.make_graph([h.make_node("Add", ["pairs", "flat"], ["y"])], "g", [], [y])
    g.sparse_initializer.extend(kinds[:2])
    save("sparse", g)
    g = h.make_graph([h.make_node("Sum", [s.values.name for s in kinds], ["y"])], "g", [], [y])
    g.sparse_initializer.extend(kinds)
    save("sparse_bad", g)

    t = tensor("t")
    every = dict(
        f=0.5,
        i=3,
        s="text",
        t=t,
        g=body([], ["o"]),
        fs=[0.5, 1.5],
        ns=[1, 2],
        ss=["a", "b"],
        ts=[t, t],
        sp=kinds[0],
        tp=h.make_tensor_type_proto(T.FLOAT, [2]),
        tq=h.make_sequence_type_proto(h.make_tensor_type_proto(T.INT64, [])),
        to=h.make_optional_type_proto(h.make_sequence_type_proto(h.make_tensor_type_proto(T.INT64, []))),
    )
    x = h.make_tensor_value_info("x", T.FLOAT, [2])
    node = h.make_node("Everything", ["x"], ["y"], domain="test", **every)
    save("attributes", h.make_graph([node], "g", [x], [y]), domains=[("test", 1)])
    for a in node.attribute:  # old files do not say the kind
        a.ClearField("type")
    save("attributes_untyped", h.make_graph([node], "g", [x], [y]), domains=[("test", 1)])
    bad = h.make_node(
        "Everything",
        ["x"],
        ["y"],
        domain="test",
        gs=[body([], ["o"]), body([], ["p"])],
        sps=[kinds[0]],
        tps=[every["tp"]],
    )
    bad.attribute.extend(
        [
            A(name="twice", i=1, type=A.INT),
            A(name="twice", i=2, type=A.INT),
            A(i=1, type=A.INT),
            A(name="nothing"),
            A(name="wrong", i=1, type=A.FLOAT),
            A(name="empty", type=A.INTS),
            A(name="lost", type=A.TENSOR),
        ]
    )
    save("attributes_bad", h.make_graph([bad], "g", [x], [y]), domains=[("test", 1)])

    forms = [
        ("value", t),
        ("value_float", 0.5),
        ("value_int", 3),
        ("value_floats", [0.5]),
        ("value_ints", [1, 2]),
        ("value_string", "a"),
        ("value_strings", ["a", "b"]),
        ("sparse_value", kinds[1]),
    ]
    nodes = [h.make_node("Constant", [], [f"c{i}"], **{k: v}) for i, (k, v) in enumerate(forms)] + [
        h.make_node("Identity", ["c1"], ["y"])
    ]
    save(
        "constants",
        h.make_graph(
            nodes, "g", [], [y] + [h.make_tensor_value_info(f"c{i}", T.FLOAT, None) for i in range(len(forms))]
        ),
    )
    save("constant_empty", h.make_graph([h.make_node("Constant", [], ["y"])], "g", [], [y]))

    def reference(node, name, to, kind):
        node.attribute.add(name=name, ref_attr_name=to, type=kind)
        return node

    inner = reference(h.make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", A.FLOAT)
    const = reference(h.make_node("Constant", [], ["k"]), "value_float", "slope", A.FLOAT)
    absent = reference(h.make_node("Softmax", ["b"], ["c"]), "axis", "missing", A.INT)
    f = h.make_function(
        "local",
        "F",
        ["a", "unused"],
        ["d", "k", "a", "d2"],
        [inner, const, absent, h.make_node("Add", ["c", "k"], ["d"]), h.make_node("Identity", ["d"], ["d2"])],
        [h.make_opsetid("", 21)],
        ["missing"],
        [h.make_attribute("slope", 0.25)],
    )
    twice = h.make_function(
        "local",
        "Twice",
        ["a"],
        ["e"],
        [
            reference(h.make_node("F", ["a"], ["m"], domain="local"), "slope", "slope", A.FLOAT),
            h.make_node("F", ["m", "a"], ["e", "", "", "f"], domain="local", name="deep"),
        ],
        [h.make_opsetid("", 21), h.make_opsetid("local", 1)],
        ["slope"],
    )
    loop = h.make_function(
        "local",
        "Loop",
        ["a"],
        ["e"],
        [h.make_node("Loop", ["a"], ["e"], domain="local")],
        [h.make_opsetid("", 21), h.make_opsetid("local", 1)],
    )
    lacks = h.make_function(
        "local", "Lacks", ["a"], ["e"], [h.make_node("Relu", ["a"], ["z"])], [h.make_opsetid("", 21)]
    )
    calls = [
        h.make_node("Twice", ["x"], ["m"], domain="local", slope=0.1),
        h.make_node("F", ["m"], ["n", "k", "p"], domain="local"),
        h.make_node("Sum", ["n", "k", "p"], ["y"]),
    ]
    save("functions", h.make_graph(calls, "g", [x], [y]), domains=[("local", 1)], functions=[f, twice])
    wrong = [
        h.make_node("F", ["x", "x", "x"], ["a1"], domain="local"),
        h.make_node("F", ["gone"], ["a2"], domain="local", slope=body([], ["o"])),
        h.make_node("Lacks", ["x"], ["a3"], domain="local"),
    ]
    save("functions_bad", h.make_graph(wrong, "g", [x], [y]), domains=[("local", 1)], functions=[f, lacks])
    save(
        "functions_circle",
        h.make_graph([h.make_node("Loop", ["x"], ["y"], domain="local")], "g", [x], [y]),
        domains=[("local", 1)],
        functions=[loop],
    )

    tt = h.make_tensor_type_proto(T.FLOAT, ["N", None, 3])
    seq, opt = h.make_sequence_type_proto(tt), h.make_optional_type_proto(tt)
    types = [
        tt,
        seq,
        opt,
        h.make_optional_type_proto(seq),
        h.make_tensor_type_proto(T.FLOAT, ["N", "a b", "min", "7", "a_b"]),
        h.make_sequence_type_proto(h.make_tensor_type_proto(T.STRING, None)),
    ]
    ins = [h.make_value_info(f"i{k}", v) for k, v in enumerate(types)]
    save(
        "types",
        h.make_graph(
            [h.make_node("Identity", [v.name], [f"o{k}"]) for k, v in enumerate(ins)],
            "g",
            ins,
            [h.make_value_info(f"o{k}", v.type) for k, v in enumerate(ins)],
        ),
    )
    odd = [
        h.make_map_type_proto(T.INT64, tt),
        h.make_sparse_tensor_type_proto(T.FLOAT, [2]),
        h.make_sequence_type_proto(seq),
        h.make_tensor_type_proto(T.FLOAT, None),
        h.make_tensor_type_proto(T.FLOAT, [-5]),
        h.make_tensor_type_proto(T.FLOAT, [1] * 20),
        h.make_tensor_type_proto(99, [2]),
        onnx.TypeProto(),
    ]
    ins = [h.make_value_info(f"i{k}", v) for k, v in enumerate(odd)] + [
        onnx.ValueInfoProto(name="bare"),
        onnx.ValueInfoProto(),
        h.make_value_info("i0", tt),
    ]
    save(
        "types_bad",
        h.make_graph(
            [h.make_node("Identity", [v.name or "x"], [f"o{k}"]) for k, v in enumerate(ins)],
            "g",
            ins,
            [h.make_value_info(f"o{k}", v) for k, v in enumerate(odd)],
        ),
    )

    circle = [
        h.make_node("Add", ["x", "c"], ["a"]),
        h.make_node("Relu", ["a"], ["b"], name="middle"),
        h.make_node(
            "If",
            ["k"],
            ["c"],
            then_branch=h.make_graph([h.make_node("Neg", ["b"], ["n"])], "t", [], [y]),
            else_branch=body([], ["e"]),
        ),
    ]
    save("circle", h.make_graph(circle, "g", [x], [y]))
    use = h.make_graph(
        [h.make_node("Neg", ["late"], ["q"]), h.make_node("Add", ["q", "w"], ["n"])],
        "t",
        [],
        [h.make_tensor_value_info("n", T.FLOAT, None)],
        [tensor("w")],
    )
    use.sparse_initializer.extend([kinds[0]])
    save(
        "order",
        h.make_graph(
            [
                h.make_node("If", ["k"], ["y"], then_branch=use, else_branch=use),
                h.make_node("Relu", ["r"], ["late"]),
                h.make_node("Exp", ["x"], ["r"]),
            ],
            "g",
            [x, h.make_tensor_value_info("k", T.BOOL, [])],
            [y],
        ),
    )
    names = [
        h.make_node("Relu", ["x"], ["a"], name="one"),
        h.make_node("Relu", ["x"], ["a"]),
        h.make_node("Relu", ["a"], ["x"]),
        h.make_node("", ["a"], ["z"]),
        h.make_node("Relu", ["nobody"], [""]),
        h.make_node("Relu", ["a", "", ""], ["b", "b"], name="l" * 200),
        h.make_node("Dropout", ["a"], ["c", "mask"]),
        h.make_node("Relu", [b"\xff\x01".decode("latin1")], ["e"]),
    ]
    save(
        "names_bad",
        h.make_graph(names, "g", [x], [y, h.make_tensor_value_info("mask", T.BOOL, None)], [tensor("w"), tensor("w")]),
    )
    save(
        "training_outputs",
        h.make_graph(
            [
                h.make_node("BatchNormalization", ["x"] + ["w"] * 4, ["y", "m", "v", "sm", "sv"]),
                h.make_node("Relu", ["m"], ["z"]),
            ],
            "g",
            [x],
            [y, h.make_tensor_value_info("z", T.FLOAT, None)],
            [tensor("w")],
        ),
        9,
        ir=4,
    )
    save("newer", h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [x], [y]), 99, ir=99)
    save("older", h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [x], [y]), 1, ir=1)
    save("impossible", h.make_graph([h.make_node("Relu", ["x"], ["y"])], "g", [x], [y]), -1)


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for f in [*HERE.glob("*.onnx"), *HERE.glob("*.npz"), *HERE.glob("*.pb")]:
        f.unlink()
    old_forms()
    replaced()
    tensors()
    zips()
    lists()
    rest()
    all_files = [f for kind in ("onnx", "npz", "pb") for f in HERE.glob(f"*.{kind}")]
    print(f"{len(all_files)} files, {sum(f.stat().st_size for f in all_files)} bytes")
