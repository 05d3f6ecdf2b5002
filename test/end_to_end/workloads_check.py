# test: slow, long
"""The workloads of samples/ under every schedule there, on 1, 2 or 4 ranks (`full`: on each): what one rank without a schedule computes,
bit by bit where `explain` claims that. The optimizers on one rank against their formulas, the others against the
reference evaluation. Overlapped schedules also with the other mechanisms."""

import dataclasses
import json
import sys
import typing
import zlib

import harness
import numpy as np

SAMPLES = harness.ROOT / "samples"
TOLERANCES = {np.dtype(np.float32): 2e-5, np.dtype(np.float16): 5e-3}
PARAMETERS, REPLICAS, STEPS, RATE = 96, 4, 3, np.float32(0.01)
OPTIMIZER_STATES = {"m": "m_next", "v": "v_next", "master": "master_next", "step": "step_next"}


@dataclasses.dataclass
class Case:
    """The data of programs: arrays of inputs (lists have one for each invocation), and of states."""

    name: str
    inputs: dict
    states: dict = dataclasses.field(default_factory=dict)
    invocations: int = 1
    formula: typing.Callable = None  # (inputs, states) -> wanted outputs


@dataclasses.dataclass
class Workload:
    name: str
    meshes: list  # flags, one set for each number of ranks
    dims: dict
    cases: list
    sizes: list = dataclasses.field(default_factory=list)  # flags of make.py
    states: dict = dataclasses.field(default_factory=dict)
    mechanisms: list = dataclasses.field(default_factory=list)  # that overlapped.yaml can have beside its own


def optimizer_cases(formula):
    """Sums of these gradients are exact in fp16, so that the ranks' order of adding is no part of any difference."""
    random = np.random.default_rng(5)
    grads = [(random.integers(-64, 64, (REPLICAS, PARAMETERS)) / 64).astype(np.float16) for _ in range(STEPS)]
    shape, inputs = (PARAMETERS,), {"grads": grads, "rate": RATE}
    zeros = {"m": np.zeros(shape), "v": np.zeros(shape), "master": np.zeros(shape), "step": np.zeros(())}
    later = {"m": random.uniform(-1, 1, shape), "v": random.uniform(0, 1, shape),
             "master": random.uniform(-1, 1, shape), "step": np.array(7.0)}
    # A new parameter of zeros has the norm that LAMB guards against.
    return [Case(name, inputs, {key: value.astype(np.float32) for key, value in states.items()}, STEPS, formula)
            for name, states in (("first steps", zeros), ("later steps", later))]


def moments(state, grads, epsilon):
    """Adam's direction; the state's m, v and step move on."""
    grad = grads.astype(np.float64).sum(axis=0)
    state["step"] = state["step"] + 1
    state["m"] = 0.9 * state["m"] + 0.1 * grad
    state["v"] = 0.999 * state["v"] + 0.001 * grad**2
    m_hat, v_hat = state["m"] / (1 - 0.9 ** state["step"]), state["v"] / (1 - 0.999 ** state["step"])
    return m_hat / (np.sqrt(v_hat) + epsilon)


def adam(state, grads):
    state["master"] = state["master"] - RATE * moments(state, grads, 1e-8)


def lamb(state, grads):
    update = moments(state, grads, 1e-6) + 0.01 * state["master"]
    norms = np.linalg.norm(state["master"]), np.linalg.norm(update)
    state["master"] = state["master"] - RATE * (norms[0] / norms[1] if min(norms) > 0 else 1) * update


def steps_of(formula):
    def outputs(inputs, states):
        state = {name: value.astype(np.float64) for name, value in states.items()}
        for grads in inputs["grads"]:
            formula(state, grads)
        wanted = {OPTIMIZER_STATES[name]: value.astype(np.float32) for name, value in state.items()}
        return wanted | {"weight": state["master"].astype(np.float16)}
    return outputs


def seeded_case(shapes, dtype):
    random = np.random.default_rng(7)
    return [Case("seeded", {name: random.uniform(-1, 1, shape).astype(dtype) for name, shape in shapes.items()})]


