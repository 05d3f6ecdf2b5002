"""Writes an environment of reinforcement learning for many copies at once: CartPole, Pendulum, Acrobot or MountainCar,
with the dynamics of the Gymnasium environments of these names.

    make.py OUTPUT.onnx [--environment cartpole] [--form loop] [--steps 200] [--copies 1024]

Forms: `loop` and `scan` do all steps, `step` does one. Inputs: a float [copies] for each variable of the state, such as
`x`; and another one, `x_reset`, from which a copy continues when its episode has ended. `actions` is float [steps,
copies] (for `step`: `action`, [copies]): the torque of Pendulum, else the number of the action. Results: the state
after the last step (`x_last` for `x`). `reward` and `done` (whether the episode ended) are [steps, copies], for `step`
[copies].
"""

import argparse
import math
import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from model_builder import ModelBuilder, save  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Value:
    """A value of the graph with the operators of arithmetic, each of which adds a node."""

    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def operand(self, other):
        if isinstance(other, Value):
            return other.name
        name = f"number_{other:.9g}"
        return self.graph.weight(name, np.float32(other))

    def apply(self, op, *others):
        name = f"{op.lower()}_{len(self.graph.nodes)}"
        return Value(self.graph, self.graph.node(op, name, [self.name, *map(self.operand, others)]))

    def __add__(self, other):
        return self.apply("Add", other)

    def __sub__(self, other):
        return self.apply("Sub", other)

    def __mul__(self, other):
        return self.apply("Mul", other)

    def __truediv__(self, other):
        return self.apply("Div", other)

    def __neg__(self):
        return self.apply("Neg")

    def __gt__(self, other):
        return self.apply("Greater", other)

    def __lt__(self, other):
        return self.apply("Less", other)

    def __ge__(self, other):
        return self.apply("GreaterOrEqual", other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __or__(self, other):
        return self.apply("Or", other)

    def __and__(self, other):
        return self.apply("And", other)

    def clip(self, low, high):
        return self.apply("Max", low).apply("Min", high)

    def where(self, yes, no):
        """`yes` where this condition holds, else `no`."""
        like = yes if isinstance(yes, Value) else no if isinstance(no, Value) else self
        return self.apply("Where", Value(self.graph, like.operand(yes)), Value(self.graph, like.operand(no)))


def sin(x):
    return x.apply("Sin")


def cos(x):
    return x.apply("Cos")


def wrapped(angle):
    """The angle in [-pi, pi)."""
    return angle - ((angle + math.pi) / (2 * math.pi)).apply("Floor") * (2 * math.pi)


def cartpole(x, v, angle, turn, action):
    total, half_length, moment = 1.1, 0.5, 0.05
    force = (action > 0.5).where(10.0, -10.0)
    sine, cosine = sin(angle), cos(angle)
    push = (force + turn * turn * sine * moment) / total
    turning = (sine * 9.8 - cosine * push) / ((-(cosine * cosine * (0.1 / total)) + 4.0 / 3.0) * half_length)
    pushing = push - turning * cosine * (moment / total)
    state = x + v * 0.02, v + pushing * 0.02, angle + turn * 0.02, turn + turning * 0.02
    done = (state[0].apply("Abs") > 2.4) | (state[2].apply("Abs") > 12 * 2 * math.pi / 360)
    return state, done.where(1.0, 1.0), done


def pendulum(angle, turn, torque):
    torque = torque.clip(-2.0, 2.0)
    off = wrapped(angle)
    cost = off * off + turn * turn * 0.1 + torque * torque * 0.001
    turn = (turn + (sin(angle) * 15.0 + torque * 3.0) * 0.05).clip(-8.0, 8.0)
    return (angle + turn * 0.05, turn), -cost, angle > math.inf


def acrobot_rates(first, second, turn1, turn2, torque):
    """Derivatives of the state of two links, each 1 long and heavy, with their masses in the middle."""
    cosine, sine = cos(second), sin(second)
    d1 = cosine + (0.25 + 1.25 + 2.0)
    d2 = cosine * 0.5 + 1.25
    phi2 = cos(first + second - math.pi / 2) * 4.9
    phi1 = -(turn2 * turn2 * sine * 0.5) - turn2 * turn1 * sine + cos(first - math.pi / 2) * 14.7 + phi2
    turning2 = (torque + d2 / d1 * phi1 - turn1 * turn1 * sine * 0.5 - phi2) / (-(d2 * d2 / d1) + 1.25)
    turning1 = -((d2 * turning2 + phi1) / d1)
    return turn1, turn2, turning1, turning2


def acrobot(first, second, turn1, turn2, action):
    """A step of 0.2 by Runge and Kutta's method of fourth order."""
    torque, start = action - 1.0, (first, second, turn1, turn2)

    def moved(rates, time):
        return [s + r * time for s, r in zip(start, rates)]

    k1 = acrobot_rates(*start, torque)
    k2 = acrobot_rates(*moved(k1, 0.1), torque)
    k3 = acrobot_rates(*moved(k2, 0.1), torque)
    k4 = acrobot_rates(*moved(k3, 0.2), torque)
    end = [s + (a + b * 2.0 + c * 2.0 + d) * (0.2 / 6) for s, a, b, c, d in zip(start, k1, k2, k3, k4)]
    fast1, fast2 = 4 * math.pi, 9 * math.pi
    state = wrapped(end[0]), wrapped(end[1]), end[2].clip(-fast1, fast1), end[3].clip(-fast2, fast2)
    done = -cos(state[0]) - cos(state[1] + state[0]) > 1.0
    return state, done.where(0.0, -1.0), done


def mountaincar(x, v, action):
    v = (v + (action - 1.0) * 0.001 - cos(x * 3.0) * 0.0025).clip(-0.07, 0.07)
    x = (x + v).clip(-1.2, 0.6)
    v = ((x < -1.19999) & (v < 0.0)).where(0.0, v)
    done = (x >= 0.5) & (v >= 0.0)
    return (x, v), done.where(-1.0, -1.0), done


# The step, the variables of the state, and how far they reach at first.
ENVIRONMENTS = {
    "cartpole": (cartpole, {"x": 0.05, "v": 0.05, "angle": 0.05, "turn": 0.05}),
    "pendulum": (pendulum, {"angle": math.pi, "turn": 1.0}),
    "acrobot": (acrobot, {"angle1": 0.1, "angle2": 0.1, "turn1": 0.1, "turn2": 0.1}),
    "mountaincar": (mountaincar, {"x": 0.6, "v": 0.0}),
}


def write_step(graph, environment, now, action):
    """Adds the nodes of a step from the variables named `now`; names of the next ones, the reward and the end."""
    step, names = ENVIRONMENTS[environment]
    state, reward, done = step(*(Value(graph, name) for name in now), Value(graph, action))
    for name, value in zip(names, state):
        graph.node("Where", f"{name}_next", [done.name, f"{name}_reset", value.name])
    graph.node("Identity", "reward", [reward.name])
    graph.node("Identity", "done", [done.name])
    return [f"{name}_next" for name in names] + ["reward", "done"]


def rows(names, shape):
    """Floats, but for what begins or ends a step."""
    dtypes = {"done": BOOL, "ends": BOOL, "go": BOOL, "go_on": BOOL, "number": INT64}
    return [(name, dtypes.get(name, FLOAT), shape) for name in names]


def values(table):
    return [helper.make_tensor_value_info(*row) for row in table]


def whole_model(environment, form, steps, copies):
    """All steps in a Loop or Scan, whose body reads the states to reset to out of the graph around it."""
    names = list(ENVIRONMENTS[environment][1])
    now, last = [f"{name}_now" for name in names], [f"{name}_last" for name in names]
    body, loops = ModelBuilder(), form == "loop"
    inputs = rows(["number", "go"], []) + rows(now, [copies]) if loops else rows(now + ["action"], [copies])
    if loops:
        body.node("Identity", "go_on", ["go"])
        body.node("Gather", "action", ["actions", "number"], axis=0)
    results = write_step(body, environment, now, "action")
    outputs = rows(["go_on"] if loops else [], []) + rows(results, [copies])
    graph = helper.make_graph(body.nodes, "step", values(inputs), values(outputs))
    whole = ModelBuilder()
    whole.initializers = body.initializers
    if loops:
        whole.initializers += [numpy_helper.from_array(np.array(steps, np.int64), "steps"),
                               numpy_helper.from_array(np.array(True), "always")]
        whole.node("Loop", environment, ["steps", "always", *names], last + ["rewards", "ends"], body=graph)
    else:
        whole.node("Scan", environment, [*names, "actions"], last + ["rewards", "ends"], body=graph, num_scan_inputs=1)
    return whole.model(environment, rows(names + resets(names), [copies]) + rows(["actions"], [steps, copies]),
                       rows(last, [copies]) + rows(["rewards", "ends"], [steps, copies]), 20)


def resets(names):
    return [f"{name}_reset" for name in names]


def step_model(environment, copies):
    names = list(ENVIRONMENTS[environment][1])
    graph = ModelBuilder()
    results = write_step(graph, environment, names, "action")
    return graph.model(environment, rows(names + resets(names) + ["action"], [copies]), rows(results, [copies]), 20)


def make(environment, form, steps, copies):
    return step_model(environment, copies) if form == "step" else whole_model(environment, form, steps, copies)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--environment", choices=sorted(ENVIRONMENTS), default="cartpole")
    parser.add_argument("--form", choices=["loop", "scan", "step"], default="loop")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--copies", type=int, default=1024)
    options = parser.parse_args()
    save(make(options.environment, options.form, options.steps, options.copies), options.output)
