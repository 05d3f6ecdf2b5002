# test: slow
"""Exports as ONNX Runtime writes them after its extended optimisations (`optimized_model_filepath`), with the fused
operators of com.microsoft: they compute what the exports do."""

import pathlib
import sys

import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import harness  # noqa: E402
from reference import write_reference  # noqa: E402
from verify_many import Case, report_complete, verify_many  # noqa: E402

EXPORTS = pathlib.Path(__file__).resolve().parent / "exports"
# Models, and an operator that the optimised one must have: else the test says nothing.
MODELS = {"bert_script": "BiasGelu", "gpt2_export": "FastGelu", "llama_script": "FusedMatMul", "opt_export": "FusedGemm",
          "roberta_export": "SkipLayerNormalization", "qwen2_export": "QuickGelu"}


def optimised(name, folder):
    path = folder / f"{name}.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(EXPORTS / f"{name}.onnx", options, ["CPUExecutionProvider"])
    return path


def main():
    folder = harness.scratch("optimised_exports")
    cases = []
    for name, operator in MODELS.items():
        model = optimised(name, folder)
        found = {node.op_type for node in onnx.load(model).graph.node if node.domain == "com.microsoft"}
        harness.check(f"{name}/fused", operator in found, f"{operator} is not among {sorted(found)}")
        write_reference(EXPORTS / f"{name}.onnx", folder / name, {"seq": 13}, {"input_ids": 50})
        cases.append(Case(name, model, folder / name))
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main()
