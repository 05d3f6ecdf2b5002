// $title kernels.
#include "weft/$header"

namespace model::$program {

//@ for kernel in kernels
$kernel.text

//@ end
}  // namespace model::$program
