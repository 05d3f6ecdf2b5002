"""Writes a language model whose layers are mixtures of experts: each word is for the two experts with the highest scores.

    experts.py OUTPUT.onnx [--layers 2 --width 64 --heads 4 --experts 4 --vocab 256 --context 64]

Input: tokens int64 [batch, context]. Output: scores float [batch, context, vocab]. All experts see all words, and what they
make is weighted, with 0 for the experts that are not chosen.
"""

import math

from layers import FLOAT, INT64, Layers, parse, save

CHOSEN = 2


def mixture(build, name, value, width, experts):
    router = build.normal(f"{name}.router", (width, experts), 1 / math.sqrt(width))
    up = build.normal(f"{name}.up", (experts, width, 2 * width), 1 / math.sqrt(width))
    down = build.normal(f"{name}.down", (experts, 2 * width, width), 0.5 / math.sqrt(2 * width))
    scores = build.node("MatMul", f"{name}.scores", [value, router])
    best, chosen = build.node("TopK", f"{name}.choice", [scores, build.ints(f"{name}.count", [CHOSEN])],
                              [f"{name}.best", f"{name}.chosen"])
    none = build.node("ConstantOfShape", f"{name}.none", [build.node("Shape", f"{name}.shape", [scores])])
    shares = build.node("ScatterElements", f"{name}.shares",
                        [none, chosen, build.node("Softmax", f"{name}.softmax", [best])], axis=2)
    inner = build.node("Einsum", f"{name}.inner", [value, up], equation="bld,edf->belf")
    inner = build.node("Gelu", f"{name}.act", [inner])
    return build.node("Einsum", f"{name}.mixed", [shares, inner, down], equation="ble,belf,efd->bld")


def main():
    sizes = parse(__doc__, layers=2, width=64, heads=4, experts=4, vocab=256, context=64)
    build, width = Layers(), sizes.width
    value = build.embedding("tokens", sizes.vocab, sizes.context, width)
    for number in range(sizes.layers):
        name = f"layer{number}"
        value = build.residual(f"{name}.attended", value, width,
                               lambda x: build.attention(f"{name}.attention", x, width, sizes.heads, causal=True))
        value = build.residual(f"{name}.out", value, width, lambda x: mixture(build, f"{name}.experts", x, width, sizes.experts))
    build.scores_of_words(value, width)
    shape = ["batch", sizes.context]
    save(build.model("experts", [("tokens", INT64, shape)], [("scores", FLOAT, [*shape, sizes.vocab])], 23), sizes.output)


if __name__ == "__main__":
    main()
