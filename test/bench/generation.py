"""./dev bench generation: the time of a token inside one executable beside a step that is pinned to one length.

    generation.py [--rounds 11] [--tokens 50] [--prompt 100] [--layers 6 --width 512] [--models gpt2,llama]

samples/gpt2 and samples/llama with their caches: the executable feeds a prompt and then generates tokens on states that grow
to a bound; each of its tokens is timed with the choice of the next one. The pinned program has the length of the cache in the
middle of that text, computes the logits of one token, and chooses nothing. One thread each, in turns; a ratio is that of the
medians of a round.
"""

import argparse
import functools
import json
import pathlib
import sys

import numpy as np

from command import run_in
from load import BUSY, Load, median_interval

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench" / "generation"
run = functools.partial(run_in, FOLDER)
BOUND, PIECE, VOCABULARY, LIMIT = 512, 64, 5000, 1.15
SIZES = {"gpt2": ["--heads", "8", "--context", str(BOUND + PIECE), "--vocab", str(VOCABULARY)],
         "llama": ["--heads", "8", "--groups", "2", "--hidden", "1376", "--vocab", str(VOCABULARY)]}
FED = {"gpt2": {}, "llama": {"positions": "position_ids", "mask": "attention_mask"}}
STATE = {"gpt2": {"past_k.{l}": "present_k.{l}", "past_v.{l}": "present_v.{l}"},
         "llama": {"past_key_values.{l}.key": "present.{l}.key", "past_key_values.{l}.value": "present.{l}.value"}}


def make_programs(kind, options):
    """The one that generates, and the pinned one."""
    run(sys.executable, ROOT / "samples" / kind / "make.py", f"{kind}.onnx", "--past", "--layers", options.layers, "--width",
        options.width, *SIZES[kind])
    dims = {"batch": 1, "seq": f"<={PIECE}", "past": f"<={BOUND}"} | ({"past + seq": f"<={BOUND}"} if FED[kind] else {})
    generation = {"tokens": "input_ids", "logits": "logits", "max_new": options.tokens, **FED[kind]}
    (FOLDER / f"{kind}.yaml").write_text(json.dumps({"weft": 1, "dims": dims, "state": STATE[kind], "generate": generation}))
    run(WEFT, "compile", f"{kind}.onnx", "--schedule", f"{kind}.yaml", "-o", kind, "--quiet")
    past = options.prompt + options.tokens // 2
    pinned = ["batch=1", "seq=1", f"past={past}"] + ([f"past + seq={past + 1}"] if FED[kind] else [])
    run(WEFT, "compile", f"{kind}.onnx", *(f"--dim={dim}" for dim in pinned), "-o", f"{kind}_pinned", "--quiet")
    return FOLDER / kind, FOLDER / f"{kind}_pinned"


def step_ms(program, *flags):
    """The median time of a token, or of an invocation."""
    return json.loads(run(program, "--threads", 1, "--json", *flags))["latency_ms"]["median"]


def ratios(kind, options):
    generating, pinned = make_programs(kind, options)
    np.save(FOLDER / "prompt.npy", np.random.default_rng(0).integers(0, VOCABULARY, (1, options.prompt)))
    ways = {"ours": (generating, "--input", "input_ids=prompt.npy"),
            "pinned": (pinned, "--random-inputs", 1, "--iterations", options.tokens, "--warmup", 3)}
    times = {name: [] for name in ways}
    for turn in range(options.rounds):
        for name in sorted(ways, reverse=turn % 2 == 1):
            times[name].append(step_ms(*ways[name]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 11), ("tokens", 50), ("prompt", 100), ("layers", 6), ("width", 512)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--models", default="gpt2,llama")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    load, is_slow = Load(), False
    print(f"{options.layers} layers of width {options.width}, one thread; {options.tokens} tokens after {options.prompt}")
    for kind in options.models.split(","):
        times = ratios(kind, options)
        middle, low, high = median_interval([ours / pinned for ours, pinned in zip(times["ours"], times["pinned"])])
        is_slow |= low > LIMIT
        print(f"{kind:>6}: {min(times['ours']):.3f} ms a token, pinned {min(times['pinned']):.3f} ms; ratio {middle:.3f} "
              f"({low:.3f} .. {high:.3f}), at most {LIMIT}", flush=True)
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))
    sys.exit(5 if is_slow else 0)


if __name__ == "__main__":
    main()
