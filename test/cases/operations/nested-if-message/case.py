"""Graphs may be nested 64 deep: more is refused by that reason, however much more it is."""

import harness


def field(number, content):
    """A protobuf field that holds a message or a string."""
    size, head = len(content), bytes([number << 3 | 2])
    while size > 127:
        head += bytes([size & 127 | 128])
        size >>= 7
    return head + bytes([size]) + content


def nested(depth):
    """The bytes of a model with so many graphs in each other."""
    graph = b""
    for _ in range(depth - 1):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


def run(case):
    status, _, err = harness.weft("inspect", case.folder / "if_40.onnx")
    harness.check(case.name + ": 40 deep", status == 0, err)
    for depth in (65, 5000):
        model = case.out / f"if_{depth}.onnx"
        model.write_bytes(nested(depth))
        status, _, err = harness.weft("compile", model, "-o", case.out / "program")
        harness.check(f"{case.name}: {depth} deep", status == 1 and "nested more than 64 deep [graph-depth]" in err, err)
