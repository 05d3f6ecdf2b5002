"""Models as their frameworks export them today: a script such as conformance/exports/make.py in a Python environment of its
own.

The environment has the packages of a file of requirements beside the script. It lies in build/ and is made at first
use. That takes gigabytes, so only `full` makes it, and other runs use an existing one.
"""

import concurrent.futures
import shutil
import sys

import harness

INSTALL_SECONDS, EXPORT_SECONDS = 1800, 1800


def interpreter(requirements, name, installs=True):
    """The environment's Python and "", or None and the reason. `installs` says whether it may be made."""
    place, wanted = harness.ROOT / "build" / name, requirements.read_text()
    installed = place / "installed"
    with harness.locked(harness.ROOT / "build" / f"{name}.lock"):
        if not installed.exists() or installed.read_text() != wanted:
            if not installs:
                return None, f"{requirements.relative_to(harness.ROOT)} is not installed, which the full set does"
            shutil.rmtree(place, ignore_errors=True)
            install = [place / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements]
            for command in ([sys.executable, "-m", "venv", place], install):
                status, _, err = harness.run(command, INSTALL_SECONDS)
                if status != 0:
                    shutil.rmtree(place, ignore_errors=True)
                    return None, f"{requirements.relative_to(harness.ROOT)} cannot be installed: {err[-300:]}"
            installed.write_text(wanted)
    return place / "bin" / "python", ""


def exported_anew(script, requirements, stored, names):
    """A folder with the models of these names as the script exports them now, which are those that are stored; without
    its packages that is skipped, and the stored ones are all there are."""
    name = f"{script.parent.name}_{script.stem}"
    python, reason = interpreter(script.parent / requirements, name)
    if not python:
        harness.skipped("exported anew", reason)
        return stored
    folder = harness.scratch(f"exported/{name}")
    parts = [names[first :: harness.JOBS] for first in range(min(harness.JOBS, len(names)))]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ends = list(pool.map(lambda part: harness.run([python, script, folder, *part], EXPORT_SECONDS), parts))
    wrong = [err[-300:] for status, _, err in ends if status != 0]
    found, wanted = ({file.name for file in place.glob("*.onnx")} for place in (folder, stored))
    harness.check("exported anew", not wrong and found == wanted, f"{wrong}; other than the stored ones: {sorted(found ^ wanted)}")
    return folder