HIDDEN, INNER, EXPERTS = 64, 128, 8
BATCH_SEQ = {"batch": 4, "seq": 32}
TOKENS = (4, 32, HIDDEN)
OPTIMIZER_DIMS = {"replicas": REPLICAS, "n": PARAMETERS}
SIZED = ["--hidden", HIDDEN, "--inner", INNER]


def meshes(axis):
    return [["--mesh", f"{axis}={ranks}"] for ranks in (1, 2, 4)]


WORKLOADS = [
    Workload("adam", meshes("dp"), OPTIMIZER_DIMS, optimizer_cases(steps_of(adam)), states=OPTIMIZER_STATES,
             mechanisms=["signal", "fused"]),
    Workload("lamb", meshes("dp"), OPTIMIZER_DIMS, optimizer_cases(steps_of(lamb)), states=OPTIMIZER_STATES,
             mechanisms=["signal", "fused"]),
    Workload("attention_tail", meshes("tp"), BATCH_SEQ,
             seeded_case({"context": TOKENS, "residual": TOKENS}, np.float16), ["--hidden", HIDDEN], mechanisms=["signal", "fused"]),
    Workload("mlp_block", meshes("tp"), BATCH_SEQ, seeded_case({"x": TOKENS}, np.float16), SIZED,
             mechanisms=["signal", "fused"]),
    Workload("pipeline_boundary", [[]], BATCH_SEQ, seeded_case({"x": TOKENS}, np.float16), SIZED),
    Workload("moe", meshes("ep"), {"groups": 4, "tokens": 16}, seeded_case({"x": (4, 16, HIDDEN)}, np.float32),
             ["--width", HIDDEN, "--inner", INNER, "--experts", EXPERTS, "--capacity", 8], mechanisms=["signal"]),
]


def make_model(workload, folder):
    if not workload.sizes:
        return SAMPLES / workload.name / f"{workload.name}.onnxtxt"
    model = folder / f"{workload.name}.onnxtxt"
    status, _, err = harness.run([sys.executable, SAMPLES / workload.name / "make.py", model, *workload.sizes])
    if status != 0:
        raise RuntimeError(f"{workload.name}/make.py failed: {err[-300:]}")
    return model


def write_inputs(case, folder):
    """The files of a case; the arguments that name them."""
    (folder / "state").mkdir(parents=True)
    arguments = ["--iterations", case.invocations]
    for name, value in case.inputs.items():
        for i, array in enumerate(value if isinstance(value, list) else [value]):
            np.save(folder / f"{name}{i}.npy", array)
        arguments += ["--input", f"{name}={folder}/{name}{'{i}' if isinstance(value, list) else 0}.npy"]
    for name, value in case.states.items():
        np.save(folder / "state" / f"{name}.npy", value)
    return arguments + (["--load-state", folder / "state"] if case.states else [])


def outputs_of(program, arguments, folder):
    """The results of a program, by output; raises with its message if it failed. Unwritten memory is NaN."""
    folder.mkdir(parents=True)
    status, _, err = harness.run([program, *arguments, "--poison", "--output-dir", folder])
    if status != 0:
        raise RuntimeError(f"exit {status}: {err[-300:]}")
    return {file.stem: np.load(file) for file in sorted(folder.glob("*.npy"))}


def difference(have, want):
    """max|a-b| / max|b|; infinite where shapes, types or the places of NaN differ."""
    if have.shape != want.shape or have.dtype != want.dtype:
        return np.inf
    a, b = have.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    largest = np.abs(a - b).max(initial=0, where=np.isfinite(b))
    return largest / (np.abs(b).max(initial=0, where=np.isfinite(b)) or 1)


def compare(name, have, want, bit_equal):
    if sorted(have) != sorted(want):
        harness.failed(name, f"outputs {sorted(have)}, wanted {sorted(want)}")
        return
    worst = {key: difference(have[key], want[key]) for key in want}
    wrong = [key for key in want if worst[key] > (0 if bit_equal else TOLERANCES[want[key].dtype])]
    text = ", ".join(f"{key} {worst[key]:.1e}" for key in wrong or [max(worst, key=worst.get)])
    harness.measured(name, not wrong, text + (", bit-equal is claimed" if bit_equal else ""))


