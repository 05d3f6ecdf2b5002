# test: slow
"""Programs for aarch64 (`--arch aarch64`), which QEMU runs: on one rank and on two, with bytes on CPUs with and without
sdot. In `full` the fixtures too, and a program built from emitted sources."""

import os
import shutil

import numpy as np
import onnx
import onnx.parser
import onnxruntime

import harness
from fixture_turns import FIXTURES, fixtures
from verify_many import Case, report_complete, verify_many

COMPILER, QEMU = "aarch64-linux-gnu-g++", "qemu-aarch64"
PACKAGES = "g++-aarch64-linux-gnu qemu-user"
TOLERANCE = 1e-4
GPT2 = harness.ROOT / "samples" / "gpt2"
GPT2_SIZE = ["--layers", "2", "--width", "64", "--heads", "4", "--vocab", "257", "--context", "32"]
# In `full` each is compiled as `weft compile` does; all fixtures are, in groups, with less optimisation.
KINDS = ["winograd", "grouped_convolutions", "few_bits", "quantized", "lstm_batch", "modified_attention", "scan_batch", "choices",
         "trees_sliced", "small_integers", "mixed_gradient"]

UNIT_TESTS = ["contract", "block_product", "direct_convolution", "winograd", "top_k", "trigonometry"]
# Those of test/CMakeLists.txt for other levels, but for the level.
KERNEL_FLAGS = ["-std=c++20", "-O1", "-march=armv8-a", "-fopenmp-simd", "-fexpensive-optimizations", "-DWEFT_TILES",
                "-DDOCTEST_CONFIG_SUPER_FAST_ASSERTS"]

CNN = """<ir_version: 10, opset_import: ["" : 20]>
cnn (float[2,16,14,14] x) => (float[2,24] y) {
  a = Conv <pads = [1, 1, 1, 1]> (x, winograd)
  b = Relu(a)
  c = Conv <group = 32, pads = [1, 1, 1, 1]> (b, depthwise)
  d = Tanh(c)
  e = Conv (d, pointwise)
  f = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e)
  g = Conv <pads = [2, 2, 2, 2]> (f, direct)
  flat = Flatten(g)
  wide = Cast <to = 1> (halves)
  h = MatMul(flat, wide)
  y = Softmax(h)
}
"""
CNN_WEIGHTS = {"winograd": (32, 16, 3, 3), "depthwise": (32, 1, 3, 3), "pointwise": (48, 32, 1, 1), "direct": (16, 48, 5, 5),
               "halves": (784, 24)}
BYTES = """<ir_version: 10, opset_import: ["" : 20]>
bytes (uint8[2,8,9,9] x, int8[6,36] rows) => (int32[2,20,9,9] y, int32[6,40] z) <uint8 zero = {120}, int8 one = {-7}> {
  y = ConvInteger <pads = [1, 1, 1, 1]> (x, filters, zero)
  z = MatMulInteger(rows, columns, one)
}
"""
BYTE_WEIGHTS = {"filters": (20, 8, 3, 3), "columns": (36, 40)}


def weights_of(shapes, dtype):
    """Small floats, halves where a name says so, or bytes."""
    random = np.random.default_rng(7)
    for name, shape in shapes.items():
        value = random.integers(-128, 128, shape).astype(np.int8) if dtype == np.int8 else random.normal(0, 0.1, shape).astype(dtype)
        yield onnx.numpy_helper.from_array(value.astype(np.float16) if name == "halves" else value, name)


def missing():
    absent = [tool for tool in (COMPILER, QEMU) if not shutil.which(tool)]
    return f"no {' and no '.join(absent)} (Debian: apt-get install {PACKAGES})" if absent else ""


class Machine:
    """Runs programs for Arm on this machine. `prefix` is put before a command: it makes the kernel pass such programs
    to QEMU, in a user namespace of its own (Linux 6.7). On an older kernel, QEMU runs one program, which cannot start
    others."""

    def __init__(self, folder):
        script = folder / "machine.sh"
        magic = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00\xb7\x00"
        mask = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
        table = folder / "binfmt"
        table.mkdir()
        rule = f":aarch64:M::{magic}:{mask}:{shutil.which(QEMU)}:PF"
        script.write_text(f"mount -t binfmt_misc none {table} && printf %s '{rule}' > {table}/register && exec \"$@\"\n")
        self.environment = {**os.environ, "QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"}
        self.prefix = ["unshare", "-Urm", "sh", script]
        self.starts_ranks = harness.run([*self.prefix, "true"])[0] == 0
        if not self.starts_ranks:
            self.prefix = [QEMU]

    def run(self, command, **variables):
        return harness.run([*self.prefix, *command], env={**self.environment, **variables})

    def run_by_launcher(self, command, ranks):
        """Each rank as a launcher would start it."""
        job = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_PORT": str(os.getpid())}
        words = ["sh", "-c", "for rank in $(seq 1 $((WORLD_SIZE - 1))); do RANK=$rank \"$@\" & done; RANK=0 \"$@\" && wait", "sh"]
        return harness.run([*words, QEMU, *command], env={**self.environment, **job})

    # The interface of another compiler for verify_many.
    def command(self, verb):
        return [*self.prefix, harness.WEFT, verb, "--arch", "aarch64"]


