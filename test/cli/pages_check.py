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
    """What boxes stand below each other: runs of rows with pixels of one kind's colours, as high as a box."""
    found, height, last = [], 0, None
    for compute, exchange, marked in zip(*(pixels(picture, text, kind) for kind in ("compute", "exchange", "critical"))):
        now = "compute" if compute > exchange else "exchange" if exchange else last if marked else None
        height = height + 1 if now == last else 1
        last = now
        if now and height == LANE_PIXELS:
            found.append(now)
    return found


def check_page(page):
    picture = screenshot(page)
    if picture is None:
        return
    found = lanes(picture, page.read_text())
    harness.check(f"{page.stem}/lanes", found == TWO_RANKS, f"lanes {found}")


def check_without_boxes(page):
    """A page that lost its boxes has no lanes: what is looked for is what they draw."""
    empty = page.with_name("without_boxes.html")
    empty.write_text(re.sub(r'<rect class="[^"]*box.*?</rect>', "", page.read_text(), flags=re.DOTALL))
    picture = screenshot(empty)
    if picture is not None:
        harness.check("without-boxes/lanes", not lanes(picture, empty.read_text()), "lanes without boxes")


def make_pages():
    """The predicted page, and the measured one of a run."""
    program, trace = FOLDER / "mlp", FOLDER / "trace.json"
    predicted, measured = FOLDER / "predicted.html", FOLDER / "measured.html"
    for name, command in (
        ("explain", [harness.WEFT, "explain", MODEL, *OVERLAP, "--page", predicted]),
        ("compile", [harness.WEFT, "compile", MODEL, *OVERLAP, "-o", program, "--quiet"]),
        ("run", [program, "--random-inputs", "1", "--warmup", "1", "--iterations", "5", "--trace", trace]),
        ("trace", [harness.WEFT, "trace", trace, "--page", measured]),
    ):
        status, _, err = harness.run(command)
        if not harness.check(name, status == 0, f"exit {status}: {err[-300:]}"):
            return []
    return [predicted, measured]


harness.need_weft()
if not BROWSER:
    harness.skipped("pages", f"no browser: none of {', '.join(NAMES)}")
else:
    pages = make_pages()
    for each in pages:
        check_page(each)
    if pages:
        check_without_boxes(pages[0])
