# test: slow
"""Strategies that a schedule pins. For kernels of each kind, exactly the strategies and tiles of the table are
accepted. Each of them gives the results of the reference evaluation, on the host and in emulated CUDA."""

import json
import re
import sys

import harness
from verify_many import Case, report_complete, verify_many

sys.path.insert(0, str(harness.ROOT / "test" / "emulation"))
from emulated import Emulated  # noqa: E402

FOLDER = harness.scratch("pins")
MODEL = """<ir_version: 10, opset_import: ["" : 20]>
pins (float[40,48] x, float[40,56] z, float[1,16,10,12] image, float[70,45] m, float[3,40,700] lines, int64[5,45] at) =>
  (float[40,56] y, float[40,40] free, float[1,20,8,10] convolution, float[1,20,10,12] point,
   float[1,16,10,12] plane, float[1,16,9,11] pool, float[45,70] turned, float[40,48] soft, float[3,40,700] sums,
   float[70,45] scattered, float[a,3] chosen, int64[a,3] places, float[40,56] bits)
<float[48,56] w = random(1, 0.3), float[56] b = random(2, 0.5), float[20,16,3,3] filters = random(3, 0.1),
 float[20,16,1,1] points = random(4, 0.3), float[16,1,3,3] planes = random(5, 0.3), int64 axis = {2}, int64[1] three = {3},
 float[5,45] updates = random(6, 0.5), float[384,56] numbers = random(7, 7.0), float[56] scales = random(8, 0.01),
 float[48,384] wide = random(9, 0.1)>
{
  [product] p = MatMul(x, w)
  [product_bias] pb = Add(p, b)
  [product_relu] y = Relu(pb)
  [turn] zt = Transpose<perm = [1, 0]>(z)
  [free] free = MatMul(z, zt)
  [convolution] convolution = Conv(image, filters)
  [point] point = Conv(image, points)
  [plane] plane = Conv<group = 16, pads = [1, 1, 1, 1]>(image, planes)
  [pool] pool = MaxPool<kernel_shape = [2, 2]>(image)
  [turned] turned = Transpose<perm = [1, 0]>(m)
  [soft] soft = Softmax(x)
  [sums] sums = CumSum(lines, axis)
  [scattered] scattered = ScatterElements<axis = 0>(m, at, updates)
  [chosen] chosen, places = TopK(x, three)
  [widened] widened = MatMul(x, wide)
  narrow = Cast<to = 3>(numbers)
  few = DequantizeLinear<axis = 1>(narrow, scales)
  [few_bits] bits = MatMul(widened, few)
}
"""
TILES = ["128x128", "64x64", "32x64", "16x64"]
PRODUCT = [f"tiled-product {tile}" for tile in TILES]
CONVOLUTION = [f"tiled-convolution {tile}" for tile in TILES]
MINIMAL = ["winograd-convolution", "winograd-convolution 2x2"]
LEGAL = {
    "host": {
        "product": ["packed-product", "strided-product"],
        "free": ["strided-product"],
        "few_bits": ["block-product"],
        "convolution": [*MINIMAL, "direct-convolution", "unfolded-convolution"],
        "point": ["direct-convolution", "point-convolution", "unfolded-convolution"],
        "plane": ["channel-convolution", "plane-convolution", "unfolded-convolution"],
        "pool": ["window-reduction"],
        "turned": ["elementwise"],
        "soft": ["rows"],
        "sums": ["scan"],
    },
    "cuda": {
        "product": ["library-product", *PRODUCT],
        "free": ["library-product", *PRODUCT],
        "few_bits": ["library-product", *PRODUCT],
        "convolution": CONVOLUTION,
        "point": CONVOLUTION,
        "plane": [*CONVOLUTION, "plane-convolution"],
        "pool": ["window-reduction"],
        "turned": ["transposition", "elementwise"],
        "soft": ["rows"],
        "sums": ["scan"],
    },
}
# Plain loops are legal for all but scatters, whose updates are no loop over elements, and the largest of a line.
ONLY = {"scattered": ["scatter"], "chosen": ["top-k"]}
TABLES = {target: {kernel: [*legal, "plain-loops"] for kernel, legal in kernels.items()} | ONLY
          for target, kernels in LEGAL.items()}
# These need states, ranks, loops, trees and selections: test/passes/{update_states,kernel_pins}_test.cpp, environments, sklearn_exports, node_cases.
NOT_HERE = ["append", "box-selection", "peer-exchange", "recurrence", "selection", "tree-walk"]


def write_schedule(path, pins, more=""):
    """`more` stands in each pin."""
    lines = []
    for kernel, text in pins.items():
        strategy, _, tile = text.partition(" ")
        extents = f", tile: [{tile.replace('x', ', ')}]" if tile else ""
        lines.append(f"  {kernel}: {{strategy: {strategy}{extents}{more}}}\n")
    path.write_text("weft: 1\nkernels:\n" + "".join(lines))
    return path


