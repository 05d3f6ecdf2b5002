# test: slow
"""`recompute: {limit: ...}` of a training: what is kept fits, the losses are the same, and a limit that is too small says so; in
`full` on one rank too."""

import json

import harness
import numpy as np
from training_runs_check import SAMPLES, SMALL_GPT2, losses

SCHEDULES = ("gpt2", "gpt2_zero3")


def explained(model, schedule):
    status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json")
    return json.loads(out) if harness.check(f"{schedule.stem}/is explained", status == 0, err[-300:]) else None


def write(folder, name, limit):
    schedule = folder / f"{name}_{limit}.yaml"
    schedule.write_text((SAMPLES / f"{name}.yaml").read_text() + f"  recompute: {{limit: {limit}}}\n")
    return schedule


def train(folder, model, schedule):
    program = folder / schedule.stem
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program)
    if status == 0:
        log = folder / f"{schedule.stem}.jsonl"
        status, _, err = harness.run([program, "--data", f"input_ids={folder / 'tokens.npy'}", "--steps", "6", "--log", log])
    return losses(log) if harness.check(f"{schedule.stem}/runs", status == 0, f"exit {status}: {err[-300:]}") else None


def check_schedule(folder, model, name):
    """From what is needed without a limit downwards."""
    whole_file = write(folder, name, "1GiB")
    whole, wanted = explained(model, whole_file), train(folder, model, whole_file)
    if whole is None or wanted is None:
        return
    needed = whole["recompute"]["needed"]
    harness.check(f"{name}/keeps all where it fits", whole["recompute"]["chosen"] == 0 and whole["recompute"]["kept"] is None,
                  whole["recompute"])
    status, _, err = harness.weft("compile", model, "--schedule", write(folder, name, 1000), "-o", folder / "none")
    found = [int(word) for word in err.replace(",", "").split() if word.isdigit()]
    if not harness.check(f"{name}/a limit that nothing fits in", status == 1 and "recompute-limit" in err and needed in found,
                         f"exit {status}: {err[-400:]}"):
        return
    least = int(err.split("at least ")[1].split()[0])
    harness.check(f"{name}/takes less", least < 0.9 * needed, (least, needed))
    again = 0
    for limit in ((needed + least) // 2, least):
        schedule = write(folder, name, limit)
        report, found = explained(model, schedule), train(folder, model, schedule)
        if report is None or found is None:
            continue
        chosen, memory = report["recompute"], report["memory"][0]
        places = memory["own_bytes"] + memory["window_bytes"] + memory["thread_bytes"]
        harness.check(f"{name}/{limit} is held", places <= chosen["needed"] <= limit, (places, chosen))
        harness.check(f"{name}/{limit} computes more again than a larger one", again < chosen["again"] <= 1, chosen)
        harness.check(f"{name}/{limit} takes few plans", chosen["plans"] <= 12, chosen)
        error = np.abs(found / wanted - 1).max()
        harness.check(f"{name}/{limit} has the losses without", error < 1e-6, error)
        again = chosen["again"]
    same = explained(model, schedule)
    harness.check(f"{name}/is chosen alike each time", same["recompute"] == report["recompute"])


if __name__ == "__main__":
    harness.need_weft()
    FOLDER = harness.scratch("training_limits")
    TOKENS = np.random.default_rng(3).integers(0, 256, 64 * 8 * 6, dtype=np.int64)
    np.save(FOLDER / "tokens.npy", TOKENS)
    GPT2 = harness.make_gpt2(FOLDER / "gpt2.onnx", *SMALL_GPT2)
    for NAME in SCHEDULES if harness.FULL else SCHEDULES[1:]:
        check_schedule(FOLDER, GPT2, NAME)
