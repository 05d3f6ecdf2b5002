"""Where each fixture is run beside the host: on the emulation of cuda, under the address or under the thread sanitizer.
By default a thirty-sixth of them, by a hash of the name, takes each of these turns, and the emulation all that are there for devices
(`device_*`); in `full` all take all."""

import zlib

import harness
from verify_many import Case, report_complete, verify_many

FIXTURES = harness.ROOT / "test" / "fixtures"
TURNS = ("emulation", "asan", "tsan")


def fixtures():
    """The models that a schedule lies beside and that compile."""
    return [model for model in sorted(FIXTURES.glob("*.onnxtxt")) if not model.stem.startswith("fail_")]


def turn_of(model):
    if model.stem.startswith("device_"):
        return "emulation"
    return dict(enumerate(TURNS)).get(zlib.crc32(model.stem.encode()) % 36, "host")


def fixtures_of(turn):
    return [model for model in fixtures() if harness.FULL or turn_of(model) == turn]


def verify_fixtures(models, prefix, compiler=None, run_args=""):
    """Each under its schedule against the reference evaluation, all in one compiler run."""
    cases = [Case(f"{prefix}/{model.stem}", model, "-", f"--schedule={model.with_suffix('.yaml')}") for model in models]
    report_complete(verify_many(cases, harness.scratch(prefix.replace("/", "_")), compiler, run_args))
