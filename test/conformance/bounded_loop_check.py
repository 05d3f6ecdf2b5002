# test: fast
"""A loop without a trip count that collects one element per trip, with a bound on its node by --dim. It has as many
elements as trips, and exit 1 with the node's name if there are more trips than the bound."""

import numpy as np
import onnx
from onnx import TensorProto, helper

import harness

BOUND = 5


def model(counts_trips):
    """Doubles x until it reaches `most`; collects what it has before each step."""
    value, doubled, shown = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("value", "doubled", "shown"))
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    condition, again = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("condition", "again"))
    body = helper.make_graph([helper.make_node("Add", ["value", "value"], ["doubled"]), helper.make_node("Identity", ["value"], ["shown"]),
                              helper.make_node("ReduceMax", ["doubled"], ["largest"], keepdims=0),
                              helper.make_node("Less", ["largest", "most"], ["again"])],
                             "body", [number, condition, value], [again, doubled, shown])
    nodes = [helper.make_node("Loop", ["trips" if counts_trips else "", "begins", "x"], ["last", "all"], name="double", body=body)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("most", TensorProto.FLOAT, [])]
    outputs = [helper.make_tensor_value_info("last", TensorProto.FLOAT, [2]), helper.make_tensor_value_info("all", TensorProto.FLOAT, None)]
    constants = [helper.make_tensor("begins", TensorProto.BOOL, [], [True]),
                 helper.make_tensor("trips", TensorProto.INT64, [], [np.iinfo(np.int64).max])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def run(folder, x, most):
    for name, array in ("x", np.float32(x)), ("most", np.float32(most)):
        np.save(folder / f"{name}.npy", array)
    given = [word for name in ("x", "most") for word in ("--input", f"{name}={folder / name}.npy")]
    status, _, err = harness.run([folder / "program", *given, "--output-dir", folder])
    return status, err


def check(name, counts_trips):
    folder = harness.scratch(f"bounded_loop_{name}")
    onnx.save(model(counts_trips), folder / "model.onnx")
    status, _, err = harness.weft("compile", folder / "model.onnx", "-o", folder / "program")
    harness.check(f"{name}/no bound", status == 3 and "loop-scan-runtime-unsupported" in err, f"exit {status}: {err[-300:]}")
    status, _, err = harness.weft("compile", folder / "model.onnx", "--dim", f"double<={BOUND}", "-o", folder / "program")
    if not harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-300:]}"):
        return
    for trips in 1, 3, BOUND:
        status, err = run(folder, [1, 0.5], 2**trips)
        wanted = np.float32([[2**i, 2**i / 2] for i in range(trips)])
        found = np.load(folder / "all.npy") if status == 0 else err
        harness.check(f"{name}/{trips} trips", status == 0 and np.array_equal(found, wanted), f"exit {status}: {found}")
    status, err = run(folder, [1, 0.5], 2**(BOUND + 3))
    harness.check(f"{name}/too many", status == 1 and "'double'" in err and f"at most {BOUND}" in err, f"exit {status}: {err[-300:]}")


def main():
    check("no count", False)
    check("a huge count", True)


if __name__ == "__main__":
    harness.need_weft()
    main()
