"""The predictions of `weft plan` and `weft explain` for a schedule are equal: launches count at every level."""

import json
import re

import harness


def run(case):
    machine = harness.ROOT / "samples" / "machines" / "dgx-h100.yaml"
    model, on = case.folder / "model.onnx", ("--machine", machine, "--target", "cuda", "--arch", "sm_90")
    status, text, err = harness.weft("plan", model, *on, "--train", case.folder / "t.yaml", "--quiet")
    said = re.search(r" (\d+(?:\.\d+)?) (us|ms) +1\.00 ", err)
    if not harness.check(f"{case.name}/is planned", status == 0 and said, f"exit {status}: {err[-400:]}"):
        return
    planned = case.out / "planned.yaml"
    planned.write_text(text)
    status, out, err = harness.weft("explain", model, *on, "--schedule", planned, "--json")
    seconds = json.loads(out)["timeline"]["seconds"] if status == 0 else 0
    predicted = float(said[1]) * {"us": 1e-6, "ms": 1e-3}[said[2]]
    harness.check(case.name, abs(predicted - seconds) <= 0.03 * seconds, f"planned {predicted}, explained {seconds}: {err[-300:]}")
