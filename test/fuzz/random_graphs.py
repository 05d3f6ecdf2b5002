"""Random graphs, some dims open, some decided by data, some under random meshes and layouts: compiled, run and compared with ONNX Runtime.

    python random_graphs.py SECONDS FOLDER [FIRST_SEED]    what is wrong is kept in FOLDER

Values stay near 1, and what is discontinuous reads inputs only, so that a difference beyond rounding is a wrong result."""

import pathlib
import random
import shutil
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import harness
from run_time_shapes import RunTimeShapes
from verify_many import Case, verify_many

SYMBOLS = {"batch": 4, "seq": 9}  # and the most that each may be
MOST_ELEMENTS = 4096
ROUND = 12  # graphs that one run of the compiler takes
TOLERANCE = "2e-3"
LEAST = 1e-4  # the largest number of a result that is more than the rounding of what cancels out


class RandomGraph(RunTimeShapes):
    """Grows a graph node by node; shapes hold numbers and names of lengths."""

    request_lengths = SYMBOLS

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs = [], [], []
        self.values = []  # (name, shape)
        self.most = dict(SYMBOLS)  # of each length
        for number in range(self.dice.choice([1, 1, 2])):
            shape = [self.dice.choice([2, 4, 4, 8, 12]) for _ in range(self.dice.choice([1, 2, 2, 3, 3, 4]))]
            for symbol in SYMBOLS if self.dice.random() < 0.6 else []:
                if self.dice.random() < 0.6:
                    shape[self.dice.randrange(len(shape))] = symbol
            self.inputs.append((f"x{number}", shape))
            self.values.append((f"x{number}", shape))
        for _ in range(self.dice.randint(2, 9)):
            self.add_node()

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape):
        return self.constant(self.numbers.uniform(-1, 1, shape).astype("f4") / np.float32(np.sqrt(shape[0])))

    def node(self, kind, operands, shape, results=1, **attributes):
        """Adds a node of one result that counts, unless it is too large."""
        name = f"n{len(self.nodes)}"
        size = np.prod([self.most_of(d) for d in shape], dtype=int)
        if size > MOST_ELEMENTS or size == 0:
            return None
        outputs = [name] + [f"{name}_{r}" for r in range(1, results)]
        self.nodes.append(helper.make_node(kind, operands, outputs, name=name, **attributes))
        self.values.append((name, list(shape)))
        return name

    def add_node(self):
        value, shape = self.values[-1] if self.dice.random() < 0.65 else self.dice.choice(self.values)
        makers = [self.unary, self.unary, self.binary, self.binary, self.transpose, self.reduce, self.softmax, self.cumulate]
        if len(shape) > 0:
            makers += [self.pad, self.tile, self.concat]
        if len(shape) > 1:
            makers += [self.merge, self.merge, self.by_itself]
        fixed = [d for d, extent in enumerate(shape) if not isinstance(extent, str)]
        if fixed:
            makers += [self.slice, self.gather, self.top]
        if shape and not isinstance(shape[-1], str):
            makers += [self.product, self.product, self.normalise, self.cut]
        if len(shape) == 3 and not isinstance(shape[1], str):
            makers += [self.convolution] * 3
        if self.dice.random() < 0.4:
            self.add_run_time_makers(makers, shape)
        self.dice.choice(makers)(value, shape, fixed)

    def axis(self, shape):
        return self.dice.randrange(len(shape))

    def unary(self, value, shape, _):
        self.node(self.dice.choice(["Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Erf", "Cos", "Softplus", "Identity"]), [value], shape)

    def binary(self, value, shape, _):
        alike = [name for name, other in self.values if other == shape]
        other = self.dice.choice(alike) if self.dice.random() < 0.7 else self.constant(np.float32(0.75))
        self.node(self.dice.choice(["Add", "Mul", "Sub", "Max", "Min"]), [value, other], shape)

    def transpose(self, value, shape, _):
        order = self.dice.sample(range(len(shape)), len(shape))
        if order:
            self.node("Transpose", [value], [shape[d] for d in order], perm=order)

    def reduce(self, value, shape, _):
        if not shape:
            return
        axis, keep = self.axis(shape), self.dice.randrange(2)
        rest = [*shape[:axis], *([1] if keep else []), *shape[axis + 1:]]
        made = self.node(self.dice.choice(["ReduceMax", "ReduceMean", "ReduceSum"]), [value, self.constant(np.int64([axis]))],
                         rest, keepdims=keep)
        if made and keep and self.dice.random() < 0.7:
            self.node("Sub", [value, made], shape)

    def softmax(self, value, shape, _):
        if shape:
            self.node("Softmax", [value], shape, axis=self.axis(shape))

    def cumulate(self, value, shape, _):
        if shape:
            self.node("CumSum", [value, self.constant(np.int64(self.axis(shape)))], shape, reverse=self.dice.randrange(2),
                      exclusive=self.dice.randrange(2))

    def longer(self, shape, axis, extent):
        return [*shape[:axis], extent, *shape[axis + 1:]]

    def pad(self, value, shape, fixed):
        if fixed:
            axis, ends = self.dice.choice(fixed), np.zeros((2, len(shape)), "i8")
            ends[:, axis] = self.dice.choice([(1, 0), (0, 2), (1, 1)])
            self.node("Pad", [value, self.constant(ends.flatten())], self.longer(shape, axis, shape[axis] + int(ends.sum())))

    def tile(self, value, shape, fixed):
        if fixed:
            axis, times = self.dice.choice(fixed), np.ones(len(shape), "i8")
            times[axis] = 2
            self.node("Tile", [value, self.constant(times)], self.longer(shape, axis, 2 * shape[axis]))

    def concat(self, value, shape, fixed):
        alike = [name for name, other in self.values if other == shape]
        if fixed:
            axis = self.dice.choice(fixed)
            self.node("Concat", [value, self.dice.choice(alike)], self.longer(shape, axis, 2 * shape[axis]), axis=axis)

    def merge(self, value, shape, _):
        """Two neighbouring dims become one, and later two again; a zero and one -1 say the rest."""
        axis = self.dice.randrange(len(shape) - 1)
        pair = shape[axis:axis + 2]
        if any(isinstance(extent, str) for extent in pair):
            flat = self.constant(np.int64([0] * axis + [-1] + [s for s in shape[axis + 2:] if not isinstance(s, str)]))
            if any(isinstance(extent, str) for extent in shape[axis + 2:]):
                return
            name = f"n{len(self.nodes)}"
            self.nodes.append(helper.make_node("Reshape", [value, flat], [name], name=name))
            whole = f"n{len(self.nodes)}"
            self.nodes.append(helper.make_node("Shape", [value], [whole], name=whole))
            back = self.node("Tanh", [name], [1])
            self.values.pop()
            self.node("Reshape", [back, whole], shape)
        else:
            merged = [*shape[:axis], pair[0] * pair[1], *shape[axis + 2:]]
            wanted = [0 if d < axis else -1 if isinstance(extent, str) else extent for d, extent in enumerate(merged)]
            if wanted.count(-1) < 2:
                self.node("Reshape", [value, self.constant(np.int64(wanted))], merged)

    def by_itself(self, value, shape, _):
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        turned = self.node("Transpose", [value], [shape[d] for d in order], perm=order)
        made = turned and self.node("MatMul", [value, turned], [*shape[:-1], shape[-2]])
        if made:
            self.node("Tanh", [made], self.values[-1][1])

    def slice(self, value, shape, fixed):
        axis = self.dice.choice(fixed)
        if shape[axis] > 1:
            begin = self.dice.randrange(shape[axis] - 1)
            self.node("Slice", [value, *(self.constant(np.int64([v])) for v in (begin, shape[axis], axis))],
                      self.longer(shape, axis, shape[axis] - begin))

    def gather(self, value, shape, fixed):
        axis = self.dice.choice(fixed)
        indices = self.numbers.integers(0, shape[axis], self.dice.choice([1, 2, 4]))
        self.node("Gather", [value, self.constant(indices)], self.longer(shape, axis, len(indices)), axis=axis)

    def top(self, value, shape, fixed):
        axis = self.dice.choice(fixed)
        if shape[axis] > 1:
            self.node("TopK", [value, self.constant(np.int64([2]))], self.longer(shape, axis, 2), results=2, axis=axis)

    def product(self, value, shape, _):
        columns = self.dice.choice([4, 8, 12])
        if len(shape) > 1:
            made = self.node("MatMul", [value, self.weight(shape[-1], columns)], [*shape[:-1], columns])
            if made and self.dice.random() < 0.5:
                self.node("Add", [made, self.weight(columns)], [*shape[:-1], columns])

    def normalise(self, value, shape, _):
        if shape[-1] > 1:
            self.node("LayerNormalization", [value, self.weight(shape[-1])], shape, axis=-1, epsilon=1e-2)

    def cut(self, value, shape, _):
        if shape[-1] % 2 == 0:
            self.node("Split", [value], [*shape[:-1], shape[-1] // 2], results=2, axis=-1, num_outputs=2)

    def convolution(self, value, shape, _):
        filters = self.dice.choice([4, 8])
        self.node("Conv", [value, self.weight(filters, shape[1], 3)], [shape[0], filters, shape[2]], pads=[1, 1])

    def model(self):
        """The last value and, now and then, another are the results."""
        made = [value for value in self.values if value[0].startswith("n")] or self.values
        results = dict([made[-1], *([self.dice.choice(made)] if self.dice.random() < 0.4 else [])])
        nodes = [*self.nodes, *(helper.make_node("Mul", [name, name], [f"y{k}"], name=f"y{k}") for k, name in enumerate(results))]
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in self.inputs],
            [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(results))], self.constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])

    def schedule(self):
        """A mesh and layouts of values, of open dims too; what is not legal is refused."""
        ranks = self.dice.choice([2, 2, 3, 4])
        lines = ["weft: 1", f"mesh: {{tp: {ranks}}}", "shard:"]
        names = {constant.name: list(constant.dims) for constant in self.constants} | dict(self.values)
        for name in self.dice.sample(sorted(names), min(len(names), self.dice.randint(1, 4))):
            legal = [d for d, extent in enumerate(names[name]) if isinstance(extent, str) or extent % ranks == 0]
            if legal:
                lines.append(f"  {name}: {{tp: {self.dice.choice(legal)}}}")
        return "\n".join(lines if len(lines) > 3 else lines[:2]) + "\n"


