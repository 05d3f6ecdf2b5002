# test: fast
"""`weft solve`: the corpus of pipeline problems beside the best that is known and beside Tessel's results, larger problems, bad input.

Every schedule that is printed is unrolled and checked here, without anything of the search.
"""

import copy
import itertools
import json
import random

import harness
from pipeline_schedules import faults

FOLDER = harness.scratch("solve")
CORPUS = harness.corpus_folder() / "pipeline_cases.json"
# Makespans of 16 micro-batches: the optimal periodic schedule, compacted. Ours are shorter unless they are proved.
COMPACTED = {
    "vshape-4-train": 76, "vshape-4-infer": 19, "xshape-4-train": 137, "xshape-4-infer": 34, "nnshape-4-train": 140,
    "nnshape-4-infer": 51, "mshape-4-train": 108, "mshape-4-infer": 35, "kshape-4-train": 100, "kshape-4-infer": 33,
    "mllm-4-train": 140, "vshape-4-mem2": 136, "vshape-4-mem3": 136, "vshape-6-train": 84, "vshape-8-train": 92,
    "mshape-8-train": 124, "vshape-4-nonuniform": 160, "interleaved-4x2": 114, "wave-4x2": 114, "zb-4-mem1x": 54,
    "mshape-4-mem20": 108, "nnshape-4-mem20": 140,
}
SECONDS = 0.2 if harness.FULL else 1  # of a core; others may be busy beside the usual set


def solve(cases, *flags, timeout=600):
    file = FOLDER / "cases.json"
    file.write_text(json.dumps({"cases": cases}))
    status, out, err = harness.weft("solve", file, "--json", *flags, timeout=timeout)
    if status != 0:
        raise RuntimeError(f"exit {status}: {err[-500:]}")
    return {row["name"]: row for row in json.loads(out)}


def print_row(case, row):
    tessel = case.get("tessel", {})
    known = tessel.get("period_per_micro_batch") or tessel.get("status", "")
    print(f"{case['name']:22} period {row['period']:>5} ({'proved' if row['proved'] else row['lower_bound']}) memory {row['memory']:>3} "
          f"makespan {row['makespan']['16']} (>= {row['makespan_lower_bound']['16']}) {row['seconds']:.3f} s | Tessel {known}, {tessel.get('cpu_seconds')} s")


