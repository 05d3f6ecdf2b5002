# test: slow
"""The worked examples of READMEs compile where the README says that they are written, and the example of a pass works.

Each example goes into a copy of its file. The copies lie in a folder that is looked up before the tree: one for a new op,
which changes the numbers of all ops, and one for a new pass. An example of C++ that no row here places fails.
"""

import pathlib
import re

import harness
import markdown
from source_tree import Tree

FOLDER = harness.scratch("readme_examples")
OP, PASS = FOLDER / "op", FOLDER / "pass"
# For each beginning of an example: the folder and the file that it goes into, and the line before which it stands (None: it is
# the file).
PLACES = {
    "const OpDef kCube": (OP, "ir/ops/pointwise.cpp", "const OpDef kCos ="),
    "OpDef soft_clip()": (OP, "ir/ops/pointwise.cpp", "const OpDef kCos ="),
    "{OpKind::Cube, {}": (OP, "test/ir/pointwise_rows.h", "    {OpKind::Cos, "),
    "// Removes a negation": (PASS, "passes/prepare/cancel_negations.cpp", None),
    '{"cancel-negations"': (PASS, "passes/pipeline.cpp", '    {"differentiate", '),
    "// A negation of a negation": (PASS, "test/passes/cancel_negations_test.cpp", None),
}
# The example of a rule is a row that is there.
QUOTED = {"// -(-x)  ->  x": "passes/simplify/arithmetic_rules.cpp"}
# Emitted text, shortened.
SHORTENED = ("r.step({compute,", "constexpr weft::Window<float>")
# Lines that the READMEs ask for in words: the folder, the file, the line before which it stands, and the line.
ASKED = (
    (OP, "ir/ops.def", "WEFT_OP(CumProd)", "WEFT_OP(Cube)"),
    (OP, "ir/ops.def", "WEFT_OP(Softmax)", "WEFT_OP(SoftClip)"),
    (OP, "ir/ops/pointwise.cpp", "const OpDef kCos =", "const OpDef kSoftClip = soft_clip();"),
    (PASS, "passes/passes.h", "void differentiate(", "void cancel_negations(Module& module, const Env& env);"),
)


def copy_with(tree, folder, file, before, lines):
    """Adds lines to the copy of a file, before the line that begins so; None: they are the whole file."""
    copy = folder / file
    copy.parent.mkdir(parents=True, exist_ok=True)
    if before is None:
        copy.write_text(lines)
        return
    text = copy.read_text() if copy.exists() else tree.text(file)
    at = re.search(rf"^{re.escape(before)}", text, re.M)
    if not at:
        raise LookupError(f"{file} has no line {before}")
    copy.write_text(f"{text[: at.start()]}{lines}\n{text[at.start() :]}")


def place_of(example):
    """The file and the line of an example: None if it has no row, an empty place if it is not to be compiled."""
    text = example.text.lstrip()
    if text.startswith((*SHORTENED, *QUOTED)):
        return ()
    return next((place for start, place in PLACES.items() if text.startswith(start)), None)


def place_examples(tree):
    for readme in tree.readmes():
        for example in markdown.examples(tree.text(readme)):
            if example.language != "cpp":
                continue
            place = place_of(example)
            name = f"placed/{readme}:{example.line}"
            if harness.check(name, place is not None, "this check does not say where the example is written") and place:
                copy_with(tree, *place, example.text)
    for asked in ASKED:
        copy_with(tree, *asked)


def check_quoted(tree):
    text = "\n".join(tree.text(readme) for readme in tree.readmes())
    for example in markdown.examples(text):
        for start, file in QUOTED.items():
            if example.text.lstrip().startswith(start):
                lines = " ".join(example.text.split())
                harness.check(f"quoted/{file}", lines in " ".join(tree.text(file).split()), f"{file} has other lines")


def compiler():
    cache = (harness.BUILD / "CMakeCache.txt").read_text()
    return re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M)[1]


def compile_file(folder, file, *flags):
    source = folder / file if (folder / file).exists() else harness.ROOT / file
    folders = ["-iquote", folder, "-I", folder, "-I", harness.ROOT, '-DWEFT_TEST_DIR="test"']
    status, _, err = harness.run([compiler(), "-std=c++20", *folders, *flags, source])
    return harness.check(f"compiled/{file}", status == 0, err[:600])


def check_pass():
    """Links the example of a pass with the compiler; its row stands in a pipeline of its own. Runs the example's test."""
    objects = []
    for file in (
        "passes/prepare/cancel_negations.cpp",
        "passes/pipeline.cpp",
        "passes/runner.cpp",
        "test/passes/cancel_negations_test.cpp",
        "test/main.cpp",
    ):
        objects.append(PASS / f"{pathlib.PurePath(file).stem}.o")
        if not compile_file(PASS, file, "-c", "-o", objects[-1]):
            return
    libraries = [
        harness.BUILD / f"libweft_{name}.a" for name in ("cli", "frontend", "passes", "backend", "ir", "onnx_proto")
    ]
    executable = PASS / "cancel_negations_test"
    # The library has a table of passes and a runner too; the first ones count.
    status, _, err = harness.run(
        [
            compiler(),
            *objects,
            "-Wl,--allow-multiple-definition",
            *libraries,
            "-lprotobuf",
            "-lyaml-cpp",
            "-lz",
            "-pthread",
            "-o",
            executable,
        ]
    )
    if harness.check("linked/cancel_negations_test", status == 0, err[-600:]):
        status, out, err = harness.run([executable], cwd=harness.ROOT)
        harness.check("run/cancel_negations_test", status == 0, (out or err)[-600:])


if __name__ == "__main__":
    harness.need_weft()
    the_tree = Tree(harness.ROOT)
    place_examples(the_tree)
    check_quoted(the_tree)
    compile_file(OP, "ir/ops/pointwise.cpp", "-fsyntax-only")
    compile_file(OP, "test/ir/ops_pointwise_test.cpp", "-fsyntax-only")
    check_pass()
