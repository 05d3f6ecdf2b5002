// The capabilities of each target. A new target is a function here; passes see no more of it than these
// numbers.
#include "ir/target.h"

#include <utility>

namespace weftc {

Target host_target(std::vector<std::string> archs, int vector_floats) {
  Target target;
  target.archs = std::move(archs);
  target.vector_floats = vector_floats;
  return target;
}

Target cuda_target(std::vector<std::string> archs) {
  Target target;
  target.kind = Target::Kind::Cuda;
  target.archs = std::move(archs);
  target.panel_width = 0;
  target.warp = 32;
  target.resident_blocks = 32;  // kMaxPeerBlocks of weft/peers.h
  target.chunk_threads = 128;
  target.multiprocessors = 132;  // an H100; smaller devices take a second turn
  target.library_products = true;
  return target;
}

}  // namespace weftc
