"""The test driver: finds test/**/*_check.py, runs them, counts their lines.

    run.py            fast and slow groups          run.py fast|full     by label
    run.py GROUP...   only these groups             run.py list          the groups and their labels
    run.py PATH...    one file of test cases, or the folder of a case
The last line is `N passed, N failed, N skipped`; the exit code is 1 if a case failed.

Two groups run at a time, or as many as half the cores. Long ones have `# test: LABEL, long` and begin first, so that
cores are busy until the end. Groups that measure time have `# test: LABEL, alone`: they run before all others, one
after another.
"""

import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LABELS = ("fast", "slow", "full")
# The group that runs a path of test/ alone, when its script gets the path.
GROUPS_OF_PARTS = (("golden/**/*.case", "golden"), ("bad_input/**/*.case", "bad_input"), ("cases/*/*", "cases"),
                   ("**/*_test.cpp", "unit"), ("passes/*/*.weft", "unit"))
SHOWN = 600  # characters of a failure; build/test/GROUP.log holds all
HEAD = re.compile(rf"^# test: ({'|'.join(LABELS)})(?:, (alone|long))?$")
LANES = max(2, len(os.sched_getaffinity(0)) // 2)
RESULT = re.compile(r"^(PASS|FAIL|SKIP) ([^:]*(?::[^ ][^:]*)*)(?:: (.*))?$")


@dataclasses.dataclass
class Group:
    name: str
    label: str
    script: pathlib.Path
    manner: str = ""  # alone, long or neither
    part: tuple = ()  # paths of a part of the group; empty: all of it
    passed: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skips: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0


def find_groups():
    groups = []
    for script in sorted((ROOT / "test").glob("**/*_check.py")):
        head = next(filter(None, map(HEAD.match, script.read_text().split("\n")[:5])), None)
        if not head:
            sys.exit(f"{script}: one of its first five lines must be '# test: LABEL', LABEL one of {', '.join(LABELS)}")
        groups.append(Group(script.stem.removesuffix("_check"), head[1], script, head[2] or ""))
    return sorted(groups, key=lambda group: ["alone", "long", ""].index(group.manner))


def group_of(argument, groups):
    """The group of that name, or the part of a group that the path holds; none: neither."""
    by_name = {group.name: group for group in groups}
    path = (pathlib.Path.cwd() / argument).resolve()
    if argument in by_name or not path.exists():
        return by_name.get(argument)
    for group in groups:
        if path == group.script:
            return group
    for pattern, name in GROUPS_OF_PARTS:
        if path in (ROOT / "test").glob(pattern):
            return dataclasses.replace(by_name[name], part=(str(path),), failures=[], skips=[])
    return None


def joined(groups):
    """Each group once: several paths of one are one run, its name among them is all of it."""
    by_name = {}
    for group in groups:
        known = by_name.setdefault(group.name, group)
        if known is not group:
            known.part = (*known.part, *group.part) if known.part and group.part else ()
    return list(by_name.values())


def run_groups(groups, level):
    for group in groups:
        if group.manner == "alone":
            run_group(group, level)
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        list(pool.map(lambda group: run_group(group, level), [g for g in groups if g.manner != "alone"]))


def run_group(group, level):
    print(f"-- {group.name}", flush=True)
    environment = dict(os.environ, WEFT_TEST_LABEL=level, PYTHONPATH=str(ROOT / "test"), PYTHONUNBUFFERED="1")
    environment.setdefault("WEFT_PRECOMPILED_HEADERS", str(ROOT / "build" / "test" / "precompiled"))
    log = ROOT / "build" / "test" / f"{group.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(group.script), *group.part],
        cwd=ROOT, env=environment, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    tail = collections.deque(maxlen=15)
    with log.open("w") as out:
        for line in process.stdout:
            out.write(line)
            take_line(group, line.rstrip("\n"), tail)
    _, status, used = os.wait4(process.pid, 0)
    status = process.returncode = os.waitstatus_to_exitcode(status)
    group.seconds = time.monotonic() - start
    group.processor_seconds = used.ru_utime + used.ru_stime
    if status != 0 and not group.failures:
        group.failures.append((group.name, f"exited with {status}"))
        print(f"FAIL {group.name}: exited with {status}; its last lines:")
        print("\n".join(f"    {line}" for line in tail))
    elif not (group.passed or group.failures or group.skips):
        group.failures.append((group.name, "printed no result"))
        print(f"FAIL {group.name}: printed no result")


def take_line(group, line, tail):
    match = RESULT.match(line)
    if not match:
        tail.append(line)
        return
    kind, name, text = match.groups()
    if kind == "PASS":
        group.passed += 1
    elif kind == "FAIL":
        group.failures.append((name, text or ""))
        print(f"FAIL {group.name}/{name}: {(text or '')[:SHOWN]}", flush=True)
    else:
        group.skips.append((name, text or "no reason given"))


def print_table(groups):
    print(f"\n{'group':<22}{'label':<7}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}{'of cores':>10}")
    for group in groups:
        counts = f"{group.passed:>8}{len(group.failures):>8}{len(group.skips):>9}{group.seconds:>9.1f}{group.processor_seconds:>10.1f}"
        print(f"{group.name:<22}{group.label:<7}{counts}")
    reasons = collections.Counter((group.name, reason) for group in groups for _, reason in group.skips)
    if reasons:
        print("\nskipped, by reason:")
        for (name, reason), count in reasons.most_common(25):
            print(f"{count:>6}  {name}: {reason[:150]}")
        if len(reasons) > 25:
            print(f"        and {len(reasons) - 25} more reasons (build/test/report.json)")


def write_report(groups):
    report = [
        {"group": g.name, "label": g.label, "passed": g.passed, "failed": g.failures, "skipped": g.skips,
         "seconds": round(g.seconds, 1), "processor_seconds": round(g.processor_seconds, 1)}
        for g in groups
    ]
    path = ROOT / "build" / "test" / "report.json"
    path.write_text(json.dumps(report, indent=1))


def main(arguments):
    groups = find_groups()
    if arguments == ["list"]:
        for group in groups:
            print(f"{group.name:<22}{group.label}")
        return 0
    level = arguments[0] if arguments and arguments[0] in LABELS else "slow"
    wanted = [argument for argument in arguments if argument not in LABELS]
    found = [group_of(argument, groups) for argument in wanted]
    if None in found:
        print(f"neither a group nor a path with tests: {wanted[found.index(None)]}; "
              f"the groups are: {', '.join(group.name for group in groups)}")
        return 2
    chosen = joined(found) or [group for group in groups if LABELS.index(group.label) <= LABELS.index(level)]
    run_groups(chosen, level)
    print_table(chosen)
    write_report(chosen)
    failures = sum(len(group.failures) for group in chosen)
    print(f"{sum(g.passed for g in chosen)} passed, {failures} failed, {sum(len(g.skips) for g in chosen)} skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
