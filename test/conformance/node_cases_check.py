# test: slow, long
"""ONNX's operator cases, every fifth of them (`full`: all), and the cases that PyTorch's converter left in ONNX."""

import harness
from run_node_cases import CONVERTED_PACK, NODE_PACK, OTHER_DRAWS, cases_of, run_cases
from verify_many import check_floor, report


def main():
    for name in OTHER_DRAWS:
        harness.skipped(name, "what it expects was drawn by another generator")
    for name, pack in (("node", NODE_PACK), ("converted", CONVERTED_PACK)):
        cases = cases_of(pack)
        if cases is None:
            harness.skipped(name, "the corpus is not on this machine (WEFT_CORPUS)")
            continue
        is_part = name == "node" and not harness.FULL
        results = run_cases(f"cases_{name}", cases[::5] if is_part else cases)
        report(results)
        check_floor("fifth of node" if is_part else name, results)


harness.need_weft()
main()
