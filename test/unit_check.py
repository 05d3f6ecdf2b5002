# test: fast, long
"""The doctest executables; each test case is one result.

    unit_check.py [FILE...]   only the test cases of these files; of a case of a pass, all such cases
"""

import sys
import xml.etree.ElementTree as ElementTree

import harness

LONGEST = 3600 if harness.FULL else 1200  # seconds; every mutation of every fixture takes long


def report_cases(name, text):
    """One result line for each test case of doctest's XML report."""
    for case in ElementTree.fromstring(text).iter("TestCase"):
        title = f"{name}/{case.get('name')}"
        if case.get("skipped") == "true":
            if not sys.argv[1:]:  # else it is a case of another file
                harness.skipped(title, "skipped in the source")
            continue
        result = case.find("OverallResultsAsserts")
        if result is not None and result.get("test_case_success") == "true":
            harness.passed(title)
        else:
            harness.failed(title, first_failure(case))


def first_failure(case):
    for expression in case.iter("Expression"):
        if expression.get("success") != "true":
            where = f"{expression.get('filename')}:{expression.get('line')}"
            return f"{where} {expression.findtext('Original', '')} was {expression.findtext('Expanded', '')}"
    for exception in case.iter("Exception"):
        return f"exception: {exception.text}"
    return "failed"


def run_executable(executable, name, *flags):
    if not executable.exists():
        harness.skipped(name, "not built")
        return
    status, out, err = harness.run([executable, "--reporters=xml", *flags], timeout=LONGEST, cwd=harness.ROOT)
    try:
        report_cases(name, out)
    except ElementTree.ParseError:
        # A crash leaves half a report.
        harness.failed(name, f"exit {status}: {(err or out)[-400:]}")


def has_instructions(feature):
    with open("/proc/cpuinfo") as file:
        return any(line.startswith("flags") and feature in line.split() for line in file)


def run_file(path):
    """The test cases of one file, in the executable that holds it."""
    if path.endswith(".weft"):
        run_executable(harness.BUILD / "weft_tests", "weft_tests", "--test-case=pass cases*")
        return
    for each in ("weft_tests", "runtime_tests", "kernel_tests"):
        if (harness.BUILD / each).exists():
            run_executable(harness.BUILD / each, each, f"--source-file=*{path.removeprefix(str(harness.ROOT))}")


def main():
    for each in ("weft_tests", "runtime_tests"):
        run_executable(harness.BUILD / each, each)
    if not harness.FULL:
        harness.skipped("kernel_tests", "the build of them under the address sanitizer stands for it; full has both")
    elif harness.build("kernel_tests", LONGEST):
        run_executable(harness.BUILD / "kernel_tests", "kernel_tests")
    tested = ""
    for each, feature in (("kernel_tests_v4", "avx512vl"), ("kernel_tests_v3", "avx2")):
        if not has_instructions(feature):
            harness.skipped(each, f"this processor has no {feature}")
        elif tested and not harness.FULL:
            harness.skipped(each, f"{tested} stands for it; full has both")
        elif harness.build(each, LONGEST):
            tested = each
            run_executable(harness.BUILD / each, each)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        run_file(file)
    if not sys.argv[1:]:
        main()
