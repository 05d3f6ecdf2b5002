"""The tree as its checks see it: a root folder, the files that belong to it, their texts, and who includes whom.

A check is a function of a Tree, so that a copy with a mistake in it can be checked as well (`broken_rules_check.py`).
"""

import pathlib
import posixpath
import re
import subprocess

CODE = (".h", ".cpp", ".cu", ".cuh", ".def")
PRODUCT = ("ir", "frontend", "passes", "backend", "cli", "runtime_lib")
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)
# Includes count from the root, from the folder of the file, and from these.
INCLUDE_FOLDERS = ("runtime_lib/include", "runtime_lib/src")


def tracked_files(root):
    """The files that git tracks; an archive or a copy of the tree has no git: all files of it."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if done.returncode == 0 and done.stdout:
        names = done.stdout.split("\0")
    else:
        found = [path.relative_to(root) for path in root.rglob("*")]
        names = [str(path) for path in found if path.parts[0] not in ("build", ".git")]
    return [root / name for name in names if name and (root / name).is_file()]


class Tree:
    """Paths are texts that count from the root, as in an include."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = sorted(path.relative_to(self.root).as_posix() for path in tracked_files(self.root))
        self.file_set = set(self.files)
        self.folders = {str(folder) for file in self.files for folder in pathlib.PurePosixPath(file).parents}
        self.names = sorted({pathlib.PurePosixPath(path).name for path in [*self.files, *self.folders]})
        self.stems = {
            file[: file.index(".", file.rfind("/") + 2)] for file in self.files if "." in file[file.rfind("/") + 2 :]
        }
        self._texts = {}

    def text(self, file):
        if file not in self._texts:
            self._texts[file] = (self.root / file).read_text(errors="replace")
        return self._texts[file]

    def has(self, path):
        return path in self.file_set or path in self.folders

    def below(self, folder, suffixes=CODE):
        """Files of a folder and of the folders in it."""
        return [file for file in self.files if file.startswith(f"{folder}/") and file.endswith(tuple(suffixes))]

    def code(self):
        return [file for folder in PRODUCT for file in self.below(folder)]

    def readmes(self):
        """The files that explain the tree. The change log names what was there once."""
        return [file for file in self.files if file.endswith(".md") and file != "CHANGELOG.md"]

    def resolve_include(self, file, included):
        """The file of the tree that an include means, or nothing."""
        for folder in ("", posixpath.dirname(file), *INCLUDE_FOLDERS):
            found = posixpath.normpath(posixpath.join(folder, included))
            if found in self.file_set:
                return found
        return None

    def includes(self, file):
        """The files of the tree that a file includes."""
        found = (self.resolve_include(file, included) for included in INCLUDE.findall(self.text(file)))
        return [each for each in found if each]


def find_cycle(edges):
    """One circle of nodes, or nothing."""
    state = {}  # 1: on the path, 2: done

    def visit(node, path):
        state[node] = 1
        for following in sorted(edges.get(node, ())):
            if state.get(following) == 1:
                return path[path.index(following) :] + [following]
            if following not in state:
                cycle = visit(following, path + [following])
                if cycle:
                    return cycle
        state[node] = 2
        return None

    for node in sorted(edges):
        if node not in state:
            cycle = visit(node, [node])
            if cycle:
                return cycle
    return None
