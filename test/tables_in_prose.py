"""Tables and lists of READMEs that repeat the code: each is compared with it.

The guide is the root's README with the files of `docs/`; other lists are looked up in the README of their folder.
"""

import posixpath
import re

import code_tables
import markdown
from source_tree import PRODUCT

PASSES, PLANNING = "passes/pipeline.cpp", "passes/plan/planning.cpp"
# Folders whose README does not list all files, with the reason.
UNLISTED = {"ir/ops": "its table says that all other files are composite ops"}
# Headers that a README of another folder lists.
LISTED_ABOVE = {"runtime_lib/include/weft": "runtime_lib/README.md"}


def guide(tree):
    return "\n".join(tree.text(file) for file in tree.readmes() if file == "README.md" or file.startswith("docs/"))


def code_words(text):
    """The words in backticks and examples."""
    parts = markdown.spans(text) + [example.text for example in markdown.examples(text)]
    return {word for part in parts for word in re.findall(r"[\w-]+", part)}


def missing(wanted, found, where):
    return [f"{where} has no {each}" for each in sorted(set(wanted) - set(found))]


def passes(tree):
    """Pairs of a pass and the form that it ends in."""
    rows = code_tables.rows(tree.text(PASSES), "kPipeline")
    return [(name, re.search(r"Form::(\w+)", row)[1]) for row in rows for name in code_tables.first_strings([row])]


def planning_rows(tree):
    return code_tables.first_strings(code_tables.rows(tree.text(PLANNING), "kPlanning"))


def repeated_rows(tree):
    """No name stands twice among passes and planning rows, and no table of the product has the same row twice."""
    names = [name for name, _ in passes(tree)] + planning_rows(tree)
    found = [f"{PASSES} and {PLANNING} have {name} twice" for name in code_tables.repeated(names)]
    for file in tree.code():
        for name, rows in code_tables.tables(tree.text(file)):
            twice = code_tables.repeated(row for row in rows if code_tables.FIRST_STRING.match(row))
            found += [f"{file}: {name} has the row {row} twice" for row in twice]
    return found


def forms(tree):
    """passes/README.md: the forms in their order, each with the passes that end in it, in theirs."""
    table = markdown.table_with(tree.text("passes/README.md"), "form")
    named = [(row[0], markdown.spans(row[2])) for row in table.rows] if table else []
    order = re.search(r"enum class Form \{([^}]*)\}", tree.text("ir/verify.h"))[1].replace(",", " ").split()
    real = [(form, [name for name, ends_in in passes(tree) if ends_in == form]) for form in order]
    known = {name for name, _ in passes(tree)}
    named = [(form, [name for name in names if name in known]) for form, names in named]
    return [
        f"passes/README.md: {form} has {names}, not {theirs}"
        for (form, names), (_, theirs) in zip(real, named)
        if names != theirs
    ] + ([] if [form for form, _ in named] == order else ["passes/README.md does not have the forms of ir/verify.h"])


def rows_of_planning(tree):
    table = markdown.table_with(tree.text("passes/plan/README.md"), "row")
    named = [markdown.spans(cell)[0] for cell in table.column("row")] if table else []
    wanted = planning_rows(tree)
    return [] if named == wanted else [f"passes/plan/README.md has the rows {named}, not {wanted}"]


def passes_of_rooms(tree):
    """The README of a room names each pass that is defined in the room."""
    found = []
    for name, _ in passes(tree):
        function = name.replace("-", "_")
        start = re.compile(rf"^void {function}\(Module&", re.M)
        for file in tree.below("passes", (".cpp",)):
            if start.search(tree.text(file)):
                readme = f"{posixpath.dirname(file)}/README.md"
                named = code_words(tree.text(readme))
                found += [] if {name, function} & named else [f"{readme} has no pass {name}"]
    return found


def files_of_folders(tree):
    """The README of a folder names each source file and header that lies in it."""
    found = []
    for readme in tree.readmes():
        folder = posixpath.dirname(readme)
        if folder.split("/")[0] in PRODUCT and folder not in UNLISTED:
            found += unnamed_files(tree, folder, readme)
    for folder, readme in LISTED_ABOVE.items():
        found += unnamed_files(tree, folder, readme)
    return found


