# test: slow
"""Programs for several levels of CPUs: `--arch x86-64-v2,x86-64-v3` is one executable, whose kernels are those that
each level alone has. Also by clang++, a library of variants and, in `full`, a program built from emitted sources."""

import json
import os
import pathlib
import shutil
import subprocess

import numpy as np

import harness
from library_check import Model

LEVELS = ["x86-64", "x86-64-v2", "x86-64-v3"] if harness.FULL else ["x86-64-v2", "x86-64-v3"]
LIST = ",".join(reversed(LEVELS))
# On a CPU of each level the products of this model are computed in other tiles.
MODEL_TEXT = """<ir_version: 10, opset_import: ["" : 20]>
net (float[rows,40] x, float[1,20,9,9] image) => (float[rows,50] y, float[1,24,9,9] z)
<float[40,50] w = random(1, 0.3), float[24,20,3,3] filters = random(2, 0.3), double[40,5] few_columns = random(3, 0.3),
 int64[1] begin = {0}, int64[1] end = {3}> {
  h = MatMul(x, w)
  rows_of_h = Softmax(h)
  few = Slice(x, begin, end, begin)
  doubles = Cast <to = 11> (few)
  product = MatMul(doubles, few_columns)
  sum = ReduceSum <keepdims = 0> (product)
  rest = Cast <to = 1> (sum)
  y = Add(rows_of_h, rest)
  c = Conv <pads = [1, 1, 1, 1]> (image, filters)
  z = Tanh(c)
}
"""


def compile_net(folder, name, *flags, rows="7", **more):
    output = folder / name
    status, _, err = harness.weft("compile", folder / "net.onnxtxt", "--dim", f"rows={rows}", "-o", output, "--quiet", *flags,
                                  **more)
    return output if harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}") else None


def results(program, folder, *flags):
    """The outputs of a run as bytes, or what it says on standard error."""
    out = folder / "out"
    status, _, err = harness.run([program, "--input", f"x={folder}/x.npy", "--input", f"image={folder}/image.npy",
                                  "--output-dir", out, *flags])
    return [np.load(out / f"{name}.npy").tobytes() for name in "yz"] if status == 0 else err


def check_program(name, program, folder, alone):
    for level in LEVELS:
        found = results(program, folder, "--arch", level)
        harness.check(f"{name}/as {level} alone", found == alone[level], found if isinstance(found, str) else "other bits")
    status, out, err = harness.run([program, "--info"])
    told = json.loads(out) if status == 0 else {"archs": err, "arch": ""}
    harness.check(f"{name}/--info", told["archs"] == LEVELS and told["arch"] == LEVELS[-1], told["archs"])
    harness.check(f"{name}/chooses the highest", results(program, folder) == alone[LEVELS[-1]], "other bits")


def check_refusals(program, folder):
    status, _, err = harness.run([program, "--arch", "x86-64-v4"])
    harness.check("refusals/a level that is not there", status == 2 and f"this program has {', '.join(LEVELS)}" in err, err)
    for name, arch, text in (("twice", "x86-64-v3,x86-64-v3", "listed twice"), ("native in a list", "x86-64,native", "alone"),
                             ("unknown", "x86-64,z80", "one or more of")):
        status, _, err = harness.weft("compile", folder / "net.onnxtxt", "--arch", arch, "-o", folder / "no")
        harness.check(f"refusals/{name}", status == 2 and text in err, err)
    with open("/proc/cpuinfo") as file:
        has_v4 = "avx512vl" in file.read()
    if has_v4:
        return harness.skipped("refusals/a CPU that lacks the level", "this one has all of them")
    newer = compile_net(folder, "newer", "--arch", "x86-64-v4")
    status, _, err = harness.run([newer, "--random-inputs", "1"])
    harness.check("refusals/a CPU that lacks the level", status == 6 and "lacks instructions" in err, f"exit {status}: {err}")


