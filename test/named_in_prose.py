"""Names in READMEs that mean something of the tree: paths, flags, and names of the code. Each must exist.

A word in backticks is a path if it begins with a folder of the tree or has the suffix of a source. Capitals in it stand
for any name: `fixtures/NAME.yaml`.
"""

import fnmatch
import pathlib
import posixpath
import re

import markdown

ENDINGS = "h cpp cu cuh def py md yaml weft case onnxtxt cmake html css sh txt svg"
SUFFIXES = tuple(f".{ending}" for ending in ENDINGS.split())
PATH = re.compile(r"[\w./*{},+-]+")
# A folder's README may name files from the folders in which they usually stand.
USUAL_FOLDERS = ("runtime_lib", "runtime_lib/include", "runtime_lib/include/weft", "passes", "test", "samples")
# Words that look like paths of the tree but are not, each with its reason.
NO_PATHS = {
    "build/*": "is made by a build",
    "kernels/*": "is a file of an emitted program",
    "seq_*/": "is a folder of an emitted program",
    "backend/dialects/hip.cpp": "belongs to a target that has not been written",
    "passes/prepare/cancel_negations.cpp": "is the worked example of a pass",
    "test/passes/cancel-negations/*": "is the worked example of a pass",
    "test/passes/cancel_negations_test.cpp": "is the worked example of a pass",
}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
QUOTED_FLAGS = re.compile(r'"(?:-\w,)?(--[a-z][\w-]*(?:,--[a-z][\w-]*)*)"')
# Flags of other programs than the tree's, with the program.
FOREIGN_FLAGS = {
    "--build": "cmake",
    "--install": "cmake",
    "--prefix": "cmake",
    "--mpi": "srun",
    "--param": "g++",
    "--help": "every program",
    "--test-case": "doctest",
    "--list-test-cases": "doctest",
}
# `a`, `b` in `file`
NAMES_IN_FILE = re.compile(r"((?:`[\w:.]+(?:\(\))?`(?:, | and )?)+) in `([\w./]+)`")
NAME_OF_FILE = re.compile(r"`([\w./]+\.\w+):([A-Za-z_]\w*)`")
# A name of the code: it has a colon pair, an underscore between small letters, or a capital within a word.
CODE_NAME = re.compile(r"(?:\w+::)+\w+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]+)+")
NO_NAMES = {
    "OpKind::Cube": "is the worked example of an op",
    "Kind::Hip": "belongs to a target that has not been written",
    "onnx::MatMul_*": "is a name that exporters give",
    "gpt2_*": "is a function of an emitted library, or a program that is packed",
    "train_gpt2_*": "is a program that is packed",
    "t_*": "stands in a formula",
}


def top_folders(tree):
    return {folder for folder in tree.folders if "/" not in folder and folder != "."}


def matches(tree, path):
    """Whether the tree has the path: as it stands, without a suffix, or as a pattern."""
    if not re.search(r"[*{]", path):
        return tree.has(path) or path in tree.stems
    patterns = [re.compile(fnmatch.translate(each)) for each in alternatives(path)]
    return any(pattern.match(each) for pattern in patterns for each in [*tree.files, *tree.folders])


