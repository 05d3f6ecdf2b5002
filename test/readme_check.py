# test: fast
"""READMEs say what is there: names of paths, flags and code exist, tables equal the code's, and so does the table of operators."""

import harness
import named_in_prose
import readme_table
import tables_in_prose
from source_tree import Tree

SHOWN = 10  # complaints of one check


def report(name, complaints):
    more = f" and {len(complaints) - SHOWN} more" if len(complaints) > SHOWN else ""
    harness.check(name, not complaints, "; ".join(complaints[:SHOWN]) + more)


if __name__ == "__main__":
    the_tree = Tree(harness.ROOT)
    for check in named_in_prose.CHECKS:
        report(f"names/{check.__name__}", check(the_tree))
    for check in tables_in_prose.CHECKS:
        report(f"tables/{check.__name__}", check(the_tree))
    harness.need_weft()
    harness.check("operators", readme_table.is_current(), "out of date: ./dev update-goldens")
