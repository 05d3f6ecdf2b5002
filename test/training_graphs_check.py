# test: full
"""Training steps that others have computed: two steps of AdamW by ONNX Runtime, and one step of SGD of three networks (the
corpus's pack `models`). Each is made by Weft's own `train:` from the forward graph, and by the nodes for gradients and
updates that the files have."""

import json
import struct

import numpy as np
import onnx
from onnx import helper, numpy_helper

import harness

# Relative, of the loss, which ONNX Runtime has written with eight digits.
LOSS_TOLERANCE = 1e-6
# The tolerance of updated weights: this fraction of the largest change, plus one unit in the last place of the largest
# weight. Weights are stored with 32 bits, so smaller changes are unknown.
CHANGE_TOLERANCE = 1e-5
# ONNX Runtime's AdamWOptimizer with adam_mode 1, which is transformers': epsilon is added before the correction of the
# second moment, not after it as in PyTorch.
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


def compiled(folder, name, model, *flags):
    """The program, or None after a failed case."""
    program = folder / name
    status, _, err = harness.weft("compile", model, "-o", program, "--quiet", *flags)
    return program if harness.check(f"{folder.name}/{name} compiles", status == 0, f"exit {status}: {err[-400:]}") else None


def results(folder, program, inputs, *flags):
    """The outputs of a run, by name, or None after a failed case."""
    out = folder / "out"
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    given = [f"--input={name}={folder / name}.npy" for name in inputs]
    status, _, err = harness.run([program, *given, "--output-dir", out, *flags])
    if not harness.check(f"{folder.name}/{program.name} runs", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    return {file.stem: np.load(file) for file in out.glob("*.npy")}


class Artifacts:
    """Two steps of a training by ONNX Runtime, whose tests of these files say what is not in them: the rate is the default
    of its optimizers, both labels are 1."""

    rate = 1e-3

    def __init__(self, home):
        self.home = home
        self.parameters = parameters_of_checkpoint(home / "checkpoint.ckpt")
        images = np.array(json.loads((home / "input-0.in").read_text().split("\n")[1]), np.float32).reshape(-1, 784)
        self.data = {"input-0": images, "labels": np.ones(len(images), np.int32)}
        lengths = {"input-0_dim0": len(images), "input-0_dim1": 784, "output-0_dim0": len(images)}
        self.flags = [f"--dim={name}={length}" for name, length in lengths.items()]

    def check_loss(self, kind, step, loss):
        wanted = float((self.home / f"loss_{step}.out").read_text().split()[1])
        harness.measured(f"training_api_mnist/{kind}/loss {step}", abs(loss / wanted - 1) <= LOSS_TOLERANCE,
                         f"{loss}, ONNX Runtime's is {wanted}")


def check_artifacts(artifacts):
    """Weft's gradients and a step of ONNX Runtime's AdamW that the schedule brings along."""
    folder = harness.scratch("training_graphs/training_api_mnist")
    model = onnx.load(artifacts.home / "eval_model.onnx")
    inputs = [value for value in model.graph.input if value.name not in artifacts.parameters]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in artifacts.parameters.items())
    onnx.save(model, folder / "model.onnx")
    (folder / "transformers.onnxtxt").write_text(TRANSFORMERS_ADAMW)
    optimizer = onnx.load(artifacts.home / "adamw.onnx").graph.node[0]
    attrs = {a.name: helper.get_attribute_value(a) for a in optimizer.attribute}
    options = ", ".join(f"{name}: {attrs[name]:.9g}" for name in ("alpha", "beta", "epsilon"))
    schedule = write_schedule(folder / "train.yaml", "\n".join([
        "train:", f"  loss: '{model.graph.output[0].name}'",
        f"  optimizer: {{{folder}/transformers.onnxtxt: {{rate: {artifacts.rate}, {options}}}}}", ""]))
    program = compiled(folder, "trained", folder / "model.onnx", "--schedule", schedule, *artifacts.flags)
    for step in (1, 2) if program else ():
        states = [f"--load-state={folder / 'states'}"] if step > 1 else []
        made = results(folder, program, artifacts.data, "--save-state", folder / "states", *states)
        if made:
            artifacts.check_loss("trained", step, float(made["onnx__loss__21273"]))


def joined(artifacts):
    """ONNX Runtime's gradients and its step of AdamW in one model, whose results are the loss and what both change in place."""
    model = onnx.load(artifacts.home / "training_model.onnx")
    optimizer = onnx.load(artifacts.home / "adamw.onnx").graph
    graph, step, names = model.graph, optimizer.node[0], list(artifacts.parameters)
    for node in graph.node:
        if node.op_type == "InPlaceAccumulatorV2":
            node.output.append(f"{node.input[1]}.sum")
    lists = [names, [f"{name}_grad.sum" for name in names], [f"{name}.m" for name in names], [f"{name}.v" for name in names]]
    graph.node.extend(helper.make_node("SequenceConstruct", parts, [name]) for name, parts in zip(step.input[2:], lists))
    step.output.extend(["w.next", "m.next", "v.next"])
    graph.node.append(step)
    graph.input.extend(value for value in optimizer.input if value.name in ("learning_rate", "step"))
    for name, array in artifacts.parameters.items():
        graph.input.extend(helper.make_tensor_value_info(f"{name}.{kind}", onnx.TensorProto.FLOAT, array.shape) for kind in "mv")
    graph.output.extend(helper.make_tensor_sequence_value_info(name, onnx.TensorProto.FLOAT, None) for name in step.output[1:])
    return model


