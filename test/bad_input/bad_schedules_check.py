# test: fast
"""Wrong schedules: invalid YAML, unknown keys, selectors that match nothing, illegal transforms."""

import harness

FOLDER = harness.scratch("bad_schedules")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
TP = "weft: 1\nmesh: {tp: 2}\nshard:\n  fc_weight: {tp: 1}\n  proj_weight: {tp: 0}\n"
BOMB = "weft: 1\na: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi"))

CASES = (
    # name, text, id, position that the message must name ("" for none)
    ("empty", "", "schedule-nothing", ""),
    ("syntax", "weft: 1\nmesh: {tp: 2\n", "yaml-syntax", ""),
    ("tab", "weft: 1\nmesh:\n\ttp: 2\n", "yaml-tab", ":3:"),
    ("bomb", BOMB, "yaml-anchor", ":2:"),
    ("deep", "weft: 1\nmesh: " + "[" * 3000 + "]" * 3000 + "\n", "yaml-depth", ""),
    ("two-documents", "weft: 1\n---\nweft: 1\n", "yaml-documents", ""),
    ("repeated-key", "weft: 1\nmesh: {tp: 2}\nmesh: {tp: 4}\n", "yaml-repeated-key", ":3:1"),
    ("unknown-key", "weft: 1\nmash: {tp: 2}\n", "unknown-key", ":2:1"),
    ("a-list", "- 1\n- 2\n", "schedule-kind", ":1:1"),
    ("version", "weft: 2\nmesh: {tp: 2}\n", "schedule-range", ":1:7"),
    ("no-version", "mesh: {tp: 2}\n", "missing-key", ""),
    ("mesh-of-words", "weft: 1\nmesh: {tp: many}\n", "schedule-integer", ":2:12"),
    ("mesh-of-zero", "weft: 1\nmesh: {tp: 0}\n", "schedule-range", ":2:12"),
    ("mesh-too-large", "weft: 1\nmesh: {tp: 65536, dp: 65536}\n", "mesh-size", ""),
    ("unknown-axis", "weft: 1\nmesh: {tp: 2}\nshard:\n  fc_weight: {tq: 1}\n", "unknown-mesh-axis", ":4:15"),
    ("unmatched", "weft: 1\nmesh: {tp: 2}\nshard:\n  fc_wait: {tp: 1}\n", "selector-unmatched", ":4:3"),
    ("unmatched-pattern", 'weft: 1\nmesh: {tp: 2}\nshard:\n  "h.{l}.w": {tp: 1}\n', "selector-unmatched", ":4:3"),
    ("no-such-dim", "weft: 1\nmesh: {tp: 2}\nshard:\n  fc_weight: {tp: 5}\n", "shard-dim", ":4:"),
    ("parts", "weft: 1\nmesh: {tp: 2}\nshard:\n  fc_weight: {tp: {dim: 1, parts: 7}}\n", "shard-indivisible", ":4:"),
    ("transform-of-nothing", TP + "transform:\n  - split: {op: proj.max, dim: 0, into: [a, b]}\n", "selector-unmatched", ":7:"),
    ("unknown-transform", TP + "transform:\n  - twist: {op: proj.sum}\n", "unknown-key", ":7:"),
    ("split-dim", TP + "transform:\n  - split: {op: proj.sum, dim: 9, into: [a, b]}\n", "split-dim", ":7:"),
    ("chunks", TP + "transform:\n  - overlap: {ops: [proj, proj.sum], chunks: 7, dim: 0}\n", "overlap-indivisible", ":7:"),
    ("state", "weft: 1\nstate: {y: residual}\n", "state-input", ":2:"),
    ("unknown-dim", "weft: 1\ndims: {batch: 8}\n", "unknown-dim", ":2:"),
)


def check(name, text, wanted, position):
    path = FOLDER / f"{name}.yaml"
    path.write_text(text)
    status, out, err = harness.weft("compile", MODEL, "--schedule", path, "-o", FOLDER / "program", timeout=60)
    named = f"[{wanted}]" in err and (not position or f"{path}{position}" in err)
    harness.check(name, status == 1 and named, f"exit {status}, not 1 with {wanted} at {position}: {(err or out)[-300:]}")


def main():
    for case in CASES:
        check(*case)
    (FOLDER / "binary.yaml").write_bytes(b"weft: 1\n\xff\xfe\x00\n")
    status, _, err = harness.weft("compile", MODEL, "--schedule", FOLDER / "binary.yaml", "-o", FOLDER / "program")
    harness.check("encoding", status == 1 and "[yaml-encoding]" in err, f"exit {status}: {err[-200:]}")
    for name, path in (("missing", FOLDER / "nowhere.yaml"), ("folder", FOLDER)):
        status, _, err = harness.weft("compile", MODEL, "--schedule", path, "-o", FOLDER / "program")
        harness.check(name, status == 1 and "[schedule-file]" in err, f"exit {status}: {err[-200:]}")


harness.need_weft()
main()
