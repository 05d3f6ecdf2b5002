"""Makes tokens of the bytes of text files, for a training: bytes.py OUTPUT.npy FILE..."""

import sys

import numpy as np

text = b"".join(open(name, "rb").read() for name in sys.argv[2:])
np.save(sys.argv[1], np.frombuffer(text, np.uint8))
print(f"{len(text)} tokens")