def unnamed_files(tree, folder, readme):
    units = {posixpath.basename(file).split(".")[0] for file in tree.below(folder) if posixpath.dirname(file) == folder}
    words = code_words(tree.text(readme))
    shortened = {f"_{unit.split('_', 1)[1]}": unit for unit in units if "_" in unit}  # `transform_split`, `_fuse`
    words |= {unit for end, unit in shortened.items() if end in words}
    return missing(units, words, readme)


def folders_of_folders(tree):
    """Each folder of the root stands in the guide, each of tests, samples and passes in the README there."""
    found = []
    parents = ("test", "samples", "passes")
    texts = {"": guide(tree)} | {parent: tree.text(f"{parent}/README.md") for parent in parents}
    for parent, text in texts.items():
        inside = {folder.removeprefix(f"{parent}/") for folder in tree.folders if posixpath.dirname(folder) == parent}
        named = code_words(text)
        found += missing({each for each in inside if each[0] != "."}, named, f"{parent or 'the guide'}: README.md")
    return found


def verbs(tree):
    """The guide explains each verb, and names no other."""
    real = set(code_tables.first_strings(code_tables.rows(tree.text("cli/main.cpp"), "kVerbs")))
    text = "\n".join(tree.text(readme) for readme in tree.readmes())
    parts = markdown.spans(text) + [example.text for example in markdown.examples(text)]
    named = {verb for part in parts for verb in re.findall(r"(?:^|\$ |\./dev )weft ([a-z][a-z-]+)", part, re.M)}
    return missing(real - {"verify-many"}, named, "the guide") + missing(named, real, "cli/main.cpp")


def groups(tree):
    """The groups of tests."""
    return {posixpath.basename(file).removesuffix("_check.py") for file in tree.files if file.endswith("_check.py")}


def verbs_of_dev(tree):
    """Verbs, benchmarks and test groups that are named after ./dev exist; ./dev's help has all benchmarks."""
    dev = tree.text("dev")
    real = set(re.findall(r"^  ([a-z-]+)(?: \| [a-zA-Z -]+)?\)", dev, re.M)) | {"help"}
    benches = set(re.search(r"case \$\{1:-\} in\n\s+([a-z0-9_ |]+)\)", dev)[1].replace("|", " ").split())
    helped = set(re.findall(r"^\./dev bench ([a-z]\w*)", dev, re.M))
    scripts = {posixpath.basename(file).removesuffix(".py") for file in tree.below("test/bench", (".py",))}
    found = missing(helped, benches, "dev: bench") + missing(benches, helped, "dev: help of bench")
    found += missing(benches, scripts, "test/bench")
    for readme in tree.readmes():
        text = tree.text(readme)
        for part in markdown.spans(text) + [example.text for example in markdown.examples(text)]:
            found += missing(re.findall(r"\./dev ([a-z][a-z-]+)", part), real, f"{readme}: dev")
            found += missing(re.findall(r"\./dev bench ([a-z]\w*)", part), benches, f"{readme}: dev bench")
            named = re.findall(r"\./dev test ((?:[a-z_]+\b(?![/.]) ?)+)", part)
            found += missing(" ".join(named).split(), groups(tree) | {"fast", "full", "list"}, f"{readme}: dev test")
    return found


def groups_of_tests(tree):
    """Words in backticks in the table of what only `full` runs are groups of tests, where they are not files."""
    table = next((table for table in markdown.tables(tree.text("test/README.md")) if "in `full`" in table.header), None)
    named = {span for row in table.rows for span in markdown.spans(row[0])} if table else set()
    return missing({name for name in named if re.fullmatch(r"[a-z_0-9]+", name)}, groups(tree), "test")


def fuzz_targets(tree):
    """test/fuzz/README.md has each target."""
    files = ("test/fuzz/compiler_targets.cpp", "test/fuzz/runtime_targets.cpp")
    real = [name for file in files for name in code_tables.first_strings(code_tables.rows(tree.text(file), "kTargets"))]
    table = markdown.table_with(tree.text("test/fuzz/README.md"), "target")
    named = [span for cell in table.column("target") for span in markdown.spans(cell)] if table else []
    return missing(real, named, "test/fuzz/README.md") + missing(named, real, "test/fuzz")


def samples(tree):
    """The READMEs of samples name each model and each schedule there."""
    named = {
        word for readme in tree.readmes() if readme.startswith("samples/") for word in code_words(tree.text(readme))
    }
    real = {
        posixpath.basename(file).split(".")[0] for file in tree.below("samples", (".yaml", ".onnxtxt", ".py", ".c"))
    }
    return missing(real, named, "samples/README.md")


