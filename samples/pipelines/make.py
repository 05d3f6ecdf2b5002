"""Writes small models for this folder's schedules, of the kinds for which Tessel's placements were made.

    make.py KIND OUTPUT.onnx [--layers 4 --width 32 --heads 2 --vocab 64 --context 16]

| KIND        | model                                      | inputs                                                    |
|-------------|--------------------------------------------|-----------------------------------------------------------|
| gpt         | GPT: words, layers, products with words    | tokens [batch, context]                                   |
| two_ways    | the same for two texts, by the same layers | tokens [batch, 2, context]                                |
| translation | mT5: an encoder and a decoder              | sources, targets [batch, context]                         |
| towers      | Flava: pictures, texts, and both together  | patches float [batch, context, 48], tokens                |
| pictures    | a GPT that is shown pictures first         | patches float [batch, context, 48], tokens                |

Tokens are int64. Outputs: scores float [batch, context, vocab]; of two_ways one for each text, of towers [batch, 10]. Layers
are layer0, layer1, ...; of translation and towers half of them are encoder0 or picture0, the others decoder0 or text0. The
nodes of two_ways are there.layer0 and back.layer0, its parameters layer0.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training"))
from layers import FLOAT, INT64, Layers, parse, save  # noqa: E402

PATCH, CLASSES = 48, 10


class Builder(Layers):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        self.way = ""  # prefix of the names of nodes; several ways share parameters

    def node(self, op, name, inputs, outputs=None, **attributes):
        return super().node(op, self.way + name, inputs, outputs, **attributes)

    def words_of(self, name, tokens):
        """Rows of the one table of words, and of one of positions."""
        words = self.normal("words", (self.sizes.vocab, self.sizes.width), self.sizes.width**-0.5)
        positions = self.normal("positions", (self.sizes.context, self.sizes.width), self.sizes.width**-0.5)
        return self.node("Add", f"{name}.embedding", [self.node("Gather", f"{name}.word", [words, tokens]), positions])

    def layer(self, name, value, causal=True, memory=None):
        """Attention to itself, to a memory where there is one, and a perceptron."""
        width, heads = self.sizes.width, self.sizes.heads
        value = self.residual(f"{name}.attended", value, width, lambda x: self.attention(f"{name}.attention", x, width, heads, causal))
        if memory:
            value = self.residual(f"{name}.crossed", value, width, lambda x: self.attention(f"{name}.cross", x, width, heads, memory=memory))
        return self.residual(f"{name}.out", value, width, lambda x: self.perceptron(f"{name}.perceptron", x, width))

    def layers(self, name, value, count, **more):
        for number in range(count):
            value = self.layer(f"{name}{number}", value, **more)
        return value

    def scores(self, name, value):
        """Products with the table of words, which is tied."""
        final = self.layer_norm(f"{name}.norm", value, self.sizes.width)
        return self.node("MatMul", name, [final, self.node("Transpose", f"{name}.words", ["words"], perm=[1, 0])])

    def shape(self, *behind):
        return ["batch", self.sizes.context, *behind]


def gpt(build):
    value = build.layers("layer", build.words_of("text", "tokens"), build.sizes.layers)
    build.scores("scores", value)
    return [("tokens", INT64, build.shape())], [("scores", FLOAT, build.shape(build.sizes.vocab))]


def two_ways(build):
    """Each text goes its own way through the same layers: their parameters are read by both."""
    for number, build.way in enumerate(("there.", "back.")):
        tokens = build.node("Gather", "text.tokens", ["tokens", build.ints("text.number", number)], axis=1)
        build.scores("scores", build.layers("layer", build.words_of("text", tokens), build.sizes.layers))
    outputs = [(f"{way}.scores", FLOAT, build.shape(build.sizes.vocab)) for way in ("there", "back")]
    return [("tokens", INT64, ["batch", 2, build.sizes.context])], outputs


def translation(build):
    half = build.sizes.layers // 2
    memory = build.layers("encoder", build.words_of("source", "sources"), half, causal=False)
    memory = build.layer_norm("encoder.norm", memory, build.sizes.width)
    value = build.layers("decoder", build.words_of("target", "targets"), half, memory=memory)
    build.scores("scores", value)
    return [(name, INT64, build.shape()) for name in ("sources", "targets")], [("scores", FLOAT, build.shape(build.sizes.vocab))]


def towers(build):
    each = build.sizes.layers // 2
    picture = build.layers("picture", build.linear("picture.patches", "patches", PATCH, build.sizes.width), each, causal=False)
    text = build.layers("text", build.words_of("text", "tokens"), each, causal=False)
    both = build.layers("both", build.node("Concat", "both.joined", [picture, text], axis=1), 1, causal=False)
    pooled = build.node("ReduceMean", "both.pooled", [both, build.ints("both.axis", [1])], keepdims=0)
    build.linear("scores", pooled, build.sizes.width, CLASSES)
    return [("patches", FLOAT, build.shape(PATCH)), ("tokens", INT64, build.shape())], [("scores", FLOAT, ["batch", CLASSES])]


def pictures(build):
    """Scores are computed for words only, not for patches."""
    seen = build.layers("vision", build.linear("vision.patches", "patches", PATCH, build.sizes.width), 2, causal=False)
    joined = build.node("Concat", "joined", [seen, build.words_of("text", "tokens")], axis=1)
    value = build.layers("layer", joined, build.sizes.layers)
    count = build.sizes.context
    behind = build.node("Slice", "behind_words", [value, *(build.ints(f"words.{what}", [at]) for what, at in (("begin", count), ("end", 2 * count), ("axis", 1)))])
    build.scores("scores", behind)
    return [("patches", FLOAT, build.shape(PATCH)), ("tokens", INT64, build.shape())], [("scores", FLOAT, build.shape(build.sizes.vocab))]


KINDS = {each.__name__: each for each in (gpt, two_ways, translation, towers, pictures)}


def main():
    sizes = parse(__doc__, KINDS, layers=4, width=32, heads=2, vocab=64, context=16)
    build = Builder(sizes)
    inputs, outputs = KINDS[sizes.kind](build)
    save(build.model(sizes.kind, inputs, outputs, 23), sizes.output)


if __name__ == "__main__":
    main()
