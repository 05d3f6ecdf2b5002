# test: slow
"""Timeline pages of samples/mlp in a real browser: a screenshot shows a lane of computation and one of communication per rank.

WEFT_BROWSER names another browser of Chromium's family; without any the group says SKIP.
"""

import os
import re
import shutil

import harness
import numpy
from PIL import Image
from stages_model import PIPELINE, PIPELINE_MODEL

FOLDER = harness.scratch("pages")
MODEL = harness.ROOT / "samples" / "mlp" / "mlp.onnxtxt"
OVERLAP = ["--schedule", harness.ROOT / "samples" / "mlp" / "tp2_overlap.yaml"]
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
BROWSER = os.environ.get("WEFT_BROWSER") or next((found for found in map(shutil.which, NAMES) if found), None)
LANE_PIXELS = 16  # a box is 18 high with its border and the mark of the longest chain; bars below the chart are 14
TWO_RANKS = ["compute", "exchange"] * 2


def screenshot(page):
    """The page as the browser draws it, [height, width, rgb]; None where it draws nothing."""
    picture = page.with_suffix(".png")
    flags = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1400,1000", f"--screenshot={picture}"]
    status, _, err = harness.run([BROWSER, "--headless", *flags, page.resolve().as_uri()], timeout=120)
    if not harness.check(f"{page.stem}/drawn", status == 0 and picture.is_file(), f"exit {status}: {err[-300:]}"):
        return None
    return numpy.asarray(Image.open(picture).convert("RGB"))


def pixels(picture, text, kind):
    """How many pixels of each row have a colour that the page's style calls by this name, where light is preferred."""
    light = text[: text.index("prefers-color-scheme")]
    rows = numpy.zeros(len(picture), int)
    for color in re.findall(rf"--{kind}(?:-\d)?: #([0-9a-f]{{6}})", light):
        rows += (picture == numpy.frombuffer(bytes.fromhex(color), numpy.uint8)).all(axis=2).sum(axis=1)
    return rows


def lanes(picture, text):
    """The boxes from top to bottom: runs of rows with pixels of one kind's colours, as high as a box."""
    found, height, last = [], 0, None
    for compute, exchange, marked in zip(*(pixels(picture, text, kind) for kind in ("compute", "exchange", "critical"))):
        now = "compute" if compute > exchange else "exchange" if exchange else last if marked else None
        height = height + 1 if now == last else 1
        last = now
        if now and height == LANE_PIXELS:
            found.append(now)
    return found


def check_page(page, make_again=None):
    """An exchange that found all data there may be too short to be seen: `make_again` measures once more, twice at most."""
    for attempts_left in (2, 1, 0) if make_again else (0,):
        picture = screenshot(page)
        if picture is None:
            return
        found = lanes(picture, page.read_text())
        if found == TWO_RANKS or attempts_left == 0:
            break
        make_again()
    harness.check(f"{page.stem}/lanes", found == TWO_RANKS, f"lanes {found}")


def check_without_boxes(page):
    """A page that lost its boxes has no lanes: what is looked for is what they draw."""
    empty = page.with_name("without_boxes.html")
    empty.write_text(re.sub(r'<rect class="[^"]*box.*?</rect>', "", page.read_text(), flags=re.DOTALL))
    picture = screenshot(empty)
    if picture is not None:
        harness.check("without-boxes/lanes", not lanes(picture, empty.read_text()), "lanes without boxes")


# Puts into the page's body which of its texts lie on each other, as far as they are not cut off by what they stand in.
OVERLAPS = """<script>
// An svg in an svg says of itself where its contents are, not where it ends.
const room_of = (element) => {
  const rect = element.getBoundingClientRect();
  if (!element.ownerSVGElement) return rect;
  const whole = element.ownerSVGElement.getBoundingClientRect(), left = whole.left + element.x.baseVal.value;
  return {left, right: left + element.width.baseVal.value, top: rect.top, bottom: rect.bottom};
};
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  if (!node.data.trim() || node.parentElement.closest("title, script, style, .sizer")) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const line of range.getClientRects()) {
    let [left, top, right, bottom] = [line.left, line.top, line.right, line.bottom];
    for (let around = node.parentElement; around; around = around.parentElement) {
      const cuts = around.tagName === "svg" || getComputedStyle(around).overflowX !== "visible";
      if (!cuts) continue;
      const room = room_of(around);
      left = Math.max(left, room.left); top = Math.max(top, room.top);
      right = Math.min(right, room.right); bottom = Math.min(bottom, room.bottom);
    }
    if (right - left > 1 && bottom - top > 1) texts.push({text: node.data.trim(), left, top, right, bottom});
  }
}
const found = [];
texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => {
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (across > 1 && down > 3) found.push(a.text + " on " + b.text);
}));
document.body.innerHTML = "TEXTS " + texts.length + " WIDTH " + innerWidth + " OVERLAPS [" + found.join("; ") + "]";
</script></body>"""


