"""Writes GPT-2 as an ONNX model with seeded weights, as PyTorch's exporter would lay it out.

    make.py OUTPUT.onnx [--layers 12 --width 768 --heads 12 --vocab 50257 --context 1024]

Inputs: input_ids int64 [batch, seq] (with --past also past_k.L, past_v.L). Output: logits [batch, seq, vocab].
A node with one result gives it its own name, so h.0.mlp.c_fc is the MatMul and what it computes.
"""

import argparse
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from model_builder import FLOAT, INT64, ModelBuilder, save  # noqa: E402


class Gpt2(ModelBuilder):
    def __init__(self, options):
        super().__init__(options.seed)
        self.options = options
        self.head_dim = options.width // options.heads
        self.inputs = [("input_ids", INT64, self.tokens_shape())]
        self.outputs = [("logits", FLOAT, [*self.tokens_shape(), options.vocab])]

    def tokens_shape(self):
        return list(self.options.static) if self.options.static else ["batch", "seq"]

    def ints(self, name, values):
        """Whole numbers that a shape or an axis needs: a Constant node, or an initialiser where nothing is dynamic."""
        if self.options.static:
            return self.weight(name, np.asarray(values, np.int64))
        return self.constant(name, values, np.int64)

    def reshape(self, name, value, tail):
        """[batch, seq, ...] -> [batch, seq, *tail]."""
        if self.options.static:
            return self.node("Reshape", name, [value, self.weight(f"{name}.shape", np.asarray([0, 0, *tail], np.int64))])
        batch = self.extent(f"{name}.batch", value, 0)
        seq = self.extent(f"{name}.seq", value, 1)
        parts = [self.constant(f"{name}.tail.{i}", [n], np.int64) for i, n in enumerate(tail)]
        shape = self.node("Concat", f"{name}.shape", [batch, seq, *parts], axis=0)
        return self.node("Reshape", name, [value, shape])

    def layer_norm(self, name, value):
        width = self.options.width
        scale = self.normal(f"{name}.weight", (width,), 0.1, mean=1.0)
        bias = self.normal(f"{name}.bias", (width,), 0.1)
        return self.node("LayerNormalization", name, [value, scale, bias], axis=-1, epsilon=1e-5)

    def linear(self, name, bias_node, value, rows, columns, gain=1.0):
        weight = self.normal(f"{name}.weight", (rows, columns), 0.7 * gain / math.sqrt(rows))
        bias = self.normal(f"{name}.bias", (columns,), 0.05)
        product = self.node("MatMul", name, [value, weight])
        return self.node("Add", bias_node, [product, bias])

    def gelu(self, name, value):
        """The tanh form in the primitives that the exporter writes."""
        half = self.node("Mul", f"{name}.half", [value, self.constant(f"{name}.0_5", 0.5, np.float32)])
        cube = self.node("Pow", f"{name}.cube", [value, self.constant(f"{name}.3", 3.0, np.float32)])
        scaled = self.node("Mul", f"{name}.scaled", [cube, self.constant(f"{name}.0_044", 0.044715, np.float32)])
        inner = self.node("Add", f"{name}.inner", [value, scaled])
        root = self.constant(f"{name}.root", math.sqrt(2.0 / math.pi), np.float32)
        tanh = self.node("Tanh", f"{name}.tanh", [self.node("Mul", f"{name}.argument", [inner, root])])
        gate = self.node("Add", f"{name}.gate", [tanh, self.constant(f"{name}.1", 1.0, np.float32)])
        return self.node("Mul", name, [half, gate])

    def positions_and_mask(self):
        """Position numbers [1, seq] and the causal mask [1, 1, seq, past + seq], cut out of constants."""
        options = self.options
        triangle = np.tril(np.ones((1, 1, options.context, options.context), bool))
        numbers = self.weight("position.all", np.arange(options.context, dtype=np.int64)[None])
        mask = self.weight("mask.all", triangle)
        if options.static:
            start, end = self.ints("position.start", [0]), self.ints("position.end", [options.static[1]])
        else:
            seq = self.extent("position.seq", "input_ids", 1)
            start = self.ints("position.zero", [0])
            if options.past:
                start = self.extent("position.past", "past_k.0", 2)
            end = self.node("Add", "position.end", [start, seq])
        axis_1, axis_2, axis_3, zero = (self.ints(f"position.{n}", [v]) for n, v in
                                        (("axis_1", 1), ("axis_2", 2), ("axis_3", 3), ("first", 0)))
        positions = self.node("Slice", "position", [numbers, start, end, axis_1])
        rows = self.node("Slice", "mask.rows", [mask, start, end, axis_2])
        return positions, self.node("Slice", "mask", [rows, zero, end, axis_3])

    def remember(self, kind, layer, value):
        """Appends this call's keys or values to those of earlier calls."""
        if not self.options.past:
            return value
        past, present = f"past_{kind}.{layer}", f"present_{kind}.{layer}"
        shape = ["batch", self.options.heads, "past", self.head_dim]
        self.inputs.append((past, FLOAT, shape))
        self.outputs.append((present, FLOAT, [*shape[:2], "past_and_seq", self.head_dim]))
        return self.node("Concat", present, [past, value], axis=2)

    def attention(self, layer, value, mask):
        options, name = self.options, f"h.{layer}.attn"
        qkv = self.linear(f"{name}.c_attn", f"{name}.qkv_bias", value, options.width, 3 * options.width)
        sizes = self.ints(f"{name}.sizes", [options.width] * 3)
        parts = self.node("Split", f"{name}.split", [qkv, sizes], [f"{name}.{part}" for part in "qkv"], axis=2)
        heads = []
        for part, result in zip("qkv", parts):
            grouped = self.reshape(f"{name}.{part}_heads", result, [options.heads, self.head_dim])
            heads.append(self.node("Transpose", f"{name}.{part}_by_head", [grouped], perm=[0, 2, 1, 3]))
        query, key, values = heads[0], self.remember("k", layer, heads[1]), self.remember("v", layer, heads[2])
        key = self.node("Transpose", f"{name}.k_transposed", [key], perm=[0, 1, 3, 2])
        scores = self.node("MatMul", f"{name}.scores", [query, key])
        root = self.constant(f"{name}.root", math.sqrt(self.head_dim), np.float32)
        scaled = self.node("Div", f"{name}.scaled", [scores, root])
        lowest = self.constant(f"{name}.lowest", np.finfo(np.float32).min, np.float32)
        masked = self.node("Where", f"{name}.masked", [mask, scaled, lowest])
        weights = self.node("Softmax", f"{name}.softmax", [masked], axis=-1)
        mixed = self.node("MatMul", f"{name}.mixed", [weights, values])
        joined = self.node("Transpose", f"{name}.joined", [mixed], perm=[0, 2, 1, 3])
        flat = self.reshape(f"{name}.flat", joined, [options.width])
        gain = 1.0 / math.sqrt(2 * options.layers)
        return self.linear(f"{name}.c_proj", f"{name}.bias", flat, options.width, options.width, gain)

    def mlp(self, layer, value):
        width, name = self.options.width, f"h.{layer}.mlp"
        hidden = self.linear(f"{name}.c_fc", f"{name}.fc_bias", value, width, 4 * width)
        gain = 1.0 / math.sqrt(2 * self.options.layers)
        return self.linear(f"{name}.c_proj", f"{name}.bias", self.gelu(f"{name}.act", hidden), 4 * width, width, gain)

    def build(self):
        options = self.options
        positions, mask = self.positions_and_mask()
        words = self.normal("wte.weight", (options.vocab, options.width), 1.0 / math.sqrt(options.width))
        places = self.normal("wpe.weight", (options.context, options.width), 0.3 / math.sqrt(options.width))
        tokens = self.node("Gather", "wte", [words, "input_ids"], axis=0)
        state = self.node("Add", "embedding", [tokens, self.node("Gather", "wpe", [places, positions], axis=0)])
        for layer in range(options.layers):
            normed = self.layer_norm(f"h.{layer}.ln_1", state)
            state = self.node("Add", f"h.{layer}.attn.residual", [state, self.attention(layer, normed, mask)])
            normed = self.layer_norm(f"h.{layer}.ln_2", state)
            state = self.node("Add", f"h.{layer}.mlp.residual", [state, self.mlp(layer, normed)])
        final = self.layer_norm("ln_f", state)
        head = self.node("Transpose", "lm_head.weight", [words], perm=[1, 0])  # tied with the embedding
        self.node("MatMul", "logits", [final, head])
        return self.model("gpt2", self.inputs, self.outputs, opset=17)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="the .onnx file to write")
    sizes = (("layers", 12), ("width", 768), ("heads", 12), ("vocab", 50257), ("context", 1024), ("seed", 0))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--past", action="store_true", help="keys and values of earlier calls as inputs and outputs")
    parser.add_argument("--static", metavar="BxS", help="fixed batch and sequence; shapes are constants, not Shape chains")
    parser.add_argument("--external", action="store_true", help="weights in OUTPUT.data at any size")
    options = parser.parse_args(arguments)
    if options.static:
        options.static = [int(part) for part in options.static.split("x")]
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if options.static and options.past:
        parser.error("--static and --past exclude each other: the past grows")
    return options


def main(arguments):
    options = parse(arguments)
    save(Gpt2(options).build(), options.output, options.external)


if __name__ == "__main__":
    main(sys.argv[1:])
