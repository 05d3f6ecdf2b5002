"""ONNX's own operator cases: prepares the list, runs it, and sums it up.

    run_node_cases.py [PART_OF_A_NAME...]      only cases whose name holds one of the parts
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import harness  # noqa: E402
from verify_many import Case, print_summary, verify_many  # noqa: E402

NODE_PACK = "onnx_node_tests_v1.23dev_6be0677f"
CONVERTED_PACK = "onnx_pytorch_simple_tests"

# Cases whose expected values were written with four digits.
FLAGS = {"test_averagepool_2d_ceil_last_window_starts_on_pad": "--tolerance=5e-4"}

# NumPy's generator drew their expected results; Weft's generator is another.
OTHER_DRAWS = ["test_bernoulli", "test_bernoulli_double", "test_bernoulli_double_expanded", "test_bernoulli_expanded",
               "test_bernoulli_seed", "test_bernoulli_seed_expanded", "test_training_dropout",
               "test_training_dropout_default", "test_training_dropout_default_mask", "test_training_dropout_mask"]


def cases_of(pack, parts=()):
    """Every model of the pack with its first data set, or None where the pack is not on this machine."""
    folder = harness.corpus_pack(pack)
    if folder is None:
        return None
    cases = []
    for model in sorted(folder.glob("**/model.onnx")):
        data = model.parent / "test_data_set_0"
        if model.parent.name in OTHER_DRAWS:
            continue
        if data.exists() and (not parts or any(part in model.parent.name for part in parts)):
            cases.append(Case(model.parent.name, model, data, FLAGS.get(model.parent.name, "")))
    return cases


def run_cases(name, cases):
    return verify_many(cases, harness.scratch(name))


def main(parts):
    cases = cases_of(NODE_PACK, parts)
    if cases is None:
        sys.exit(f"no {NODE_PACK}.tar.xz in {harness.corpus_folder()} (WEFT_CORPUS)")
    results = run_cases("node_cases", cases)
    for result in results:
        if result.status in ("wrong", "failed"):
            print(f"{result.status} {result.case}: {result.detail}")
    print_summary(results)


if __name__ == "__main__":
    main(sys.argv[1:])
