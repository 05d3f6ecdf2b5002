// $title kernels.
//@ for header in headers
#include "weft/$header.name"
//@ end

namespace model::$program {

//@ for kernel in kernels
$kernel.text

//@ end
}  // namespace model::$program
