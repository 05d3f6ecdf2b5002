# test: slow
"""A table of the features of operators, made from their records and the schemas of ONNX and ONNX Runtime. Its entries
are each value of an enumerated attribute, each optional operand given and left out, and each listed type of an operand.
A case of another group or of this one covers each entry, or record_table_reasons.txt says why not. By default a part of
the cases is run, in full all of them.

    record_table_check.py [PART_OF_A_NAME...]      only entries whose text holds one of the parts, all of their cases
"""

import collections
import json
import pathlib
import sys
import warnings

import numpy as np

import classic_ml_check
import contrib_check
import harness
import record_bases
from op_schemas import DOMAINS, NEWEST_OPSET, all_schemas
from record_table import (draw, entries_of, flags_of, full_name, has, mutant, one_node_with, operand_name, read_base,
                          read_reasons, reason_of, records_by_key, results_of, with_attribute, write)
from run_node_cases import NODE_PACK, cases_of
from verify_many import Case, verify_many

REASONS = read_reasons(pathlib.Path(__file__).resolve().parent / "record_table_reasons.txt")
PARTS = sys.argv[1:]
# One in so many of the cases that are made of others for a type, and for the rest.
EVERY_TYPE, EVERY = (1, 1) if harness.FULL or PARTS else (40, 8)


def known_records():
    """The records of operators that a schema is known of; of the others nothing lists types and optional operands."""
    status, out, err = harness.weft("ops", "--json")
    if status != 0:
        sys.exit(f"weft ops --json: exit {status}: {err[-300:]}")
    records = records_by_key(json.loads(out))
    return {key: record for key, record in records.items() if key[0] in DOMAINS and key in all_schemas()}


def cases_of_others():
    """The cases of one node that other groups run, by operator."""
    cases = cases_of(NODE_PACK)
    cases += contrib_check.all_cases(harness.scratch("record_table_contrib"))
    cases += classic_ml_check.all_cases(harness.scratch("record_table_classic_ml"))
    bases = collections.defaultdict(list)
    for case in cases:
        base = read_base(case.name, case.model, pathlib.Path(case.data))
        if base is not None:
            bases[base.key].append(base)
    return bases


def own_cases(bases, folder):
    """Writes the cases of record_bases.py, and puts them beside the others."""
    for base, results in record_bases.all_bases():
        bases[base.key].append(base)
        write(base, results, folder / base.name)
        yield Case(base.name, folder / base.name / "model.onnx", folder / base.name)


def made_case(entry, bases, folder):
    """A case that has the entry, made of the smallest one whose results are known then; where no program but Weft knows
    them, its kernels are compared with its own reference. None if no case can be changed so."""
    name, unknown = entry.text.replace("/", "_"), None
    fitting = [base for base in bases if entry.kind == "value" or operand_name(base, entry.part)]
    for base in sorted(fitting, key=lambda base: len(base.model.SerializeToString()))[:6]:
        try:
            made = mutant(base, entry)
        except (TypeError, ValueError, OverflowError):  # numpy has no such conversion
            continue
        results = made and results_of(made)
        if results:
            write(made, results, folder / name)
            return Case(name, folder / name / "model.onnx", folder / name)
        unknown = unknown or made
    if unknown is None:
        return None
    write(unknown, [], folder / name)
    return Case(name, folder / name / "model.onnx", "-", flags_of(unknown))


def check_entries(records):
    """Reports each entry that is drawn, and those for which there is neither a case nor a reason."""
    bases, folder = cases_of_others(), harness.scratch("record_table_cases")
    cases = list(own_cases(bases, folder))
    entries = [entry for key, record in records.items() for entry in entries_of(key, record)]
    entries = [entry for entry in entries if not PARTS or any(part in entry.text for part in PARTS)]
    groups = collections.defaultdict(list)
    for entry in entries:
        is_covered = any(has(base, entry) for base in bases[entry.key])
        groups["covered" if is_covered else "excused" if reason_of(entry, REASONS) else "made"].append(entry)
    for entry in groups["made"]:
        if not draw(entry.text, EVERY_TYPE if entry.kind == "type" else EVERY):
            continue
        case = made_case(entry, bases[entry.key], folder)
        if case is None:
            harness.failed(entry.text, "no case has it, none can be made, and record_table_reasons.txt gives no reason")
        else:
            cases.append(case)
    for result in verify_many(cases, folder):
        report_entry(result)
    print(f"{len(entries)} entries: " + ", ".join(f"{len(group)} {name}" for name, group in groups.items()))
    return bases