def check_artifact_nodes(artifacts):
    """The buffers hold ones that are written over: their flag says so."""
    folder = harness.scratch("training_graphs/training_api_mnist_nodes")
    onnx.save(joined(artifacts), folder / "model.onnx")
    program = compiled(folder, "nodes", folder / "model.onnx", *artifacts.flags)
    values = {"learning_rate": np.array([artifacts.rate], np.float32), "lazy_reset_grad": np.array([True]), **artifacts.data}
    for name, array in artifacts.parameters.items():
        values.update({name: array, f"{name}_grad.accumulation.buffer": np.ones_like(array), f"{name}.m": np.zeros_like(array),
                       f"{name}.v": np.zeros_like(array)})
    for step in (1, 2) if program else ():
        made = results(folder, program, {**values, "step": np.array([step])})
        if not made:
            return
        artifacts.check_loss("nodes", step, float(made["onnx__loss__21273"]))
        for i, name in enumerate(artifacts.parameters):
            values.update({name: made[f"w.next.{i}"], f"{name}.m": made[f"m.next.{i}"], f"{name}.v": made[f"v.next.{i}"]})


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


class Repair:
    """Replaces nodes of these files that are not operators of ONNX or ONNX Runtime by their meaning."""

    def __init__(self, graph):
        self.initializers, self.nodes = list(graph.initializer), []
        self.readers = {}
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def reader(self, value, kind):
        return next(node for node in self.readers[value] if node.op_type == kind)

    def add(self, kind, inputs, outputs, domain="", **attrs):
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attrs))

    def take(self, node):
        attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute if a.name != "description"}
        rule = getattr(self, f"take_{node.op_type}", None)
        if rule:
            rule(list(node.input), list(node.output), attrs)
        else:
            self.add(node.op_type, node.input, node.output, node.domain, **attrs)

    def with_axes(self, kind, inputs, outputs, attrs):
        """Axes are an operand since opset 13, and a list."""
        name = f"{outputs[0]}_axes"
        self.initializers.append(numpy_helper.from_array(np.atleast_1d(attrs.pop("axes")).astype(np.int64), name))
        self.add(kind, [*inputs, name], outputs, **attrs)

    def take_Squeeze(self, *node):
        self.with_axes("Squeeze", *node)

    def take_Unsqueeze(self, *node):
        self.with_axes("Unsqueeze", *node)

    def take_ReduceSum(self, *node):
        self.with_axes("ReduceSum", *node)

    def take_Gemm(self, inputs, outputs, attrs):
        """Also for more than two dimensions."""
        made = f"{outputs[0]}_product"
        is_sum = len(inputs) > 2 and attrs["beta"]
        turns = {name: attrs[name] for name in ("transA", "transB")}
        self.add("FusedMatMul", inputs[:2], [made] if is_sum else outputs, "com.microsoft", alpha=attrs["alpha"], **turns)
        if is_sum:
            self.add("Add", [made, inputs[2]], outputs)

    def take_SoftmaxCrossEntropyLoss(self, inputs, outputs, attrs):
        """Its only result are the log-probabilities."""
        self.add("LogSoftmax", inputs[:1], outputs, axis=1)

    def take_SoftmaxCrossEntropyLossGrad(self, inputs, outputs, attrs):
        self.add("SoftmaxCrossEntropyLossGrad", ["onnx__loss__2_grad", *inputs], outputs, "com.microsoft", **attrs)

    def take_LayerNormalization(self, inputs, outputs, attrs):
        self.add("LayerNormalization", inputs, [*outputs, f"{inputs[0]}_mean", f"{inputs[0]}_inverse"], **attrs)

    def take_LayerNormalizationGrad(self, inputs, outputs, attrs):
        """With the bias, but without the statistics; the derivatives by scale and bias are left out."""
        statistics = [f"{inputs[1]}_mean", f"{inputs[1]}_inverse"]
        self.add("LayerNormalizationGrad", [*inputs[:3], *statistics], outputs, "com.microsoft", **attrs)

    def take_GeluGrad(self, inputs, outputs, attrs):
        """The operand is without BiasGelu's bias, which a separate Add before Gelu adds here."""
        biased = self.reader(inputs[1], "Add").output[0]
        self.add("GeluGrad", [inputs[0], biased], outputs, "com.microsoft", **attrs)

    def model(self, inputs, outputs):
        read = {name for node in self.nodes for name in node.input}
        cut = helper.make_graph(self.nodes, "repaired", [value for value in inputs if value.name in read],
                                [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
                                [tensor for tensor in self.initializers if tensor.name in read])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(cut, opset_imports=opsets, ir_version=9)


# Original files with attributes that their opset does not have, by the operator.
REFUSED = {"transformer_train": "Squeeze", "cct2_train_lp": "Squeeze", "cct2_train_ft1": "Squeeze"}


def check_refusal(home):
    word = REFUSED[home.name]
    status, _, err = harness.weft("compile", home / "network.onnx", "-o", harness.scratch("training_graphs/refused") / "program")
    said = any(word in line and "[attribute-opset]" in line for line in err.splitlines())
    harness.check(f"{home.name}/is refused as it is", status not in (0, 70) and said, f"exit {status}: {err[-300:]}")


class Network:
    """A file with updates as nodes named SGD, one step's inputs and what came of each updated weight."""

    def __init__(self, home):
        self.name, self.graph = home.name, onnx.load(home / "network.onnx").graph
        self.updates = [node for node in self.graph.node if node.op_type == "SGD"]
        self.rate, = {helper.get_attribute_value(node.attribute[0]) for node in self.updates}
        self.inputs, self.wanted = dict(np.load(home / "inputs.npz")), np.load(home / "outputs.npz")

    def check(self, kind, found):
        """`found`: weights by the names of the file's results."""
        before = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        for node in self.updates:
            reference, after = self.wanted[node.output[0]], found[node.output[0]]
            change = float(abs(reference.astype(np.float64) - before[node.input[0]]).max())
            allowed = CHANGE_TOLERANCE * change + float(np.spacing(abs(reference).max()))
            error = float(abs(after.astype(np.float64) - reference).max()) if after.shape == reference.shape else np.inf
            harness.measured(f"{self.name}/{kind}/{node.input[0]}", error <= allowed,
                             f"{error:.1e} off, of a change of {change:.1e}; {allowed:.1e} is allowed")


def check_trained(network):
    """Weft's gradients and SGD, for the graph before the file's own loss."""
    folder, repair = harness.scratch(f"training_graphs/{network.name}"), Repair(network.graph)
    scores = next(node.input[0] for node in network.graph.node if node.op_type == "SoftmaxCrossEntropyLoss")
    for node in is_before(network.graph.node, scores):
        repair.take(node)
    onnx.save(repair.model(network.graph.input, [scores]), folder / "model.onnx")
    schedule = write_schedule(folder / "train.yaml", "\n".join([
        "train:", '  inputs: {labels: "int64[1]"}', f"  loss: {{cross_entropy: {{scores: {scores}, labels: labels}}}}",
        f"  optimizer: {{sgd: {{rate: {network.rate:.9g}}}}}", "  parameters:",
        *(f"    - {node.input[0]}" for node in network.updates), ""]))
    program = compiled(folder, "trained", folder / "model.onnx", "--schedule", schedule)
    made = program and results(folder, program, network.inputs)
    if made:
        network.check("trained", {node.output[0]: made[f"{node.input[0]}.next"] for node in network.updates})


def check_nodes(network):
    """The gradients as the file's nodes, and all its updates as one of ONNX Runtime's optimizer."""
    folder, repair = harness.scratch(f"training_graphs/{network.name}_nodes"), Repair(network.graph)
    for node in network.graph.node:
        if node.op_type != "SGD":
            repair.take(node)
    repair.initializers.append(numpy_helper.from_array(np.array([network.rate], np.float32), "rate"))
    repair.add("SequenceConstruct", [node.input[0] for node in network.updates], ["weights"])
    repair.add("SequenceConstruct", [node.input[1] for node in network.updates], ["gradients"])
    repair.add("SGDOptimizerV2", ["rate", "weights", "gradients"], ["done", "next"], "com.microsoft")
    for index, node in enumerate(network.updates):
        repair.initializers.append(numpy_helper.from_array(np.array(index), f"place{index}"))
        repair.add("SequenceAt", ["next", f"place{index}"], node.output)
    onnx.save(repair.model(network.graph.input, [node.output[0] for node in network.updates]), folder / "model.onnx")
    program = compiled(folder, "nodes", folder / "model.onnx")
    made = program and results(folder, program, network.inputs)
    if made:
        network.check("nodes", made)


def main():
    pack = harness.corpus_pack("models")
    if pack is None:
        harness.skipped("training_graphs", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    models = pack / "models"
    artifacts = Artifacts(models / "training_api_mnist")
    check_artifacts(artifacts)
    check_artifact_nodes(artifacts)
    for name in REFUSED:
        check_refusal(models / name)
        network = Network(models / name)
        check_trained(network)
        check_nodes(network)


if __name__ == "__main__":
    harness.need_weft()
    main()
