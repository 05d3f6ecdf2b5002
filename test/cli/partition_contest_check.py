# test: fast
"""`weft solve` on partition problems: the corpus of the contest IOPDDL beside the best that was known, and bad input.

In full all twelve instances at 120 s each; else the smallest three for a few seconds. Costs and memory are computed here from the
files, without anything of the solver.
"""

import copy
import gzip
import json
import os

import harness

FOLDER = harness.scratch("partition_contest")
CORPUS = harness.corpus_folder() / "iopddl"
BEST_KNOWN = {
    "A": 6548641531, "B": 532843, "D": 313613524736, "G": 217039, "K": 2274276676, "L": 1970993742, "M": 49928460991, "P": 662197407330,
    "Q": 526776842042, "S": 1534613444, "T": 682895254913, "U": 2569342178,
}
SECONDS = float(os.environ.get("WEFT_PARTITION_SECONDS", 120 if harness.FULL else 5))
FORBIDDEN = 10**15


def cost_and_peak(problem, choices):
    """The cost of these choices, and the most that is used at any time."""
    nodes, edges = problem["nodes"], problem["edges"]
    cost = sum(costs[choice] for costs, choice in zip(nodes["costs"], choices, strict=True))
    for (a, b), costs in zip(edges["nodes"], edges["costs"], strict=True):
        cost += costs[choices[a] * len(nodes["costs"][b]) + choices[b]]
    changes = {}
    for (first, last), usages, choice in zip(nodes["intervals"], nodes["usages"], choices, strict=True):
        if first < last:
            changes[first] = changes.get(first, 0) + usages[choice]
            changes[last] = changes.get(last, 0) - usages[choice]
    peak = used = 0
    for time in sorted(changes):
        used += changes[time]
        peak = max(peak, used)
    return cost, peak


def score_of(letter):
    """The score of one instance; 0 if its solution is invalid."""
    file = CORPUS / f"{letter}.json.gz"
    status, out, err = harness.weft("solve", file, "--seconds", str(SECONDS), "--json", timeout=SECONDS + 120)
    if not harness.check(f"{letter}/solved", status == 0, err[-300:]):
        return 0
    row = json.loads(out)
    with gzip.open(file) as opened:
        problem = json.load(opened)["problem"]
    cost, peak = cost_and_peak(problem, row["choices"])
    score = BEST_KNOWN[letter] / max(cost, 1)
    print(f"{letter} cost {cost:>13} best known {BEST_KNOWN[letter]:>13} score {score:.4f} bound {row['lower_bound']:>13} "
          f"{'proved' if row['proved'] else '':6} {row['seconds']:.1f} s", flush=True)
    right = cost == row["cost"] < FORBIDDEN and peak <= problem["usage_limit"] and row["lower_bound"] <= cost
    harness.check(f"{letter}/valid", right, f"cost {cost}, printed {row['cost']}; {peak} used of {problem['usage_limit']}; bound {row['lower_bound']}")
    harness.measured(f"{letter}/seconds", row["seconds"] <= SECONDS + 5, f"{row['seconds']} s of {SECONDS}")
    return score if right else 0


def check_contest():
    if not CORPUS.is_dir():
        harness.skipped("contest", "the corpus is not on this machine (WEFT_CORPUS)")
        return
    scores = {letter: score_of(letter) for letter in (BEST_KNOWN if harness.FULL else "BGP")}
    total = sum(scores.values())
    harness.check("G/optimum", scores["G"] == 1, f"score {scores['G']}")
    least = 11.5 if harness.FULL else 2.4  # with other tests beside it
    harness.measured("scores", total >= least, f"{total:.4f} of {len(scores)}, at least {least}")


GOOD = {
    "problem": {
        "name": "two",
        "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3, 4]], "usages": [[5, 6], [7, 8]]},
        "edges": {"nodes": [[0, 1]], "costs": [[1, 0, 10**18, 5]]},
        "usage_limit": 13,
    }
}


def expect(name, content, wanted, *texts, file="problem.json", flags=()):
    path = FOLDER / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    status, out, err = harness.weft("solve", path, *flags)
    missing = [text for text in texts if text not in out + err]
    harness.check(f"input/{name}", status == wanted and not missing, f"exit {status}, not {wanted}; lacks {missing}: {(err or out)[-300:]}")


def changed(change):
    content = copy.deepcopy(GOOD)
    change(content["problem"])
    return json.dumps(content, indent=1)


