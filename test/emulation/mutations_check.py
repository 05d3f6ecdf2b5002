# test: full, long
"""Mistakes in emitted cuda programs, one at a time, each of which the emulation must notice: by a wrong result, an
abort, a time-out, an error or a report of the thread sanitizer. Harmless ones are named here with the reason."""

import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import sys

import numpy as np
import sanitizers_check

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import emulate  # noqa: E402
import mutations  # noqa: E402
from emulation_sanitizers_check import alike, emit, host_outputs  # noqa: E402

FIXTURES = harness.ROOT / "test" / "fixtures"
MLP = harness.ROOT / "samples" / "mlp"
PROGRAMS = [(FIXTURES / f"{name}.onnxtxt", FIXTURES / f"{name}.yaml")
            for name in ("far_overlap", "overlap_blocks", "overlap_blocks_signal")]
PROGRAMS += [(MLP / "mlp.onnxtxt", MLP / "tp2_overlap.yaml")]
IN_FULL = [(FIXTURES / "loop_all_reduce.onnxtxt", FIXTURES / "loop_all_reduce.yaml")]
RUN = ["--random-inputs", "5", "--iterations", "4", "--poison"]

ROWS = """<ir_version: 10, opset_import: ["" : 20]>
rows (float[6,600] x, float[70,90] t) => (float[6,600] y, float[90,70] turned)
<float[600] scale = random(1, 0.5), float[600] bias = random(2, 0.5)>
{
  [norm] n = LayerNormalization<axis = -1>(x, scale, bias)
  [soft] y = Softmax<axis = -1>(n)
  [turn] turned = Transpose<perm = [1, 0]>(t)
}
"""

# Mutations that change nothing: parts of their names, and why.
NO_DATA = "this word carries no data: who sees it set ends its wait, nothing else"
EQUIVALENT = {
    "if (!peers.barrier()) return; -> nothing":
        "the step has waited for a flag that each rank raises after its part of this chunk, and after the iteration "
        "before; no kernel here reads what another wrote in the same chunk",
    "-> peers.at((p + 1) % ranks, ":
        "two ranks: the sum of two is the same either way round",
    "-> mutation::load_relaxed(&fault->leave)": NO_DATA,
    "-> mutation::store_relaxed(&fault->leave, 1u)": NO_DATA,
    "act_gather peers.at(p, a) -> peers.at(peers.index, ": "a rank gathers its own slice: its own pointer is all it reads",
    "soft_chunks if (!peers.wait(":
        "the step that waits begins with a barrier of the same ranks, each of which has raised the flag before",
    "soft_chunks if (chunk >= 1 && !peers.wait(": "the same",
    "if (!peers.barrier()) return false; -> nothing":
        "the same the other way round: the kernel has waited for the flag of each rank",
    "proj_sum return peers.barrier(); -> return true;":
        "another step meets the same ranks before what this one read is written again",
    "r.wait(act_gather_done, 3)":
        "the kernel before it on this stream has waited for the same flag",
    " signal __syncthreads(); -> nothing":
        "the kernel that raises flags writes nothing before: its threads are ordered by the stream",
    " wait __syncthreads_or(late) == 0 -> !late":
        "the kernel that waits for flags does nothing after, and ends only with its last thread",
}
# Names like these that are mistakes: a kernel that goes on after it has waited, a part that only one rank has.
CAUGHT = (r"overlap_blocks_signal/.* wait __syncthreads_or", r"act_gather peers\.at\(p, a\) -> peers\.at\(\(p")


@dataclasses.dataclass
class Knobs:
    """How a program is run."""

    kind: str  # plain or tsan
    seed: int
    delay_us: int = 0
    sms: int = 132
    one_block: bool = False  # in every plain kernel: blocks go round their loops
    stall: bool = False  # rank 1 stops before the fused kernel: a time-out must be told


SEARCH = [Knobs("plain", 1), Knobs("plain", 2, 300), Knobs("plain", 3, 2000), Knobs("tsan", 1), Knobs("tsan", 2, 300),
          Knobs("tsan", 3, 2000), Knobs("plain", 1, one_block=True), Knobs("tsan", 1, one_block=True)]
# Whether the host looks at a fault before the kernel has ended is chance.
STALLED = [Knobs("tsan", seed, stall=True) for seed in (1, 2, 3)]
HARMLESS = {"any grid": SEARCH[:3], "any resident grid": SEARCH[:4]}
SMALL_DEVICE = Knobs("plain", 1, sms=1)
SEEDS = [Knobs("plain", seed, (0, 300, 1000)[seed % 3]) for seed in range(50 if harness.FULL else 10)]


