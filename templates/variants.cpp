// $summary
#include "weft/$header"

//@ for v in variants
namespace model::$name::$v.space {
extern const weft::Executable kExecutable;  // of $v.space/program.cpp
}
//@ end

namespace model::$name {

// The names of dims that each variant is compiled for, and their lengths or bounds.
//@ for v in variants
constexpr weft::DimValue kDims_$v.space[] = {$v.dims};
//@ end
// A request is run by the first that takes its lengths.
constexpr weft::Variant kVariants[] = {
//@ for v in variants
    {$v.literal, kDims_$v.space, &$v.space::kExecutable},
//@ end
};
constexpr weft::Executable kExecutable = {.name = $literal, .variants = kVariants};

}  // namespace model::$name

//@ if level
extern "C" const weft::Executable weft_program;  // for levels.cpp
constexpr weft::Executable weft_program = model::$name::kExecutable;
//@ end
//@ if main
int main(int argc, char** argv) { return weft::main(model::$name::kExecutable, argc, argv); }
//@ end
//@ if library
namespace library::$name {
const weft::Executable& executable() { return ::model::$name::kExecutable; }
}  // namespace library::$name
//@ end