def check_sources(folder, alone):
    """Emitted sources, whose objects of further levels share no symbol with the rest and do nothing when it starts."""
    source = compile_net(folder, "source", "--arch", LIST, "--emit", "source")
    for command in (["cmake", "-S", source, "-B", source / "b"], ["cmake", "--build", source / "b", "-j", str(harness.JOBS)]):
        status, out, err = harness.run(command)
        if not harness.check(f"sources/{' '.join(command[:2])}", status == 0, out[-300:] + err[-300:]):
            return
    check_program("sources", source / "b" / "net", folder, alone)
    for level in LEVELS[1:]:
        path = source / "b" / f"net_{level.replace('-', '_')}.o"
        shown = subprocess.run(["nm", "-g", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        symbols = [line.split()[-1] for line in shown.splitlines()]
        harness.check(f"sources/symbols of {level}", symbols == [f"weft_program_{level.replace('-', '_')}"], symbols)
        shown = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
        harness.check(f"sources/{level} does nothing at the start", ".init_array" not in shown and ".ctors" not in shown, shown)


def check_clang(folder, alone):
    """A machine whose only compiler is clang++."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("clang++", "ld", "objcopy"):
        path = shutil.which(name)
        if path is None:
            return harness.skipped("clang++", f"there is no {name}")
        (tools / name).symlink_to(pathlib.Path(path).resolve())
    program = compile_net(folder, "by_clang", "--arch", LIST, env={**os.environ, "PATH": str(tools)})
    found = results(program, folder) if program else ""
    if harness.check("clang++/runs", not isinstance(found, str), found):
        for name, mine, other in zip("yz", found, alone[LEVELS[-1]]):
            error = harness.relative_error(np.frombuffer(mine, np.float32), np.frombuffer(other, np.float32))
            harness.check(f"clang++/{name}", error < 1e-5, f"error {error}")


def check_library(folder, alone):
    """A library of two variants."""
    library = compile_net(folder, "library", "--arch", LIST, "--emit", "library", rows="7,20")
    if library is None:
        return
    model = Model(library / "lib" / "libnet.so", name="net")
    for name in ("x", "image"):
        model.set_input(name, np.load(folder / f"{name}.npy"))
    harness.check("library/runs", model.run() == 0, model.error())
    harness.check("library/as its highest level alone", [model.output(name).tobytes() for name in "yz"] == alone[LEVELS[-1]],
                  "other bits")
    model.destroy()


def check_shared_kernels(folder, alone):
    """The compiler's files without --arch. If two levels have the same operations, the higher one has no separate
    versions of memory-bound kernels."""
    program = folder / "shared"
    status, _, err = harness.run([harness.WEFT, "compile", folder / "net.onnxtxt", "--dim", "rows=7", "-o", program])
    compiled = [line.split(" compile ")[1].rsplit("  ", 1)[0] for line in err.splitlines() if " compile " in line]
    wanted = {f"kernels/{name}" for name in ("contraction.cpp", "reduction.cpp", "pointwise.cpp",
                                             "contraction.cpp for x86-64-v4", "reduction.cpp for x86-64-v4")}
    harness.check("shared kernels/compiled once", status == 0 and wanted == {file for file in compiled if "/" in file}, err)
    found = results(program, folder, "--arch", "x86-64-v3")
    harness.check("shared kernels/as x86-64-v3 alone", found == alone["x86-64-v3"], found if isinstance(found, str) else "other bits")


def main():
    harness.need_weft()
    folder = harness.scratch("levels")
    (folder / "net.onnxtxt").write_text(MODEL_TEXT)
    random = np.random.default_rng(3)
    np.save(folder / "x.npy", random.standard_normal((7, 40)).astype(np.float32))
    np.save(folder / "image.npy", random.standard_normal((1, 20, 9, 9)).astype(np.float32))
    alone = {}
    for level in LEVELS:
        alone[level] = results(compile_net(folder, level, "--arch", level), folder)
    program = compile_net(folder, "levels", "--arch", LIST)
    check_program("levels", program, folder, alone)
    harness.check("levels/differ", len({tuple(alone[level]) for level in LEVELS}) > 1, "all levels have the same bits")
    check_refusals(program, folder)
    check_shared_kernels(folder, alone)
    check_library(folder, alone)
    check_clang(folder, alone)
    if harness.FULL:
        check_sources(folder, alone)
        check_program("variants", compile_net(folder, "variants", "--arch", LIST, rows="7,20"), folder, alone)


if __name__ == "__main__":
    main()
