// The interface of a generation. Its arrays are not inputs and outputs of the program, which processes some tokens of a
// text at a time.
#pragma once
#include "ports.h"

namespace weft {

/// The input and output of a generation, as ports without a buffer.
struct TextPorts {
  explicit TextPorts(const Executable& executable);
  TextPorts(const TextPorts&) = delete;
  TextPorts& operator=(const TextPorts&) = delete;

 private:
  Bound bounds_[2];  // of batch and length, which `prompt` refers to

 public:
  Port prompt;     // under the name of the input that it is fed to: [batch, up to room]
  Port generated;  // "tokens", of the prompt's type
};

/// Inputs that a generation feeds the program by itself: tokens, positions, mask.
bool is_fed(const Executable& executable, const char* input);

/// Memory for the logits of the last token of each row, where outputs are assembled.
int64_t shared_logits_bytes(const Executable& executable);

/// True if the length of that dimension is known at run time only.
bool has_length_at_run_time(const Port& port, int dim);

/// The port of that name in any program. A missing port is a bug.
const Port& port_named(const Executable& executable, const char* name, std::span<const Port> Program::*ports);

}  // namespace weft
