# test: fast
"""Wrong and damaged models: each is refused with its diagnostic and exit code; none crashes, none hangs."""

import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import harness

FOLDER = harness.scratch("bad_models")
FLOAT = TensorProto.FLOAT


def tensor(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs=None, outputs=None, weights=(), opset=17):
    graph = helper.make_graph(nodes, "bad", inputs or [tensor("x", [2, 3])], outputs or [tensor("y", None)], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"make_{outputs[0]}", **attributes)


def raw_weight(name, dims, data, dtype=FLOAT):
    weight = TensorProto(name=name, data_type=dtype, raw_data=data)
    weight.dims.extend(dims)
    return weight


def external_weight(location, offset=None, length=None):
    weight = TensorProto(name="w", data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    weight.dims.extend([2, 3])
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            weight.external_data.add(key=key, value=value)
    return weight


def add_weight(weight):
    return model([node("Add", ["x", "w"], ["y"])], weights=[weight])


def check(name, proto, wanted, code=1, flags=()):
    """The compiler refuses the model with this diagnostic and this exit code."""
    path = FOLDER / f"{name}.onnx"
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    status, out, err = harness.weft("compile", path, *flags, "-o", FOLDER / "program", timeout=60)
    harness.check(name, status == code and f"[{wanted}]" in err, f"exit {status}, not {code} with {wanted}: {(err or out)[-300:]}")


def graphs():
    relu = node("Relu", ["x"], ["y"])
    check("cycle", model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"], ["y"])]), "node-cycle")
    check("two-producers", model([relu, node("Neg", ["x"], ["y"])]), "value-redefined")
    check("undefined-value", model([node("Add", ["x", "nobody"], ["y"])]), "undefined-value")
    check("undefined-output", model([relu], outputs=[tensor("z", None)]), "undefined-output")
    check("input-repeated", model([relu], inputs=[tensor("x", [2, 3])] * 2), "input-repeated")
    check("output-repeated", model([relu], outputs=[tensor("y", None)] * 2), "output-repeated")
    check("unknown-operator", model([node("Nonsense", ["x"], ["y"])]), "op-unsupported", 3)
    check("too-few-operands", model([node("Add", ["x"], ["y"])]), "input-count")
    check("operand-left-out", model([node("Add", ["", "x"], ["y"])]), "operand-missing")
    check("unknown-attribute", model([node("Relu", ["x"], ["y"], steepness=2)]), "unknown-attribute")
    check("attribute-type", model([node("Softmax", ["x"], ["y"], axis="last")]), "attribute-type")
    check("opset-from-the-future", model([relu], opset=1000), "opset-unsupported", 3)
    check("unimported-domain", model([helper.make_node("Relu", ["x"], ["y"], domain="com.nobody")]), "op-unsupported", 3)


def types():
    norm = node("LayerNormalization", ["x", "s"], ["y"])
    for name, scale, wanted in (("norm-scale-type", np.ones(3, np.int8), "operand-dtypes"),
                                ("norm-scale-dims", np.ones(4, np.float32), "normalization-dims")):
        check(name, model([norm], weights=[numpy_helper.from_array(scale, "s")]), wanted)
    check("celu-of-0", model([node("Celu", ["x"], ["y"], alpha=0.0)]), "celu-alpha")
    check("mixed-dtypes", model([node("Add", ["x", "z"], ["y"])], inputs=[tensor("x", [2, 3]), tensor("z", [2, 3], TensorProto.INT64)]),
          "operand-dtypes")
    check("complex-input", model([node("Identity", ["x"], ["y"])], inputs=[tensor("x", [2], TensorProto.COMPLEX64)]),
          "input-type-unsupported", 3)
    check("inner-dims", model([node("MatMul", ["x", "z"], ["y"])], inputs=[tensor("x", [2, 3]), tensor("z", [4, 2])]), "matmul-inner-dim")
    check("broadcast", model([node("Add", ["x", "z"], ["y"])], inputs=[tensor("x", [2, 3]), tensor("z", [2, 4])]), "broadcast-dims")
    check("negative-dim", model([node("Relu", ["x"], ["y"])], inputs=[tensor("x", [2, -3])]), "open-dim")
    check("huge-dim", model([node("Relu", ["x"], ["y"])], inputs=[tensor("x", [2**40, 2**20])]), "input-size")
    check("overflowing-dims", model([node("Relu", ["x"], ["y"])], inputs=[tensor("x", [2**62, 2**62, 4])]), "input-size")
    check("open-dim", model([node("Relu", ["x"], ["y"])], inputs=[tensor("x", ["batch", 3])]), "open-dim")
    shape = numpy_helper.from_array(np.array([2**40, 2**40]), "s")
    check("huge-expand", model([node("Expand", ["x", "s"], ["y"])], inputs=[tensor("x", [1, 1])], weights=[shape]), "too-many-elements")
    check("axis-range", model([node("Softmax", ["x"], ["y"], axis=7)]), "axis-range")
    check("permutation", model([node("Transpose", ["x"], ["y"], perm=[0, 0])]), "axes-repeated")
    check("reshape", model([node("Reshape", ["x", "s"], ["y"])], weights=[numpy_helper.from_array(np.array([4, 4]), "s")]), "reshape-count")
    check("cast-to-nothing", model([node("Cast", ["x"], ["y"], to=99)]), "element-type-unsupported", 3)


def microsoft(op, operands, outputs=("y",), weights=None, **attributes):
    """A model of one node of com.microsoft. `operands`: names, each with its shape or an array; None: left out."""
    inputs = [tensor(name, shape) for name, shape in operands.items() if isinstance(shape, list)]
    constants = [numpy_helper.from_array(array, name) for name, array in operands.items() if isinstance(array, np.ndarray)]
    names = ["" if shape is None else name for name, shape in operands.items()]
    made = helper.make_node(op, names, outputs, domain="com.microsoft", name="make_y", **attributes)
    graph = helper.make_graph([made], "bad", inputs, [tensor(name, None) for name in outputs if name], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def attentions():
    """Mismatches are reported at the node, even if only a part of its expansion detects them."""
    three = {"q": [2, 3, 8], "k": [2, 5, 8], "v": [2, 5, 8]}
    heads = {"num_heads": 2}
    results = ("y", "present_key", "present_value")
    past = {"b": None, "m": None, "s": None}
    for name, operands, wanted in (
            ("bias", {**three, "b": zeros(7)}, "broadcast-dims"),
            ("batch", {**three, "k": [3, 5, 8], "v": [3, 5, 8]}, "attention-dims"),
            ("past", {**three, **past, "pk": zeros(2, 2, 4, 3), "pv": zeros(2, 2, 4, 4)}, "attention-dims"),
            ("past-rank", {**three, **past, "pk": zeros(2, 2), "pv": zeros(2, 2)}, "operand-ndim"),
            ("key-rank", {**three, "k": [8], "v": [8]}, "attention-heads")):
        check(f"multi-head-{name}", microsoft("MultiHeadAttention", operands, results if "pk" in operands else ("y",), **heads), wanted)
    lengths = {"l": zeros(1, dtype=np.int32), "t": np.array([3], np.int32)}
    query = {"q": [1, 3, 8], "k": [1, 3, 4], "v": [1, 3, 4]}
    grouped = {"num_heads": 2, "kv_num_heads": 1}
    for name, operands, more, wanted in (
            ("past-of-keys", {**query, "pk": zeros(1, 1, 5, 4), "pv": None, **lengths}, {}, "group-query-past"),
            ("past-rank", {**query, "pk": zeros(1), "pv": zeros(1), **lengths}, {}, "operand-ndim"),
            ("no-caches", {**query, "pk": None, "pv": None, **lengths}, {"do_rotary": 1}, "group-query-rotary"),
            ("scores", {**query, "pk": None, "pv": None, **lengths, "c": None, "s": None, "p": None, "b": zeros(1, 2, 3, 9)}, {},
             "group-query-dims")):
        check(f"group-query-{name}", microsoft("GroupQueryAttention", operands, results, **grouped, **more), wanted)


    plain = [tensor(name, [2, 2, 3, 4]) for name in "qkv"]
    for name, operands, wanted in (("past-of-keys", ["q", "k", "v", "", "p"], "attention-past"),
                                   ("past-rank", ["q", "k", "v", "", "p", "p"], "operand-ndim")):
        check(f"attention-{name}", model([node("Attention", operands, ["y", "keys", "values"])], plain, opset=23,
                                         weights=[numpy_helper.from_array(zeros(2, 2), "p")]), wanted)


def composites():
    narrow = TensorProto.FLOAT8E4M3FN
    for op, wanted in (("Softmax", "small-type-unsupported"), ("Hardmax", "small-type-unsupported"), ("ReduceL1", "small-type-unsupported")):
        small = model([node(op, ["x"], ["y"])], inputs=[tensor("x", [4, 4], narrow)], opset=21)
        check(f"small-type-{op.lower()}", small, wanted, 3)
    image, filters = {"x": [1, 5, 5, 4]}, zeros(2, 4, 3, 3)
    check("nhwc-no-window", microsoft("NhwcConv", {**image, "w": zeros(2, 4, 0, 3)}), "window-empty")
    check("nhwc-bias", microsoft("NhwcConv", {**image, "w": filters, "b": zeros(3)}), "conv-bias")
    check("nhwc-strides", microsoft("NhwcConv", {**image, "w": filters}, strides=[0, 0]), "window-values")
    blocks = {"a": [2, 32], "b": zeros(4, 1, 16, dtype=np.uint8)}
    packed = {"K": 32, "N": 4, "bits": 4, "block_size": 32}
    check("n-bits-scales", microsoft("MatMulNBits", {**blocks, "s": zeros(4, dtype=np.uint8)}, **packed), "operand-not-float")
    check("n-bits-bias", microsoft("MatMulNBits", {**blocks, "s": zeros(4), "z": None, "g": None, "c": zeros(5)}, **packed),
          "broadcast-dims")
    labels = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[1, 2], values_floats=[1.0, 2.0],
                              default_tensor=helper.make_tensor("none", FLOAT, [0], []))
    encoder = model([labels], inputs=[tensor("x", [3], TensorProto.INT64)])
    encoder.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
    check("no-default", encoder, "label-default")


def loops():
    scalar = [tensor("i", [], TensorProto.INT64), tensor("c", [], TensorProto.BOOL)]
    step = helper.make_graph([node("Identity", ["c"], ["go"]), node("Add", ["h", "h"], ["n"])], "step",
                             [*scalar, tensor("h", [2, 3])], [tensor("go", [], TensorProto.BOOL), tensor("n", [2, 3])])
    trips = numpy_helper.from_array(np.zeros(0, np.int64), "m")
    check("trips-of-no-element", model([node("Loop", ["m", "", "x"], ["y"], body=step)], weights=[trips]), "loop-operand")
    body = helper.make_graph([node("Add", ["s", "e"], ["n"]), node("Neg", ["n"], ["o"]), node("Abs", ["n"], ["p"])], "step",
                             [tensor("s", [3]), tensor("e", [3])], [tensor(name, [3]) for name in "nop"])
    scan = node("Scan", ["s0", "x"], ["last", "y", "z"], body=body, num_scan_inputs=-1)
    check("scans-nothing", model([scan], inputs=[tensor("s0", [3]), tensor("x", [2, 3])]), "scan-count")


def lengths():
    """Shapes that are computed from a run-time length by what no length says."""
    def shaped(nodes, weights):
        return model([node("Shape", ["x"], ["s"]), *nodes, node("Expand", ["one", "t"], ["y"])], inputs=[tensor("x", ["seq", 4])],
                     weights=[numpy_helper.from_array(np.float32(1), "one"), *weights], opset=18)

    def weight(name, *numbers):
        return numpy_helper.from_array(np.array(numbers, np.int64), name)

    seq = ("--dim", "seq<=8")
    to = {"to": TensorProto.UINT8}
    casts = [node("Mul", ["s", "k"], ["m"]), node("Cast", ["m"], ["n"], **to), node("Cast", ["n"], ["t"], to=TensorProto.INT64)]
    check("shape-by-way-of-u8", shaped(casts, [weight("k", 100, 1)]), "expand-shape-runtime-unsupported", 3, seq)
    adds = [node("ScatterElements", ["s", "at", "k"], ["t"], reduction="add")]
    check("shape-of-scattered-sums", shaped(adds, [weight("at", 0), weight("k", 1)]), "expand-shape-runtime-unsupported", 3, seq)
    vectors = helper.make_node("FeatureVectorizer", ["x"], ["y"], domain="ai.onnx.ml", inputdimensions=[5])
    features = model([vectors], inputs=[tensor("x", [3, "n"])])
    features.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    check("features-of-run-time-count", features, "rows-features-unsupported", 3, ("--dim", "n<=8"))


def weights():
    check("weight-too-short", add_weight(raw_weight("w", [2, 3], b"\0" * 20)), "tensor-size")
    check("weight-too-long", add_weight(raw_weight("w", [2, 3], b"\0" * 28)), "tensor-size")
    check("weight-negative", add_weight(raw_weight("w", [2, -3], b"")), "tensor-dims")
    check("weight-huge", add_weight(raw_weight("w", [2**40, 3], b"")), "tensor-dims")
    check("weight-of-raw-strings", add_weight(raw_weight("w", [2, 3], b"", TensorProto.STRING)), "tensor-data")
    check("weight-complex", add_weight(raw_weight("w", [2, 3], b"\0" * 48, TensorProto.COMPLEX64)), "tensor-type-unsupported", 3)
    check("weight-of-no-type", add_weight(raw_weight("w", [2, 3], b"\0" * 24, 77)), "tensor-type-unsupported", 3)
    check("weight-twice", model([node("Add", ["x", "w"], ["y"])], weights=[raw_weight("w", [3], b"\0" * 12)] * 2), "initializer-repeated")
    (FOLDER / "data.bin").write_bytes(b"\0" * 24)
    (FOLDER.parent / "outside.bin").write_bytes(b"\0" * 24)
    if not (FOLDER / "link.bin").exists():
        (FOLDER / "link.bin").symlink_to(FOLDER.parent / "outside.bin")
    for name, location in (("parent", "../outside.bin"), ("absolute", "/etc/passwd"), ("link", "link.bin"), ("missing", "nowhere.bin"),
                           ("folder", "."), ("inside-and-out", "a/../../outside.bin"), ("device", "/dev/zero"), ("nul", "data.bin\0x")):
        check(f"external-{name}", add_weight(external_weight(location)), "external-file")
    check("external-beyond", add_weight(external_weight("data.bin", "8")), "external-bounds")
    check("external-overflow", add_weight(external_weight("data.bin", str(2**63 - 8))), "external-number")
    check("external-length", add_weight(external_weight("data.bin", "0", "20")), "external-length")
    check("external-number", add_weight(external_weight("data.bin", "-4")), "external-number")


def files():
    good = model([node("MatMul", ["x", "w"], ["h"]), node("Softmax", ["h"], ["y"])],
                 weights=[numpy_helper.from_array(np.ones((3, 3), np.float32), "w")]).SerializeToString()
    check("empty", b"", "model-without-graph")
    check("text", b"this is no model\n" * 20, "model-damaged")
    status, _, err = harness.weft("compile", FOLDER / "nowhere.onnx", "-o", FOLDER / "program")
    harness.check("missing", status == 1 and "[model-file]" in err, f"exit {status}: {err[-200:]}")
    status, _, err = harness.weft("compile", FOLDER, "-o", FOLDER / "program")
    harness.check("folder", status == 1 and "[model-file]" in err, f"exit {status}: {err[-200:]}")
    damaged(good)


def answer_of(name, data):
    """Exit 0, 1 or 3: anything else is a crash, a hang or a claim that the compiler is to blame."""
    path = FOLDER / "damaged.onnx"
    path.write_bytes(data)
    status, out, err = harness.weft("compile", path, "--stop-after", "fuse-regions", timeout=60)
    if status in (0, 1, 3) and (status == 0 or "[" in err):
        return True
    (FOLDER / f"damaged_{name}.onnx").write_bytes(data)
    harness.failed(f"damaged/{name}", f"exit {status}: {(err or out)[-300:]}")
    return False


def damaged(good):
    """Every cut, and seeded flips of single bits."""
    flips = random.Random(5)
    count = 400 if harness.FULL else 60
    cuts = range(1, len(good), 1 if harness.FULL else 5)
    harness.check("cut-off", all([answer_of(f"cut_{length}", good[:length]) for length in cuts]), "see above")
    results = []
    for number in range(count):
        data = bytearray(good)
        data[flips.randrange(len(data))] ^= 1 << flips.randrange(8)
        results.append(answer_of(f"flip_{number}", bytes(data)))
    harness.check("flipped-bits", all(results), "see above")


harness.need_weft()
graphs()
types()
attentions()
composites()
loops()
lengths()
weights()
files()
