# test: fast
"""Rules of the source tree: includes between folders and between rooms, diagnostic ids, formatting, forbidden words.

Sizes of files and functions are printed, not failed; ids that no test produces are listed, and failed with WEFT_STRICT_IDS=1.
"""

import collections
import os
import pathlib
import re
import shutil

import harness
import rooms
from source_tree import CODE, INCLUDE, Tree, find_cycle, tracked_files

ROOT = harness.ROOT
# A folder may include these and the standard library.
MAY_INCLUDE = {
    "ir": {"ir"},
    "frontend": {"frontend", "ir"},
    "passes": {"passes", "ir"},
    "backend": {"backend", "ir"},
    "cli": {"cli", "frontend", "passes", "backend", "ir"},
    "runtime_lib": {"weft"},
}
FOREIGN = {"onnx.pb.h": "frontend", "google/": "frontend", "yaml-cpp/": "frontend", "CLI/": "cli", "nlohmann/": "cli"}
# A diagnostic id is the first literal of an error, warning or refusal, as in diags.error("unknown-mesh-axis", ...).
DIAGNOSTIC = re.compile(r'\b(?:error|warning|unsupported|refuse)\(\s*"([a-z0-9]+(?:-[a-z0-9]+)+)"')
# Written in halves, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![A-Za-z0-9_.])/(?:wo" r"rk|ho" r"me|ro" r"ot|farm)/"),
    "unfinished": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"),
}
# A line of constants outside of every class and function, and their names in it.
CONSTANTS = re.compile(r"^(?:inline |static )*(?:constexpr|const) [^({]*?\bk[A-Z].*$", re.M)
CONSTANT_NAME = re.compile(r"\b(k[A-Z]\w*)(?:\[\w*\])* ?[={]")
# A type that is defined at the outermost level of a namespace.
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)\b(?!::)[^;\n]*\{", re.M)
LIMITS = {"file": 600, "function": 80}


def folder_of(path):
    return path.relative_to(ROOT).parts[0]


def check_includes(sources):
    by_folder = collections.defaultdict(list)
    for path, text in sources.items():
        folder = folder_of(path)
        if folder not in MAY_INCLUDE:
            continue
        for included in INCLUDE.findall(text):
            complaint = include_complaint(folder, included)
            if complaint:
                by_folder[folder].append(f"{path.relative_to(ROOT)} includes {included}{complaint}")
    for folder in MAY_INCLUDE:
        if any(folder_of(path) == folder for path in sources):
            harness.check(f"includes/{folder}", not by_folder[folder], "; ".join(by_folder[folder]))


def check_cycles(tree):
    """A header and its source are one node, without suffix."""
    for folder in MAY_INCLUDE:
        edges = {}
        for file in tree.below(folder):
            node = pathlib.PurePosixPath(file).with_suffix("")
            included = [pathlib.PurePosixPath(each).with_suffix("") for each in tree.includes(file)]
            inside = {str(each) for each in included if each.parts[0] == folder and each != node}
            edges.setdefault(str(node), set()).update(inside)
        cycle = find_cycle(edges)
        harness.check(f"cycles/{folder}", cycle is None, f"files include each other in a circle: {' -> '.join(cycle or [])}")


def check_rooms(tree):
    for folder in rooms.folders_with_rooms(tree):
        found = rooms.complaints(tree, folder)
        harness.check(f"rooms/{folder}", not found, "; ".join(found))


def check_one_definition(sources):
    """Two types of one name in the compiler's namespace are one type to the linker, wherever they are written: the sizes
    and functions of one would stand for the other's."""
    where = collections.defaultdict(set)
    for path, text in sources.items():
        if "\nnamespace weftc {" not in text:
            continue
        for part in re.split(r"^namespace \{\n.*?^\}  // namespace$", text, flags=re.M | re.S):
            for name in TYPE.findall(part):
                where[name].add(str(path.relative_to(ROOT)))
    twice = [f"{name} in {' and '.join(sorted(paths))}" for name, paths in sorted(where.items()) if len(paths) > 1]
    harness.check("types/one-definition", not twice, "; ".join(twice))


def constants_of(sources):
    """Pairs of a constant's name and the file that has it outside of classes and functions."""
    lines = [(path, line) for path, text in sources.items() for line in CONSTANTS.findall(text)]
    return [(name, path) for path, line in lines for name in CONSTANT_NAME.findall(line)]


def check_local_constants(sources):
    """Files are compiled several at a time: a constant of an unnamed namespace would hide the one of a header that
    another file of its unit reads."""
    compiled = {path: text for path, text in sources.items() if folder_of(path) in MAY_INCLUDE}
    constants = constants_of(compiled)
    public = {(name, folder_of(path)): path.relative_to(ROOT) for name, path in constants if path.suffix == ".h"}
    hidden = []
    for name, path in constants:
        seen = sorted(MAY_INCLUDE[folder_of(path)] | {folder_of(path)})
        headers = [public[name, folder] for folder in seen if (name, folder) in public]
        if headers and path.suffix == ".cpp":
            hidden.append(f"{name} of {path.relative_to(ROOT)} and of {headers[0]}")
    harness.check("local-constants", not hidden, "; ".join(hidden))


def include_complaint(folder, included):
    top = included.split("/")[0]
    if top in MAY_INCLUDE and top not in MAY_INCLUDE[folder]:
        return ", which this folder may not"
    for prefix, owner in FOREIGN.items():
        if included.startswith(prefix) and owner != folder:
            return f", which only {owner}/ may"
    return ""


def check_diagnostic_ids(sources):
    """An id names one complaint: it belongs to one file, and some test makes the compiler say it."""
    files = collections.defaultdict(set)
    for path, text in sources.items():
        if folder_of(path) in MAY_INCLUDE:
            for name in DIAGNOSTIC.findall(text):
                files[name].add(str(path.relative_to(ROOT)))
    shared = {name: sorted(where) for name, where in files.items() if len(where) > 1}
    harness.check("diagnostic-ids/unique", not shared, "; ".join(f"{n} in {', '.join(w)}" for n, w in shared.items()))
    tests = "\n".join(
        path.read_text(errors="replace") for path in (ROOT / "test").rglob("*") if path.is_file() and path.suffix != ".onnx")
    untested = sorted(name for name in files if name not in tests)
    if untested:
        print(f"{len(untested)} of {len(files)} diagnostic ids occur in no test: {', '.join(untested)}")
    strict = os.environ.get("WEFT_STRICT_IDS") == "1"
    harness.check("diagnostic-ids/tested", not (strict and untested), f"{len(untested)} occur in no test")


def check_words(files):
    for what, pattern in FORBIDDEN.items():
        found = []
        for path in files:
            text = path.read_text(errors="replace")
            found += [f"{path.relative_to(ROOT)}: {match.group(0)}" for match in pattern.finditer(text)]
        harness.check(f"words/{what.replace(' ', '-')}", not found, "; ".join(found[:10]))


def check_format(sources):
    if not shutil.which("clang-format"):
        harness.skipped("clang-format", "clang-format is not installed")
        return
    code = [path for path in sources if path.suffix in (".h", ".cpp", ".cu", ".cuh")]
    names = [str(path) for path in code if folder_of(path) != "templates"]  # templates are text with C++ in it
    status, _, err = harness.run(["clang-format", "--dry-run", "--Werror", *names])
    wrong = sorted({name.removeprefix(f"{ROOT}/") for name in re.findall(r"^(.*?):\d+:\d+: error:", err, re.M)})
    harness.check("clang-format", status == 0, f"./dev format would change {', '.join(wrong)}")


def function_lengths(text):
    """(name, lines) of each top-level function, found by its closing brace at the start of a line."""
    start, name = None, ""
    for number, line in enumerate(text.split("\n")):
        if start is None and re.match(r"^[A-Za-z_].*\)[^;]*\{\s*$", line) and not line.startswith("namespace"):
            start, name = number, re.sub(r"\(.*", "", line).split()[-1]
        elif start is not None and line.startswith("}"):
            yield name, number - start + 1
            start = None


def print_sizes(sources):
    lines = collections.Counter()
    for path, text in sorted(sources.items()):
        count = text.count("\n")
        lines[folder_of(path)] += count
        if count > LIMITS["file"]:
            print(f"long file: {path.relative_to(ROOT)} has {count} lines")
        for name, length in function_lengths(text):
            if length > LIMITS["function"]:
                print(f"long function: {path.relative_to(ROOT)}: {name} has {length} lines")
    print("lines: " + ", ".join(f"{folder} {count}" for folder, count in sorted(lines.items())))


def main():
    tree = Tree(ROOT)
    files = tracked_files(ROOT)
    sources = {path: path.read_text(errors="replace") for path in files if path.suffix in CODE}
    check_includes(sources)
    check_cycles(tree)
    check_rooms(tree)
    check_one_definition(sources)
    check_local_constants(sources)
    check_diagnostic_ids(sources)
    check_words(files)
    check_format(sources)
    print_sizes(sources)


if __name__ == "__main__":
    main()
