"""Tests that are text: a compiler command and what it prints.

A file test/**/NAME.case opens with a comment, then says what to run and what to show, then what is expected:

    # what this shows
    run: explain samples/mlp/mlp.onnxtxt --schedule $HERE/s.yaml
    exit: 1
    show: stderr
    ---
    expected text

`run:` takes the compiler's arguments; $HERE is the case's folder, $OUT an empty folder for results. `exit:` is 0 unless
given. `show:` is stdout, stderr, or a file below $OUT; `from:` and `to:` (texts of a first and a last line, both
included) cut out the part that matters. A further line `file NAME:` followed by indented lines writes a file to $OUT
before the run, so that a small model or schedule can stand in the case. `./dev update-goldens` rewrites the expected part.
"""

import difflib
import pathlib
import re
import sys

import harness

KEYS = {"run", "exit", "show", "from", "to"}


class Malformed(Exception):
    pass


def parse(text):
    """(fields, files, head, expected): head is the part above ---, which an update keeps."""
    head, line, expected = text.partition("\n---\n")
    if not line:
        raise Malformed("no line ---")
    fields, files, current = {"exit": "0", "show": "stdout"}, {}, None
    for number, row in enumerate(head.split("\n"), 1):
        if current is not None and (row.startswith("  ") or not row.strip()):
            files[current].append(row[2:])
        elif match := re.match(r"file (\S+):$", row):
            current = match.group(1)
            files[current] = []
        elif (match := re.match(r"(\w+): (.*)$", row)) and match.group(1) in KEYS:
            fields[match.group(1)], current = match.group(2), None
        elif row.strip() and not row.startswith("#"):
            raise Malformed(f"line {number} is neither a key, a file nor a comment: {row}")
    if "run" not in fields:
        raise Malformed("no run: line")
    return fields, {name: "\n".join(rows).rstrip() + "\n" for name, rows in files.items()}, head + line, expected


def cut(text, fields):
    lines = text.rstrip().split("\n")
    first = next((i for i, line in enumerate(lines) if fields.get("from", "") in line), 0)
    last = len(lines) - 1
    if "to" in fields:
        last = next((i for i in range(first, len(lines)) if fields["to"] in lines[i]), last)
    return "\n".join(lines[first:last + 1]) + "\n"


def shown_text(fields, out, stdout, stderr):
    shown = {"stdout": stdout, "stderr": stderr}.get(fields["show"])
    if shown is None:
        path = out / fields["show"]
        if not path.is_file():
            return f"(no file {fields['show']})\n"
        shown = path.read_text()
    # Machines and folders differ; cases do not.
    return cut(shown.replace(f"{out}/", "").replace(f"{harness.ROOT}/", ""), fields)


def run_case(path, name):
    try:
        fields, files, head, expected = parse(path.read_text())
    except Malformed as error:
        harness.failed(name, error)
        return
    out = harness.scratch(f"cases/{name}")
    for file, text in files.items():
        (out / file).write_text(text)
    arguments = [part.replace("$HERE", str(path.parent)).replace("$OUT", str(out)) for part in fields["run"].split()]
    status, stdout, stderr = harness.weft(*arguments, cwd=harness.ROOT)
    shown = shown_text(fields, out, stdout, stderr)
    if status != int(fields["exit"]):
        harness.failed(name, f"exit {status}, not {fields['exit']}: {(stderr or stdout)[-300:]}")
    elif shown == expected:
        harness.passed(name)
    elif harness.UPDATE_GOLDENS:
        path.write_text(head + shown)
        harness.passed(f"{name} (rewritten)")
    else:
        difference = difflib.unified_diff(expected.split("\n"), shown.split("\n"), "expected", "printed", lineterm="")
        print("\n".join(difference))
        harness.failed(name, "the text differs (see the log); if it should: ./dev update-goldens")


def run_cases(folder):
    harness.need_weft()
    paths = [pathlib.Path(path) for path in sys.argv[1:]] or sorted((harness.ROOT / "test" / folder).rglob("*.case"))
    for path in paths:
        run_case(path, str(path.relative_to(harness.ROOT / "test" / folder).with_suffix("")))
