// $summary
#include "weft/host.h"

extern "C" {
// The program of program.cpp, once with the kernels of each level.
//@ for l in levels
extern const weft::Executable $l.program;  // $l.arch
//@ end
}

constexpr weft::LevelProgram kLevels[] = {
//@ for l in levels
    {weft::Level::$l.level, &$l.program},
//@ end
};

//@ if main
int main(int argc, char** argv) { return weft::main(kLevels, argc, argv); }
//@ end
//@ if library
namespace library::$name {
const weft::Executable& executable() { return *weft::best_of(kLevels).executable; }
}  // namespace library::$name
//@ end