class Program:
    """An emitted program with its mutations, built for each kind."""

    def __init__(self, name, source, wanted):
        self.name, self.source, self.wanted = name, source, wanted
        self.mutations = []
        self.executables = {}
        self.has_peers = False  # a kernel meets those of other ranks

    def build(self, kernels):
        """Error text; `kernels`: the runtime's own kernels with the same device.h, by kind."""
        for kind, build in BUILDS.items():
            executable = self.source.parent / kind
            error = emulate.build_program(self.source, executable, build, harness.JOBS, [kernels[kind]])
            if error:
                return error
            self.executables[kind] = executable
        return ""

    def waiting_step(self):
        """The first step whose kernel waits for peers."""
        text = (self.source / "program.cpp").read_text()
        return re.findall(r'r\.step\(\{\w+, "([^"]+)"', text[:text.index("launch_resident")])[-1]

    def run(self, number, knobs, folder):
        """(what went wrong in a word, text, outputs)."""
        shutil.rmtree(folder, ignore_errors=True)
        on = [number, *(m.number for m in self.mutations if knobs.one_block and m.is_one_block())]
        environment = dict(os.environ, WEFT_MUTATIONS=",".join(map(str, on)), WEFT_EMULATION_SEED=str(knobs.seed),
                           WEFT_EMULATION_DELAY_US=str(knobs.delay_us), WEFT_EMULATION_SMS=str(knobs.sms),
                           TSAN_OPTIONS="halt_on_error=1 exitcode=66")
        more = ["--timeout", "3" if knobs.kind == "plain" else "30", "--output-dir", folder]
        more = ["--timeout", "2", "--stall", f"1:{self.waiting_step()}"] if knobs.stall else more
        status, out, err = harness.run([self.executables[knobs.kind], *RUN, *more], env=environment, timeout=120)
        if knobs.stall and status == TIME_OUT:
            return "", out + err, {}
        if status != 0 or knobs.stall:
            return WORDS.get(status, "error"), out + err, {}
        got = {file.name: np.load(file) for file in folder.glob("*.npy")}
        return "" if alike(got, self.wanted) else "wrong result", "", got


TIME_OUT = 124
WORDS = {66: "sanitizer", TIME_OUT: "time-out", -6: "abort", -11: "crash"}
BUILDS = {"plain": harness.BUILD, "tsan": harness.ROOT / "build" / "tsan"}


# ---- programs -------------------------------------------------------------------------------------------------------


def mutated(name, model, schedule, folder):
    """The program with a switch for every mutation, or None and a failure."""
    place = folder / name
    place.mkdir()
    source = emit(model, schedule, place / "source")
    if source is None:
        return None
    program = Program(name, source, host_outputs(model, schedule, place))
    header = source / "runtime_lib" / "include" / "weft" / "device.h"
    text, reductions, flags = mutations.mutate_device(header.read_text())
    header.write_text(text)
    (header.parent / "mutation.h").write_text(mutations.SWITCH)
    mutator = mutations.Mutator(1000)
    text = mutations.with_each_copy((source / "program.cpp").read_text())
    (source / "program.cpp").write_text(mutations.mutate_program(mutator, text))
    for name in re.findall(r'\{"each_(\w+)"', text):
        ranks = int(re.search(r"\.world = (\d+)", text)[1])
        program.wanted[f"each_{name}.npy"] = np.stack([program.wanted[f"{name}.npy"]] * ranks)
    kernels = ""
    for file in sorted(source.glob("kernels/*.cu")):
        kernels += file.read_text()
        file.write_text(mutations.mutate_kernels(mutator, file.name, file.read_text()))
    if "weft::block_" in kernels:
        program.mutations += reductions
    program.has_peers = "peers.barrier" in kernels
    in_chunks = "peers.block_barrier" in kernels
    # In a kernel of both, each step that reads from peers begins with a barrier: waits for flags only come before it.
    called = program.has_peers * ["barrier"] + in_chunks * ["block_barrier"]
    called += (program.has_peers != in_chunks) * ["wait", "signal"]
    called += (program.has_peers and not in_chunks) * ["poll"]
    program.mutations += [mutation for mutation in flags if mutation.function() in called]
    program.mutations += mutator.mutations
    return program


def runtime_kernels(source, folder):
    """The runtime's kernels compiled with the program's device.h: they stand before those of the library."""
    objects, commands = {}, []
    lib = source / "runtime_lib"
    for kind, build in BUILDS.items():
        objects[kind] = folder / f"{kind}_kernels.o"
        includes = [word for part in ("include", "src", "cuda") for word in ("-I", lib / part)]
        flags = ["-std=c++20", "-O2", "-w", "-fwrapv", "-DWEFT_EMULATE", *emulate.sanitizer_flags(build)]
        includes += ["-I", emulate.ROOT / "test" / "emulation" / "include"]
        commands.append(["g++", *flags, *includes, "-x", "c++", "-c", lib / "cuda" / "kernels.cu", "-o", objects[kind]])
    return objects, emulate.run_all(commands, harness.JOBS)


