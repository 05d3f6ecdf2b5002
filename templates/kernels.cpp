// $title kernels.
#include "weft/kernel.h"

namespace $program {

//@ for kernel in kernels
$kernel.text

//@ end
}  // namespace $program