def alternatives(path):
    """Both a.h and a.cpp of a.{h,cpp}."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    return [each for part in found[1].split(",") for each in alternatives(path.replace(found[0], part, 1))]


def resolves(tree, readme, word):
    """Whether the word is a path from the folder of the README, a folder around it or a usual one. A name without a
    folder may lie anywhere."""
    here = pathlib.PurePosixPath(readme).parent
    bases = [*map(str, [here, *here.parents]), *USUAL_FOLDERS]
    for each in dict.fromkeys((word, re.sub(r"[A-Z]{2,}", "*", word))):
        if any(matches(tree, posixpath.normpath(posixpath.join(base, each))) for base in bases):
            return True
        if "/" not in each.rstrip("/") and fnmatch.filter(tree.names, each.rstrip("/")):
            return True
    return False


def is_excused(word, exceptions=NO_PATHS):
    return any(fnmatch.fnmatchcase(word, pattern) for pattern in exceptions)


def looks_like_path(tree, readme, word):
    if not PATH.fullmatch(word) or word[0] in ".*" and "/" not in word:
        return False
    first = word.split("/")[0]
    here = posixpath.dirname(readme)
    if "/" in word and first.isupper():
        return False  # a folder of the user's
    is_inside = "/" in word and (first in top_folders(tree) or posixpath.join(here, first) in tree.folders)
    return is_inside or word.endswith(SUFFIXES) or word.endswith("/") and word[0].islower()


def words_of_commands(text):
    """The words of examples, and of spans that are more than one word."""
    parts = [example.text for example in markdown.examples(text)] + [
        span for span in markdown.spans(text) if " " in span
    ]
    return {word.strip("'\",:;()") for part in parts for word in re.split(r"[\s=]+", part)}


def stale_paths(tree):
    found = []
    for readme in tree.readmes():
        text = tree.text(readme)
        words = {word for word in markdown.spans(text) if looks_like_path(tree, readme, word)}
        words |= {
            word
            for word in words_of_commands(text)
            if PATH.fullmatch(word) and "/" in word and word.split("/")[0] in top_folders(tree)
        }
        found += [
            f"{readme} names {word}"
            for word in sorted(words)
            if not is_excused(word) and not resolves(tree, readme, word)
        ]
    return found + stale_paths_of_sources(tree)


def stale_paths_of_sources(tree):
    """Comments name files by their whole paths."""
    folders = "|".join(sorted(top_folders(tree)))
    path = re.compile(rf"(?<![\w/.-])(?:{folders})/[\w./*-]*\.(?:{'|'.join(each[1:] for each in SUFFIXES)})\b")
    found = []
    for file in tree.files:
        if not file.endswith((".h", ".cpp", ".cu", ".cuh", ".def", ".py", ".txt", ".cmake")):
            continue
        words = set(path.findall(tree.text(file)))
        found += [
            f"{file} names {word}" for word in sorted(words) if not is_excused(word) and not resolves(tree, file, word)
        ]
    return found


def flags_of_script(text):
    """Flags are named in calls of argparse. Scripts with many sizes make a flag of each name with a number."""
    flags = {flag for call in re.findall(r"add_argument\(([^)]*)", text) for flag in FLAG.findall(call)}
    flags |= set(re.findall(r'\["(--[a-z-]+)"\]', text))  # one word that is compared with the arguments
    if re.search(r'add_argument\(f"--|text_model\.write\(|\bparse\(__doc__', text):
        flags |= {f"--{quoted or plain}" for quoted, plain in re.findall(r'(?:"(\w+)"[,:]|\b(\w+)=) ?\d', text)}
    return flags


def stale_files_of_tables(tree):
    """Tables whose heading is `file` name files, perhaps without suffix or by their ends: `transform_split`, `_fuse`."""
    found = []
    for readme in tree.readmes():
        here = posixpath.dirname(readme)
        for table in markdown.tables(tree.text(readme)):
            headings = [heading for heading in table.header if heading.startswith(("file", "header", "pass (file)"))]
            words = {span for heading in headings for cell in table.column(heading) for span in markdown.spans(cell)}
            for word in sorted(words):
                is_file = re.fullmatch(r"[\w./*]+", word) and not is_excused(word)
                stem = word.removesuffix(".*")
                is_end = word.startswith("_") and any(
                    path.startswith(f"{here}/") and path.endswith(word) for path in tree.stems
                )
                if is_file and not is_end and not resolves(tree, readme, stem):
                    found.append(f"{readme} names {word}")
    return found


def known_flags(tree):
    """Flags of the compiler, of executables and of scripts."""
    rows = ["cli/options.cpp", "runtime_lib/src/options.cpp", "runtime_lib/src/sampling.cpp"]
    quoted = [flags for file in rows if tree.has(file) for flags in QUOTED_FLAGS.findall(tree.text(file))]
    known = {flag for flags in quoted for flag in flags.split(",")} | set(FOREIGN_FLAGS)
    for file in tree.files:
        if file.endswith(".py") or file == "test/gpu/carried/run":
            known |= flags_of_script(tree.text(file))
    return known


def stale_flags(tree):
    known, found = known_flags(tree), []
    for readme in tree.readmes():
        text = tree.text(readme)
        parts = markdown.spans(text) + [example.text for example in markdown.examples(text)]
        flags = {flag for part in parts for flag in FLAG.findall(part)}
        found += [f"{readme} names {flag}" for flag in sorted(flags - known)]
    return found


def file_of(tree, readme, word):
    """The one file that a word in a README means, or nothing."""
    for base in [str(pathlib.PurePosixPath(readme).parent), "", *USUAL_FOLDERS]:
        path = posixpath.normpath(posixpath.join(base, word))
        if path in tree.file_set:
            return path
    named = [file for file in tree.files if posixpath.basename(file) == word]
    return named[0] if len(named) == 1 else None


def stale_names_in_files(tree):
    """`name` in `file` and `file:name`: the file has the name."""
    found = []
    for readme in tree.readmes():
        text = " ".join(markdown.without_examples(tree.text(readme)).split())
        pairs = [(name, file) for file, name in NAME_OF_FILE.findall(text)]
        for names, file in NAMES_IN_FILE.findall(text):
            pairs += [(name, file) for name in re.findall(r"`([\w:.]+)", names)]
        for name, word in pairs:
            file = file_of(tree, readme, word)
            last = re.split(r"::|\.", name)[-1]
            if file and not re.search(rf"\b{re.escape(last)}\b", tree.text(file)):
                found.append(f"{readme}: {file} has no {name}")
    return found


def words_of_tree(tree):
    words = set()
    for file in tree.files:
        if not file.endswith((".md", ".npy", ".onnx", ".pb")):
            words |= set(re.findall(r"\w+", tree.text(file))) | set(re.findall(r"\w+", file))
    return words


def stale_code_names(tree):
    """Names of the code in backticks, which some file has to have."""
    words, found = words_of_tree(tree), []
    for readme in tree.readmes():
        for span in sorted(set(markdown.spans(tree.text(readme)))):
            name = re.sub(r"\(.*\)$", "", span)
            is_known = set(re.findall(r"\w+", name)) <= words
            if CODE_NAME.fullmatch(name) and not is_known and not is_excused(name, NO_NAMES):
                found.append(f"{readme} names {span}")
    return found


def unused_exceptions(tree):
    """Exceptions that no README needs any more."""
    text = "\n".join(tree.text(readme) for readme in tree.readmes())
    words = {*markdown.spans(text), *words_of_commands(text)}
    unused = [pattern for pattern in [*NO_PATHS, *NO_NAMES] if not fnmatch.filter(words, pattern)]
    return unused + [flag for flag in FOREIGN_FLAGS if flag not in text]


CHECKS = (stale_paths, stale_files_of_tables, stale_flags, stale_names_in_files, stale_code_names, unused_exceptions)