def check_input():
    text = json.dumps(GOOD, indent=1)
    answer = '{"name": "two", "cost": 5, "choices": [0, 0], "lower_bound": 5, "proved": true, "seconds": '
    compressed = gzip.compress(text.encode())
    expect("good", text, 0, answer, flags=["--json"])
    expect("table", text, 0, "proved optimal", "two")
    expect("compressed", compressed, 0, answer, file="problem.json.gz", flags=["--json"])
    expect("truncated", compressed[:-20], 1, "problem.json.gz: error: the problems cannot be read", "ends early [problem-file]",
           file="problem.json.gz")
    expect("not compressed", b"\x1f\x8b nothing", 1, "[problem-file]", file="problem.json.gz")
    expect("cut text", text[:-5], 1, "problem.json:", "[partition-form]")
    expect("no seconds", text, 2, "--seconds", flags=["--seconds", "0"])
    expect("unknown key", changed(lambda p: p.update(usage_limits=1)), 1, "there is no key 'usage_limits' here, did you mean 'usage_limit'?")
    expect("key beside", json.dumps({**GOOD, "cases": []}), 1, "there is no key 'cases' here", "problem.json:1:")
    expect("no limit", changed(lambda p: p.pop("usage_limit")), 1, "'usage_limit' is missing")
    expect("limit over all numbers", changed(lambda p: p.update(usage_limit=2**64)), 1, "'usage_limit' is over 9223372036854775807 [partition-form]", "problem.json:")
    expect("limit just over", changed(lambda p: p.update(usage_limit=2**63)), 1, "'usage_limit' is over 9223372036854775807")
    expect("largest limit", changed(lambda p: p.update(usage_limit=2**63 - 1)), 0, "proved optimal")
    expect("no nodes", changed(lambda p: p.update(nodes={"intervals": [], "costs": [], "usages": []}, edges={"nodes": [], "costs": []})), 1,
           "the problem has no nodes: there is nothing to choose [partition-form]", "problem.json:6:")
    expect("a case", text, 2, "--case chooses among pipelines, and this is a partition problem [partition-case]", flags=["--case", "two"])
    expect("no outer object", json.dumps(GOOD["problem"]), 1, "or one whose first key is 'problem'", "[problem-form]")
    expect("no edges", changed(lambda p: p.pop("edges")), 1, "'edges.nodes' is missing", "'edges.costs' is missing")
    expect("twice", text.replace('"name": "two"', '"name": "two", "name": "two"'), 1, "'name' is given twice [partition-form]")
    expect("text", changed(lambda p: p["nodes"].update(costs="1")), 1, "'costs' is a list of lists of whole numbers")
    expect("flat list", changed(lambda p: p["nodes"].update(costs=[1, 2])), 1, "'costs' is a list of lists of whole numbers")
    expect("deep list", changed(lambda p: p["nodes"].update(costs=[[[1]]])), 1, "'costs' is a list of lists of whole numbers")
    expect("number for object", changed(lambda p: p.update(nodes=1)), 1, "'nodes' is an object")
    expect("negative limit", changed(lambda p: p.update(usage_limit=-1)), 1, "'usage_limit' is a whole number from 0 on")
    expect("negative usage", changed(lambda p: p["nodes"].update(usages=[[5, -6], [7, 8]])), 1, "-6 is below 0", "problem.json:")
    expect("fraction", changed(lambda p: p["nodes"].update(costs=[[1.5, 2], [3, 4]])), 1, "1.5 is no whole number")
    expect("fewer usages", changed(lambda p: p["nodes"].update(usages=[[5], [7, 8]])), 1, "node 0 has 1 usages for 2 strategies")
    expect("no usages", changed(lambda p: p["nodes"].update(usages=[])), 1, "there are 0 'usages' for 2 costs of nodes")
    expect("no strategy", changed(lambda p: p["nodes"].update(costs=[[], [3, 4]])), 1, "node 0 has no strategy")
    expect("interval", changed(lambda p: p["nodes"].update(intervals=[[0, 2], [3, 1]])), 1, "ends at 1, before it begins at 3")
    expect("interval of one", changed(lambda p: p["nodes"].update(intervals=[[0], [1, 3]])), 1, "has 1 numbers, not 2")
    expect("no such node", changed(lambda p: p["edges"].update(nodes=[[0, 2]])), 1, "edge 0 is two nodes from 0 to 1")
    expect("fewer costs", changed(lambda p: p["edges"].update(costs=[[1, 0, 5]])), 1, "edge 0 has 3 costs for 4 pairs of strategies")
    expect("more edges", changed(lambda p: p["edges"].update(costs=[])), 1, "there are 0 'costs' for 1 pairs of nodes")
    expect("no memory", changed(lambda p: p.update(usage_limit=11)), 1, "keeps the limit of usage", "[partition-impossible]")
    expect("no pair", changed(lambda p: p["edges"].update(costs=[[10**15] * 4])), 1, "[partition-impossible]")
    status, _, err = harness.weft("solve", FOLDER / "absent.json.gz")
    harness.check("input/no file", status == 1 and "[problem-file]" in err, err[-200:])


harness.need_weft()
check_input()
check_contest()
