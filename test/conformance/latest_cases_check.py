# test: slow
"""ONNX's own cases of the operators of its latest opsets, from the installed package: those that the corpus is too old for. A
fourth of them, in `full` all and the functions that they stand for."""

import warnings

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

import harness
from verify_many import Case, report_complete, verify_many

OPS = ["Attention", "BitShift", "CausalConvWithState", "Celu", "Compress", "FlexAttention", "LinearAttention", "Mod", "Range",
       "SwiGLU", "TensorScatter"]
OLDEST = 24  # the first opset of which cases are taken


def message(value, info):
    return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), info.name)


def write_case(case, folder):
    data = folder / "data"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(case.model, folder / "model.onnx")
    inputs, outputs = case.data_sets[0]
    for kind, values, infos in (("input", inputs, case.model.graph.input), ("output", outputs, case.model.graph.output)):
        for number, (value, info) in enumerate(zip(values, infos)):
            (data / f"{kind}_{number}.pb").write_bytes(message(value, info).SerializeToString())
    return Case(case.name, folder / "model.onnx", data)


def is_latest(case):
    """Also of a domain of its own."""
    return max((entry.version for entry in case.model.opset_import if entry.domain in ("", "ai.onnx")), default=OLDEST) >= OLDEST


def latest_cases():
    """Those of OPS that the latest opsets have; `full`: with the functions that operators stand for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in collect_testcases(None) if is_latest(case)]
    of_ops = {case.name for case in cases if any(node.op_type in OPS for node in case.model.graph.node)}
    expanded = {f"{name}_expanded" for name in of_ops if harness.FULL}
    return [case for case in cases if case.name in of_ops | expanded]


def main():
    folder = harness.scratch("latest_cases")
    cases = latest_cases()
    chosen = cases if harness.FULL else cases[::4]
    report_complete(verify_many([write_case(case, folder / case.name) for case in chosen], folder))


harness.need_weft()
main()
