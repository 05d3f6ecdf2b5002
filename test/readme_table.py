"""The table of operators in README.md, which `weft ops --markdown` prints.

    readme_table.py [--write]      compares, or replaces what stands between the two markers
"""

import sys

import harness

BEGIN, END = "<!-- weft ops -->\n", "<!-- end of weft ops -->\n"


def split(readme):
    """(before, table, after); the markers belong to before and after."""
    before, _, rest = readme.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not end:
        sys.exit(f"README.md has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN, table, END + after


def printed_table():
    status, out, err = harness.weft("ops", "--markdown")
    if status != 0:
        sys.exit(f"weft ops --markdown: exit {status}: {err[-300:]}")
    return out


def is_current():
    return split((harness.ROOT / "README.md").read_text())[1] == printed_table()


def main(arguments):
    if arguments != ["--write"]:
        sys.exit(0 if is_current() else "the table of operators is out of date: ./dev update-goldens")
    path = harness.ROOT / "README.md"
    before, _, after = split(path.read_text())
    path.write_text(before + printed_table() + after)


if __name__ == "__main__":
    main(sys.argv[1:])
