"""The commands that a benchmark starts: what they print, or the end of the benchmark where one fails."""

import subprocess
import sys


def run_in(folder, *command):
    """Standard output of the command, which `folder` is the working directory of; what it says on standard error is shown only if it fails."""
    words = [str(part) for part in command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
