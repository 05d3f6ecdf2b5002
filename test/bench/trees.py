"""./dev bench trees: tree ensembles, compiled, beside ONNX Runtime: 100 trees of depth 6 and 100 deep ones, for one row and
for 1000 rows, on one thread and on all.

    trees.py [--rounds 4 --iterations 30]

Both are timed in turns, every second round backwards. A time is the median of a round's iterations; a ratio is the
median over rounds of ours / theirs within one round. The results are compared first.
"""

import argparse
import functools
import json
import os
import pathlib
import statistics
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from command import run_in
from load import BUSY, Load

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEFT = ROOT / "build" / "dev" / "weft"
FOLDER = ROOT / "build" / "bench"
run = functools.partial(run_in, FOLDER)
TOLERANCE = 1e-4
FEATURES, TREES = 20, 100
# How deep trees are, and how likely a node above that is a leaf.
ENSEMBLES = {"depth6": (6, 0.0), "deep": (18, 0.12)}


def ensemble(depth, early, seed=0):
    """Trees whose thresholds halve what is left of a feature's range, as training makes them, depth first."""
    random = np.random.default_rng(seed)
    nodes, votes = [], []

    def grow(tree, level, low, high):
        number = len(nodes) - first
        if level == depth or (level > 3 and random.random() < early):
            nodes.append([tree, number, 0, "LEAF", 0.0, 0, 0])
            votes.append((tree, number, float(random.normal())))
            return number
        feature = int(random.integers(FEATURES))
        at = float(np.float32(random.uniform(low[feature], high[feature])))
        node = [tree, number, feature, "BRANCH_LEQ", at, 0, 0]
        nodes.append(node)
        below, above = high.copy(), low.copy()
        below[feature] = above[feature] = at
        node[5] = grow(tree, level + 1, low, below)
        node[6] = grow(tree, level + 1, above, high)
        return number

    for tree in range(TREES):
        first = len(nodes)
        grow(tree, 0, np.full(FEATURES, -2.0), np.full(FEATURES, 2.0))
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    attrs = {f"nodes_{name}": [node[i] for node in nodes] for i, name in enumerate(names)}
    attrs |= {"target_treeids": [v[0] for v in votes], "target_nodeids": [v[1] for v in votes],
              "target_weights": [v[2] for v in votes], "target_ids": [0] * len(votes), "n_targets": 1}
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", FEATURES])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 18)],
                             ir_version=8)


def median_of(session, x, iterations):
    times = []
    for _ in range(iterations):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def measure(name, rows, threads, options):
    """Microseconds of both, and the ratio."""
    x = np.random.default_rng(1).normal(size=(rows, FEATURES)).astype(np.float32)
    np.save(FOLDER / "x.npy", x)
    program = FOLDER / f"trees_{name}_{rows}"
    run(WEFT, "compile", f"trees_{name}.onnx", "--dim", f"rows={rows}", "-o", program, "--quiet")
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(FOLDER / f"trees_{name}.onnx", settings, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    flags = ["--input", "x=x.npy", "--threads", threads]
    run(program, *flags, "--output-dir", "out")
    difference = np.abs(np.load(FOLDER / "out" / "y.npy") - expected).max() / np.abs(expected).max()
    if not difference <= TOLERANCE:
        sys.exit(f"{name}, {rows} rows: the results differ by {difference:.1e} of the largest element")

    def ours():
        printed = run(program, *flags, "--iterations", options.iterations, "--warmup", 20, "--json")
        return 1e3 * json.loads(printed)["latency_ms"]["median"]

    pairs = []
    for turn in range(options.rounds):
        if turn % 2:
            theirs = median_of(session, x, options.iterations)
            pairs.append((ours(), theirs))
        else:
            pairs.append((ours(), median_of(session, x, options.iterations)))
    return statistics.median(p[0] for p in pairs), statistics.median(p[1] for p in pairs), statistics.median(
        a / b for a, b in pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=30)
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    load = Load()
    print(f"{'microseconds':<34}{'weft':>10}{'ORT':>10}{'ratio':>8}")
    for name, (depth, early) in ENSEMBLES.items():
        onnx.save(ensemble(depth, early), FOLDER / f"trees_{name}.onnx")
        for rows in (1, 1000):
            for threads in (1, os.cpu_count()):
                mine, theirs, ratio = measure(name, rows, threads, options)
                label = f"{name}, {rows} rows, {threads} threads"
                print(f"{label:<34}{mine:>10.1f}{theirs:>10.1f}{ratio:>8.2f}")
    print(f"{options.rounds} rounds; {load}" + (": run this again on a quiet machine" if load.of_others() > BUSY else ""))


if __name__ == "__main__":
    main()
