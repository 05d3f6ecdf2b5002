"""A schedule or a file of a machine with a line of a megabyte is refused at once: scanning it would take its square."""

import harness

LINE = "weft: 1\nmesh: {" + "a" * 1_000_000 + ": 2}\n"
MODEL = """<ir_version: 10, opset_import: ["" : 20]>
m (float[4] x) => (float[4] y) { y = Neg(x) }
"""


def run(case):
    model, schedule = case.out / "m.onnxtxt", case.out / "s.yaml"
    model.write_text(MODEL)
    schedule.write_text(LINE)
    for flag in ("--schedule", "--machine"):
        status, _, err = harness.weft("compile", model, flag, schedule, "--emit", "source", "-o", case.out / "sources", timeout=20)
        harness.check(f"{case.name}/{flag[2:]}", status == 1 and "[yaml-line]" in err, f"exit {status}: {err[-300:]}")
