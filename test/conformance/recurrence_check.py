# test: slow
"""LSTM, GRU and RNN in every direction, with lengths, states, peepholes, clips and activations, against ONNX Runtime."""

import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import harness  # noqa: E402
from reference import write_reference  # noqa: E402
from verify_many import Case, report_complete, verify_many  # noqa: E402

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6

# Attributes of a node, and what else of it is unusual: `without` operands, with `peepholes`, `lengths`, only these
# `results`, an `opset`, a `dtype`; `open`: its weights are inputs of the model.
EVERY_OP = {
    **{f"{direction}{name}": ({"direction": direction, **attributes}, more)
       for direction in ("forward", "reverse", "bidirectional")
       for name, attributes, more in (("", {}, {}), ("_lengths", {}, {"lengths": True}),
                                      ("_zeros", {}, {"without": ("B", "h0", "c0")}))},
    "clip": ({"clip": 0.1, "direction": "bidirectional"}, {"lengths": True}),
    "open": ({"direction": "bidirectional"}, {"open": True}),
    "sequence_only": ({}, {"results": (0,)}),
    "last_only": ({}, {"results": (1,)}),
    "opset_7": ({}, {"opset": 7}),
    "half": ({}, {"dtype": np.float16}),
}
ONE_OP = {
    "GRU": {
        "linear": ({"linear_before_reset": 1, "direction": "bidirectional"}, {"lengths": True}),
        "linear_zeros": ({"linear_before_reset": 1}, {"without": ("B",)}),
        "activations": ({"activations": ["HardSigmoid", "leakyrelu"], "activation_alpha": [0.3, 0.1],
                         "activation_beta": [0.4]}, {}),
    },
    "LSTM": {
        "peepholes": ({"direction": "bidirectional", "clip": 0.3}, {"lengths": True, "peepholes": True}),
        "input_forget": ({"input_forget": 1}, {"peepholes": True}),
        "activations": ({"activations": ["HardSigmoid", "ScaledTanh", "Elu"], "activation_alpha": [0.3, 1.5, 0.7],
                         "activation_beta": [0.4, 0.6]}, {}),
        "activations_plain": ({"activations": ["Sigmoid", "Softsign", "Softplus"]}, {}),
    },
    "RNN": {
        "relu": ({"activations": ["Relu"]}, {}),
        "affine": ({"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}, {}),
        "thresholded": ({"activations": ["ThresholdedRelu"], "activation_alpha": [0.2]}, {}),
    },
}


def operands_of(op, directions, dtype):
    gates = GATES[op]
    state = (directions, BATCH, HIDDEN)
    shapes = {"X": (STEPS, BATCH, INPUT), "W": (directions, gates * HIDDEN, INPUT), "R": (directions, gates * HIDDEN, HIDDEN),
              "B": (directions, 2 * gates * HIDDEN), "lengths": (BATCH,), "h0": state}
    if op == "LSTM":
        shapes |= {"c0": state, "P": (directions, 3 * HIDDEN)}
    return {name: (shape, np.dtype(np.int32 if name == "lengths" else dtype)) for name, shape in shapes.items()}


def write_model(path, op, attributes, more):
    """The model, with weights that are constants but for `open`."""
    random = np.random.default_rng(1)
    dtype = more.get("dtype", np.float32)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    operands = operands_of(op, directions, dtype)
    absent = set(more.get("without", ()))
    absent |= {name for name, flag in (("lengths", "lengths"), ("P", "peepholes")) if not more.get(flag)}
    names = [name if name not in absent else "" for name in operands]
    while not names[-1]:
        names.pop()
    inputs, weights = [], []
    for name in filter(None, names):
        shape, kind = operands[name]
        if name in ("X", "lengths", "h0", "c0") or more.get("open"):
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape))
        else:
            weights.append(numpy_helper.from_array(random.uniform(-0.6, 0.6, shape).astype(kind), name))
    results = ["Y", "Yh", "Yc"][:3 if op == "LSTM" else 2]
    kept = [name if index in more.get("results", (0, 1, 2)) else "" for index, name in enumerate(results)]
    while not kept[-1]:
        kept.pop()
    outputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
               for name in filter(None, kept)]
    node = helper.make_node(op, names, kept, hidden_size=HIDDEN, **attributes)
    graph = helper.make_graph([node], "recurrence", inputs, outputs, weights)
    opset = helper.make_opsetid("", more.get("opset", 14))
    onnx.save(onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[opset], ir_version=8)), path)


def main():
    folder = harness.scratch("recurrence")
    cases = []
    for op in GATES:
        for name, (attributes, more) in (EVERY_OP | ONE_OP[op]).items():
            model = folder / f"{op}_{name}.onnx"
            write_model(model, op, attributes, more)
            write_reference(model, folder / model.stem, {}, {"lengths": STEPS + 1})
            cases.append(Case(f"recurrence/{model.stem}", model, folder / model.stem))
    report_complete(verify_many(cases, folder))


if __name__ == "__main__":
    harness.need_weft()
    main()
