"""Markdown as the checks of READMEs read it: tables, words in backticks, examples between fences."""

import dataclasses
import re

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.M | re.S)
SPAN = re.compile(r"`([^`\n]+)`")
CELL_END = re.compile(r"(?<!\\)\|")


@dataclasses.dataclass
class Example:
    language: str
    text: str
    line: int


@dataclasses.dataclass
class Table:
    header: list
    rows: list

    def column(self, name):
        """The cells below a heading."""
        at = self.header.index(name)
        return [row[at] for row in self.rows if len(row) > at]


def examples(text):
    """Indentation of the fence is that of a list's item; it is taken off."""
    found = []
    for match in FENCE.finditer(text):
        indent = len(match[1])
        lines = [line[indent:] if not line[:indent].strip() else line for line in match[3].split("\n")]
        found.append(Example(match[2], "\n".join(lines), text.count("\n", 0, match.start()) + 1))
    return found


def without_examples(text):
    return FENCE.sub("", text)


def spans(text):
    """The words in backticks, outside of examples."""
    return SPAN.findall(without_examples(text))


def cells(line):
    return [cell.strip() for cell in CELL_END.split(line.strip())[1:-1]]


def tables(text):
    found, lines = [], without_examples(text).split("\n")
    for at, line in enumerate(lines):
        if not re.match(r"^\s*\|(\s*-+\s*\|)+\s*$", line) or at == 0:
            continue
        rows = []
        for row in lines[at + 1 :]:
            if not row.lstrip().startswith("|"):
                break
            rows.append(cells(row))
        found.append(Table(cells(lines[at - 1]), rows))
    return found


def table_with(text, *heading):
    """The table whose headings begin so, or nothing."""
    return next((table for table in tables(text) if table.header[: len(heading)] == list(heading)), None)
