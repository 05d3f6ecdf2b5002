// Ports without a buffer are made from the program's ports.
#include "text_ports.h"

#include <algorithm>

namespace weft {

const Port& port_named(const Executable& executable, const char* name, std::span<const Port> Program::*ports) {
  for (const Program& program : executable.programs)
    if (const Port* port = find_port(program.*ports, name)) return *port;
  fail(kBug, "the generation names '%s', which the program does not have", name);
}

bool has_length_at_run_time(const Port& port, int dim) {
  const std::span<const Bound> bounds = port.layout.bounds;
  return std::any_of(bounds.begin(), bounds.end(), [&](const Bound& bound) { return bound.dim == dim; });
}

TextPorts::TextPorts(const Executable& executable)
    : bounds_{{0, -1}, {1, -1}},
      prompt(port_named(executable, executable.generation->tokens, &Program::inputs)),
      generated("tokens", {}, Own<int64_t>{{0, 1}}) {
  const bool is_batch_open = has_length_at_run_time(prompt, 0);
  prompt.shape.dims[1] = executable.generation->room;
  prompt.layout = {.bounds = std::span(bounds_).subspan(is_batch_open ? 0 : 1)};
  generated.dtype = prompt.dtype;
}

bool is_fed(const Executable& executable, const char* input) {
  const auto is = [&](const char* name) { return name != nullptr && std::string_view(name) == input; };
  if (executable.training != nullptr && is(executable.training->evaluates)) return true;
  if (executable.generation == nullptr) return false;
  const Generation& generation = *executable.generation;
  return is(generation.tokens) || is(generation.positions) || is(generation.mask);
}

int64_t shared_logits_bytes(const Executable& executable) {
  if (executable.generation == nullptr) return 0;
  const Shape& shape = port_named(executable, executable.generation->logits, &Program::outputs).shape;
  return shape.dims[0] * shape.dims[shape.ndim - 1] * int64_t{sizeof(double)};
}

}  // namespace weft
