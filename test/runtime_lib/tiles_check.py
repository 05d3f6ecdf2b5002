# test: fast
"""The runtime library's tiles, compiled for each level of CPUs: their objects define nothing else. The linker takes the
first definition of a function that several objects have, which must not be for a newer CPU than the program's."""

import re
import subprocess

import harness

LEVELS = ["Any", "V2", "V3", "V4"]
TILE = re.compile(r"void weft::detail::library_(?:output_|row_|group_pair_)?tile<\(weft::Level\)(\d), ")


def symbols_of_objects(archive):
    """The global symbols that each object named tiles.cpp.o defines."""
    shown = subprocess.run(["nm", "-gC", "--defined-only", archive], capture_output=True, text=True, check=True).stdout
    for part in shown.split("\n\n"):
        name, *lines = part.strip().splitlines()
        if name == "tiles.cpp.o:":
            yield [line.split(maxsplit=2)[2] for line in lines]


def main():
    found = []
    for symbols in symbols_of_objects(harness.BUILD / "runtime_lib" / "libweft_runtime.a"):
        tiles = [TILE.match(symbol) for symbol in symbols]
        levels = {int(tile[1]) for tile in tiles if tile}
        others = [symbol for symbol, tile in zip(symbols, tiles) if not tile]
        name = " and ".join(LEVELS[level] for level in sorted(levels))
        harness.check(f"objects/{name}", len(levels) == 1 and not others, f"also defines {', '.join(others[:5])}")
        found += levels
    harness.check("levels", sorted(found) in ([0], [0, 1, 2, 3]), f"the archive has the tiles of the levels {found}")


harness.need_weft()
main()