def training_functions(tree):
    """The guide names each loss, metric, optimizer and rate that the compiler brings. Parts of these are its own."""
    text = tree.text("frontend/training_functions.cpp")
    found = re.findall(r'domain: "weft\.(\w+)".*?^([a-z_]+) ?[<(]', text, re.M | re.S)
    real = {name for domain, name in found if domain != "part"}
    return missing(real, code_words(guide(tree)), "the guide's section on training: it")


def exit_codes(tree):
    """The guide's table of exit codes has those of the compiler and of executables."""
    code = tree.text("cli/options.h") + tree.text("runtime_lib/src/failure.h")
    real = {
        number for body in re.findall(r"enum ExitCode[^{]*\{([^}]*)\}", code) for number in re.findall(r"= (\d+)", body)
    }
    table = next((table for table in markdown.tables(guide(tree)) if "70" in [row[0] for row in table.rows]), None)
    named = {row[0] for row in table.rows} if table else set()
    return missing(real | {"0", "3"}, named, "the guide's table of exit codes") + missing(
        named, real | {"0", "3"}, "ExitCode"
    )


def keys(tree):
    """The guide names each key of a schedule, and samples/machines/README.md each of a machine."""
    schedule = {
        key
        for file in tree.below("frontend", (".cpp",))
        if posixpath.basename(file).startswith("schedule_")
        for key in re.findall(r'\{"([a-z_]+)", ', tree.text(file))
    }
    machine = set(re.findall(r'\{"([a-z_]+)", ', tree.text("frontend/machine_file.cpp"))) - {"false"}
    text = tree.text("samples/machines/README.md")
    return missing(schedule, code_words(guide(tree)), "the guide's schedule: it") + missing(
        machine, code_words(text), "samples/machines/README.md"
    )


def counts(tree):
    """Where READMEs say how many records have a gradient, of how many."""
    records = tree.text("ir/ops.def").count("WEFT_OP(")
    rows = code_tables.rows(tree.text("test/passes/gradient_rows.h"), "kGradientRows")
    wanted = f"{len(set(code_tables.first_strings(rows)))} of {records} records"
    said = {
        (readme, each) for readme in tree.readmes() for each in re.findall(r"\d+ of \d+ records", tree.text(readme))
    }
    return [f"{readme} says {each}, and there are {wanted}" for readme, each in sorted(said) if each != wanted]


def strategies(tree):
    """backend/README.md says for each strategy who writes it."""
    real = re.findall(r'kName = "([a-z-]+)"', tree.text("ir/strategy.h"))
    table = markdown.table_with(tree.text("backend/README.md"), "strategy")
    named = [span for cell in table.column("strategy") for span in markdown.spans(cell)] if table else []
    return missing(real, named, "backend/README.md") + missing(named, real, "ir/strategy.h")


def knobs(tree):
    """test/emulation/README.md has each variable that the emulation reads."""
    real = re.findall(r'"WEFT_EMULATION_([A-Z_]+)"', tree.text("test/emulation/devices.cpp"))
    table = markdown.table_with(tree.text("test/emulation/README.md"), "`WEFT_EMULATION_`")
    named = [span for row in table.rows for span in markdown.spans(row[0])] if table else []
    return missing(real, named, "test/emulation/README.md") + missing(named, real, "test/emulation/devices.cpp")


def variables(tree):
    """Variables of the environment that READMEs name are read somewhere."""
    sources = [tree.text(file) for file in tree.files if not file.endswith((".md", ".npy", ".onnx", ".pb"))]
    known = {word for text in sources for word in re.findall(r"\bWEFT_[A-Z_]+\b", text)}
    found = []
    for readme in tree.readmes():
        named = {word for span in markdown.spans(tree.text(readme)) for word in re.findall(r"\bWEFT_[A-Z_]+\b", span)}
        found += missing({name for name in named if not name.endswith("_")}, known, f"a source, which {readme} names,")
    return found


CHECKS = (
    repeated_rows,
    forms,
    rows_of_planning,
    passes_of_rooms,
    files_of_folders,
    folders_of_folders,
    verbs,
    verbs_of_dev,
    groups_of_tests,
    fuzz_targets,
    samples,
    training_functions,
    exit_codes,
    keys,
    counts,
    strategies,
    knobs,
    variables,
)
