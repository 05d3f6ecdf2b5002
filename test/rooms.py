"""Rooms are the sub-folders of a folder that has a README. The README says which of them include which:

    | room | includes | for |
    |---|---|---|
    | `plan/` | `cost/`, `strategy/` | costs of kernels, and the rules of strategies |

All rooms may include the files beside them; a room that may not has the word `nothing` in its row. The row of these
files has no room in backticks.

    rooms.py        prints the rooms of each folder, and those that each includes
"""

import posixpath

import harness
import markdown
from source_tree import PRODUCT, Tree, find_cycle

BESIDE = "the files beside the rooms"


def folders_with_rooms(tree):
    """Folders of the product that have a README, and code in folders below."""
    with_readme = [posixpath.dirname(file) for file in tree.readmes()]
    product = [folder for folder in with_readme if folder.split("/")[0] in PRODUCT]
    return [folder for folder in product if any(room_of(folder, file) != BESIDE for file in tree.below(folder))]


def room_of(folder, file):
    rest = file.removeprefix(f"{folder}/").split("/")
    return rest[0] if len(rest) > 1 else BESIDE


def real_edges(tree, folder):
    """For each pair of rooms of which one includes the other, one such include in words."""
    edges = {}
    for file in tree.below(folder):
        for included in tree.includes(file):
            if included.startswith(f"{folder}/"):
                pair = room_of(folder, file), room_of(folder, included)
                edges.setdefault(pair, f"{file} includes {included}")
    return {pair: why for pair, why in edges.items() if pair[0] != pair[1]}


def rooms_in(cell):
    return [span.rstrip("/") for span in markdown.spans(cell)]


def named_edges(tree, folder):
    """Pairs of rooms that the README names, and the rooms that include nothing of the folder."""
    table = markdown.table_with(tree.text(f"{folder}/README.md"), "room", "includes")
    edges, alone = set(), set()
    for row in table.rows if table else []:
        for room in rooms_in(row[0]) or [BESIDE]:
            edges |= {(room, included) for included in rooms_in(row[1])}
            alone |= {room} if row[1] == "nothing" else set()
    return edges, alone


def complaints(tree, folder):
    real = real_edges(tree, folder)
    named, alone = named_edges(tree, folder)
    readme = f"{folder}/README.md"
    found = []
    for (room, included), why in sorted(real.items()):
        if included == BESIDE and room in alone:
            found.append(f"{why}, and {readme} says that {room} includes nothing of {folder}/")
        if included != BESIDE and (room, included) not in named:
            found.append(f"{why}, and {readme} does not say that {room} includes {included}")
    for room, included in sorted(named - set(real)):
        found.append(f"{readme} says that {room} includes {included}, and no file does")
    following = {}
    for room, included in real:
        if BESIDE not in (room, included):
            following.setdefault(room, set()).add(included)
    cycle = find_cycle(following)
    if cycle:
        found.append(f"rooms of {folder}/ include each other in a circle: {' -> '.join(cycle)}")
    return found


def print_edges(tree):
    for folder in folders_with_rooms(tree):
        edges = real_edges(tree, folder)
        print(f"{folder}/")
        for room in sorted({room_of(folder, file) for file in tree.below(folder)}):
            included = sorted(other for each, other in edges if each == room)
            print(f"  {room}: {', '.join(included) or 'nothing'}")


if __name__ == "__main__":
    print_edges(Tree(harness.ROOT))
