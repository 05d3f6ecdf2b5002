# test: slow
"""The environments of samples/environments: a step against the published equations, and all steps in one kernel bit for bit
the same as step by step."""

import json
import subprocess
import sys

import harness
import numpy as np

sys.path.insert(0, str(harness.ROOT / "samples" / "environments"))
import make  # noqa: E402

STEPS, COPIES = 60, 100


def cartpole(s, action):
    x, v, angle, turn = s
    force = np.where(action > 0.5, 10.0, -10.0)
    push = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
    turning = (9.8 * np.sin(angle) - np.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * np.cos(angle)**2 / 1.1))
    pushing = push - 0.05 * turning * np.cos(angle) / 1.1
    after = [x + 0.02 * v, v + 0.02 * pushing, angle + 0.02 * turn, turn + 0.02 * turning]
    return after, np.ones_like(x), (abs(after[0]) > 2.4) | (abs(after[2]) > 12 * 2 * np.pi / 360)


def pendulum(s, torque):
    angle, turn = s
    torque = np.clip(torque, -2, 2)
    cost = ((angle + np.pi) % (2 * np.pi) - np.pi)**2 + 0.1 * turn**2 + 0.001 * torque**2
    after = np.clip(turn + (3 * 10 / 2 * np.sin(angle) + 3 * torque) * 0.05, -8, 8)
    return [angle + after * 0.05, after], -cost, np.zeros(angle.shape, bool)


def acrobot(s, action):
    def rates(y):
        first, second, turn1, turn2 = y
        d1 = 0.25 + (1 + 0.25 + np.cos(second)) + 2
        d2 = 0.25 + 0.5 * np.cos(second) + 1
        phi2 = 0.5 * 9.8 * np.cos(first + second - np.pi / 2)
        phi1 = (-0.5 * turn2**2 * np.sin(second) - turn2 * turn1 * np.sin(second)
                + 1.5 * 9.8 * np.cos(first - np.pi / 2) + phi2)
        turning2 = ((action - 1) + d2 / d1 * phi1 - 0.5 * turn1**2 * np.sin(second) - phi2) / (1.25 - d2**2 / d1)
        return np.array([turn1, turn2, -(d2 * turning2 + phi1) / d1, turning2])

    y = np.array(s)
    k1 = rates(y)
    k2 = rates(y + 0.1 * k1)
    k3 = rates(y + 0.1 * k2)
    k4 = rates(y + 0.2 * k3)
    y = y + 0.2 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    y[:2] = (y[:2] + np.pi) % (2 * np.pi) - np.pi
    y[2], y[3] = np.clip(y[2], -4 * np.pi, 4 * np.pi), np.clip(y[3], -9 * np.pi, 9 * np.pi)
    done = -np.cos(y[0]) - np.cos(y[1] + y[0]) > 1
    return list(y), np.where(done, 0.0, -1.0), done


def mountaincar(s, action):
    x, v = s
    v = np.clip(v + (action - 1) * 0.001 + np.cos(3 * x) * -0.0025, -0.07, 0.07)
    x = np.clip(x + v, -1.2, 0.6)
    v = np.where((x == -1.2) & (v < 0), 0.0, v)
    return [x, v], -np.ones_like(x), (x >= 0.5) & (v >= 0)


EQUATIONS = {"cartpole": cartpole, "pendulum": pendulum, "acrobot": acrobot, "mountaincar": mountaincar}


def build(environment, form, steps, folder, states=None):
    """`states`: the pairs of inputs and results that go from one iteration to the next."""
    name = f"{form}_{steps}"
    model, program, schedule = folder / f"{name}.onnx", folder / name, folder / f"{name}.yaml"
    make.save(make.make(environment, form, steps, COPIES), model)
    pairs = ", ".join(f"{old}: {new}" for old, new in (states or {}).items())
    schedule.write_text(f"weft: 1\nstate: {{{pairs}}}\n" if states else "weft: 1\n")
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "-o", program)
    if status != 0:
        raise RuntimeError(f"{environment}, {name}: {err[-300:]}")
    return program


def run(program, inputs, results, folder, *flags):
    target = folder / f"{program.name}_results"
    inputs = [flag for name, file in inputs.items() for flag in ("--input", f"{name}={folder}/{file}.npy")]
    status, _, err = harness.run([program, *inputs, "--output-dir", target, "--poison", *flags])
    if status != 0:
        raise RuntimeError(f"{program.name}: {err[-300:]}")
    return [np.load(target / f"{name}.npy") for name in results]


def same_bits(name, have, wanted):
    same = all(np.array_equal(a.ravel(), b.ravel()) for a, b in zip(have, wanted))
    harness.check(name, len(have) == len(wanted) and same, "other bits")


