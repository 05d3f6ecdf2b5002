"""./dev bench exports: the small networks of test/conformance/exports beside ONNX Runtime: time, memory, compile time.

    exports.py [FILE...] [--threads 1,2] [--rounds 9] [--arch x86-64-v3,x86-64-v4]

Batch, lengths and sizes of images are open to their bounds, as applications compile such models; the request is the largest. Networks as small as
these show what a program takes beside its arithmetic. The table is that of models.py.
"""

import pathlib
import sys

import models

EXPORTS = pathlib.Path(__file__).resolve().parent.parent / "conformance" / "exports"
sys.path.insert(0, str(EXPORTS))
import families  # noqa: E402

LARGEST = 4  # the number of the request


def request(path, dims):
    family = families.FAMILIES[path.stem.rsplit("_", 1)[0]]
    lengths = families.lengths(family, LARGEST)
    return families.arrays(family, lengths, LARGEST), [*(f"{dim}<={bound}" for dim, bound in family.bounds.items()), *dims]


if __name__ == "__main__":
    models.main(files=sorted(EXPORTS.glob("*.onnx")), request=request)
