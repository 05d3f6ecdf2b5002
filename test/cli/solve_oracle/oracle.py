"""The least period of pipeline problems, and the least memory at it, by a constraint solver.

    oracle.py < QUESTIONS > ANSWERS, a JSON object in each line

A question is a case of `weft solve` with three more fields. The micro-batches in a period are "copies". The limits of
devices, or null, are "limits". Constraints to leave out, for tests of the test, are "dropped". An answer has "period"
(of all copies together, or null), "memory" (the highest peak of a device) and "undecided" (the solver gave up).

For a given period T, block i of copy c starts at T * stage + rest, 0 <= rest < T, and again every T. Blocks of a device
are disjoint on the circle of length T. When a block starts, a device holds the sum of the changes of all blocks that
have started. The changes of a micro-batch add up to 0, so only the differences of stages and the order on the circle
count.

Stages up to twice the blocks are enough. Let the blocks of a copy be in stages up to x, and from x + 3 on. The later
ones can start a period earlier: none of the others waits for them, and those that they wait for start before T * (x + 1)
and end before T * (x + 2). Memory stays within its limits, as takers come before givers: on no device do the later
blocks take more than they give back. So stages in use are at most two apart, and the first can be stage 0.
"""

import itertools
import json
import sys

from ortools.sat.python import cp_model

# The limit by the solver's own clock, which counts work, so that every machine gives the same answer.
MOST_WORK = 60


class PeriodModel:
    """The schedules of one period as constraints."""

    def __init__(self, case, copies, period, dropped=()):
        self.model = cp_model.CpModel()
        self.case, self.period, self.dropped = case, period, dropped
        self.place = {block["id"]: at for at, block in enumerate(case["blocks"])}
        self.starts = list(itertools.product(range(copies), range(len(case["blocks"]))))
        last_stage = 2 * (len(case["blocks"]) - 1)
        self.rest = {start: self.model.new_int_var(0, period - 1, "") for start in self.starts}
        self.stage = {start: self.model.new_int_var(0, last_stage, "") for start in self.starts}
        self.earlier = {}  # of two starts on the circle: the first is at a smaller rest
        self.break_symmetry(copies)
        self.keep_order()
        self.keep_apart()

    def block(self, start):
        return self.case["blocks"][start[1]]

    def device_starts(self, device):
        return [start for start in self.starts if device in self.block(start)["devices"]]

    def break_symmetry(self, copies):
        """A schedule can be turned on the circle, and its copies exchanged as wholes."""
        self.model.add(self.rest[0, 0] == 0)
        for copy in range(1, copies):
            self.model.add(self.rest[copy - 1, 0] <= self.rest[copy, 0])

    def keep_order(self):
        """A block starts when those that it waits for have ended."""
        if "order" in self.dropped:
            return
        for copy, at in self.starts:
            for before in self.case["blocks"][at]["deps"]:
                first = copy, self.place[before]
                end = self.period * self.stage[first] + self.rest[first] + self.block(first)["time"]
                self.model.add(self.period * self.stage[copy, at] + self.rest[copy, at] >= end)

    def keep_apart(self):
        """Blocks that share a device are disjoint on the circle."""
        for one, other in itertools.combinations(self.starts, 2):
            if not set(self.block(one)["devices"]) & set(self.block(other)["devices"]):
                continue
            is_first = self.model.new_bool_var("")
            self.earlier[one, other], self.earlier[other, one] = is_first, ~is_first
            self.put_before(one, other, is_first)
            self.put_before(other, one, ~is_first)
        for start in self.starts:
            if self.block(start)["time"] > self.period:
                self.model.add_bool_or([])

    def put_before(self, one, other, condition):
        """On the circle `one` ends before `other` starts, and `other` before `one` starts again."""
        time_of_one, time_of_other = (0 if "exclusion" in self.dropped else self.block(start)["time"] for start in (one, other))
        self.model.add(self.rest[one] + time_of_one <= self.rest[other]).only_enforce_if(condition)
        if "circle" not in self.dropped:
            self.model.add(self.rest[other] + time_of_other <= self.rest[one] + self.period).only_enforce_if(condition)

    def limit_memory(self, device, limit):
        """No start of a block that takes memory leaves the device with more than the limit, a number or a variable."""
        starts = self.device_starts(device)
        for taker in starts:
            if self.block(taker)["memory"] <= 0:
                continue
            level = 0
            for start in starts:
                is_later = self.earlier[taker, start] if start != taker else 0
                level -= self.block(start)["memory"] * (self.stage[start] + is_later)
            self.model.add(level <= limit)
        # Implied, but found by the solver's linear relaxation alone: the mean over time is at most the limit too.
        held = sum(-self.block(start)["memory"] * (self.period * self.stage[start] + self.rest[start]) for start in starts)
        self.model.add(held <= self.period * limit)

    def solved(self):
        """Whether there is a schedule, None where that is not decided, and the least of what is minimized."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 2  # five times as fast here as what it would choose
        solver.parameters.max_deterministic_time = MOST_WORK
        status = solver.solve(self.model)
        if status in (cp_model.OPTIMAL, cp_model.INFEASIBLE):
            return status == cp_model.OPTIMAL, round(solver.objective_value) if self.model.has_objective() else None
        return None, None


def model_of(question, period, copies):
    """The schedules of the period that keep all limits."""
    made = PeriodModel(question, copies, period, question["dropped"])
    for device, limit in enumerate(question["limits"]):
        if limit is not None and "memory" not in question["dropped"]:
            made.limit_memory(device, limit)
    return made


class Undecided(Exception):
    pass


def is_feasible(question, period, copies):
    """Whether there is a schedule of the period within all limits."""
    answer, _ = model_of(question, period, copies).solved()
    if answer is None:
        raise Undecided
    return answer


def least_period(question):
    """None where there is no schedule: then not even one micro-batch after the other keeps the limits."""
    times = [block["time"] for block in question["blocks"]]
    if not is_feasible(question, sum(times), copies=1):
        return None
    loads = [sum(block["time"] for block in question["blocks"] if device in block["devices"]) for device in range(question["num_devices"])]
    period = max(times) if question["dropped"] else question["copies"] * max(loads)
    while not is_feasible(question, period, question["copies"]):
        period += 1
    return period


def least_memory(question, period):
    """The least highest peak of a device with which the limits are kept too."""
    made = model_of(question, period, question["copies"])
    taken = sum(max(block["memory"], 0) for block in question["blocks"])
    peak = made.model.new_int_var(0, 2 * len(made.starts) * taken, "")
    for device in range(question["num_devices"]):
        made.limit_memory(device, peak)
    made.model.minimize(peak)
    answer, least = made.solved()
    if answer is None:
        raise Undecided
    return least


def answer_of(question):
    try:
        period = least_period(question)
        memory = None if period is None else least_memory(question, period)
    except Undecided:
        return {"undecided": True}
    return {"period": period, "memory": memory, "undecided": False}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer_of(json.loads(line))), flush=True)
