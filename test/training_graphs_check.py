# test: full
"""Training steps that others have computed, made by Weft's own `train:` from their forward graphs: two steps of AdamW by ONNX
Runtime, and one step of SGD of three networks whose files hold gradients and updates as nodes (the corpus's pack `models`)."""

import json
import struct

import numpy as np
import onnx
from onnx import helper, numpy_helper

import harness

# Relative, of the loss, which ONNX Runtime has written with eight digits.
LOSS_TOLERANCE = 1e-6
# Of updated weights, as a part of the largest change, and one unit in the last place of the largest weight: the weights are
# stored with 32 bits, and nothing smaller is known of how far they have moved.
CHANGE_TOLERANCE = 1e-5
# ONNX Runtime's AdamWOptimizer with adam_mode 1, which is transformers': epsilon is added in front of the correction of the
# second moment, not behind it as by PyTorch's.
TRANSFORMERS_ADAMW = """<domain: "test", opset_import: ["" : 18]>
step <alpha: float = 0.9, beta: float = 0.999, epsilon: float = 1e-8> (w, g, m, v, step, rate) => (w_next, m_next, v_next)
{
  one = Constant <value_float = 1.0> ()
  a = Constant <value_float = @alpha> ()
  b = Constant <value_float = @beta> ()
  e = Constant <value_float = @epsilon> ()
  rest_a = Sub (one, a)
  rest_b = Sub (one, b)
  m_kept = Mul (m, a)
  m_new = Mul (g, rest_a)
  m_next = Add (m_kept, m_new)
  v_kept = Mul (v, b)
  square = Mul (g, g)
  v_new = Mul (square, rest_b)
  v_next = Add (v_kept, v_new)
  root = Sqrt (v_next)
  below = Add (root, e)
  t = Cast <to = 1> (step)
  a_t = Pow (a, t)
  b_t = Pow (b, t)
  left_a = Sub (one, a_t)
  left_b = Sub (one, b_t)
  left_root = Sqrt (left_b)
  factor = Div (left_root, left_a)
  scaled = Mul (rate, factor)
  direction = Div (m_next, below)
  change = Mul (direction, scaled)
  w_next = Sub (w, change)
}
"""


class Table:
    """A table of a flatbuffer: fields by their numbers in the schema, 0 where they are not there."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def number(self, code, at):
        return struct.unpack_from(f"<{code}", self.data, at)[0]

    def field(self, index):
        names = self.at - self.number("i", self.at)
        place = 4 + 2 * index
        offset = self.number("H", names + place) if place < self.number("H", names) else 0
        return self.at + offset if offset else 0

    def followed(self, at):
        return at + self.number("I", at)

    def table(self, index):
        return Table(self.data, self.followed(self.field(index)))

    def bytes_of(self, index, size=1):
        start = self.followed(self.field(index))
        return self.data[start + 4:start + 4 + size * self.number("I", start)]

    def tables(self, index):
        start = self.followed(self.field(index))
        places = range(start + 4, start + 4 + 4 * self.number("I", start), 4)
        return [Table(self.data, self.followed(place)) for place in places]


def parameters_of_checkpoint(file):
    """The trained parameters of ONNX Runtime's ort_training_checkpoint.fbs, all of them float."""
    data = file.read_bytes()
    module = Table(data, struct.unpack_from("<I", data)[0]).table(1)
    parameters = {}
    for tensor in module.tables(0):
        dims = np.frombuffer(tensor.bytes_of(2, 8), np.int64)
        parameters[tensor.bytes_of(0).decode()] = np.frombuffer(tensor.bytes_of(4), np.float32).reshape(dims)
    return parameters


def write_schedule(file, text):
    file.write_text("weft: 1\n" + text)
    return file


def trained(folder, model, schedule, inputs, steps, flags=()):
    """The losses in front of each step, and the folder with the states behind the last; None if there is no program."""
    program, states, log = folder / "program", folder / "states", folder / "log.jsonl"
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program, "--quiet", *flags)
    if not harness.check(f"{folder.name}/compiles", status == 0, f"exit {status}: {err[-400:]}"):
        return None
    losses = []
    for step in range(steps):
        given = [f"--load-state={states}"] if step else []
        for name, array in inputs.items():
            np.save(folder / f"{name}.npy", array)
            given.append(f"--input={name}={folder / name}.npy")
        status, _, err = harness.run([program, *given, "--save-state", states, "--output-dir", folder / "out"])
        if not harness.check(f"{folder.name}/step {step + 1}", status == 0, f"exit {status}: {err[-300:]}"):
            return None
        losses.append(float(np.load(next(iter((folder / "out").glob("*loss*.npy"))))))
    return losses, states