def check_corpus():
    if not CORPUS.is_file():
        harness.skipped("corpus", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    cases = json.loads(CORPUS.read_text())["cases"]
    rows = solve(cases)
    thousand = copy.deepcopy(cases)
    for case in thousand:
        for block in case["blocks"]:
            block["time"] *= 1000
    scaled = solve(thousand)
    for case in cases:
        name = case["name"]
        row, known = rows[name], case["best_known"]
        print_row(case, row)
        wrong = faults(case, row)
        harness.check(f"{name}/valid", not wrong, wrong)
        harness.check(f"{name}/period", row["proved"] and row["period"] == known["period"], f"{row['period']}, known is {known['period']}")
        least = known.get("min_memory_at_lower_bound_found")
        if least is not None:
            harness.check(f"{name}/memory", row["memory"] == least and row["memory_proved"], f"{row['memory']}, known is {least}")
        length, bound = row["makespan"]["16"], row["makespan_lower_bound"]["16"]
        harness.check(f"{name}/makespan", length < COMPACTED[name] or length == COMPACTED[name] == bound, f"{length}, compacted {COMPACTED[name]}")
        harness.measured(f"{name}/seconds", row["seconds"] <= SECONDS, f"{row['seconds']} s, at most {SECONDS} s")
        same = scaled[name]["period"] == 1000 * row["period"] and scaled[name]["memory"] == row["memory"]
        harness.check(f"{name}/times-1000", same and scaled[name]["seconds"] <= row["seconds"] * 2 + 0.1, f"{scaled[name]['seconds']} s")
    three = solve([case for case in cases if case["name"] == "vshape-4-mem3"], "--per-period", "3")["vshape-4-mem3"]
    harness.check("three a period", three["period_length"] == 16 and three["proved"] and abs(three["period"] - 16 / 3) < 1e-9, three["period"])


def row_of(blocks):
    """Blocks in a row: (devices, time, memory)."""
    return [{"id": at, "devices": devices, "time": time, "memory": memory, "deps": [at - 1] if at else []}
            for at, (devices, time, memory) in enumerate(blocks)]


def check_mllm():
    """The hardest placement of the field notes: blocks on all devices between uneven stages."""
    every = list(range(6))
    forward, backward = [2, 3, 2, 3, 2, 3], [4, 6, 4, 6, 4, 6]
    blocks = [(every, 1, 0)] + [([at], time, 1) for at, time in enumerate(forward)] + [(every, 2, 0), (every, 4, 0)]
    blocks += [([at], backward[at], -1) for at in reversed(range(6))] + [(every, 2, 0)]
    case = {"name": "mllm-6", "num_devices": 6, "memory_limit": 8, "blocks": row_of(blocks)}
    row = solve([case])["mllm-6"]
    wrong = faults(case, row)
    harness.check("mllm-6", not wrong and row["proved"] and row["period"] == 18 and row["memory"] == 8, f"{wrong} {row['period']} {row['memory']}")
    harness.measured("mllm-6/seconds", row["seconds"] <= 10, f"{row['seconds']} s, at most 10 s; memory {'proved' if row['memory_proved'] else 'open'}")


def large_case(name, devices, is_wave, times):
    stages = list(range(devices)) + (list(reversed(range(devices))) if is_wave else list(range(devices)))
    blocks = [([device], times[at], 1) for at, device in enumerate(stages)]
    blocks += [([stages[at]], 2 * times[at], -1) for at in reversed(range(len(stages)))]
    return {"name": name, "num_devices": devices, "memory_limit": 2 * devices if is_wave else 5 * devices // 2, "blocks": row_of(blocks)}


def check_large():
    """Two chunks a device, even and uneven: 64 and 256 blocks."""
    draw = random.Random(1)
    for devices, most in ((16, 2), (64, 20)):
        for is_wave, is_even in itertools.product((False, True), (True, False)):
            name = f"{'wave' if is_wave else 'interleaved'}-{devices}x2{'' if is_even else '-uneven'}"
            case = large_case(name, devices, is_wave, [1 if is_even else draw.randint(100, 200) for _ in range(2 * devices)])
            row = solve([case], "--micro-batches", "8")[name]
            wrong = faults(case, row)
            harness.check(name, not wrong and row["period"] <= 1.05 * row["lower_bound"], f"{wrong} {row['period']}, bound {row['lower_bound']}")
            harness.measured(f"{name}/seconds", row["seconds"] <= most * (1 if harness.FULL else 2), f"{row['seconds']} s, at most {most} s; "
                             f"period {row['period']} (>= {row['lower_bound']}), memory {row['memory']} (>= {row['memory_lower_bound']})")


def check_input():
    good = {"name": "one", "num_devices": 2, "memory_limit": 2, "blocks": row_of([([0], 1, 2), ([1], 1, 0), ([0], 2, -2)])}

    def refused(name, change, status, *texts):
        case = copy.deepcopy(good)
        change(case)
        expect(name, json.dumps({"cases": [case]}, indent=1), status, *texts)

    def expect(name, text, wanted, *texts, flags=()):
        file = FOLDER / "bad.json"
        file.write_text(text)
        status, out, err = harness.weft("solve", file, *flags)
        missing = [text for text in texts if text not in out + err]
        harness.check(f"input/{name}", status == wanted and not missing, f"exit {status}, not {wanted}; lacks {missing}: {(err or out)[-300:]}")

    text = json.dumps({"cases": [good]}, indent=1)
    expect("good", text, 0, "proved optimal", "one")
    expect("several", text, 0, "4 micro-batches", "8 micro-batches", flags=["--micro-batches", "4,8"])
    expect("malformed", text.replace('"time": 1,', '"time": ,', 1), 1, "bad.json:13:", "[json-text]")
    expect("twice", text.replace('"time": 1,', '"time": 1, "time": 1,', 1), 1, "'time' is given twice [json-text]")
    expect("no list of cases", "[1]", 1, "bad.json:1:1: error: an object with a list 'cases' is expected (pipelines), or ", "(a partition) [problem-form]")
    expect("no cases", '{"cases": []}', 1, "bad.json:1:11: error: there is no case [problem-form]")
    status, out, err = harness.weft("solve", "/dev/stdin", "--json", input=text)
    harness.check("input/pipe", status == 0 and json.loads(out)[0]["name"] == "one", f"exit {status}: {err[-300:]}")
    expect("unknown case", text, 1, "there is no case 'ome', did you mean 'one'? [problem-case]", flags=["--case", "ome"])
    expect("no such count", text, 2, "--per-period", flags=["--per-period", "4"])
    refused("cycle", lambda case: case["blocks"][0]["deps"].append(2), 1, "block 0 waits for itself", "[problem-cycle]", "bad.json:8:")
    refused("zero time", lambda case: case["blocks"][1].update(time=0), 1, "'time' is an integer from 1", "[problem-form]")
    refused("negative time", lambda case: case["blocks"][1].update(time=-3), 1, "'time' is an integer from 1")
    refused("text for a number", lambda case: case["blocks"][1].update(time="3"), 1, "'time' is an integer from 1")
    refused("device", lambda case: case["blocks"][1].update(devices=[2]), 1, "'devices' is an integer from 0 to 1")
    refused("no device", lambda case: case["blocks"][1].update(devices=[]), 1, "at least one device")
    refused("dependency", lambda case: case["blocks"][1].update(deps=[9]), 1, "'deps' names no block")
    refused("id", lambda case: case["blocks"][1].update(id=0), 1, "there are two blocks 0")
    refused("missing", lambda case: case["blocks"][1].pop("memory"), 1, "'memory' is missing")
    refused("limits", lambda case: case.update(memory_limit=[1]), 1, "there are 1 limits for 2 devices")
    refused("memory", lambda case: case.update(memory_limit=1), 1, "device 0 needs at least 2 of memory", "limit is 1", "[problem-memory]")
    refused("kept", lambda case: case["blocks"][2].update(memory=-1), 1, "[problem-kept]")
    refused("freed", lambda case: case["blocks"][2].update(memory=-3), 1, "[problem-freed]")
    refused("size", lambda case: case.update(blocks=row_of([([0], 1, 0)] * 321)), 3, "[problem-size-unsupported]")
    takers = [{"id": at, "devices": [0], "time": 1, "memory": 1, "deps": []} for at in range(20)]
    giver = {"id": 20, "devices": [0], "time": 1, "memory": -20, "deps": list(range(20))}
    refused("undecided", lambda case: case.update(num_devices=1, memory_limit=19, blocks=[*takers, giver]), 3,
            "takes too long to find out", "[problem-order-unsupported]")
    status, _, err = harness.weft("solve", FOLDER / "absent.json")
    harness.check("input/no file", status == 1 and "[problem-file]" in err, err[-200:])


harness.need_weft()
check_input()
check_corpus()
check_mllm()
check_large()
