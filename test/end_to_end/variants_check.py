# test: slow
"""Variants: `--dim seq=1,4` makes several programs in one executable. Each request is run by the smallest that fits, with
the results of a program compiled for its length alone; weights, states and ranks are those of all variants.
By default a small model with a state on two ranks; in `full` GPT-2 in all ways in which a program can be used."""

import json

import numpy as np
import onnxruntime

import generation_check
import harness
from generation_check import DIMS, compile_program, make_model, schedule
from library_check import Model
from serve_check import RUN, Server, refusal

# The sum of all rows so far is added to each row: what past holds matters to every later request.
MODEL_TEXT = """<ir_version: 10, opset_import: ["" : 20]>
running (float[seq,8] x, float[past,8] past) => (float[seq,16] y, float[rows,8] present)
<int64[1] axis = {{0}}, float[8,16] w = {{{weights}}}> {{
  [grow] present = Concat <axis = 0> (past, x)
  [total] total = ReduceSum <keepdims = 1> (present, axis)
  [add] h = Add(x, total)
  [proj] y = MatMul(h, w)
}}
"""
WEIGHTS = np.random.default_rng(4).integers(-99, 100, (8, 16)) / 100
MODEL_TEXT = MODEL_TEXT.format(weights=", ".join(map(str, WEIGHTS.flatten())))
ROWS = 16
SCHEDULE = {"weft": 1, "mesh": {"tp": 2}, "shard": {"w": {"tp": 1}}, "state": {"past": "present"}}


def compile_model(name, folder, model, *flags, **schedule):
    """The executable, or None after FAIL."""
    (folder / f"{name}.yaml").write_text(json.dumps({**SCHEDULE, **schedule}))
    program = folder / name
    status, _, err = harness.weft("compile", model, "--schedule", folder / f"{name}.yaml", "-o", program, "--quiet",
                                  "--report", folder / f"{name}.json", *flags)
    return program if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}") else None


def save_rows(folder, lengths):
    """Requests of these lengths in x0.npy, x1.npy ...; gives their rows."""
    rows = np.random.default_rng(5).standard_normal((sum(lengths), 8)).astype(np.float32)
    at = 0
    for i, length in enumerate(lengths):
        np.save(folder / f"x{i}.npy", rows[at:at + length])
        at += length
    return rows


def run(program, folder, *flags, **more):
    """(exit code, what --json says, standard error)."""
    status, out, err = harness.run([program, "--json", "--output-dir", folder / "out", *flags], **more)
    return status, json.loads(out) if status == 0 else None, err


def check_requests(name, program, folder, lengths, variants, **more):
    """A request after the other, and all in one start: the state goes on in whichever variant."""
    rows = save_rows(folder, lengths)
    sums = np.cumsum(rows, axis=0, dtype=np.float64)
    at, state = 0, []
    for i, (length, variant) in enumerate(zip(lengths, variants)):
        at += length
        wanted = (rows[at - length:at] + sums[at - 1]) @ WEIGHTS
        for way, flags in (("start", ["--input", f"x={folder}/x{i}.npy", "--save-state", folder / "state", *state]),
                           ("one start", ["--input", f"x={folder}/x{{i}}.npy", "--iterations", i + 1, "--poison"])):
            status, told, err = run(program, folder, *flags, **more)
            if not harness.check(f"{name}/{way} {i}", status == 0, f"exit {status}: {err[-300:]}"):
                return
            error = harness.relative_error(np.load(folder / "out" / "y.npy"), wanted)
            harness.check(f"{name}/result of {way} {i}", error <= 1e-5, f"error {error}")
            harness.check(f"{name}/variant of {way} {i}", told["variant"] == variant, f"{told['variant']}, not {variant}")
        state = ["--load-state", folder / "state"]


def check_refusals(name, program, folder, wanted):
    for what, flags, text in (("no variant", ["--input", f"x={folder}/bad.npy"], wanted),
                              ("too long", ["--input", f"x={folder}/long.npy"], "long.npy: shape 5x8")):
        np.save(folder / "bad.npy", np.zeros((3, 8), np.float32))
        np.save(folder / "long.npy", np.zeros((5, 8), np.float32))
        status, _, err = run(program, folder, *flags)
        harness.check(f"{name}/{what}", status == 1 and text in err, f"exit {status}: {err[-300:]}")


