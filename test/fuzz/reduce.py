"""Makes a finding small: takes away what a model can lose without ending differently, and prints what is left.

    python reduce.py CASE SMALLER    of the target `model`; SMALLER.onnxtxt where ONNX's text syntax can say it, else the file"""

import pathlib
import re
import sys

import onnx
import onnx.parser
import onnx.printer

import harness

REPLAY = harness.BUILD / "fuzz_replay"
NUMBER = re.compile(r"\d+|'[^']*'")


def ending(case, file):
    """How the case ends: the last line of each stream without its numbers and names."""
    file.write_bytes(case)
    _, out, err = harness.run([REPLAY, "run", "model", file])
    return [NUMBER.sub("", text.strip().split("\n")[-1]) for text in (out, err)]


def lists_of(model):
    """Every list of messages of which one at a time may go."""
    graph = model.graph
    yield from (graph.node, graph.output, graph.initializer, graph.input, graph.value_info, model.functions, model.opset_import)
    for node in graph.node:
        yield from (node.attribute, node.output, node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from (attribute.g.node, attribute.g.output, attribute.g.input, attribute.g.initializer)
    for value in graph.input:
        yield value.type.tensor_type.shape.dim


def schedules_of(model):
    """The schedule without one of its lines, or empty."""
    for entry in model.metadata_props:
        if entry.key != "weft.schedule" or not entry.value:
            continue
        lines = entry.value.split("\n")
        for kept in [[], *([*lines[:k], *lines[k + 1:]] for k in range(len(lines)))]:
            yield entry, "\n".join(kept)


def without_constants(model):
    """The model with one of its constants given as an input instead: the case gets shorter by its elements."""
    for k, tensor in enumerate(model.graph.initializer):
        smaller = onnx.ModelProto.FromString(model.SerializeToString())
        del smaller.graph.initializer[k]
        smaller.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        yield smaller


def one_less(model, holds):
    """The model without something, if it still holds; None where everything is needed."""
    for smaller in without_constants(model):
        if holds(smaller):
            return smaller
    for number, items in enumerate(lists_of(model)):
        for k in reversed(range(len(items))):
            smaller = onnx.ModelProto.FromString(model.SerializeToString())
            del list(lists_of(smaller))[number][k]
            if holds(smaller):
                return smaller
    for number, (_, text) in enumerate(schedules_of(model)):
        smaller = onnx.ModelProto.FromString(model.SerializeToString())
        entry, _ = list(schedules_of(smaller))[number]
        entry.value = text
        if holds(smaller):
            return smaller
    return None


def reduced(case, file):
    wanted = ending(case, file)
    model = onnx.ModelProto.FromString(case)

    def holds(candidate):
        return ending(candidate.SerializeToString(), file) == wanted

    while smaller := one_less(model, holds):
        model = smaller
    file.unlink()
    return model


def main(case, smaller):
    target = pathlib.Path(smaller)
    model = reduced(pathlib.Path(case).read_bytes(), target)
    text = onnx.printer.to_text(model)
    try:
        same = onnx.parser.parse_model(text).SerializeToString() == model.SerializeToString()
    except onnx.parser.ParseError:
        same = False
    if same:
        target.with_suffix(".onnxtxt").write_text(text + "\n")
    else:
        target.write_bytes(model.SerializeToString())
    print(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