def check_onnxruntime(home):
    """The rate is the default of its optimizers, both labels are 1: what its tests of these files say."""
    folder = harness.scratch("training_graphs/training_api_mnist")
    model = onnx.load(home / "eval_model.onnx")
    parameters = parameters_of_checkpoint(home / "checkpoint.ckpt")
    inputs = [value for value in model.graph.input if value.name not in parameters]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in parameters.items())
    onnx.save(model, folder / "model.onnx")
    (folder / "transformers.onnxtxt").write_text(TRANSFORMERS_ADAMW)
    attrs = {a.name: helper.get_attribute_value(a) for a in onnx.load(home / "adamw.onnx").graph.node[0].attribute}
    options = ", ".join(f"{name}: {attrs[name]:.9g}" for name in ("alpha", "beta", "epsilon"))
    optimizer = f"{{{folder}/transformers.onnxtxt: {{rate: 1e-3, {options}}}}}"
    schedule = write_schedule(folder / "train.yaml", f"train:\n  loss: '{model.graph.output[0].name}'\n  optimizer: {optimizer}\n")
    images = np.array(json.loads((home / "input-0.in").read_text().split("\n")[1]), np.float32).reshape(-1, 784)
    data = {"input-0": images, "labels": np.ones(len(images), np.int32)}
    flags = ["--dim", f"input-0_dim0={len(images)}", "--dim", "input-0_dim1=784", "--dim", f"output-0_dim0={len(images)}"]
    result = trained(folder, folder / "model.onnx", schedule, data, 2, flags)
    for step, loss in enumerate(result[0] if result else [], 1):
        wanted = float((home / f"loss_{step}.out").read_text().split()[1])
        harness.measured(f"training_api_mnist/loss {step}", abs(loss / wanted - 1) <= LOSS_TOLERANCE, f"{loss}, ONNX Runtime's is {wanted}")


def is_before(nodes, value):
    """The nodes that `value` depends on."""
    maker = {result: node for node in nodes for result in node.output}
    found, open_values = {}, [value]
    while open_values:
        node = maker.get(open_values.pop())
        if node is not None and node.output[0] not in found:
            found[node.output[0]] = node
            open_values += node.input
    return list(found.values())


def repaired(node, initializers):
    """What these files have that no ONNX is: an integer as axes, and products of three dimensions by Gemm."""
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type == "Squeeze":
        axes = f"{node.output[0]}_axes"
        initializers.append(numpy_helper.from_array(np.atleast_1d(attrs["axes"]).astype(np.int64), axes))
        return [helper.make_node("Squeeze", [node.input[0], axes], node.output)]
    if node.op_type == "Gemm" and not attrs["transA"] and not attrs["transB"]:
        made = f"{node.output[0]}_product"
        return [helper.make_node("MatMul", node.input[:2], [made]), helper.make_node("Add", [made, node.input[2]], node.output)]
    return [node]


def forward_of(model):
    """The scores, from which the file's own loss and all behind it are cut off: its SoftmaxCrossEntropyLoss has the
    log-probabilities as its only result."""
    graph = model.graph
    scores = next(node.input[0] for node in graph.node if node.op_type == "SoftmaxCrossEntropyLoss")
    nodes, initializers = [], list(graph.initializer)
    for node in is_before(graph.node, scores):
        nodes += repaired(node, initializers)
    read = {name for node in nodes for name in node.input}
    outputs = [helper.make_tensor_value_info(scores, onnx.TensorProto.FLOAT, None)]
    inputs = [value for value in graph.input if value.name in read]
    kept = [tensor for tensor in initializers if tensor.name in read]
    cut = helper.make_graph(nodes, "forward", inputs, outputs, kept)
    return scores, helper.make_model(cut, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


# What is wrong with the files as they are, and what it is called.
REFUSED = {"transformer_train": ("Squeeze", "attribute-type"), "cct2_train_lp": ("description", "unknown-attribute"),
           "cct2_train_ft1": ("description", "unknown-attribute")}


def check_refusal(home):
    word, name = REFUSED[home.name]
    status, _, err = harness.weft("compile", home / "network.onnx", "-o", harness.scratch("training_graphs/refused") / "program")
    said = any(word in line and f"[{name}]" in line for line in err.splitlines())
    harness.check(f"{home.name}/is refused as it is", status not in (0, 70) and said, f"exit {status}: {err[-300:]}")


def check_sgd(home):
    """One step: what came of each updated weight, and how far it has moved."""
    name, folder = home.name, harness.scratch(f"training_graphs/{home.name}")
    file = onnx.load(home / "network.onnx")
    updates = [node for node in file.graph.node if node.op_type == "SGD"]
    rates = {helper.get_attribute_value(node.attribute[0]) for node in updates}
    scores, model = forward_of(file)
    onnx.save(model, folder / "model.onnx")
    schedule = write_schedule(folder / "train.yaml", "\n".join([
        "train:", '  inputs: {labels: "int64[1]"}', f"  loss: {{cross_entropy: {{scores: {scores}, labels: labels}}}}",
        f"  optimizer: {{sgd: {{rate: {rates.pop():.9g}}}}}", "  parameters:", *(f"    - {node.input[0]}" for node in updates), ""]))
    result = trained(folder, folder / "model.onnx", schedule, dict(np.load(home / "inputs.npz")), 1)
    if result:
        check_updates(name, file.graph, updates, result[1], np.load(home / "outputs.npz"))


def check_updates(name, graph, updates, states, wanted):
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in updates:
        weight = node.input[0]
        after, reference, old = np.load(states / f"{weight}.npy"), wanted[node.output[0]], before[weight]
        change = float(abs(reference.astype(np.float64) - old).max())
        allowed = CHANGE_TOLERANCE * change + float(np.spacing(abs(reference).max()))
        error = float(abs(after.astype(np.float64) - reference).max()) if after.shape == reference.shape else np.inf
        harness.measured(f"{name}/{weight}", error <= allowed, f"{error:.1e} off, of a change of {change:.1e}; {allowed:.1e} is allowed")


def main():
    pack = harness.corpus_pack("models")
    if pack is None:
        harness.skipped("training_graphs", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    models = pack / "models"
    check_onnxruntime(models / "training_api_mnist")
    for name in REFUSED:
        check_refusal(models / name)
        check_sgd(models / name)


if __name__ == "__main__":
    harness.need_weft()
    main()