def check_info(name, program):
    status, out, err = harness.run([program, "--info"])
    if harness.check(f"{name}/--info", status == 0, f"exit {status}: {err[-300:]}"):
        info = json.loads(out)
        found = [(v["name"], v["inputs"][0]["shape"]) for v in info["variants"]]
        harness.check(f"{name}/variants of --info", found == [("seq=1", [1, 8]), ("seq=4", [4, 8])], f"{found}")
        harness.check(f"{name}/manifests", list(info["manifest"]["variants"]) == ["seq=1", "seq=4"], list(info["manifest"]))


def check_server(name, program):
    """Sessions whose requests are of both lengths, and one that no variant takes in between."""
    rows = np.random.default_rng(6).standard_normal((10, 8)).astype(np.float32)
    sums = np.cumsum(rows, axis=0, dtype=np.float64)
    with Server(program) as server:
        client, at = server.client(), 0
        for length in (4, 1, 4, 1):
            at += length
            y = client.request(RUN, "mine", x=rows[at - length:at])["y"]
            error = harness.relative_error(y, (rows[at - length:at] + sums[at - 1]) @ WEIGHTS)
            harness.check(f"{name}/served up to {at}", error <= 1e-5, f"error {error}")
            other = client.request(RUN, x=rows[:1])["y"]
            error = harness.relative_error(other, (2 * rows[:1].astype(np.float64)) @ WEIGHTS)
            harness.check(f"{name}/served between up to {at}", error <= 1e-5, f"error {error}")
            found = refusal(client, RUN, "mine", x=rows[:3])
            harness.check(f"{name}/refused after {at}", "(1 or 4)x8" in found, found)
        outgrown = refusal(client, RUN, "mine", x=np.zeros((4, 8), np.float32)), refusal(client, RUN, "mine", x=np.zeros((4, 8), np.float32))
        harness.check(f"{name}/outgrown", f"more than its bound of {ROWS}" in outgrown[1], outgrown)
        harness.check(f"{name}/stops", server.stop() == 0, "another exit code")


def weight_bytes(folder, name):
    return json.loads((folder / f"{name}.json").read_text())["weights_bytes"]


def check_small(folder):
    """One executable of two ranks; a program for one length is only emitted, for the size of its weights."""
    model = folder / "running.onnxtxt"
    model.write_text(MODEL_TEXT)
    dims = {"seq": "1,4", "past": f"<={ROWS}"}
    program = compile_model("lengths", folder, model, dims=dims)
    pinned = compile_model("pinned", folder, model, "--emit", "source", dims={**dims, "seq": 4})
    if not program or not pinned:
        return
    harness.check("lengths/weights once", weight_bytes(folder, "lengths") == weight_bytes(folder, "pinned"), "another size")
    check_requests("lengths", program, folder, [4, 1, 1, 4, 1], ["seq=4", "seq=1", "seq=1", "seq=4", "seq=1"])
    check_refusals("lengths", program, folder, "bad.npy: shape 3x8; 'x' is (1 or 4)x8")
    check_info("lengths", program)
    check_server("lengths", program)


