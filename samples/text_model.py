"""Writes a sample as ONNX text with its sizes filled in; its weights are seeded by the text itself."""

import argparse
import pathlib
import string


def write(arguments, doc, text, sizes, derive=lambda sizes: {}):
    """Fills the `$NAME`s of `text` with the sizes (a flag each, `sizes` has the defaults) and what follows from them."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, help="the .onnxtxt file to write")
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{default} without it")
    options = vars(parser.parse_args(arguments))
    output = options.pop("output")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(string.Template(text).substitute(options, **derive(options)))