def compile_for_arm(name, model, program, *flags):
    status, _, err = harness.weft("compile", model, "--arch", "aarch64", "-o", program, "--quiet", *flags)
    return harness.check(f"{name}/compiles", status == 0, f"exit {status}: {err[-400:]}")


def make_inputs(session, folder):
    """Seeded inputs, and the flags that name their files."""
    random = np.random.default_rng(5)
    makers = {"tensor(float)": lambda shape: random.standard_normal(shape).astype(np.float32),
              "tensor(int64)": lambda shape: random.integers(0, 257, shape),
              "tensor(uint8)": lambda shape: random.integers(0, 256, shape).astype(np.uint8),
              "tensor(int8)": lambda shape: random.integers(-128, 128, shape).astype(np.int8)}
    sizes = {"batch": 2, "seq": 12}
    inputs = {port.name: makers[port.type]([sizes.get(n, n) for n in port.shape]) for port in session.get_inputs()}
    for name, value in inputs.items():
        np.save(folder / f"{name}.npy", value)
    return inputs, [word for name in inputs for word in ("--input", f"{name}={folder / name}.npy")]


def compare(name, finished, out, session, inputs):
    status, _, err = finished
    if not harness.check(f"{name}/runs", status == 0, f"exit {status}: {err[-400:]}"):
        return
    for port, wanted in zip(session.get_outputs(), session.run(None, inputs)):
        found = np.load(out / f"{port.name}.npy")
        if wanted.dtype.kind == "f":
            error = harness.relative_error(found, wanted)
            harness.measured(f"{name}/{port.name}", error < TOLERANCE, f"error {error:.1e}")
        else:
            harness.check(f"{name}/{port.name}", np.array_equal(found, wanted), "other integers")


def session_of(model):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def check_gpt2(machine, folder):
    model = harness.make_gpt2(folder / "gpt2.onnx", *GPT2_SIZE)
    session = session_of(model)
    inputs, flags = make_inputs(session, folder)
    pinned = ["--dim", "batch=2", "--dim", "seq=12"]
    program, out = folder / "gpt2", folder / "one"
    if compile_for_arm("gpt2", model, program, *pinned):
        trace = folder / "trace.json"
        compare("gpt2", machine.run([program, *flags, "--output-dir", out, "--threads", "2", "--trace", trace]), out, session, inputs)
        harness.check("gpt2/--trace", trace.exists() and "traceEvents" in trace.read_text(), "no trace")
        out = folder / "large_pages"
        compare("gpt2 on pages of 64 KiB", machine.run([program, *flags, "--output-dir", out], QEMU_PAGESIZE="65536"), out, session, inputs)
        status, told, err = machine.run([program, "--info"])
        harness.check("gpt2/--info", status == 0 and '"arch": "aarch64"' in told, told[:300] + err[-300:])
        status, _, err = machine.run([program, "--input", f"input_ids={folder / 'none.npy'}"])
        harness.check("gpt2/a file that is not there", status == 1, f"exit {status}: {err[-300:]}")
    program, out = folder / "gpt2_tp2", folder / "two"
    if compile_for_arm("gpt2 on two ranks", model, program, *pinned, "--schedule", GPT2 / "tp2.yaml"):
        words = [program, *flags, "--output-dir", out]
        if machine.starts_ranks:
            compare("gpt2 on two ranks", machine.run(words), out, session, inputs)
        else:
            harness.skipped("gpt2 on two ranks/starts them", "no user namespace hands programs for Arm to QEMU (Linux 6.7)")
        out = folder / "launched"
        compare("gpt2 on two ranks that a launcher starts", machine.run_by_launcher([*words[:-1], out], 2), out, session, inputs)


def check_model(machine, folder, name, text, weights, cpus=("max",)):
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(weights)
    onnx.save(model, folder / f"{name}.onnx")
    session = session_of(folder / f"{name}.onnx")
    inputs, flags = make_inputs(session, folder)
    if compile_for_arm(name, folder / f"{name}.onnx", folder / name):
        for cpu in cpus:
            out = folder / f"{name}_{cpu}"
            compare(f"{name}/{cpu}", machine.run([folder / name, *flags, "--output-dir", out], QEMU_CPU=cpu), out, session, inputs)


