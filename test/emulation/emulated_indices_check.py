# test: full
"""Indices from data that lie outside, on the cuda target over the emulation: what indices_check shows of the host."""

import sys

import harness
from emulated import Emulated

sys.path.insert(0, str(harness.ROOT / "test" / "bad_input"))
from indices_check import SLICED, check_chunks, check_made, check_places  # noqa: E402

if __name__ == "__main__":
    harness.need_weft()
    target = Emulated()
    check_chunks("emulated_chunks", target.run, target.environment)
    check_made("emulated_made", target.run, target.environment)
    check_places("emulated", target.run, "weft: 1\n", target.environment)
    check_places("emulated_sliced", target.run, SLICED, target.environment)
