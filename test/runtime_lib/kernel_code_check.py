# test: fast
"""A loop over a maximum and a minimum with constants has one instruction for each: neither comparisons nor masks, whose
constants would take the registers of the sums beside them."""

import re
import subprocess

import harness

FUNCTION = "weft_test_clip"  # of math_test.cpp
MASKS = re.compile(r"\s(v(?:p?blend|p?and|cmp|pternlog)\w*)\s")
LIMITS = re.compile(r"\sv(?:max|min)ps\s")


def main():
    for arch in ("v3", "v4"):
        tests = harness.BUILD / f"kernel_tests_{arch}"
        shown = subprocess.run(["objdump", "-d", f"--disassemble={FUNCTION}", tests], capture_output=True, text=True, check=True).stdout
        masks = MASKS.findall(shown)
        harness.check(f"clip/{arch}", bool(LIMITS.search(shown)) and not masks, f"it has {', '.join(masks) or 'no vectors'}")


harness.need_weft()
main()
