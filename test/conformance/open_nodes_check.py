# test: slow
"""ONNX's own operator cases with open dims: each dim of the first input, and the equal ones of the others, is bounded by 3
more than the case's data has. Wherever the compiler takes that, the program gives the case's results. By default one in
eight cases, in full all.

    open_nodes_check.py [PART_OF_A_NAME...]
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx import numpy_helper

import harness
from record_table import draw
from run_node_cases import FLAGS, NODE_PACK, cases_of
from verify_many import Case, verify_many

ROOM = 3
# Integers that may be lengths or axes are known at compile time where there are few.
FEW = 16
# The least number of accepted cases per hundred; the others have dims that an operator does not accept as open.
TAKEN = 65


def open_first_input(graph):
    """The bounds by name. An input of as many dims has the names where its extents are those of the first."""
    tensors = [value.type.tensor_type for value in graph.input]
    extents = [dim.dim_value for dim in tensors[0].shape.dim]
    for tensor in tensors:
        dims = tensor.shape.dim
        for axis, extent in enumerate(extents):
            if len(dims) == len(extents) and extent > 1 and dims[axis].dim_value == extent:
                dims[axis].dim_param = f"d{axis}"
    return {f"d{axis}": extent + ROOM for axis, extent in enumerate(extents) if extent > 1}


def bound_integers(graph, data, folder):
    """Flags that fix the further inputs of few integers."""
    for index, value in enumerate(graph.input):
        tensor = value.type.tensor_type
        is_fixed = not any(dim.dim_param for dim in tensor.shape.dim)
        if index == 0 or not is_fixed or tensor.elem_type not in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            continue
        array = numpy_helper.to_array(onnx.load_tensor(data / f"input_{index}.pb"))
        if array.size <= FEW:
            path = folder / f"{index}.npy"
            np.save(path, array)
            yield from ("--bind", f"{value.name}={path}")


def opened(case, folder):
    """The case with open dims; None where it has several nodes, no dims or inputs that are no tensors."""
    model = onnx.load(case.model)
    graph = model.graph
    is_tensors = all(value.type.HasField("tensor_type") for value in graph.input)
    if len(graph.node) != 1 or not graph.input or not is_tensors:
        return None
    bounds = open_first_input(graph)
    if not bounds:
        return None
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    own = folder / case.name
    own.mkdir()
    flags = [f"--dim {name}<={bound}" for name, bound in bounds.items()]
    flags += bound_integers(graph, pathlib.Path(case.data), own)
    onnx.save(model, own / "model.onnx")
    return Case(case.name, own / "model.onnx", case.data, " ".join([*flags, FLAGS.get(case.name, "")]))


def main(parts):
    cases = cases_of(NODE_PACK, parts)
    if cases is None:
        harness.skipped("node cases", f"no {NODE_PACK}.tar.xz in {harness.corpus_folder()}")
        return
    is_whole = harness.FULL or parts
    folder = harness.scratch("open_nodes")
    made = [opened(case, folder) for case in cases if is_whole or draw(case.name, 8)]
    results = verify_many([case for case in made if case], folder)
    for result in results:
        harness.check(result.case, result.status in ("passed", "refused"), f"{result.status}: {result.detail}")
    taken = sum(result.status == "passed" for result in results)
    print(f"{taken} of {len(results)} cases are taken with open dims")
    harness.check("most are taken", parts or taken * 100 >= TAKEN * len(results), f"{taken} of {len(results)}")


if __name__ == "__main__":
    harness.need_weft()
    main(sys.argv[1:])
