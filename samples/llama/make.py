"""Writes a Llama-like decoder with seeded weights as PyTorch's exporter does: shapes by Shape chains, composite ops as
primitives.

    make.py OUTPUT.onnx [--layers 2 --width 64 --heads 8 --groups 2 --hidden 160 --vocab 259] [--past]

RMS norm by Pow and ReduceMean, rotary embedding, grouped-query attention by Unsqueeze, Expand, Reshape; SwiGLU.
Input: input_ids int64 [batch, seq]. Output: logits [batch, seq, vocab]. With --past keys and values of earlier calls are inputs
and outputs too, and there are position_ids and attention_mask, all named as optimum names them. A vocabulary of 259 is the
bytes, then begin (256), end and padding.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from model_builder import BOOL, FLOAT, INT64, ModelBuilder, save  # noqa: E402


class Llama(ModelBuilder):
    def __init__(self, options):
        super().__init__(options.seed)
        self.options = options
        self.head_dim = options.width // options.heads
        tokens = ["batch", "seq"]
        self.inputs = [("input_ids", INT64, tokens)]
        self.outputs = [("logits", FLOAT, [*tokens, options.vocab])]
        if options.past:
            self.inputs += [("attention_mask", INT64, ["batch", "past + seq"]), ("position_ids", INT64, tokens)]

    def op(self, op, path, inputs, **attributes):
        """A node named as the exporter names it, after the module path and the op."""
        taken = sum(node.name.startswith(f"{path}/{op}") for node in self.nodes)
        name = f"{path}/{op}_{taken}" if taken else f"{path}/{op}"
        return self.node(op, name, inputs, [f"{name}_output_0"], **attributes)[0]

    def ints(self, path, values):
        taken = sum(node.name.startswith(f"{path}/Constant") for node in self.nodes)
        return self.constant(f"{path}/Constant_{taken}", values, np.int64)

    def scalar(self, path, value):
        taken = sum(node.name.startswith(f"{path}/Constant") for node in self.nodes)
        return self.constant(f"{path}/Constant_{taken}", value, np.float32)

    def extent(self, path, value, axis):
        shape = self.op("Shape", path, [value])
        length = self.op("Gather", path, [shape, self.ints(path, axis)], axis=0)
        return self.op("Unsqueeze", path, [length, self.ints(path, [0])])

    def shape_of(self, path, value, tail):
        parts = [self.extent(path, value, 0), self.extent(path, value, 1)]
        return self.op("Concat", path, parts + [self.ints(path, [n]) for n in tail], axis=0)

    def linear(self, path, weight, value, rows, columns):
        matrix = self.normal(f"{weight}.weight", (rows, columns), 0.7 / math.sqrt(rows))
        return self.op("MatMul", path, [value, matrix])

    def rms_norm(self, path, weight, value):
        square = self.op("Pow", path, [value, self.scalar(path, 2.0)])
        mean = self.op("ReduceMean", path, [square], axes=[-1], keepdims=1)
        root = self.op("Sqrt", path, [self.op("Add", path, [mean, self.scalar(path, 1e-5)])])
        inverse = self.op("Div", path, [self.scalar(path, 1.0), root])
        scale = self.normal(f"{weight}.weight", (self.options.width,), 0.1, mean=1.0)
        return self.op("Mul", path, [scale, self.op("Mul", path, [value, inverse])])

    def rotary_tables(self):
        """cos and sin, [batch, 1, seq, head_dim]; the frequencies are expanded to the batch, as the exporter does."""
        path, half = "/model/rotary_emb", self.head_dim // 2
        frequencies = self.weight(
            "model.rotary_emb.inv_freq", (10000.0 ** (-np.arange(half) / half)).astype(np.float32)[None, :, None])
        batch = self.extent(path, "input_ids", 0)
        wanted = self.op("Concat", path, [batch, self.ints(path, [-1]), self.ints(path, [1])], axis=0)
        ones = self.op("ConstantOfShape", path, [self.op("Shape", path, [wanted])],
                       value=numpy_helper.from_array(np.ones(1, np.int64), f"{path}/one"))
        is_free = self.op("Equal", path, [wanted, self.op("Mul", path, [ones, self.ints(path, -1)])])
        expanded = self.op("Expand", path, [frequencies, self.op("Where", path, [is_free, ones, wanted])])
        positions = self.op("Unsqueeze", path, [self.position_numbers(path), self.ints(path, [1])])
        angles = self.op("MatMul", path, [expanded, self.op("Cast", path, [positions], to=FLOAT)])
        by_position = self.op("Transpose", path, [angles], perm=[0, 2, 1])
        both = self.op("Concat", path, [by_position, by_position], axis=-1)
        axis = self.ints(path, [1])
        return tuple(self.op("Unsqueeze", path, [self.op(op, path, [both]), axis]) for op in ("Cos", "Sin"))

    def position_numbers(self, path):
        """[1, seq], or [batch, seq] where they are given."""
        if self.options.past:
            return "position_ids"
        length = self.op("Gather", path, [self.op("Shape", path, ["input_ids"]), self.ints(path, 1)], axis=0)
        numbers = self.op("Range", path, [self.ints(path, 0), length, self.ints(path, 1)])
        return self.op("Unsqueeze", path, [numbers, self.ints(path, [0])])

    def past_mask(self, path):
        """[batch, 1, seq, past + seq]: zero where the mask is one and no later token stands, elsewhere the lowest float."""
        total = self.op("Gather", path, [self.op("Shape", path, ["attention_mask"]), self.ints(path, 1)], axis=0)
        columns = self.op("Range", path, [self.ints(path, 0), total, self.ints(path, 1)])
        rows = self.op("Unsqueeze", path, ["position_ids", self.ints(path, [2])])
        given = self.op("Unsqueeze", path, [self.op("Cast", path, ["attention_mask"], to=BOOL), self.ints(path, [1])])
        seen = self.op("And", path, [self.op("LessOrEqual", path, [columns, rows]), given])
        lowest = self.scalar(path, np.finfo(np.float32).min)
        return self.op("Unsqueeze", path, [self.op("Where", path, [seen, self.scalar(path, 0.0), lowest]), self.ints(path, [1])])

    def causal_mask(self):
        """[1, 1, seq, seq]: lowest float above the diagonal, zero elsewhere."""
        path = "/model/mask"
        if self.options.past:
            return self.past_mask(path)
        seq = self.extent(path, "input_ids", 1)
        square = self.op("Expand", path, [
            self.scalar(path, np.finfo(np.float32).min), self.op("Concat", path, [seq, seq], axis=0)])
        upper = self.op("Trilu", path, [square, self.ints(path, 1)], upper=1)
        return self.op("Unsqueeze", path, [upper, self.ints(path, [0, 1])])

    def rotate(self, path, value, tables):
        half = self.head_dim // 2
        axis = self.ints(path, [-1])
        low = self.op("Slice", path, [value, self.ints(path, [0]), self.ints(path, [half]), axis])
        high = self.op("Slice", path, [value, self.ints(path, [half]), self.ints(path, [2**63 - 1]), axis])
        turned = self.op("Concat", path, [self.op("Neg", path, [high]), low], axis=-1)
        return self.op("Add", path, [
            self.op("Mul", path, [value, tables[0]]), self.op("Mul", path, [turned, tables[1]])])

    def by_head(self, path, value, heads):
        grouped = self.op("Reshape", path, [value, self.shape_of(path, value, [heads, self.head_dim])])
        return self.op("Transpose", path, [grouped], perm=[0, 2, 1, 3])

    def repeat_groups(self, path, value):
        """[batch, groups, seq, head_dim] -> [batch, heads, seq, head_dim]."""
        options, repeats = self.options, self.options.heads // self.options.groups
        batch, seq = self.extent(path, value, 0), self.extent(path, value, 2)
        split = self.op("Unsqueeze", path, [value, self.ints(path, [2])])
        dims = [batch, self.ints(path, [options.groups]), self.ints(path, [repeats]), seq,
                self.ints(path, [self.head_dim])]
        repeated = self.op("Expand", path, [split, self.op("Concat", path, dims, axis=0)])
        joined = [batch, self.ints(path, [options.heads]), seq, self.ints(path, [self.head_dim])]
        return self.op("Reshape", path, [repeated, self.op("Concat", path, joined, axis=0)])

    def remember(self, kind, path, value):
        """Appends this call's keys or values to those of earlier calls."""
        if not self.options.past:
            return value
        layer = path.split(".")[-1].split("/")[0]
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        shape = ["batch", self.options.groups, "past", self.head_dim]
        self.inputs.append((past, FLOAT, shape))
        self.outputs.append((present, FLOAT, [*shape[:2], "past + seq", self.head_dim]))
        return self.node("Concat", f"{path}/Concat_{kind}", [past, value], [present], axis=2)[0]

    def attention(self, path, weight, value, tables, mask):
        options, kv_width = self.options, self.options.groups * self.head_dim
        query = self.linear(f"{path}/q_proj", f"{weight}.q_proj", value, options.width, options.width)
        key = self.linear(f"{path}/k_proj", f"{weight}.k_proj", value, options.width, kv_width)
        values = self.linear(f"{path}/v_proj", f"{weight}.v_proj", value, options.width, kv_width)
        query = self.rotate(path, self.by_head(path, query, options.heads), tables)
        key = self.remember("key", path, self.rotate(path, self.by_head(path, key, options.groups), tables))
        values = self.remember("value", path, self.by_head(path, values, options.groups))
        key, values = self.repeat_groups(path, key), self.repeat_groups(path, values)
        transposed = self.op("Transpose", path, [key], perm=[0, 1, 3, 2])
        scores = self.op("MatMul", path, [query, transposed])
        scaled = self.op("Mul", path, [scores, self.scalar(path, 1.0 / math.sqrt(self.head_dim))])
        weights = self.op("Softmax", path, [self.op("Add", path, [scaled, mask])], axis=-1)
        mixed = self.op("Transpose", path, [self.op("MatMul", path, [weights, values])], perm=[0, 2, 1, 3])
        flat = self.op("Reshape", path, [mixed, self.shape_of(path, mixed, [options.width])])
        return self.linear(f"{path}/o_proj", f"{weight}.o_proj", flat, options.width, options.width)

    def swiglu(self, path, weight, value):
        options = self.options
        gate = self.linear(f"{path}/gate_proj", f"{weight}.gate_proj", value, options.width, options.hidden)
        gate = self.op("Mul", f"{path}/act_fn", [gate, self.op("Sigmoid", f"{path}/act_fn", [gate])])
        up = self.linear(f"{path}/up_proj", f"{weight}.up_proj", value, options.width, options.hidden)
        both = self.op("Mul", path, [gate, up])
        return self.linear(f"{path}/down_proj", f"{weight}.down_proj", both, options.hidden, options.width)

    def build(self):
        options = self.options
        words = self.normal("model.embed_tokens.weight", (options.vocab, options.width), 0.5)
        state = self.op("Gather", "/model/embed_tokens", [words, "input_ids"])
        tables, mask = self.rotary_tables(), self.causal_mask()
        for layer in range(options.layers):
            path, weight = f"/model/layers.{layer}", f"model.layers.{layer}"
            normed = self.rms_norm(f"{path}/input_layernorm", f"{weight}.input_layernorm", state)
            mixed = self.attention(f"{path}/self_attn", f"{weight}.self_attn", normed, tables, mask)
            state = self.op("Add", path, [state, mixed])
            normed = self.rms_norm(f"{path}/post_norm", f"{weight}.post_attention_layernorm", state)
            state = self.op("Add", path, [state, self.swiglu(f"{path}/mlp", f"{weight}.mlp", normed)])
        final = self.rms_norm("/model/norm", "model.norm", state)
        head = self.normal("lm_head.weight", (options.width, options.vocab), 0.7 / math.sqrt(options.width))
        self.node("MatMul", "/lm_head/MatMul", [final, head], ["logits"])
        return self.model("llama", self.inputs, self.outputs, opset=17)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", help="the .onnx file to write")
    sizes = (("layers", 2), ("width", 64), ("heads", 8), ("groups", 2), ("hidden", 160), ("vocab", 259), ("seed", 0))
    for name, default in sizes:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--past", action="store_true", help="keys and values of earlier calls as inputs and outputs")
    options = parser.parse_args(arguments)
    save(Llama(options).build(), options.output)


if __name__ == "__main__":
    main(sys.argv[1:])
