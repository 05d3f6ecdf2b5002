"""A prompt to text: tokens are bytes, as in samples/llama.

    generate.py PROGRAM TEXT [FLAG...]        generate.py ./llama "Once upon a time" --max-new 40 --temperature 0.8
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def generate(program, prompt, *flags, tokens_name="input_ids"):
    """The program's generated continuation of the prompt, as bytes, and its report as a dictionary."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "prompt.npy"
        np.save(file, np.frombuffer(prompt.encode(), np.uint8).astype(np.int64)[None])
        command = [program, "--input", f"{tokens_name}={file}", "--json", *flags]
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return bytes(token for token in told["tokens"][0] if token < 256), told


def main(program, prompt, *flags):
    text, told = generate(program, prompt, *flags)
    print(prompt + text.decode(errors="replace"))
    print(f"prompt: {told['prompt']['tokens_per_second']:.0f} tokens/s, decoding: {told['decoding']['tokens_per_second']:.0f} tokens/s")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
