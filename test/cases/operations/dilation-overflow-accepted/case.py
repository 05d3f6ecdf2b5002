"""Windows that no tensor has room for are refused."""

import harness


def run(case):
    for model in sorted(case.folder.glob("*.onnx")):
        status, _, err = harness.weft("compile", model, "-o", case.out / "program")
        harness.check(f"{case.name}: {model.stem}", status == 1 and "[window-" in err, err)