class Environment:
    def __init__(self, name):
        self.name, self.folder = name, harness.scratch(f"environment_{name}")
        random = np.random.default_rng(5)
        self.reach = make.ENVIRONMENTS[name][1]
        self.names = list(self.reach)
        for variable, far in self.reach.items():
            for kind in ("", "_reset"):
                values = random.uniform(-far, far, COPIES).astype(np.float32)
                np.save(self.folder / f"{variable}{kind}.npy", values)
        actions = random.integers(0, 2 if name == "cartpole" else 3, (STEPS, COPIES)).astype(np.float32)
        if name == "pendulum":
            actions = random.uniform(-3, 3, (STEPS, COPIES)).astype(np.float32)
        np.save(self.folder / "actions.npy", actions)
        for step, action in enumerate(actions):
            np.save(self.folder / f"action{step}.npy", action)
            np.save(self.folder / f"actions{step}.npy", action[None])

    def files(self, **more):
        return {name: name for name in (*self.names, *make.resets(self.names))} | more

    def check_equations(self):
        """One step is what the published equations give in double precision."""
        program = build(self.name, "step", 1, self.folder)
        results = [f"{n}_next" for n in self.names] + ["reward", "done"]
        have = run(program, self.files(action="action0"), results, self.folder)
        start, reset = ([np.load(self.folder / f"{n}{kind}.npy").astype(np.float64) for n in self.names]
                        for kind in ("", "_reset"))
        after, reward, done = EQUATIONS[self.name](start, np.load(self.folder / "action0.npy").astype(np.float64))
        wanted = [np.where(done, r, a) for r, a in zip(reset, after)] + [reward]
        off = np.max([np.abs(a - b).max() for a, b in zip(have, wanted)])  # NaN where one is
        harness.check(f"{self.name}/equations", off < 2e-5 and np.array_equal(have[-1], done), f"off by {off}")

    def step_by_step(self, results):
        """The loop of one step, run once for each step, each from the state after the previous one."""
        states = {n: f"{n}_last" for n in self.names}
        program = build(self.name, "loop", 1, self.folder, states)
        (self.folder / "state").mkdir(exist_ok=True)
        for n in self.names:
            np.save(self.folder / "state" / f"{n}.npy", np.load(self.folder / f"{n}.npy"))
        inputs = {n: n for n in make.resets(self.names)} | {"actions": "actions{i}"}
        return run(program, inputs, results, self.folder, "--iterations", str(STEPS), "--load-state",
                   self.folder / "state")

    def check_vectors(self):
        """The loop over the lanes of a step vectorises: g++ says so of a line in it."""
        source = self.folder / "source"
        harness.weft("compile", self.folder / f"loop_{STEPS}.onnx", "--emit", "source", "-o", source)
        kernel = source / "kernels" / "pointwise.cpp"
        lines = kernel.read_text().splitlines()
        steps = next(i for i, line in enumerate(lines) if "int64_t step = 0" in line)
        first, behind, *_ = (i for i in range(steps, len(lines)) if "omp simd" in lines[i])
        told = subprocess.run(["g++", "-std=c++20", "-O3", "-march=x86-64-v3", "-fno-math-errno", "-fno-trapping-math", "-fwrapv",
                               "-fopenmp-simd", "-w", f"-I{harness.ROOT}/runtime_lib/include", "-S", kernel, "-o", "/dev/null",
                               "-fopt-info-vec-optimized"], capture_output=True, text=True).stderr
        at = [int(line.split("pointwise.cpp:")[1].split(":")[0]) for line in told.splitlines() if "pointwise.cpp:" in line]
        harness.check(f"{self.name}/vectors", any(first < line <= behind for line in at), told[-300:])

    def check(self):
        self.check_equations()
        results = [f"{n}_last" for n in self.names] + ["rewards", "ends"]
        stepped = self.step_by_step(results)
        for form in ("loop", "scan"):
            program = build(self.name, form, STEPS, self.folder)
            kernels = json.loads(harness.run([program, "--info"])[1])["manifest"]["kernels"]
            strategies = [kernel["strategy"].split()[0] for kernel in kernels]
            harness.check(f"{self.name}/{form}/one kernel", strategies == ["recurrence"], f"{strategies}")
            *state, rewards, ends = run(program, self.files(actions="actions"), results, self.folder)
            same_bits(f"{self.name}/{form}/bits", [*state, rewards[-1], ends[-1]], stepped)
        if harness.FULL or self.name == "mountaincar":
            self.check_vectors()


def main():
    for environment in EQUATIONS:
        Environment(environment).check()


if __name__ == "__main__":
    harness.need_weft()
    main()