def check_bounds(folder):
    """Bounds: every length up to the last has its variant; two such dims, and results of the program for the last alone."""
    model = folder / "two.onnxtxt"
    model.write_text("""<ir_version: 10, opset_import: ["" : 20]>
                     two (float[batch,seq,8] x) => (float[batch,seq,8] y) <float[8,8] w = random(3, 0.5)> {
                       z = MatMul(x, w)  y = Softmax <axis = 1> (z)
                     }""")
    shard = {"shard": {"x": {"tp": 2}}, "state": {}}
    several = compile_model("several", folder, model, dims={"batch": [1, 2], "seq": "<=3,8"}, **shard)
    alone = compile_model("alone", folder, model, dims={"batch": "<=2", "seq": "<=8"}, **shard)
    for batch, seq, variant in ((1, 1, "batch=1, seq<=3"), (1, 3, "batch=1, seq<=3"), (2, 3, "batch=2, seq<=3"),
                                (1, 4, "batch=1, seq<=8"), (2, 8, "batch=2, seq<=8")):
        np.save(folder / "x.npy", np.random.default_rng(seq).standard_normal((batch, seq, 8)).astype(np.float32))
        found = []
        for program in (several, alone):
            status, told, err = run(program, folder, "--input", f"x={folder}/x.npy", "--poison")
            if harness.check(f"bounds/{batch}x{seq} of {program.name}", status == 0, f"exit {status}: {err[-300:]}"):
                found.append((np.load(folder / "out" / "y.npy"), told.get("variant")))
        if len(found) == 2:
            error = harness.relative_error(found[0][0], found[1][0])
            harness.check(f"bounds/result of {batch}x{seq}", error <= 2e-5, f"error {error}")
            harness.check(f"bounds/variant of {batch}x{seq}", found[0][1] == variant, f"{found[0][1]}, not {variant}")
    status, told, err = run(several, folder, "--random-inputs", 1)
    harness.check("bounds/random inputs", status == 0 and told["variant"] == "batch=2, seq<=8", f"exit {status}: {told} {err[-300:]}")


def check_tied(folder):
    """Dims that a node takes for one: combinations that differ are left out, and one value broadcasts to an open dim."""
    model = folder / "tied.onnxtxt"
    model.write_text("""<ir_version: 10, opset_import: ["" : 20]>
                     tied (float[n,8] x, float[m,8] y) => (float[rows,8] z) { z = Add(x, y) }""")
    rows = np.random.default_rng(9).standard_normal((2, 4, 8)).astype(np.float32)
    for name, dims, fitting, wrong in (("equal", {"n": [2, 4], "m": [2, 4]}, ((2, 2, "n=2, m=2"), (4, 4, "n=4, m=4")), (2, 4)),
                                       ("bounds", {"n": "<=2,4", "m": "<=3,8"}, ((1, 1, "n<=2, m<=3"), (4, 4, "n<=4, m<=8")), (1, 2)),
                                       ("one", {"n": [1, 4], "m": "<=4"}, ((1, 3, "n=1"), (4, 4, "n=4")), (4, 3))):
        program = compile_model(name, folder, model, dims=dims, shard={}, state={})
        for n, m, variant in (*fitting, (*wrong, None)):
            np.save(folder / "x.npy", rows[0, :n]), np.save(folder / "y.npy", rows[1, :m])
            status, told, err = run(program, folder, "--input", f"x={folder}/x.npy", "--input", f"y={folder}/y.npy")
            if not harness.check(f"tied/{name} {n}, {m}", status == (0 if variant else 1), f"exit {status}: {err[-300:]}") or not variant:
                continue
            harness.check(f"tied/variant of {name} {n}, {m}", told["variant"] == variant, told["variant"])
            z = np.load(folder / "out" / "z.npy")
            harness.check(f"tied/result of {name} {n}, {m}", np.array_equal(z, rows[0, :n] + rows[1, :m]), z)


def check_tied_in_branch(folder):
    """Dims that a branch takes for one: the same combinations are left out, and lengths that differ go where the branch is not taken."""
    model = folder / "branch.onnxtxt"
    model.write_text("""<ir_version: 10, opset_import: ["" : 20]>
        branch (bool use, float[n,8] x, float[m,8] y) => (float[n,8] z) {
          z = If(use) <then_branch = both () => (float[n,8] sum) { sum = Add(x, y) }, else_branch = one () => (float[n,8] same) { same = Neg(x) }>
        }""")
    status, _, err = harness.weft("compile", model, "--dim", "n=2,4", "--dim", "m=2,4", "--emit", "source", "-o", folder / "branch_source", "--quiet")
    made = {name for name in ("n_2_m_2", "n_2_m_4", "n_4_m_2", "n_4_m_4") if (folder / "branch_source" / name).exists()}
    harness.check("branch/values", status == 0 and made == {"n_2_m_2", "n_4_m_4"}, f"exit {status}: {made} {err[-300:]}")
    program = compile_model("branch", folder, model, dims={"n": "<=2,4", "m": "<=2,4"}, shard={}, state={})
    x = np.random.default_rng(9).standard_normal((4, 8)).astype(np.float32)
    for n, m, use, variant in ((1, 1, True, "n<=2, m<=2"), (1, 3, False, "n<=4, m<=4"), (1, 3, True, None)):
        for name, array in (("x", x[:n]), ("y", x[:m]), ("use", np.bool_(use))):
            np.save(folder / f"{name}.npy", array)
        status, told, err = run(program, folder, *(f"--input={name}={folder}/{name}.npy" for name in ("x", "y", "use")))
        if harness.check(f"branch/{n}, {m}, {use}", status == (0 if variant else 1), f"exit {status}: {err[-300:]}") and variant:
            harness.check(f"branch/variant of {n}, {m}", told["variant"] == variant, told["variant"])
            z = np.load(folder / "out" / "z.npy")
            harness.check(f"branch/result of {n}, {m}", np.array_equal(z, x[:n] * 2 if use else -x[:n]), z)


