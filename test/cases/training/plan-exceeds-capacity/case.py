"""A plan whose program needs more than a rank has is neither written nor compiled; with room enough, its table says what is needed."""

import re

import harness


def run(case):
    model, machine, kept, schedule = (case.folder / name for name in ("model.onnx", "machine.yaml", "t.yaml", "s.yaml"))
    status, _, err = harness.weft("plan", model, "--machine", machine, "--train", kept, "--quiet")
    harness.check(f"{case.name}/no plan", status == 1 and "too little memory" in err and "[plan-none]" in err, f"exit {status}: {err[-400:]}")
    for verb, flags in (("compile", ("--emit", "source", "-o", case.out / "sources")), ("explain", ())):
        status, _, err = harness.weft(verb, model, "--schedule", schedule, "--machine", machine, *flags)
        refused = re.search(r"rank 0 needs \d+ bytes .*, a rank of the machine has 150000 \[machine-memory\]", err)
        harness.check(f"{case.name}/{verb}", status == 1 and refused, f"exit {status}: {err[-400:]}")
    roomy = case.out / "roomy.yaml"
    roomy.write_text(machine.read_text().replace("150KB", "400KB"))
    status, text, err = harness.weft("plan", model, "--machine", roomy, "--train", kept, "--quiet")
    said = re.search(r" 1\.00 +(\d+\.\d) KiB$", err, re.M)
    if not harness.check(f"{case.name}/with room", status == 0 and said, f"exit {status}: {err[-400:]}"):
        return
    planned = case.out / "planned.yaml"
    planned.write_text(text)
    _, out, err = harness.weft("explain", model, "--schedule", planned, "--machine", roomy)
    parts = re.search(r"^memory of .*: (\d+\.\d) KiB of its own, (\d+\.\d) KiB that peers reach; weights (\d+\.\d) KiB", out, re.M)
    needed = sum(map(float, parts.groups())) if parts else 0
    harness.check(f"{case.name}/as explained", 0 < needed <= 1.05 * float(said[1]), f"said {said[1]} KiB, explained {needed:.1f} KiB; {err[-300:]}")
