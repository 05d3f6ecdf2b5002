# test: slow, alone
"""Overlap on the host, measured: a tensor-parallel MLP in chunks on two ranks, over a link so slow that communication
takes as long as computation. At least 60 % of the shorter of the two must be hidden, and a link changes no bit.

hidden = (communication + computation - both) / min(communication, computation), medians of --overlap: each iteration
runs the compute steps alone, the communication steps alone, and all, in turns. A machine that others use measures badly:
a measurement is repeated, and counts as noise where others used more than a tenth of the cores meanwhile."""

import json
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "test" / "bench"))
from load import Load  # noqa: E402

MODELS = harness.ROOT / "test" / "models"
SIZE = ["--rows", "512", "--width", "512", "--hidden", "2048"]
HIDDEN = 0.6
NOISE = 0.1
ATTEMPTS = 8


def build(folder):
    model, program = folder / "mlp.onnx", folder / "mlp"
    code, _, error = harness.run([sys.executable, MODELS / "mlp.py", model, *SIZE])
    if code == 0:
        code, _, error = harness.weft("compile", model, "--schedule", MODELS / "mlp_tp2_overlap.yaml", "-o", program)
    if not harness.check("compile", code == 0, error):
        sys.exit(1)
    return program


def measure(program, *flags):
    """The report of one run, with the share of the cores that others used meanwhile."""
    load = Load()
    code, out, error = harness.run([program, "--random-inputs", "1", "--warmup", "2", "--json", "--overlap", *flags])
    if code:
        harness.failed("run", error)
        sys.exit(1)
    return json.loads(out) | {"noise": load.of_others()}


def check_bits(program, folder):
    for name, flags in (("quick", []), ("slow", ["--link", "100MB/s,100us"])):
        code, _, error = harness.run([program, "--random-inputs", "1", "--output-dir", folder / name, *flags])
        if not harness.check(f"run-{name}", code == 0, error):
            return
    results = [(folder / name / "residual.npy").read_bytes() for name in ("quick", "slow")]
    harness.check("link-changes-no-bit", results[0] == results[1], "the results differ with and without --link")


def bandwidth(program):
    """For which what a rank receives takes as long as it computes."""
    report = measure(program, "--iterations", "10")
    return report["received_bytes"] / report["overlap"]["computation_ms"] / 1e3  # MB/s


def attempt(program, number):
    report = measure(program, "--iterations", "20", "--link", f"{bandwidth(program):.2f}MB/s")
    times = report["overlap"]
    communication, computation = times["communication_ms"], times["computation_ms"]
    hidden = -1 if times["hidden"] is None else times["hidden"]  # the rounds were too far apart to tell
    figure = (f"{hidden:.0%} hidden (rounds {times['hidden_low']:.0%} to {times['hidden_high']:.0%}): communication {communication:.1f} ms, computation {computation:.1f} ms, "
              f"both {report['latency_ms']['median']:.1f} ms; others used {report['noise']:.0%} of the cores")
    print(f"attempt {number}: {figure}", flush=True)
    comparable = 0.5 <= communication / computation <= 2
    return comparable and hidden >= HIDDEN, report["noise"] > NOISE or hidden < -0.99, figure


def check_hidden(program):
    """The first good measurement counts; without one, a quiet bad one fails, and noise alone is no result."""
    quiet = []
    for number in range(1, ATTEMPTS + 1):
        good, noisy, figure = attempt(program, number)
        if good:
            return harness.measured("hidden", True, figure)
        if not noisy:
            quiet.append(figure)
        if len(quiet) == 3:
            break
    if quiet:
        return harness.measured("hidden", False, f"under {HIDDEN:.0%} each time: {'; '.join(quiet)}")
    harness.skipped("hidden", f"all {ATTEMPTS} measurements were disturbed by other processes; the last: {figure}")


def main():
    harness.need_weft()
    folder = harness.scratch("overlap")
    program = build(folder)
    check_bits(program, folder)
    check_hidden(program)


if __name__ == "__main__":
    main()
