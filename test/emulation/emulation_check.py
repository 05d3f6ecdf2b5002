# test: slow, long
"""Emitted CUDA executed on the CPU. It runs the emulation's own tests, a third of the fixtures (`full`: all), GPT-2 and
Llama on 1, 2 and 4 ranks, and ONNX's operator cases. Each is compared with the reference evaluation or known
results."""

import sys

import harness
import unit_check
from fixture_turns import fixtures_of, verify_fixtures
from verify_many import report, report_complete, verify_many

sys.path[:0] = [str(harness.ROOT / "test" / folder) for folder in ("emulation", "conformance", "models")]
import classic_ml_check  # noqa: E402
import contrib_check  # noqa: E402
from emulated import Emulated  # noqa: E402
from run_node_cases import NODE_PACK, cases_of  # noqa: E402

SAMPLES = harness.ROOT / "samples"


def check_verify(emulated, name, *arguments):
    status, out, err = emulated.run("verify", *arguments, "--quiet")
    harness.check(name, status == 0, f"exit {status}: {(err or out)[-300:]}")


def make(script, path, *arguments):
    status, _, err = harness.run([sys.executable, script, path, *arguments])
    if status != 0:
        raise RuntimeError(f"{script}: {err[-300:]}")
    return path


def check_models(emulated):
    folder = harness.scratch("emulation")
    gpt2 = make(SAMPLES / "gpt2" / "make.py", folder / "gpt2.onnx", "--layers", "4", "--width", "64", "--heads", "4",
                "--vocab", "101", "--context", "32")
    dims = ("--dim", "batch=2", "--dim", "seq=16")
    if harness.FULL:
        check_verify(emulated, "gpt2/one rank", gpt2, *dims)
    for schedule in ("tp2", "tp2_overlap", "tp4", "pipeline2") if harness.FULL else ("tp2_overlap", "pipeline2"):
        check_verify(emulated, f"gpt2/{schedule}", gpt2, *dims, "--schedule", SAMPLES / "gpt2" / f"{schedule}.yaml")
    llama = make(harness.ROOT / "samples" / "llama" / "make.py", folder / "llama.onnx")
    if harness.FULL:
        check_verify(emulated, "llama/one rank", llama, "--dim", "batch=2", "--dim", "seq=9")
    for name in ("tp2", "tp4") if harness.FULL else ("tp2",):
        schedule = harness.ROOT / "samples" / "llama" / f"{name}.yaml"
        check_verify(emulated, f"llama/{name}", llama, "--dim", "batch=2", "--dim", "seq=9", "--schedule", schedule)


def check_node_cases(emulated):
    cases = cases_of(NODE_PACK)
    if cases is None:
        harness.skipped("node cases", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    cases = cases if harness.FULL else cases[::12]
    results = verify_many(cases, harness.scratch("emulated_cases"), emulated)
    report([result for result in results if result.status in ("passed", "wrong", "failed")])
    passed = sum(result.status == "passed" for result in results)
    least = 1700 if harness.FULL else 140
    harness.measured("node cases/floor", passed >= least, f"{passed} of {len(results)} passed, at least {least} are wanted")


def check_one_nodes(emulated):
    """Operators of ai.onnx.ml and com.microsoft, in part by a stride."""
    for name, module in (("classic_ml", classic_ml_check), ("contrib", contrib_check)):
        folder = harness.scratch(f"emulated_{name}")
        cases = list(module.all_cases(folder))
        report_complete(verify_many(cases if harness.FULL else cases[::8], folder, emulated))


def main():
    unit_check.run_executable(harness.BUILD / "emulation_tests", "emulation")
    unit_check.run_executable(harness.BUILD / "cuda_runtime_tests", "cuda_runtime")
    emulated = Emulated()
    verify_fixtures(fixtures_of("emulation"), "fixture", emulated)
    check_models(emulated)
    check_node_cases(emulated)
    check_one_nodes(emulated)


harness.need_weft()
main()