def write_case(seed, folder):
    """The model of a seed, its data by ONNX Runtime, its flags; nothing where that refuses the model or finds rounding only."""
    graph = RandomGraph(seed)
    folder.mkdir(parents=True)
    model = graph.model()
    onnx.save(model, folder / "model.onnx")
    lengths = {name: graph.dice.randint(1, most) for name, most in SYMBOLS.items()}
    feeds = {name: graph.numbers.uniform(-1, 1, [lengths.get(d, d) for d in shape]).astype("f4") for name, shape in graph.inputs}
    for name, array in feeds.items():
        if name.startswith("m"):
            array[0] = 1  # a condition holds at least once
    try:
        wanted = onnxruntime.InferenceSession(folder / "model.onnx").run(None, feeds)
    except Exception as error:  # of no common class
        print(f"-- seed {seed}: ONNX Runtime: {harness.one_line(error)[:150]}")
        return None
    if any(array.size and np.nanmax(np.abs(array)) < LEAST for array in wanted):
        return None
    for k, array in enumerate(feeds.values()):
        np.save(folder / f"input_{k}.npy", array)
    for k, array in enumerate(wanted):
        np.save(folder / f"output_{k}.npy", array)
    used = sorted({d for _, shape in graph.inputs for d in shape if isinstance(d, str)})
    flags = [f"--dim={name}<={SYMBOLS[name]}" for name in used] + [f"--tolerance={TOLERANCE}"]
    if graph.dice.random() < 0.5:
        (folder / "s.yaml").write_text(graph.schedule())
        flags.append(f"--schedule={folder / 's.yaml'}")
    return Case(f"seed{seed}", folder / "model.onnx", folder, " ".join(flags))


def check_seeds(seeds, folder):
    """The results of one run of the compiler."""
    cases = [case for seed in seeds if (case := write_case(seed, folder / str(seed)))]
    return verify_many(cases, folder)


def check_graphs(kept, seconds, first=None):
    """Graph upon graph for that long; those with another result, or none, stay in `kept`. How many there were."""
    end, seed = time.monotonic() + seconds, first if first is not None else int(time.time()) % 10**6 * 1000
    tried, refused, bad = 0, 0, 0
    while time.monotonic() < end:
        folder = harness.scratch("random_graphs")
        for result in check_seeds(range(seed, seed + ROUND), folder):
            tried += result.status == "passed"
            refused += result.status in ("refused", "no_kernel")
            if result.status not in ("wrong", "failed"):
                continue
            bad += 1
            shutil.copytree(folder / result.case.removeprefix("seed"), kept / result.case, dirs_exist_ok=True)
            print(f"graphs: {result.case}: {result.status}: {harness.one_line(result.detail)[:300]}", flush=True)
        seed += ROUND
    print(f"-- graphs: {tried} ran and agree, {refused} were refused, up to seed {seed}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(check_graphs(pathlib.Path(sys.argv[2]), float(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else None) > 0)
