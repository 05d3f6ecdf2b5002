"""Whether a schedule that `weft solve --json` prints is one: unrolled and checked without anything of the search."""

import itertools


def limits_of(case):
    """The limit of each device, None for none."""
    limit = case.get("memory_limit")
    return limit if isinstance(limit, list) else [limit] * case["num_devices"]


def fault_of(case, starts, limits):
    """The error in a schedule, given by the starts of each micro-batch's blocks."""
    place = {block["id"]: at for at, block in enumerate(case["blocks"])}
    for times in starts:
        for at, block in enumerate(case["blocks"]):
            for before in block["deps"]:
                if times[place[before]] + case["blocks"][place[before]]["time"] > times[at]:
                    return f"block {block['id']} starts before block {before} has ended"
    for device, limit in enumerate(limits):
        runs = sorted((times[at], block["time"], block["memory"]) for times in starts for at, block in enumerate(case["blocks"])
                      if device in block["devices"])
        if any(a[0] + a[1] > b[0] for a, b in itertools.pairwise(runs)):
            return f"blocks overlap on device {device}"
        peak = max(itertools.accumulate(run[2] for run in runs), default=0)
        if limit is not None and peak > limit:
            return f"device {device} holds {peak}, over {limit}"
    return ""


def unrolled(row, micro_batches, period_length=None):
    """The starts of so many micro-batches of the periodic schedule."""
    copies, length = row["micro_batches_per_period"], period_length or row["period_length"]
    return [[at + m // copies * length for at in row["starts_in_period"][m % copies]] for m in range(micro_batches)]


def faults(case, row, micro_batches=40):
    """Errors in the periodic schedule over this many micro-batches, and in each makespan's schedule."""
    found = [fault_of(case, unrolled(row, micro_batches), limits_of(case))]
    found.append(fault_of(case, unrolled(row, micro_batches), row["peak_memory"]))
    if max(row["peak_memory"]) != row["memory"]:
        found.append(f"the memory is {row['memory']}, the peaks are {row['peak_memory']}")
    for count, filled in row["starts"].items():
        found.append(fault_of(case, filled, limits_of(case)))
        length = max(at + block["time"] for times in filled for at, block in zip(times, case["blocks"]))
        if length != row["makespan"][count] or len(filled) != int(count):
            found.append(f"{len(filled)} micro-batches end at {length}, not at {row['makespan'][count]}")
    return "; ".join(text for text in found if text)
