"""A pattern of a stage that meets weights and no node is an error that names the nodes."""

import harness


def run(case):
    status, _, err = harness.weft("explain", case.folder / "model.onnx", "--schedule", case.folder / "schedule.yaml")
    wanted = status == 1 and "[stage-values]" in err and "'n.0'" in err
    harness.check(case.name, wanted, f"exit {status}: {err[-400:]}")