def check_generation(kind, ranks, seq, variants):
    """Pieces of a prompt and single tokens by different variants: the tokens of the model without a cache."""
    name = f"{kind}{ranks} of {seq}"
    folder = harness.scratch(f"variants/{name.replace('<=', 'to').replace(' ', '_')}")
    session = onnxruntime.InferenceSession(make_model(kind, folder / "whole.onnx"), providers=["CPUExecutionProvider"])
    model = make_model(kind, folder / f"{kind}.onnx", "--past")
    text = schedule(kind, ranks, dims={**DIMS[kind], "seq": seq})
    if program := compile_program(name.replace(" ", "_"), model, folder, text):
        generation_check.check_program(name, program, folder, session)
        generation_check.check_server(name, program, session)
        status, out, err = harness.run([program, "--info"])
        harness.check(f"{name}/--info", [v["name"] for v in json.loads(out)["variants"]] == variants, f"exit {status}: {err[-300:]}")


def check_library(folder, model):
    """Requests of both lengths by calls of C functions; the header says which lengths there are."""
    library = compile_model("library", folder, model, "--emit", "library", dims={"seq": "1,4", "past": f"<={ROWS}"})
    if not library:
        return
    header = (library / "include" / "running.h").read_text()
    harness.check("library/header", 'input  "x": f32[1 or 4, 8]' in header, header[:900])
    loaded = Model(library / "lib" / "librunning.so", name="running")
    rows = np.random.default_rng(8).standard_normal((10, 8)).astype(np.float32)
    sums, at = np.cumsum(rows, axis=0, dtype=np.float64), 0
    for length in (1, 4, 4, 1):
        at += length
        loaded.set_input("x", rows[at - length:at])
        harness.check(f"library/runs up to {at}", loaded.run() == 0, loaded.error())
        error = harness.relative_error(loaded.output("y"), (rows[at - length:at] + sums[at - 1]) @ WEIGHTS)
        harness.check(f"library/result up to {at}", error <= 1e-5, f"error {error}")
        harness.check(f"library/refuses after {at}", loaded.set_input("x", rows[:3]) == 1, "3 rows taken")
    loaded.destroy()


def check_sources(folder, model):
    """The folder of sources builds by itself."""
    source = compile_model("source", folder, model, "--emit", "source", dims={"seq": "1,4", "past": f"<={ROWS}"})
    build = folder / "source_build"
    for command in (["cmake", "-S", source, "-B", build], ["cmake", "--build", build, "-j2"]):
        status, out, err = harness.run(command)
        if not harness.check(f"sources/{' '.join(command[:2])}", status == 0, f"exit {status}: {out[-200:]} {err[-300:]}"):
            return
    check_requests("sources", build / "running", folder, [4, 1], ["seq=4", "seq=1"])


def main():
    folder = harness.scratch("variants")
    check_small(folder)
    if not harness.FULL:
        return
    check_bounds(folder)
    check_tied(folder)
    check_tied_in_branch(folder)
    check_library(folder, folder / "running.onnxtxt")
    check_sources(folder, folder / "running.onnxtxt")
    check_generation("gpt2", 2, "1,4", ["seq=1", "seq=4"])
    check_generation("llama", 1, "<=2,4", ["seq<=2", "seq<=4"])
    check_generation("llama", 2, "1,4", ["seq=1", "seq=4"])


if __name__ == "__main__":
    harness.need_weft()
    main()
