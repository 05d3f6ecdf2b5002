// Global tensors and the parts of them that ranks hold: slicing inputs, assembling outputs.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "failure.h"
#include "weft/program.h"

namespace weft {

/// The location of a rank's part in a port's global tensor.
struct PortView {
  /// `ranks`: the program's. An axis of per_rank becomes a leading dimension.
  PortView(const Port& port, int rank);

  const Port& port;
  std::vector<int64_t> extents;             // of the buffer
  std::vector<std::vector<int64_t>> index;  // [dim][local index]: the global index
  int64_t copy = 0;                         // which of the unrelated copies
  int64_t bytes() const;                    // of the buffer
};

/// The shape of a port's .npy file at its bounds: the leading dimension of copies, then the global dimensions.
std::vector<int64_t> file_shape(const Port& port);

/// Copies a rank's part of a whole tensor of `shape` (with the leading dimension, run-time lengths in place of bounds)
/// into a buffer, or back.
void take_part(const PortView& view, const std::vector<int64_t>& shape, const char* whole, char* buffer);
void put_part(const PortView& view, const std::vector<int64_t>& shape, const char* buffer, char* whole);

/// A rank's part of a random tensor of `shape`: the same values for any layout. See random_value in ports.cpp.
void take_random(const PortView& view, const std::vector<int64_t>& shape, uint64_t seed, char* buffer);

/// The programs and ports of an executable, by rank.
const Program& program_of(const Executable& executable, int rank);
bool holds(const Program& program, const Port& port, int rank);
const Port* find_port(std::span<const Port> ports, const char* name);
/// Each name once, in order of programs: the inputs without states and the outputs as a user sees them.
std::vector<const Port*> distinct_ports(const Executable& executable, std::span<const Port> Program::*ports);
bool is_state_input(const Executable& executable, const char* name);

/// True for the lowest of the ranks that hold the same part of a tensor: it writes the part.
bool writes_part(const Executable& executable, const Port& port, std::span<const Port> Program::*ports, int rank);
/// True for the lowest rank that holds any part.
bool is_first_holder(const Executable& executable, const Port& port, std::span<const Port> Program::*ports, int rank);

}  // namespace weft
