"""The reliability of measurements: the machine's load by other processes, and the interval of a median."""

import math
import os
import statistics
import time

BUSY = 0.05  # with more than this share of the machine used by others, a single figure is worth little


class Load:
    """Measures from its making on."""

    def __init__(self):
        self.start, self.all, self.own = time.monotonic(), *busy_seconds()

    def of_others(self):
        """The share of all cores that processes of others used, those that this one has waited for not counted."""
        every, own = busy_seconds()
        seconds = (time.monotonic() - self.start) * os.cpu_count()
        return max(0.0, (every - self.all) - (own - self.own)) / seconds

    def __str__(self):
        return f"other processes used {self.of_others():.0%} of {os.cpu_count()} cores"


def busy_seconds():
    """CPU seconds of the whole machine so far, and those of this process with what it started."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def median_interval(values):
    """The median, and order statistics between which the true one lies with 95 % probability."""
    values, n = sorted(values), len(values)
    below = max(0, math.floor((n - 1.96 * math.sqrt(n)) / 2))
    return statistics.median(values), values[below], values[n - 1 - below]
