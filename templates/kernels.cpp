// $title kernels.
#include "weft/$header"

namespace $program {

//@ for kernel in kernels
$kernel.text

//@ end
}  // namespace $program