def known_strategies(model):
    """The strategies that the compiler lists where a schedule names one that there is not."""
    schedule = write_schedule(FOLDER / "unknown.yaml", {"product": "none-of-them"})
    _, _, err = harness.weft("explain", model, "--schedule", schedule)
    listed = re.search(r"there are: (.*) \[unknown-strategy\]", err)
    return listed.group(1).split(", ") if listed else []


def check_complete(names):
    """Each strategy of the compiler is legal for some kernel of the tables, so that its results are compared."""
    shown = {text.split(" ")[0] for kernels in TABLES.values() for legal in kernels.values() for text in legal}
    wrong = shown.symmetric_difference(set(names) - set(NOT_HERE))
    harness.check("every strategy has an entry", not wrong, f"in one of the tables and the compiler only: {sorted(wrong)}")


def check_accepted(model, target, kernel, legal, names):
    """Every strategy is accepted or refused as the table says, a refusal by its rule at the pin."""
    for name in names:
        schedule = write_schedule(FOLDER / "one.yaml", {kernel: name})
        status, out, err = harness.weft("explain", model, "--schedule", schedule, "--target", target, "--json")
        what = f"{target}/{kernel}/{name}"
        if name not in legal:
            refused = status == 1 and "one.yaml:3:" in err and "[kernel-strategy]" in err
            harness.check(f"{what} refused", refused, f"exit {status}: {err[-300:]}")
            continue
        rows = {row["name"]: row for row in json.loads(out)["kernels"]} if status == 0 else {}
        row = rows.get(kernel, {"strategy": "", "pinned": ""})
        shown = name.replace("convolution 2x2", "convolution F(2x2")
        taken = row["strategy"].startswith(shown) and row["pinned"].startswith(f"{schedule}:3:")
        harness.check(f"{what} taken", status == 0 and taken, f"exit {status}: {row} {err[-300:]}")


def check_threads(model):
    """One thread is for the host, and said beside the strategy."""
    schedule = write_schedule(FOLDER / "threads.yaml", {"product": "packed-product"}, ", threads: 1")
    status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json")
    rows = {row["name"]: row["strategy"] for row in json.loads(out)["kernels"]} if status == 0 else {}
    harness.check("host/one thread", rows.get("product") == "packed-product panels 16, one thread", f"{rows} {err[-300:]}")
    schedule = write_schedule(FOLDER / "threads.yaml", {"product": "library-product"}, ", threads: 1")
    status, _, err = harness.weft("explain", model, "--schedule", schedule, "--target", "cuda")
    harness.check("cuda/one thread", status == 1 and "[kernel-threads]" in err, f"exit {status}: {err[-300:]}")


def check_bits(model):
    """A pin changes the order of sums, or it does not: products in panels have one order."""
    for name, equal in (("strided-product", True), ("plain-loops", False)):
        schedule = write_schedule(FOLDER / "bits.yaml", {"product": name})
        status, out, err = harness.weft("explain", model, "--schedule", schedule, "--json")
        told = status == 0 and json.loads(out)["bit_equal"]
        harness.check(f"host/{name}/bits", status == 0 and told == equal, f"exit {status}: bit_equal {told} {err[-300:]}")


def check_manifest(model):
    schedule = write_schedule(FOLDER / "manifest.yaml", {"product": "strided-product"})
    status, _, err = harness.weft("compile", model, "--schedule", schedule, "--emit", "source", "-o", FOLDER / "source")
    rows = json.loads((FOLDER / "source" / "manifest.json").read_text())["kernels"] if status == 0 else []
    pinned = {row["name"]: (row["strategy"], row["pinned"]) for row in rows if "pinned" in row}
    harness.check("host/manifest", pinned == {"product": ("strided-product, short", f"{schedule}:3:23")}, f"{pinned} {err[-300:]}")


def check_target(model, target, compiler, names):
    tables = TABLES[target]
    with_tiles = [text for name in names for text in {"tiled-product": PRODUCT, "tiled-convolution": CONVOLUTION, "winograd-convolution": MINIMAL}.get(name, [name])]
    for kernel, legal in tables.items():
        check_accepted(model, target, kernel, legal, with_tiles)
    cases = []
    for number in range(max(map(len, tables.values()))):
        pins = {kernel: legal[number % len(legal)] for kernel, legal in tables.items()}
        # Every second time by one thread.
        more = ", threads: 1" if target == "host" and number % 2 else ""
        schedule = write_schedule(FOLDER / f"{target}{number}.yaml", pins, more)
        cases.append(Case(f"{target}/results {number}", model, "-", f"--schedule={schedule}"))
    report_complete(verify_many(cases, FOLDER, compiler))


if __name__ == "__main__":
    harness.need_weft()
    (FOLDER / "pins.onnxtxt").write_text(MODEL)
    check_bits(FOLDER / "pins.onnxtxt")
    check_threads(FOLDER / "pins.onnxtxt")
    check_manifest(FOLDER / "pins.onnxtxt")
    strategies = known_strategies(FOLDER / "pins.onnxtxt")
    check_complete(strategies)
    check_target(FOLDER / "pins.onnxtxt", "host", None, strategies)
    check_target(FOLDER / "pins.onnxtxt", "cuda", Emulated(), strategies)