class Check:
    """One workload: its model, its inputs, and what one rank makes of them."""

    def __init__(self, workload, group="workloads"):
        self.workload = workload
        self.folder = harness.scratch(f"{group}_{workload.name}")
        self.model = make_model(workload, self.folder)
        self.dims = [f"--dim={name}={length}" for name, length in workload.dims.items()]
        self.arguments = {case.name: write_inputs(case, self.folder / case.name) for case in workload.cases}
        self.wanted = {}

    def outputs(self, name, flags, compiler=harness.weft):
        """By case, of one build; none after reporting."""
        program = self.folder / name.replace("/", "_")
        status, _, err = compiler("compile", self.model, *self.dims, *flags, "-o", program)
        if status != 0:
            harness.failed(f"{self.workload.name}/{name}", f"exit {status}: {err[-400:]}")
            return {}
        found = {}
        for case in self.workload.cases:
            try:
                found[case.name] = outputs_of(program, self.arguments[case.name], self.folder / f"{name}.{case.name}")
            except RuntimeError as error:
                harness.failed(f"{self.workload.name}/{name}/{case.name}", error)
        return found

    def one_rank(self):
        """True if there is something to compare with."""
        schedule = self.folder / "one_rank.yaml"
        states = ", ".join(f"{name}: {output}" for name, output in self.workload.states.items())
        schedule.write_text("weft: 1\n" + (f"state: {{{states}}}\n" if states else ""))
        self.wanted = self.outputs("one rank", ["--schedule", schedule])
        for case in self.workload.cases:
            if case.formula and case.name in self.wanted:
                compare(f"{self.workload.name}/one rank/{case.name}", self.wanted[case.name],
                        case.formula(case.inputs, case.states), False)
        if not any(case.formula for case in self.workload.cases):
            status, out, err = harness.weft("verify", self.model, *self.dims)
            harness.check(f"{self.workload.name}/one rank/evaluated", status == 0, f"exit {status}: {(out + err)[-400:]}")
        return len(self.wanted) == len(self.workload.cases)

    def schedules(self):
        """The sample's files, and overlapped.yaml with each other mechanism."""
        files = sorted((SAMPLES / self.workload.name).glob("*.yaml"))
        for mechanism in self.workload.mechanisms:
            text = (SAMPLES / self.workload.name / "overlapped.yaml").read_text()
            other = self.folder / f"overlapped_{mechanism}.yaml"
            other.write_text(text.replace("mechanism: streams", f"mechanism: {mechanism}"))
            files.append(other)
        return files

    def is_bit_equal(self, name, flags):
        """The claims of explain; None after reporting."""
        status, out, err = harness.weft("explain", self.model, *self.dims, *flags, "--json")
        if harness.check(f"{self.workload.name}/{name}/explain", status == 0, f"exit {status}: {err[-300:]}"):
            return json.loads(out)["bit_equal"]
        return None

    def meshes_of(self, file):
        """The one that a hash chooses, the largest for every second schedule; in `full` all."""
        *others, largest = self.workload.meshes
        if harness.FULL or not others:
            return self.workload.meshes
        choice = zlib.crc32(f"{self.workload.name}/{file.stem}".encode()) % (2 * len(others))
        return [others[choice] if choice < len(others) else largest]

    def schedule(self, file, mesh):
        name = file.stem + "".join(f" {flag}" for flag in mesh if flag != "--mesh")
        flags = ["--schedule", file, *mesh]
        found, bit_equal = self.outputs(name, flags), self.is_bit_equal(name, flags)
        for case, outputs in found.items():
            compare(f"{self.workload.name}/{name}/{case}", outputs, self.wanted[case], bit_equal)

    def run(self):
        if not self.one_rank():
            return
        for file in self.schedules():
            for mesh in self.meshes_of(file):
                self.schedule(file, mesh)


if __name__ == "__main__":
    harness.need_weft()
    for each in WORKLOADS:
        Check(each).run()
