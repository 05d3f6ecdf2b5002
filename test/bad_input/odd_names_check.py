# test: fast
"""Names that would break out of a comment, a string or an identifier: the program is right, and its flags take them."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import harness

FOLDER = harness.scratch("odd_names")
NAMES = (
    "quote\"", "apostrophe'", "back\\slash", "new\nline", "carriage\rreturn", "*/ int evil; /*", "// \\", "??/", "??'trigraph",
    "%d%n", "$name", "//@ end", "größe", "日本", "emoji🧵", "int", "class", "weft", "std", "main", "1starts_with_a_digit", "__reserved",
    "a/b", "a.b", "a b", "a-b", "a_b", "\u202eevil", "\t", "R\"(x)\"", "#include <x>", "x" * 200, "{l}", "*", "NULL", "M_PI", "r", "team",
)


def file_name(name):
    return "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "._-") else "_" for b in name.encode())


# Two outputs of one file name are refused: of such names only the first is an output.
OUTPUTS = [name for at, name in enumerate(NAMES) if at and file_name(name)[:200] not in map(file_name, NAMES[1:at])]


def make(path):
    """A chain of Adds, in which node, value, weight, input and output carry the odd names in turn."""
    nodes, weights, at = [], [], NAMES[0]
    for number, name in enumerate(NAMES[1:]):
        weight = f"{name} w"
        weights.append(numpy_helper.from_array(np.full((4,), number + 1, np.float32), weight))
        op = ("Add", "Mul")[number % 2] if number < 6 else "Add"
        nodes.append(helper.make_node(op, [at, weight], [name], name=f"{name} node"))
        at = name
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])  # noqa: E731
    outputs = [value(name) for name in OUTPUTS]
    graph = helper.make_graph(nodes, "odd \" */ name", [value(NAMES[0])], outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def expected(x):
    results = []
    for number in range(len(NAMES) - 1):
        x = x * (number + 1) if number < 6 and number % 2 else x + (number + 1)
        results.append(x)
    return results


def check_results(program, x):
    np.save(FOLDER / "x.npy", x)
    out = FOLDER / "out"
    status, _, err = harness.run([program, "--input", f"{NAMES[0]}={FOLDER / 'x.npy'}", "--output-dir", out])
    if not harness.check("run", status == 0, f"exit {status}: {err[-300:]}"):
        return
    wanted = {name: result for name, result in zip(NAMES[1:], expected(x)) if name in OUTPUTS and len(name) < 200}
    wrong = [name for name, result in wanted.items() if not np.allclose(np.load(out / f"{file_name(name)}.npy"), result)]
    harness.check("results", not wrong, f"wrong: {wrong}")


def main():
    for stem in ("odd", "quote\"s", "comment *|| end", "größe", "class", "1", "nan", "time", "model"):
        model = FOLDER / f"{stem}.onnx"
        make(model)
        program = FOLDER / f"program_{stem}"
        status, out, err = harness.weft("compile", model, "-o", program)
        if harness.check(f"compile/{file_name(stem)}", status == 0, f"exit {status}: {(err or out)[-500:]}") and stem == "odd":
            check_results(program, np.arange(8, dtype=np.float32).reshape(2, 4))
    status, out, err = harness.weft("compile", FOLDER / "odd.onnx", "--emit", "source", "-o", FOLDER / "source")
    texts = [path.read_bytes() for path in (FOLDER / "source").rglob("*.cpp") if "runtime_lib" not in path.parts] if status == 0 else []
    harness.check("ascii", status == 0 and all(text.isascii() and b"??" not in text for text in texts), f"exit {status}: {err[-200:]}")


harness.need_weft()
main()