def overlaps(page, width):
    """(how many texts are seen, which of them lie on each other) in a window so wide."""
    probe = page.with_name(f"{page.stem}_probe.html")
    probe.write_text(page.read_text().replace("</body>", OVERLAPS))
    flags = ["--no-sandbox", "--disable-gpu", f"--window-size={width},1000", "--dump-dom"]
    status, out, err = harness.run([BROWSER, "--headless", *flags, probe.resolve().as_uri()], timeout=120)
    said = re.search(r"TEXTS (\d+) WIDTH (\d+) OVERLAPS \[(.*)\]", out, re.DOTALL)
    if not said or int(said[2]) != width:
        return 0, f"exit {status}, {said and said[2]} pixels: {(err or out)[-300:]}"
    return int(said[1]), said[3]


def check_widths(page):
    for width in (500, 800, 1400):
        seen, lying = overlaps(page, width)
        harness.check(f"{page.stem}/texts/{width}", seen > 30 and not lying, f"{seen} texts; {lying}")


def check_overlaps_are_found(page):
    """With ticks that say much more than they have room for, texts lie on each other."""
    crowded = page.with_name("crowded.html")
    crowded.write_text(re.sub(r'(dx="3" y="14">)', r"\1a very long label of a tick, ", page.read_text()))
    harness.check("crowded/texts", overlaps(crowded, 500)[1] != "", "no overlap is found")


def check_order(folder):
    """The order of a pipeline: lanes with three colours of passes, each with memory below it."""
    page = folder / "order.html"
    (folder / "stages.onnxtxt").write_text(PIPELINE_MODEL)
    (folder / "stages.yaml").write_text(PIPELINE)
    result = harness.weft("explain", folder / "stages.onnxtxt", "--schedule", folder / "stages.yaml", "--page", page)
    picture = screenshot(page) if harness.check("order/explain", result[0] == 0, result[2][-300:]) else None
    if picture is None:
        return
    text = page.read_text()
    rows = {kind: pixels(picture, text[text.index("--forward") :], kind) > 20 for kind in ("forward", "backward", "weight", "held")}
    for kind in ("forward", "backward", "weight", "held"):
        # A lane begins where the row above has none of its colour; the key above the chart is too narrow to count.
        begins = int((rows[kind][1:] & ~rows[kind][:-1]).sum())
        wanted = 2 if kind == "weight" else 3  # the first stage makes gradients of weights only
        harness.check(f"order/{kind}", begins >= wanted, f"{begins} lanes")
    check_widths(page)


PREDICTED, MEASURED = FOLDER / "predicted.html", FOLDER / "measured.html"
PROGRAM, TRACE = FOLDER / "mlp", FOLDER / "trace.json"
MEASURE = (
    ("run", [PROGRAM, "--random-inputs", "1", "--warmup", "1", "--iterations", "5", "--trace", TRACE]),
    ("trace", [harness.WEFT, "trace", TRACE, "--page", MEASURED]),
)


def make_pages():
    """The predicted page, and the measured one of a run."""
    for name, command in (
        ("explain", [harness.WEFT, "explain", MODEL, *OVERLAP, "--page", PREDICTED]),
        ("compile", [harness.WEFT, "compile", MODEL, *OVERLAP, "-o", PROGRAM, "--quiet"]),
        *MEASURE,
    ):
        status, _, err = harness.run(command)
        if not harness.check(name, status == 0, f"exit {status}: {err[-300:]}"):
            return []
    return [PREDICTED, MEASURED]


def measure_again():
    for _, command in MEASURE:
        harness.run(command)


def check_plan():
    """The bars of a plan: computation, communication and memory of each way to run the model."""
    page, machine = FOLDER / "plan.html", harness.ROOT / "samples" / "machines" / "host-2-cores.yaml"
    result = harness.weft("plan", MODEL, "--machine", machine, "--quiet", "--page", page)
    picture = screenshot(page) if harness.check("plan/is made", result[0] == 0, result[2][-300:]) else None
    if picture is None:
        return
    text = page.read_text()
    for kind in ("computing", "exchanging", "held"):
        rows = pixels(picture, text[text.index(f"--{kind}:") :], kind) > 20
        bars = int((rows[1:] & ~rows[:-1]).sum())
        drawn = [float(width) for width in re.findall(rf'class="{kind}"[^>]*? width="([0-9.]+)%"', text)]
        wanted = sum(width > 15 for width in drawn)  # of a column of some 240 pixels
        harness.check(f"plan/{kind}", bars >= wanted > 0, f"{bars} bars of {drawn}")
    check_widths(page)


harness.need_weft()
if not BROWSER:
    harness.skipped("pages", f"no browser: none of {', '.join(NAMES)}")
else:
    check_order(FOLDER)
    check_plan()
    pages = make_pages()
    for each in pages:
        check_page(each, measure_again if each == MEASURED else None)
        check_widths(each)
    if pages:
        check_without_boxes(pages[0])
        check_overlaps_are_found(pages[0])