def report_entry(result):
    """An entry that the compiler itself calls not supported has its reason there."""
    diagnostic = result.detail.split(":")[0]
    if result.status == "refused" and diagnostic.endswith("-unsupported"):
        harness.skipped(result.case, result.detail)
    else:
        harness.check(result.case, result.status == "passed", f"{result.status}: {result.detail}")


def check_unknown_values(records, bases):
    """For an enumerated attribute every other value is refused."""
    folder, cases = harness.scratch("record_table_unknown"), []
    for key, record in records.items():
        for name, attribute in record["attributes"].items():
            is_listed = "choices" in attribute and name in all_schemas()[key][-1].attributes
            if not is_listed or not bases[key] or reason_of(f"{full_name(key)} unknown {name}", REASONS):
                continue
            label = f"{full_name(key)}.{name}"
            made = with_attribute(bases[key][0], name, 77 if attribute["type"] == "int" else "no_such_word")
            write(made, [], folder / label)
            cases.append(Case(label, folder / label / "model.onnx", "-", flags_of(made)))
    for result in verify_many(cases, folder):
        is_right = result.status == "refused" and result.detail.startswith("attribute-choice")
        harness.check(f"unknown value of {result.case}", is_right, f"{result.status}: {result.detail}")


def check_texts(records):
    """Each text has a list of its values, or a reason why it is free."""
    for key, record in records.items():
        for name, attribute in record["attributes"].items():
            text = f"{full_name(key)} text {name}"
            if attribute["type"] == "string" and "choices" not in attribute and not reason_of(text, REASONS):
                harness.failed(text, "its record lists no choices, and record_table_reasons.txt gives no reason")


def same(default, listed):
    if isinstance(default, float) or isinstance(listed, float):
        return default is not None and listed is not None and np.isclose(default, listed, rtol=1e-6)
    return default == listed


def check_schemas(records):
    """Defaults, attributes and operands are those of the newest schema, or there is a reason."""
    for key, record in records.items():
        version = all_schemas()[key][-1]
        inputs = record["inputs"]
        for name, attribute in version.attributes.items():
            text = f"{full_name(key)} attribute {name}"
            known = record["attributes"].get(name)
            wrong = "is not read" if known is None else "has another default" if (
                known["default"] is not None and attribute.default is not None
                and not same(known["default"], attribute.default)) else ""
            if wrong and attribute.type != "graph" and not reason_of(text, REASONS):
                harness.failed(text, f"{wrong}, and record_table_reasons.txt gives no reason")
        for number, operand in enumerate(version.inputs):
            may_be_absent = number >= inputs["min"] or number in inputs["optional"]
            is_read = inputs["max"] < 0 or number < inputs["max"]
            text = f"{full_name(key)} operand {operand.name}"
            if (not is_read or (operand.kind == "optional" and not may_be_absent)) and not reason_of(text, REASONS):
                harness.failed(text, "cannot be left out" if is_read else "is not read")


def check_opsets(records):
    """An attribute that the schema of an opset does not list is refused there, and one that it lists is not."""
    folder, cases = harness.scratch("record_table_opsets"), []
    for key, record in records.items():
        if key[0] == "com.microsoft":
            continue
        versions = all_schemas()[key]
        for name, attribute in record["attributes"].items():
            for version in versions:
                case = f"{full_name(key)}.{name} of opset {version.since}"
                if name not in version.attributes and version.since <= NEWEST_OPSET:
                    write(one_node_with(key, record, name, attribute, version), [], folder / case)
                    cases.append(Case(case, folder / case / "model.onnx", "-"))
    for result in verify_many(cases, folder):
        is_right = result.status == "refused" and result.detail.startswith(("attribute-opset", "unknown-attribute", "op-unsupported"))
        harness.check(result.case, is_right, f"{result.status}: {result.detail}")


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if cases_of(NODE_PACK) is None:
        harness.skipped("table", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    records = known_records()
    bases = check_entries(records)
    if not PARTS:
        check_unknown_values(records, bases)
        check_texts(records)
        check_schemas(records)
        check_opsets(records)


harness.need_weft()
main()
