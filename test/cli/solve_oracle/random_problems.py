"""Random pipeline problems in the form that `weft solve` reads, each a function of its name alone.

Memory that a block takes on a device is given back there by later blocks. `weft solve` refuses everything else. Only
then can a periodic schedule be filled and drained without more memory (oracle.py relies on that too).
"""

import itertools
import random

LEAST_BLOCKS = 4
DEVICES = (2, 3, 4, 5)
LONGEST = 6


class Builder:
    """The blocks of a problem, in an order in which each follows its predecessors."""

    def __init__(self, draw, devices):
        self.draw, self.devices, self.blocks = draw, devices, []
        self.spread = draw.choice((0, 0.1, 0.4))  # how many of the blocks are on several devices

    def add(self, devices, deps, memory=0):
        """The new block's id."""
        block = {"id": len(self.blocks), "devices": sorted(devices), "time": self.draw.randint(1, LONGEST), "memory": memory, "deps": sorted(deps)}
        self.blocks.append(block)
        return block["id"]

    def pad(self, count, last):
        """Adds blocks without memory in sequence, until there are `count`. Returns the last of them, or `last`."""
        while len(self.blocks) < count:
            last = [self.add(self.some_devices(), last)]
        return last

    def some_devices(self):
        """One device, sometimes several: any sets, so that they overlap in part."""
        count = self.draw.randint(2, self.devices) if self.draw.random() < self.spread else 1
        return self.draw.sample(range(self.devices), count)

    def amount(self):
        return self.draw.choice((0, 1, 1, 1, 2, 3))


def chain(build, count):
    """Forward blocks in sequence, then their backward blocks in reverse."""
    stages = [(build.some_devices(), build.amount()) for _ in range(count // 2)]
    last = []
    for devices, memory in stages:
        last = [build.add(devices, last, memory)]
    last = build.pad(count - len(stages), last)
    for devices, memory in reversed(stages):
        last = [build.add(devices, last, -memory)]


def split(build, count):
    """A chain whose backward blocks have two parts, of which nothing waits for the second."""
    stages = [(build.some_devices(), build.amount()) for _ in range(count // 3)]
    last = []
    for devices, memory in stages:
        last = [build.add(devices, last, 2 * memory)]
    last = build.pad(count - 2 * len(stages), last)
    for devices, memory in reversed(stages):
        last = [build.add(devices, last, -memory)]
        build.add(devices, last, -memory)


def towers(build, count):
    """Two chains that join in a block and split again after it; the backward blocks of each in reverse."""
    lengths = [count // 4, (count - 2) // 2 - count // 4]
    towers = [[(build.some_devices(), build.amount()) for _ in range(length)] for length in lengths]
    ends = []
    for tower in towers:
        last = []
        for devices, memory in tower:
            last = [build.add(devices, last, memory)]
        ends += last
    devices, memory = build.some_devices(), build.amount()
    last = build.pad(count - 1 - sum(lengths), [build.add(devices, ends, memory)])
    joined = [build.add(devices, last, -memory)]
    for tower in towers:
        last = joined
        for devices, memory in reversed(tower):
            last = [build.add(devices, last, -memory)]


def parts(build, count):
    """Blocks on several devices whose memory blocks on each of them give back by themselves, or several together."""
    last, owed = [], []  # owed: device, amount, the block that took it
    while (room := count - len(build.blocks) - len(owed)) >= 2:
        devices = build.draw.sample(range(build.devices), build.draw.randint(1, min(3, build.devices, room - 1)))
        memory = build.draw.randint(1, 2)
        deps = last if build.draw.random() < 0.7 else []
        last = [build.add(devices, deps, memory)]
        owed += [(device, memory, last[0]) for device in devices]
    build.draw.shuffle(owed)
    while owed:
        device, memory, taker = owed.pop()
        same = [entry for entry in owed if entry[0] == device]
        deps = [taker]
        if same and build.draw.random() < 0.4:
            owed.remove(same[0])
            memory, deps = memory + same[0][1], [taker, same[0][2]]
        build.add([device], set(deps), -memory)
    build.pad(count, last)


def graph(build, count):
    """Any acyclic graph. Memory of a block is freed by any later block on the same devices."""
    sets = [build.some_devices() for _ in range(max(count // 3, 2))]
    for at in range(count):
        most = build.draw.choice((1, 1, 2))
        build.add(build.draw.choice(sets), build.draw.sample(range(at), min(at, most)) if build.draw.random() < 0.85 else [])
    behind = followers(build.blocks)
    for taker in build.blocks:
        givers = [block for block in build.blocks if block["id"] in behind[taker["id"]] and block["devices"] == taker["devices"] and block["memory"] <= 0]
        for _ in range(build.draw.randint(0, 2) if givers and taker["memory"] >= 0 else 0):
            amount = build.draw.randint(1, 2)
            taker["memory"] += amount
            build.draw.choice(givers)["memory"] -= amount


def followers(blocks):
    """The ids of what waits for each block, directly or through others."""
    behind = {block["id"]: set() for block in blocks}
    for block in reversed(blocks):
        for before in block["deps"]:
            behind[before] |= {block["id"]} | behind[block["id"]]
    return behind


FAMILIES = {"chain": chain, "split": split, "towers": towers, "parts": parts, "graph": graph}
LIMITS = ("none", "loose", "tight", "own")


def peaks_of(case):
    """The peak memory of each device while the blocks of one micro-batch run in sequence."""
    peaks = []
    for device in range(case["num_devices"]):
        peaks.append(max(itertools.accumulate(block["memory"] for block in case["blocks"] if device in block["devices"]), default=0))
    return peaks


def limit_of(draw, kind, case):
    """Limits by kind: tight ones mostly make the period longer, and are sometimes below what a single micro-batch needs."""
    peaks = peaks_of(case)
    if kind == "loose":
        return draw.randint(2, 4) * max(*peaks, 1)
    if kind == "tight":
        return max(max(peaks) + draw.choice((-1, 0, 0, 0, 1, 1)), 0)
    return [max(draw.choice((peak, peak, peak + 1, 2 * peak, max(peaks) - 1)), 0) for peak in peaks]


def problem(seed, copies, number, most_blocks):
    """The problem of this number: a case of `weft solve`. Families and limits take turns, five and four of them."""
    family, limits = list(FAMILIES)[number % len(FAMILIES)], LIMITS[number % len(LIMITS)]
    name = f"{family}-{limits}-{copies}-{seed}.{number}"
    draw = random.Random(name)
    build = Builder(draw, draw.choice(DEVICES))
    FAMILIES[family](build, draw.randint(LEAST_BLOCKS, most_blocks))
    case = {"name": name, "num_devices": build.devices, "blocks": build.blocks}
    if limits != "none":
        case["memory_limit"] = limit_of(draw, limits, case)
    return case
