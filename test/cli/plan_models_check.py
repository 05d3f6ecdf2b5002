# test: slow
"""Schedules that `weft plan` writes for random graphs on several machines compile, are proved, run, and match ONNX
Runtime: 20 graphs, 200 in `full`. Every third graph has stages or transforms too. Further models once had schedules
that did not build: small weights of layers after a sliced one, and a training whose columns three ranks slice
raggedly."""

import sys

import harness
from verify_many import Case, report_complete, verify_many

sys.path.insert(0, str(harness.ROOT / "test" / "fuzz"))
from random_graphs import write_case  # noqa: E402

GRAPHS = 200 if harness.FULL else 20
FOLDER = harness.scratch("plan_models")
MACHINE = """machine: a host
target: host
archs: [x86-64-v3]
ranks: {ranks}
rank: {{f32: {rate}GOP/s, f64: 50GOP/s, f16: 100GOP/s, memory: {rate}00MB/s, capacity: 8GB, step: 5ns, function: 50}}
network:
  - {{name: wire, ranks: {ranks}, bandwidth: {bandwidth}, latency: {latency}}}
"""
LINKS = (("10GB/s", "10ns"), ("100GB/s", "1ns"), ("1GB/s", "1us"))
RATES = (1, 10)
LEVELS = ("shard", "transforms", "pipeline")


def machine_of(seed):
    bandwidth, latency = LINKS[seed % len(LINKS)]
    file = FOLDER / f"machine{seed}.yaml"
    file.write_text(MACHINE.format(ranks=(2, 4, 3, 8)[seed % 4], rate=RATES[seed // 2 % 2], bandwidth=bandwidth, latency=latency))
    return file


def planned_case(seed):
    """The case with its plan in place of its own schedule; nothing where there is no case."""
    case = write_case(seed, FOLDER / str(seed))
    if case is None:
        return None
    flags = [flag for flag in case.flags.split() if not flag.startswith("--schedule")]
    schedule = FOLDER / str(seed) / "plan.yaml"
    level = LEVELS[seed // 3 % 3] if seed % 3 == 0 else "shard"
    dims = [flag for flag in flags if flag.startswith("--dim")]
    status, _, err = harness.weft("plan", case.model, "--machine", machine_of(seed), "--level", level, "-o", schedule, "--quiet", *dims)
    if status == 3:  # the compiler refuses the graph under any schedule
        return None
    if not harness.check(f"{case.name}/is planned by {level}", status == 0, f"exit {status}: {err[-300:]}"):
        return None
    return case._replace(flags=" ".join([*flags, f"--schedule={schedule}"]))


LAYER = """ ["h.{l}.fc"] "h.{l}.fc" = MatMul("h.{l}.in", "h.{l}.fc.weight") ["h.{l}.bias"] "h.{l}.a" = Add("h.{l}.fc", "h.{l}.fc.bias")
 ["h.{l}.proj"] "h.{l}.proj" = MatMul("h.{l}.a", "h.{l}.proj.weight") ["h.{l}.out"] "h.{m}.in" = Add("h.{l}.proj", "h.{l}.proj.bias")
"""
WEIGHTS = """ float[32,64] "h.{l}.fc.weight" = random({l}, 0.1), float[64] "h.{l}.fc.bias" = random(2{l}, 0.1),
 float[64,32] "h.{l}.proj.weight" = random(3{l}, 0.1), float[32] "h.{l}.proj.bias" = random(4{l}, 0.1)"""


def layered_model(layers):
    weights = ",\n".join(WEIGHTS.format(l=l) for l in range(layers))
    nodes = "".join(LAYER.format(l=l, m=l + 1) for l in range(layers))
    last = f' [y] y = Identity("h.{layers}.in")\n'
    return f'<ir_version: 10, opset_import: ["" : 20]>\nm (float[8,32] "h.0.in") => (float[8,32] y) <\n{weights}> {{\n{nodes}{last}}}\n'


TWO_PRODUCTS = """<ir_version: 10, opset_import: ["" : 20]>
m (float[4,16,32] x) => (float[4,16,32] y) <float[32,64] w1 = random(1, 0.1), float[64,32] w2 = random(2, 0.1)> {
 [up] a = MatMul(x, w1) [down] y = MatMul(a, w2)
}
"""
RAGGED_TRAINING = """weft: 1
mesh: {t: 3}
shard:
  w1: {t: 1}
train:
  loss: {mean_squared_error: {predictions: y, targets: x}}
  optimizer: {adamw: {rate: 1e-3, epsilon: 1e-3}}
"""
SCHEDULED = {
    "layers": (layered_model(4), 'weft: 1\nmesh: {tp: 2}\nshard:\n  "h.{l}.fc.weight": {tp: 1}\n'),
    "ragged training": (TWO_PRODUCTS, RAGGED_TRAINING),
}


def scheduled_cases():
    for name, (model, schedule) in SCHEDULED.items():
        files = [FOLDER / f"{name.replace(' ', '_')}{end}" for end in (".onnxtxt", ".yaml")]
        for file, text in zip(files, (model, schedule)):
            file.write_text(text)
        yield Case(name, files[0], "-", f"--schedule={files[1]}")


def main():
    cases, seed = [], 0
    while len(cases) < GRAPHS and seed < 2 * GRAPHS:
        seed += 1
        case = planned_case(seed)
        cases += [case] if case else []
    entries = sum("shard:" in (FOLDER / case.name.removeprefix("seed") / "plan.yaml").read_text() for case in cases)
    harness.measured("plans with entries", entries >= GRAPHS // 3, f"{entries} of {len(cases)}")
    report_complete(verify_many([*cases, *scheduled_cases()], FOLDER))


if __name__ == "__main__":
    harness.need_weft()
    main()
