# test: slow
"""A layer of a decoder as the model builder for language models writes it, in float16 and bfloat16, with open batch, length and
past, beside the same graph in float32 in ONNX Runtime. In `full` with weights of plain numbers and without zero points too."""

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import harness

MICROSOFT = "com.microsoft"
HEADS, KEY_HEADS, HEAD, HIDDEN, INNER, WORDS, BLOCK = 4, 2, 16, 64, 128, 96, 16
ELEMENTS = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ALLOWED = {"float16": 5e-3, "bfloat16": 2e-2}
REQUESTS = [(2, 5, 0), (1, 1, 4), (2, 1, 3)]  # batch, tokens, past


class Decoder:
    """`weights`: plain, blocks (of 4 bits) or zeros (such blocks with zero points, of the table too)."""

    def __init__(self, elements, weights):
        self.dtype, self.weights = np.dtype(ELEMENTS[elements]), weights
        self.random = np.random.default_rng(1)
        self.nodes, self.constants = [], []

    def node(self, op, operands, name, domain="", results=(), **attrs):
        self.nodes.append(helper.make_node(op, operands, [name, *results], name=f"{name}_node", domain=domain, **attrs))
        return name

    def constant(self, name, array):
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def real(self, name, array):
        """Numbers that all three types have."""
        return self.constant(name, array.astype(ml_dtypes.bfloat16).astype(np.float16).astype(self.dtype))

    def bytes(self, name, *shape):
        return self.constant(name, self.random.integers(0, 256, shape).astype(np.uint8))

    def product(self, x, width, columns, name):
        if self.weights == "plain":
            return self.node("MatMul", [x, self.real(f"{name}.w", self.random.normal(size=(width, columns)) / width**0.5)], name)
        blocks = width // BLOCK
        scales = self.real(f"{name}.scales", self.random.uniform(0.5, 1, columns * blocks) / width**0.5 / 4)
        operands = [x, self.bytes(f"{name}.w", columns, blocks, BLOCK // 2), scales]
        if self.weights == "zeros":
            operands.append(self.bytes(f"{name}.zeros", columns * (blocks // 2)))
        return self.node("MatMulNBits", operands, name, MICROSOFT, K=width, N=columns, bits=4, block_size=BLOCK)

    def embedding(self):
        if self.weights != "zeros":
            return self.node("Gather", [self.real("table", self.random.normal(size=(WORDS, HIDDEN))), "input_ids"], "x")
        few = [self.constant(f"table.{name}", self.random.integers(0, 16, (WORDS, width)).astype(ml_dtypes.uint4))
               for name, width in (("numbers", HIDDEN), ("zeros", HIDDEN // BLOCK))]
        scales = self.real("table.scales", self.random.uniform(0.05, 0.1, (WORDS, HIDDEN // BLOCK)))
        return self.node("GatherBlockQuantized", [few[0], "input_ids", scales, few[1]], "x", MICROSOFT, block_size=BLOCK)

    def lengths(self):
        self.node("ReduceSum", ["attention_mask", self.constant("axis", [1])], "kept", keepdims=0)
        self.node("Sub", ["kept", self.constant("one", [1])], "last")
        self.node("Shape", ["attention_mask"], "mask_shape")
        self.node("Gather", ["mask_shape", self.constant("second", 1)], "all")
        return [self.node("Cast", [name], f"{name}_32", to=TensorProto.INT32) for name in ("last", "all")]

    def attention(self, x):
        normal = self.node("SimplifiedLayerNormalization", [x, self.scale("norm")], "normal", axis=-1, epsilon=1e-5)
        angles = np.outer(np.arange(32), 1e4**(-np.arange(HEAD // 2) / (HEAD / 2)))
        rows = [self.product(normal, HIDDEN, heads * HEAD, name) for name, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS))]
        operands = [*rows, "past_key", "past_value", *self.lengths(), self.real("cos", np.cos(angles)), self.real("sin", np.sin(angles))]
        mixed = self.node("GroupQueryAttention", operands, "mixed", MICROSOFT, ("present_key", "present_value"), num_heads=HEADS,
                          kv_num_heads=KEY_HEADS, do_rotary=1, scale=HEAD**-0.5)
        return self.product(mixed, HEADS * HEAD, HIDDEN, "o")

    def scale(self, name):
        return self.real(f"{name}.scale", self.random.uniform(0.5, 1.5, HIDDEN))

    def skip(self, x, added, name):
        """(normalised, sum)"""
        normal = self.node("SkipSimplifiedLayerNormalization", [x, added, self.scale(name)], name, MICROSOFT, ("", "", f"{name}.sum"),
                           epsilon=1e-5)
        return normal, f"{name}.sum"

    def model(self):
        x = self.embedding()
        normal, x = self.skip(x, self.attention(x), "behind_attention")
        gate, up = (self.product(normal, HIDDEN, INNER, name) for name in ("gate", "up"))
        open_gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], "sigmoid")], "open")
        down = self.product(self.node("Mul", [open_gate, up], "inner"), INNER, HIDDEN, "down")
        self.product(self.skip(x, down, "behind_layer")[0], HIDDEN, WORDS, "logits")
        kind = helper.np_dtype_to_tensor_dtype(self.dtype)
        caches = [("key", ["batch", KEY_HEADS, "past", HEAD]), ("value", ["batch", KEY_HEADS, "past", HEAD])]
        inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]),
                  helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "all"]),
                  *(helper.make_tensor_value_info(f"past_{name}", kind, shape) for name, shape in caches)]
        outputs = [helper.make_tensor_value_info(name, kind, None) for name in ("logits", "present_key", "present_value")]
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.constants)
        return helper.make_model(graph, ir_version=10,
                                 opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)])


