# test: fast
"""The checks of the tree notice mistakes: a copy of the files concerned gets one, and the check says what is wrong.

    broken_rules_check.py        each mistake is one result
"""

import dataclasses
import shutil

import harness
import named_in_prose
import rooms
import tables_in_prose
from source_tree import Tree

# Written in parts, since this file is checked too.
STALE = "passes/plan/" "plan_walk.cpp"
PIPELINE_ROW = '    {"bind-states", "state pairs name an input and an output", bind_states, Form::Imported},\n'
PLANNING_ROW = (
    '    {"cut-phases", "forward, backward and update of a training are blocks of their own", cut_phases, check_positions},\n'
)


@dataclasses.dataclass
class Mistake:
    name: str
    file: str  # that is changed
    old: str  # text that is there; empty: the new text is put at the end
    new: str
    check: object  # a function of a tree
    says: str  # part of a complaint, which the tree without the mistake does not have
    with_files: tuple = ()  # further files and folders that the check reads


def of_passes(tree):
    return rooms.complaints(tree, "passes")


TABLES = ("passes/pipeline.cpp", "passes/plan/planning.cpp")
MISTAKES = (
    Mistake("a duplicated pass", "passes/pipeline.cpp", PIPELINE_ROW, PIPELINE_ROW * 2, tables_in_prose.repeated_rows,
            "bind-states twice", TABLES),
    Mistake("a duplicated planning row", "passes/plan/planning.cpp", PLANNING_ROW, PLANNING_ROW * 2,
            tables_in_prose.repeated_rows, "cut-phases twice", TABLES),
    Mistake("a pass named like a planning row", "passes/pipeline.cpp", '{"bind-states"', '{"cut-phases"',
            tables_in_prose.repeated_rows, "cut-phases twice", TABLES),
    Mistake("a planning row that the README lacks", "passes/plan/planning.cpp", PLANNING_ROW, "",
            tables_in_prose.rows_of_planning, "has the rows", ("passes/plan/README.md",)),
    Mistake("a pass in another form", "passes/pipeline.cpp", "bind_states, Form::Imported", "bind_states, Form::Typed",
            tables_in_prose.forms, "Imported has []", ("passes/README.md", "ir/verify.h")),
    Mistake("a forbidden edge between rooms", "passes/partition/solve.h", "#pragma once\n",
            '#pragma once\n#include "passes/cost/machine.h"\n', of_passes, "does not say that partition includes cost",
            ("passes",)),
    Mistake("a circle of rooms", "passes/strategy/strategy_rules.h", "#pragma once\n",
            '#pragma once\n#include "passes/plan/planning.h"\n', of_passes, "in a circle", ("passes",)),
    Mistake("an edge to the files beside a room that includes nothing", "passes/partition/solve.h", "#pragma once\n",
            '#pragma once\n#include "passes/pass.h"\n', of_passes, "includes nothing", ("passes",)),
    Mistake("an edge that only the README has", "passes/README.md", "| `proof/` | `plan/` |",
            "| `proof/` | `plan/`, `layout/` |", of_passes, "proof includes layout, and no file does", ("passes",)),
    Mistake("a stale path in prose", "passes/README.md", "", f"See `{STALE}`.\n", named_in_prose.stale_paths,
            f"names {STALE}", ("passes/plan",)),
    Mistake("a stale path in a comment", "passes/plan/planning.h", "", f"// As in {STALE}.\n",
            named_in_prose.stale_paths, f"names {STALE}"),
    Mistake("a stale file in prose", "passes/README.md", "", "See `plan_dance.h`.\n", named_in_prose.stale_paths,
            "plan_dance.h"),
    Mistake("a file of a table that is gone", "passes/cost/README.md", "| `timeline` |", "| `timetable` |",
            named_in_prose.stale_files_of_tables, "names timetable", ("passes/cost",)),
    Mistake("a flag that nothing knows", "passes/README.md", "", "Say `weft compile --print-everything`.\n",
            named_in_prose.stale_flags, "--print-everything", ("cli/options.cpp",)),
    Mistake("a name that its file lacks", "passes/README.md", "", "It is `take_it` in `passes/pass.h`.\n",
            named_in_prose.stale_names_in_files, "passes/pass.h has no take_it", ("passes/pass.h",)),
    Mistake("a name of code that is nowhere", "passes/README.md", "", "`Graph::take_it_all` does so.\n",
            named_in_prose.stale_code_names, "Graph::take_it_all", ("ir/graph.h",)),
    Mistake("a file that the README lacks", "passes/cost/" "new_model.h", "", "#pragma once\n",
            tables_in_prose.files_of_folders, "passes/cost/README.md has no new_model",
            ("passes/cost", "runtime_lib/README.md")),
    Mistake("a pass that the README of its room lacks", "passes/layout/" "bind_states.cpp", "",
            "void bind_states(Module& module) {}\n", tables_in_prose.passes_of_rooms,
            "passes/layout/README.md has no pass bind-states", ("passes/layout", "passes/pipeline.cpp")),
    Mistake("a folder that no README names", "test/new_folder/" "a.py", "", "\n", tables_in_prose.folders_of_folders,
            "has no new_folder", ("README.md", "docs", "passes/README.md", "samples/README.md", "test/README.md")),
    Mistake("a knob that the README lacks", "test/emulation/devices.cpp", "WEFT_EMULATION_SEED",
            "WEFT_EMULATION_" "LUCK", tables_in_prose.knobs, "has no LUCK", ("test/emulation/README.md",)),
    Mistake("an exception that nothing needs", "test/README.md", "`--list-test-cases`", "`--list`",
            named_in_prose.unused_exceptions, "--list-test-cases"),
    Mistake("a verb that the guide lacks", "cli/main.cpp", '{"doctor"', '{"surgeon"', tables_in_prose.verbs,
            "has no surgeon", ("README.md", "docs")),
    Mistake("a test group that is not there", "test/README.md", "", "Run `./dev test nothing_at_all`.\n",
            tables_in_prose.verbs_of_dev, "has no nothing_at_all", ("dev", "test/bench")),
    Mistake("a benchmark that the help of dev lacks", "dev", "./dev bench trees ", "./dev bench woods ",
            tables_in_prose.verbs_of_dev, "dev: help of bench has no trees", ("test/bench",)),
    Mistake("a group of tests that only the README has", "test/README.md", "| `fuzz` | kept", "| `fuzzing` | kept",
            tables_in_prose.groups_of_tests, "has no fuzzing", ("test/fuzz",)),
    Mistake("a fuzz target that the README lacks", "test/fuzz/runtime_targets.cpp", '{"npy"', '{"npz"',
            tables_in_prose.fuzz_targets, "has no npz", ("test/fuzz",)),
    Mistake("a schedule that no README names", "samples/mlp/" "tp16.yaml", "", "weft: 1\n", tables_in_prose.samples,
            "has no tp16", ("samples",)),
    Mistake("an optimizer that the guide lacks", "frontend/training_functions.cpp", "\nsgd <", "\nsgds <",
            tables_in_prose.training_functions, "has no sgds", ("README.md", "docs")),
    Mistake("a variable that nothing reads", "test/README.md", "", "Set `WEFT_NOTHING=1`.\n", tables_in_prose.variables,
            "WEFT_NOTHING"),
    Mistake("an exit code that the guide lacks", "cli/options.h", "kBug = 70", "kBug = 71", tables_in_prose.exit_codes,
            "has no 71", ("README.md", "docs", "runtime_lib/src/failure.h")),
    Mistake("a key that the guide lacks", "frontend/schedule_reader.cpp", '{"memory", memory}', '{"memories", memory}',
            tables_in_prose.keys, "has no memories", ("README.md", "docs", "frontend", "samples/machines")),
    Mistake("a wrong count", "README.md", "", "Gradients: 1 of 2 records.\n", tables_in_prose.counts,
            "says 1 of 2 records", ("ir/ops.def", "test/passes/gradient_rows.h")),
    Mistake("a strategy that nobody writes", "ir/strategy.h", '"tree-walk"', '"tree-run"', tables_in_prose.strategies,
            "has no tree-run", ("backend/README.md",)),
)


def copy_of(mistake):
    """A tree of the files concerned alone."""
    folder = harness.scratch(f"broken_rules/{mistake.name.replace(' ', '_')}")
    for file in {mistake.file, *mistake.with_files}:
        source = harness.ROOT / file
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, folder / file, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / file)
    return folder


def check_mistake(mistake):
    folder = copy_of(mistake)
    before = mistake.check(Tree(folder))
    file = folder / mistake.file
    text = file.read_text() if file.exists() else ""
    if mistake.old not in text:
        harness.failed(mistake.name, f"{mistake.file} does not have the text that is to be changed")
        return
    file.write_text(text.replace(mistake.old, mistake.new, 1) if mistake.old else text + mistake.new)
    new = [complaint for complaint in mistake.check(Tree(folder)) if complaint not in before]
    harness.check(mistake.name, any(mistake.says in each for each in new), f"the check says {new} of it")


if __name__ == "__main__":
    for each in MISTAKES:
        check_mistake(each)
