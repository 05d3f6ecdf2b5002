// How the iterations of a Chunk, or a separate collective, run: the schedule requests it, the op carries it, and a loop
// of the Plan implements it.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace weftc {

enum class Mechanism : uint8_t {
  Streams,   // each step runs separately, on its stream
  Signal,    // the computing steps are one kernel, which waits for and raises the flags of the chunks
  Fused,     // all steps are one kernel over the peer table
  Pipeline,  // the chunks are micro-batches: no loop, the blocks of the stages run in the order of the pipeline
  Beside,    // for a collective: whole, on a stream of its own, beside ops that do not need it
};
const char* mechanism_name(Mechanism mechanism);
std::optional<Mechanism> parse_mechanism(std::string_view name);

}  // namespace weftc
