# test: fast
"""Comments and READMEs are plain English: no sentence that begins with What or Of, no word of space for time, no long sentence.

    prose_check.py [PATH...]   lists the sentences of these files and folders, one a line
"""

import ast
import collections
import io
import pathlib
import re
import sys
import tokenize

import harness
from source_tree import tracked_files

WORDS = 35  # of a sentence, at most; a name in backticks or quotes is one word
RULES = {
    "begins with What or Of": re.compile(r"^[(\"']?(?:What|Whatever|Of|So many|Whose)\b(?!.*\?$)"),
    "says where for when": re.compile(r"\b(?:behind|in front(?: of)?)\b", re.I),
    "says that something is none": re.compile(r"\b(?:is|are|was|were) none\b"),
    "chains of, that of, those of": re.compile(r"(?:\b(?:of which|of whom|those of|that of|these of|of those|of that)\b.*){2}"),
}
C_LIKE, HASHED = {".h", ".cpp", ".cu", ".cuh", ".def", ".onnxtxt"}, {".cmake", ".txt", ".yaml", ".sh", ".toml", ""}
# A line that is a picture, a formula or an example starts with more than one space; a list's item starts a sentence of its own.
PICTURE, ITEM = re.compile(r"^(?:\s{2,}|\s*[|+])"), re.compile(r"^\s*(?:[-*]|\d+\.|[A-Za-z0-9_]+  )\s")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[)\"']*\s+(?=[\"'(`]*[A-Z`])")
GENERATED = re.compile(r"<!-- weft (\w+) -->.*?<!-- end of weft \1 -->", re.S)  # the compiler prints these lines
QUOTED = re.compile(r"`[^`]*`|\"[^\"]*\"|\([^()]*\)")


def lines_of_c(text):
    """Comments' text by line; None ends a paragraph."""
    for line in text.split("\n"):
        stripped = line.lstrip()
        if stripped.startswith("//"):
            yield stripped.lstrip("/")
            continue
        yield None
        trailing = re.search(r"(?:[;{},)]|\w)\s+//+ (.*)$", line)
        if trailing and line[: trailing.start()].count('"') % 2 == 0:
            yield " " + trailing[1]
            yield None


def lines_of_hashed(text):
    for line in text.split("\n"):
        stripped = line.lstrip()
        yield stripped.lstrip("#") if stripped.startswith("#") and not stripped.startswith("#!") else None


def lines_of_python(text):
    last = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield None
            last = token.start[0]
            yield token.string.lstrip("#")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (doc := ast.get_docstring(node)):
            yield None
            yield from (" " + line if line else None for line in doc.split("\n"))


def lines_of_markdown(text):
    fenced = False
    for line in GENERATED.sub("", text).split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield None
        elif line.startswith("#") and not fenced:
            yield None
            yield " " + line.lstrip("#").strip()
            yield None
        elif fenced or not line.strip():
            yield None
        elif line.lstrip().startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line):
                yield " " + cell.strip()
                yield None
        else:
            yield " " + line.strip()


def reader_of(path):
    if path.suffix in C_LIKE:
        return lines_of_c
    if path.suffix == ".py":
        return lines_of_python
    if path.suffix == ".md":
        return lines_of_markdown
    return lines_of_hashed if path.suffix in HASHED else None


def paragraphs(lines):
    words = []
    for line in lines:
        is_text = line is not None and line.strip() and not PICTURE.match(line)
        if words and (not is_text or ITEM.match(line)):
            yield " ".join(words)
            words = []
        if is_text:
            words.append(ITEM.sub("", line).strip())
    if words:
        yield " ".join(words)


def sentences(path):
    read = reader_of(path)
    if not read:
        return
    for paragraph in paragraphs(read(path.read_text(errors="replace"))):
        yield from END_OF_SENTENCE.split(paragraph)


def complaints(sentence):
    """The rules that the sentence breaks."""
    found = [rule for rule, pattern in RULES.items() if pattern.search(sentence)]
    count = len(QUOTED.sub("x", sentence).split())
    return found + [f"has {count} words"] * (count > WORDS)


def complaints_of(path):
    return [(rule, sentence) for sentence in sentences(path) for rule in complaints(sentence)]


def list_complaints(roots):
    for path in tracked_files(harness.ROOT):
        if any(path == root or root in path.parents for root in roots):
            for rule, sentence in complaints_of(path):
                print(f"{path.relative_to(harness.ROOT)}: {rule}: {sentence}")


def main():
    by_folder = collections.defaultdict(list)
    for path in tracked_files(harness.ROOT):
        by_folder[path.relative_to(harness.ROOT).parts[0]] += [(path, *each) for each in complaints_of(path)]
    for folder, found in sorted(by_folder.items()):
        shown = "; ".join(f"{path.relative_to(harness.ROOT)}: {rule}: {sentence[:80]}" for path, rule, sentence in found[:3])
        harness.check(f"prose/{folder}", not found, f"{len(found)} sentences: {shown}")


if __name__ == "__main__":
    list_complaints([pathlib.Path(each).resolve() for each in sys.argv[1:]]) if sys.argv[1:] else main()