def arrays(request):
    batch, tokens, past = request
    random = np.random.default_rng(2)
    caches = [random.normal(size=(batch, KEY_HEADS, past, HEAD)).astype(ml_dtypes.bfloat16) for _ in range(2)]
    return {"input_ids": random.integers(0, WORDS, (batch, tokens)), "attention_mask": np.ones((batch, tokens + past), np.int64),
            "past_key": caches[0], "past_value": caches[1]}


def in_file(array):
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def check_request(name, program, session, request, folder):
    dtype, given = np.dtype(ELEMENTS[name.split("/")[0]]), []
    for key, array in arrays(request).items():
        np.save(folder / f"{key}.npy", in_file(array.astype(dtype) if key.startswith("past") else array))
        given += ["--input", f"{key}={folder / key}.npy"]
    status, _, err = harness.run([program, *given, "--output-dir", folder / "out"])
    if not harness.check(f"{name}/{request}/runs", status == 0, f"exit {status}: {err[-300:]}"):
        return
    exact = {key: array.astype(np.float32) if key.startswith("past") else array for key, array in arrays(request).items()}
    for output, wanted in zip(session.get_outputs(), session.run(None, exact), strict=True):
        found = np.load(folder / "out" / f"{output.name}.npy")
        found = (found.view(dtype) if found.dtype == np.uint16 else found).astype(np.float32)
        error = harness.relative_error(found, wanted) if found.shape == wanted.shape else np.inf
        harness.check(f"{name}/{request}/{output.name}", error <= ALLOWED[name.split("/")[0]], f"error {error:.1e}")


def check(elements, weights):
    name, folder = f"{elements}/{weights}", harness.scratch(f"half_decoder_{elements}_{weights}")
    onnx.save(Decoder(elements, weights).model(), folder / "model.onnx")
    dims = [word for dim, bound in (("batch", 2), ("tokens", 8), ("past", 8), ("all", 16)) for word in ("--dim", f"{dim}<={bound}")]
    status, _, err = harness.weft("compile", folder / "model.onnx", *dims, "-o", folder / "program", "--quiet", timeout=300)
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-600:]}"):
        return
    session = onnxruntime.InferenceSession(Decoder("float", weights).model().SerializeToString(), providers=["CPUExecutionProvider"])
    for request in REQUESTS:
        check_request(name, folder / "program", session, request, folder)


def main():
    for elements in ("float16", "bfloat16"):
        for weights in ("plain", "blocks", "zeros") if harness.FULL else ("zeros",):
            check(elements, weights)


if __name__ == "__main__":
    harness.need_weft()
    main()
