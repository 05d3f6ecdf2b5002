# test: fast
"""`./dev test PATH` runs a part of a group: each kind of path finds its group, and other paths are refused."""

import os

import harness
import run

GROUPS = run.find_groups()
PARTS = {"test/golden/emit/mlp_levels.case": "golden", "test/passes/scatter_updates_test.cpp": "unit",
         "test/passes/scatter-updates/stays.weft": "unit", "test/cases/operators/": "", "README.md": "", "no_such_group": "", "no_such_test.cpp": "",
         "style": "style", "test/style_check.py": "style"}


def main():
    os.chdir(harness.ROOT)
    for path, wanted in PARTS.items():
        found = run.group_of(path, GROUPS)
        harness.check(path, (found.name if found else "") == wanted, f"is of the group {found and found.name}")
    case = next((harness.ROOT / "test" / "cases" / "operators").iterdir())
    found = run.group_of(str(case), GROUPS)
    harness.check("a folder of test/cases", found and found.name == "cases" and found.part == (str(case),), str(found))
    paths = ("test/passes/scatter_updates_test.cpp", "test/passes/pipelines_test.cpp")
    both = run.joined([run.group_of(path, GROUPS) for path in paths])
    harness.check("two paths of a group are one run", len(both) == 1 and len(both[0].part) == 2, str(both))
    whole = run.joined([run.group_of(path, GROUPS) for path in (paths[0], "unit")])
    harness.check("a path and its group are all of the group", len(whole) == 1 and whole[0].part == (), str(whole))
    for pattern, _ in run.GROUPS_OF_PARTS:
        harness.check(f"test/{pattern}", next((harness.ROOT / "test").glob(pattern), None), "no path is of this kind")


main()
