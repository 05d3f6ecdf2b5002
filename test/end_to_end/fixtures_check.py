# test: slow
"""The fixtures as programs, each under its schedule, against the reference evaluation. Further cases are a growing
cache over three invocations against numpy, the dropout mask on 1, 2 and 4 ranks, and the number of stored copies of a
tied table."""

import re
import struct

import harness
import numpy as np
from fixture_turns import FIXTURES, fixtures, verify_fixtures


def check_refused(model):
    schedule = model.with_suffix(".yaml")
    wanted = re.search(r"\[([a-z-]+)\]", schedule.read_text()).group(1)
    status, _, err = harness.weft("verify", model, "--schedule", schedule)
    harness.check(f"fixture/{model.stem}", status == 1 and f"[{wanted}]" in err, f"exit {status}: {err[-300:]}")


def build(name, schedule, folder):
    program = folder / schedule.stem
    status, _, err = harness.weft("compile", FIXTURES / f"{name}.onnxtxt", "--schedule", schedule, "-o", program)
    if status != 0:
        raise RuntimeError(f"{schedule.stem}: {err[-300:]}")
    return program


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def check_kv_state():
    folder = harness.scratch("fixture_kv_state")
    rng = np.random.default_rng(3)
    steps = [{n: rng.uniform(-1, 1, (1, 4, 1, 8)).astype(np.float32) for n in "qkv"} for _ in range(3)]
    for i, step in enumerate(steps):
        for name, value in step.items():
            np.save(folder / f"{name}{i}.npy", value)
    keys = np.concatenate([s["k"] for s in steps], axis=2)
    values = np.concatenate([s["v"] for s in steps], axis=2)
    wanted = softmax(0.35 * steps[-1]["q"] @ keys.transpose(0, 1, 3, 2)) @ values
    program = build("kv_state", FIXTURES / "kv_state.yaml", folder)
    inputs = [flag for n in "qkv" for flag in ("--input", f"{n}={folder}/{n}{{i}}.npy")]
    status, _, err = harness.run([program, *inputs, "--iterations", "3", "--output-dir", folder, "--poison"])
    if not harness.check("kv_state/three invocations run", status == 0, f"exit {status}: {err[-300:]}"):
        return
    for name, want in (("y", wanted), ("present_k", keys), ("present_v", values)):
        have = np.load(folder / f"{name}.npy")
        same = have.shape == want.shape and np.abs(have - want).max() < 2e-5
        harness.check(f"kv_state/{name} after three", same, f"shape {have.shape}, wanted {want.shape}")


def check_dropout():
    folder = harness.scratch("fixture_dropout")
    masks = {}
    for ranks in (1, 2, 4):
        schedule = folder / f"dropout{ranks}.yaml"
        schedule.write_text(f"weft: 1\nseed: 7\nmesh: {{tp: {ranks}}}\nshard:\n  w: {{tp: 1}}\n")
        program = build("dropout", schedule, folder)
        out = folder / f"out{ranks}"
        status, _, err = harness.run([program, "--random-inputs", "5", "--output-dir", out])
        if not harness.check(f"dropout/{ranks} ranks run", status == 0, err[-300:]):
            return
        masks[ranks] = np.load(out / "y.npy") == 0
    kept = 0 < masks[1].sum() < masks[1].size
    harness.check("dropout/the mask drops some", kept, f"{masks[1].sum()} of {masks[1].size} dropped")
    same = all(np.array_equal(masks[1], masks[n]) for n in (2, 4))
    harness.check("dropout/same mask on 1, 2, 4 ranks", same, "masks differ")


def stored_bytes(program):
    """The weights in an executable, as its footer says (weft/image.h)."""
    content = program.read_bytes()
    return struct.unpack_from("<8sQQ", content, content.rindex(b"WEFTIMG3"))[2]


def check_tied_table():
    """A table of 9001 x 16 that a Gather and a product read, the product in panels of 16 rows."""
    folder = harness.scratch("fixture_tied_table")
    pages = {"1 rank": 141, "equal slices": 2 * 71, "other slices": 141 + 2 * 71}
    shards = {"equal slices": "{wte: {tp: 0}}", "other slices": "{head: {tp: 1}}"}
    results = {}
    for name, wanted in pages.items():
        schedule = folder / f"{name.replace(' ', '_')}.yaml"
        schedule.write_text(f"weft: 1\nmesh: {{tp: 2}}\nshard: {shards[name]}\n" if name in shards else "weft: 1\n")
        program = build("tied_table", schedule, folder)
        have = stored_bytes(program)
        harness.check(f"tied_table/{name}: bytes", have == wanted * 4096, f"{have} bytes, wanted {wanted} pages")
        np.save(folder / "ids.npy", np.array([[5], [8990]]))
        status, _, err = harness.run([program, "--input", f"ids={folder}/ids.npy", "--output-dir", folder])
        harness.check(f"tied_table/{name}: runs", status == 0, err[-300:])
        results[name] = np.load(folder / "y.npy")
    same = all(np.array_equal(results["1 rank"], each) for each in results.values())
    harness.check("tied_table/same results on 1 and 2 ranks", same, "results differ")


if __name__ == "__main__":
    harness.need_weft()
    verify_fixtures(fixtures(), "fixture")
    for each in sorted(FIXTURES.glob("fail_*.onnxtxt")):
        check_refused(each)
    check_kv_state()
    check_dropout()
    check_tied_table()