def check_refusals(folder):
    model = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
    status, _, err = harness.weft("compile", model, "--arch", "aarch64,x86-64-v3", "-o", folder / "no")
    harness.check("refusals/two machines", status == 2 and "two machines" in err, f"exit {status}: {err}")
    status, _, err = harness.weft("compile", model, "--arch", "aarch64", "-o", folder / "no", env={**os.environ, "PATH": str(folder)})
    wanted = f"{COMPILER} is not in PATH (Debian: apt-get install g++-aarch64-linux-gnu)"
    harness.check("refusals/no cross compiler", status == 6 and wanted in err, f"exit {status}: {err}")
    status, out, _ = harness.weft("doctor", "--arch", "aarch64", env={**os.environ, "PATH": str(folder)})
    harness.check("refusals/doctor names the package", status == 6 and wanted in out, f"exit {status}: {out}")


def check_fixtures(machine):
    """All against the reference evaluation, and a model of each kind as `weft compile` compiles it."""
    if not machine.starts_ranks:
        return harness.skipped("fixtures", "no user namespace hands programs for Arm to QEMU (Linux 6.7)")
    cases = [Case(f"fixture/{model.stem}", model, "-", f"--schedule={model.with_suffix('.yaml')}") for model in fixtures()]
    report_complete(verify_many(cases, harness.scratch("aarch64_fixtures"), machine))
    for kind in KINDS:
        words = [harness.WEFT, "verify", FIXTURES / f"{kind}.onnxtxt", "--schedule", FIXTURES / f"{kind}.yaml"]
        status, out, err = machine.run([*words, "--arch", "aarch64"])
        harness.check(f"kind/{kind}", status == 0, f"exit {status}: {out[-300:]}{err[-300:]}")


def check_kernels(machine, folder):
    """The unit tests of what emitted kernels are made of, with the library's tiles."""
    tests = [harness.ROOT / "test" / "runtime_lib" / f"{name}_test.cpp" for name in UNIT_TESTS]
    command = [COMPILER, *KERNEL_FLAGS, f"-I{harness.ROOT}", f"-I{harness.ROOT / 'runtime_lib' / 'include'}", "-idirafter", "/usr/include"]
    for source in (harness.ROOT / "test" / "main.cpp", *tests):
        status, _, err = harness.run([*command, "-c", source, "-o", folder / f"{source.stem}.o"])
        if not harness.check(f"kernels/{source.stem} compiles", status == 0, err[-300:]):
            return
    program = folder / "kernel_tests"
    library = harness.BUILD / "runtime_lib" / "aarch64" / "libweft_runtime.a"
    status, _, err = harness.run([COMPILER, *folder.glob("*_test.o"), folder / "main.o", library, "-pthread", "-o", program])
    harness.check("kernels/link", status == 0, err[-300:])
    for cpu in ("max", "cortex-a72"):
        for name in UNIT_TESTS:
            status, out, err = machine.run([program, f"--source-file=*/{name}_test.cpp"], QEMU_CPU=cpu)
            ran = status == 0 and "test cases: 0" not in " ".join(out.split())
            harness.check(f"kernels/{name}/{cpu}", ran, f"exit {status}: {out[-300:]}{err[-300:]}")


def check_sources(machine, folder):
    """Emitted sources, built with what a toolchain file would say."""
    source = folder / "source"
    if not compile_for_arm("sources", folder / "cnn.onnx", source, "--emit", "source"):
        return
    says = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": "aarch64", "CMAKE_CXX_COMPILER": COMPILER}
    configure = ["cmake", "-S", source, "-B", source / "b", *(f"-D{name}={value}" for name, value in says.items())]
    for command in (configure, ["cmake", "--build", source / "b", "-j", str(harness.JOBS)]):
        status, out, err = harness.run(command)
        if not harness.check(f"sources/{' '.join(command[:2])}", status == 0, out[-300:] + err[-300:]):
            return
    session = session_of(folder / "cnn.onnx")
    inputs, flags = make_inputs(session, folder)
    out = folder / "of_sources"
    compare("sources", machine.run([source / "b" / "cnn", *flags, "--output-dir", out]), out, session, inputs)


def main():
    harness.need_weft()
    folder = harness.scratch("aarch64")
    check_refusals(folder)
    if missing():
        return harness.skipped("programs", missing())
    status, out, err = harness.weft("doctor", "--arch", "aarch64")
    harness.check("doctor", status == 0 and "aarch64/libweft_runtime.a" in out, f"exit {status}: {out}{err}")
    machine = Machine(folder)
    check_gpt2(machine, folder)
    check_model(machine, folder, "cnn", CNN, weights_of(CNN_WEIGHTS, np.float32))
    # Cortex-A72 has no sdot.
    check_model(machine, folder, "bytes", BYTES, weights_of(BYTE_WEIGHTS, np.int8), ("max", "cortex-a72"))
    if harness.FULL:
        check_kernels(machine, folder)
        check_sources(machine, folder)
        check_fixtures(machine)


if __name__ == "__main__":
    main()
