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
        tests = f"test/CMakeFiles/kernel_tests_{arch}.dir/runtime_lib/math_test.cpp.o"
        if not harness.build(tests):
            continue
        code = subprocess.run(["objdump", "-d", harness.BUILD / tests], capture_output=True, text=True, check=True).stdout
        found = re.search(rf"<{FUNCTION}>:\n(.*?)(?:\n\n|\Z)", code, re.DOTALL)
        if not harness.check(f"clip/{arch}/is there", found is not None):
            continue
        masks = MASKS.findall(found[1])
        harness.check(f"clip/{arch}", bool(LIMITS.search(found[1])) and not masks, f"it has {', '.join(masks) or 'no vectors'}")


harness.need_weft()
main()