# ---- verdicts -------------------------------------------------------------------------------------------------------


def same_bits(got, wanted):
    return got.keys() == wanted.keys() and all(got[name].tobytes() == wanted[name].tobytes() for name in wanted)


def reason_of(program, mutation):
    name = f"{program.name}/{mutation.name}"
    if any(re.search(pattern, name) for pattern in CAUGHT):
        return None
    return next((part for part in EQUIVALENT if part in name), None)


def first_catch(program, mutation, folder):
    """(word, text) of the first run that shows the mutation."""
    for knobs in [*SEARCH, *program.has_peers * STALLED]:
        word, text, _ = program.run(mutation.number, knobs, folder)
        if word:
            return f"{word} ({knobs.kind})", text
    return "", ""


def unchanged(program, mutation, knobs, original, folder):
    """Empty, or which run differs."""
    for each in knobs:
        word, text, got = program.run(mutation.number, each, folder)
        if word or not same_bits(got, original):
            return f"{each}: {word or 'other bits'} {text[-500:]}"
    return ""


def judge(program, mutation, original, folder):
    """(mutation, verdict in a word, error)."""
    folder = folder / f"{program.name} {mutation.number}"
    if mutation.expect == "same":
        error = unchanged(program, mutation, HARMLESS[mutation.kind], original, folder)
        return mutation, "same bits", error
    if mutation.expect == "refused":
        word, text, _ = program.run(mutation.number, SMALL_DEVICE, folder)
        return mutation, "refused", "" if word == "error" else f"not an error: {word} {text[-300:]}"
    if reason_of(program, mutation):
        runs = SEEDS + (SEARCH[3:] if harness.FULL else SEARCH[4:5])
        return mutation, "equivalent", unchanged(program, mutation, runs, original, folder)
    word, _ = first_catch(program, mutation, folder)
    return mutation, word, "" if word else "nothing notices it"


def check_program(program, folder):
    """Verdicts counted by kind."""
    original = program.run(0, SEARCH[0], folder / f"{program.name} unmutated")[2]
    nothing = mutations.Mutation(0, "", "", "same")
    place = folder / f"{program.name} unmutated"
    error = unchanged(program, nothing, [*SEARCH, SMALL_DEVICE, *SEEDS], original, place)
    if program.has_peers:
        error = error or program.run(0, STALLED[0], place)[0]
    if not harness.check(f"{program.name}/unmutated", original and not error, error or "no outputs"):
        return
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(harness.JOBS) as pool:
        for mutation, word, error in pool.map(lambda each: judge(program, each, original, folder), program.mutations):
            counts[mutation.kind, word] += 1
            if word == "equivalent":
                print(f"equivalent: {program.name}/{mutation.name}: {EQUIVALENT[reason_of(program, mutation)]}")
            harness.check(f"{program.name}/{mutation.kind}/{one_name(mutation)}", not error, error)
    for (kind, word), count in sorted(counts.items()):
        print(f"{program.name}: {kind}: {count} {word or 'NOT CAUGHT'}")


def one_name(mutation):
    """Without the colon that ends a case's name."""
    return re.sub(r":(?= )|:$", ";", mutation.name)


def main():
    folder = harness.scratch("mutations")
    if not sanitizers_check.build("tsan", ["weft_runtime_emulated"]):
        return
    (folder / "rows.onnxtxt").write_text(ROWS)
    (folder / "rows.yaml").write_text("weft: 1\n")
    models = [*PROGRAMS, *harness.FULL * IN_FULL, (folder / "rows.onnxtxt", folder / "rows.yaml")]
    programs = [mutated(model.stem, model, schedule, folder) for model, schedule in models]
    programs = [program for program in programs if program is not None]
    names = [f"{program.name}/{mutation.name}" for program in programs for mutation in program.mutations]
    unused = [part for part in EQUIVALENT if not any(part in name for name in names)]
    harness.check("equivalents/each is a mutation", not unused, f"no mutation is {unused}")
    kernels, error = runtime_kernels(programs[0].source, folder)
    for program in programs:
        error = error or program.build(kernels)
        if harness.check(f"{program.name}/build", not error, error[-400:]):
            check_program(program, folder)


if __name__ == "__main__":
    harness.need_weft()
    main()
