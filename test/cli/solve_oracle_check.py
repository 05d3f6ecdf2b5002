# test: fast
"""`weft solve` beside a constraint solver (solve_oracle/oracle.py) on random problems: periods, memory, and what is impossible.

    solve_oracle_check.py [SEED]     other problems than those of seed 1

A problem on which the two differ is left below build/test as a file that `weft solve` takes. In full there are 1000 of
them; by default a few, where the solver is installed.
"""

import collections
import json
import pathlib
import sys

import harness
from exported_anew import interpreter
from pipeline_schedules import fault_of, faults, limits_of, unrolled
from solve_oracle.random_problems import problem

FOLDER = harness.scratch("solve_oracle")
ORACLE = pathlib.Path(__file__).with_name("solve_oracle")
SEED = sys.argv[1] if len(sys.argv) > 1 else "1"
# Micro-batches in a period, the most blocks, problems.
DRAWN = [(1, 10, 740), (2, 7, 160), (3, 5, 100)] if harness.FULL else [(1, 7, 20), (2, 5, 6), (3, 4, 4)]
DROPPED = ("memory", "order", "exclusion", "circle")
MICRO_BATCHES = 12
LEAST_PROVED = 0.99  # of the values that weft prints


def weft_answer(case, copies):
    """weft's output for a problem, or None if it says that no order keeps the limits; and the problem's file."""
    file = FOLDER / f"{case['name']}.json"
    file.write_text(json.dumps({"cases": [case]}))
    flags = ["--json", "--per-period", copies, "--micro-batches", MICRO_BATCHES]
    status, out, err = harness.weft("solve", file, *flags)
    if status == 1 and "[problem-memory]" in err:
        return None, file
    if status != 0:
        raise RuntimeError(f"exit {status}: {err[-300:]}")
    return json.loads(out)[0], file


def oracle_answers(python, questions):
    lines = "\n".join(map(json.dumps, questions))
    status, out, err = harness.run([python, ORACLE / "oracle.py"], 7200, input=lines)
    if status != 0:
        raise RuntimeError(f"oracle.py: exit {status}: {err[-500:]}")
    return [json.loads(line) for line in out.splitlines()]


def question_of(case, copies, *dropped):
    return {**case, "copies": copies, "limits": limits_of(case), "dropped": dropped}


def difference(what, is_proved, least, found, best):
    """Why weft's value and its bound cannot be, where `best` is the least one."""
    if is_proved != (least == found):
        return f"the {what} {found} is {'' if is_proved else 'not '}proved, its bound is {least}"
    return "" if least <= best <= found else f"the {what} is {found} (>= {least}), the oracle's {best}"


def disagreement(case, row, answer):
    """Why weft's answer and the oracle's cannot both be right, or nothing."""
    if answer["undecided"]:
        return "the oracle gave up"
    if row is None or answer["period"] is None:
        told = "impossible" if row is None else row["period"]
        return "" if row is None and answer["period"] is None else f"the period is {told}, the oracle's {answer['period']}"
    copies, period = row["micro_batches_per_period"], row["period_length"]
    if abs(row["period"] * copies - period) > 1e-6:
        return f"a period of {period} for {copies} micro-batches is said to be {row['period']} for one"
    wrong = [difference("period", row["proved"], round(row["lower_bound"] * copies), period, answer["period"])]
    if period == answer["period"]:
        wrong.append(difference("memory", row["memory_proved"], row["memory_lower_bound"], row["memory"], answer["memory"]))
    return "; ".join(filter(None, [*wrong, faults(case, row, MICRO_BATCHES)]))


def check_problems(python):
    """Gives the problems of one micro-batch a period, with weft's answers."""
    drawn = [(problem(SEED, copies, number, most), copies) for copies, most, count in DRAWN for number in range(count)]
    answers = oracle_answers(python, [question_of(*one) for one in drawn])
    table, kept, values, proved = collections.defaultdict(collections.Counter), [], 0, 0
    for (case, copies), answer in zip(drawn, answers, strict=True):
        row, file = weft_answer(case, copies)
        why = disagreement(case, row, answer)
        if harness.check(case["name"], not why, f"{why}; weft solve {file.relative_to(harness.ROOT)} --per-period {copies}"):
            file.unlink()
        if row:
            values, proved = values + 2, proved + row["proved"] + row["memory_proved"]
        if copies == 1:
            kept.append((case, row))
        outcome = "differ" if why else "agree" if row else "agree: impossible"
        table[f"{copies} a period", case["name"].split("-")[1]][outcome] += 1
    for (copies, limits), counts in table.items():
        print(f"{copies}, limits {limits:6} {dict(counts)}")
    harness.measured("proved", proved >= LEAST_PROVED * values, f"{proved} of {values} periods and memories are proved")
    return kept


def check_dropped(python, kept):
    """The oracle without one of its constraints differs from weft: each of them matters, and would be missed."""
    asked = [(case, row) for case, row in kept if "-none-" not in case["name"] and len(case["blocks"]) <= 7][:40]
    for dropped in DROPPED:
        answers = oracle_answers(python, [question_of(case, 1, dropped) for case, _ in asked])
        differ = sum(bool(disagreement(case, row, answer)) for (case, row), answer in zip(asked, answers, strict=True))
        harness.measured(f"without {dropped}", differ > 0, f"{differ} of {len(asked)} problems differ")


def check_validator(kept):
    """Schedules with one thing wrong are found out."""
    caught = collections.Counter()
    for case, row in kept:
        if not row:
            continue
        limits, starts = limits_of(case), unrolled(row, MICRO_BATCHES)
        caught["memory"] += "holds" in fault_of(case, starts, [peak - 1 for peak in row["peak_memory"]])
        caught["exclusion"] += "overlap" in fault_of(case, unrolled(row, MICRO_BATCHES, row["period_length"] - 1), limits)
        for at in (at for at, block in enumerate(case["blocks"]) if block["deps"]):
            moved = [[*times[:at], -1, *times[at + 1 :]] for times in starts]
            caught["order"] += "before" in fault_of(case, moved, limits)
    for name in ("memory", "exclusion", "order"):
        harness.measured(f"validator/{name}", caught[name] > 0, f"{caught[name]} schedules are found out")


harness.need_weft()
python, reason = interpreter(ORACLE / "requirements.txt", "solve_oracle", installs=harness.FULL)
if python:
    kept = check_problems(python)
    check_dropped(python, kept)
    check_validator(kept)
else:
    harness.skipped("oracle", reason)
