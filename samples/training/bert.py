"""Writes a model of BERT's kind that hides a part of the words from itself and predicts them.

    bert.py OUTPUT.onnx [--layers 2 --width 64 --heads 4 --vocab 256 --context 32]

Input: tokens int64 [batch, context]. Outputs: scores float [batch, context, vocab + 1], and labels int64 [batch, context],
which are the hidden words and -100 elsewhere. Which words are hidden is drawn in the model, anew in each step.
"""

from layers import FLOAT, INT64, Layers, parse, save

HIDDEN, NO_LABEL = 0.15, -100


def hide(build, vocab):
    """The tokens with the word that stands for a hidden one; the labels."""
    draw = build.node("RandomUniformLike", "draw", ["tokens"], dtype=FLOAT)
    is_hidden = build.node("Less", "is_hidden", [draw, build.floats("hidden_part", HIDDEN)])
    seen = build.node("Where", "seen", [is_hidden, build.ints("hidden_word", vocab), "tokens"])
    build.node("Where", "labels", [is_hidden, "tokens", build.ints("no_label", NO_LABEL)])
    return seen


def main():
    sizes = parse(__doc__, layers=2, width=64, heads=4, vocab=256, context=32)
    build, width = Layers(), sizes.width
    value = build.embedding(hide(build, sizes.vocab), sizes.vocab + 1, sizes.context, width)
    for number in range(sizes.layers):
        name = f"layer{number}"
        value = build.residual(f"{name}.attended", value, width, lambda x: build.attention(f"{name}.attention", x, width, sizes.heads))
        value = build.residual(f"{name}.out", value, width, lambda x: build.perceptron(f"{name}.perceptron", x, width))
    build.scores_of_words(value, width)
    shape = ["batch", sizes.context]
    outputs = [("scores", FLOAT, [*shape, sizes.vocab + 1]), ("labels", INT64, shape)]
    save(build.model("bert", [("tokens", INT64, shape)], outputs, 23), sizes.output)


if __name__ == "__main__":
    main()
