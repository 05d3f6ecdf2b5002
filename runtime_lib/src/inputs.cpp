// Each variant has parts of its own, since slices and buffer sizes differ. Inputs of a generation are given to all
// variants, since another variant may compute its next tokens.
#include "inputs.h"

#include "checks.h"
#include "npy.h"
#include "text_ports.h"
#include "variants.h"

namespace weft {

Inputs::Inputs(RankBase& rank, const Options& options) : rank_(rank), options_(options) {
  for (size_t v = 0; v < variant_count(rank.executable); ++v)
    of_variants_.emplace_back(rank, variant_of(rank.executable, v), options);
}

std::vector<Announced> Inputs::announced_files(int invocation) const {
  std::vector<Announced> out;
  for (const Port* port : distinct_ports(rank_.executable, &Program::inputs)) {
    const auto given = options_.inputs.find(port->name);
    if (given == options_.inputs.end() || is_state_input(rank_.executable, port->name)) continue;
    const std::string file = input_file(given->second, invocation);
    const NpyFile npy(file, port->dtype);
    check_shape(*port, npy.shape(), file);
    out.push_back({port->name, npy.shape()});
  }
  return out;
}

void Inputs::load(int invocation) {
  if (rank_.executable.generation != nullptr) {
    for (VariantInputs& inputs : of_variants_) inputs.load(invocation);
    return;
  }
  if (!rank_.executable.variants.empty()) expect(announced_files(invocation));
  current().load(invocation);
}

void Inputs::expect(const std::vector<Announced>& tensors) {
  if (rank_.executable.variants.empty()) return;
  LengthClaims claims(rank_.executable);
  for (const Announced& tensor : tensors) {
    const Port& port = port_named(rank_.executable, tensor.input, &Program::inputs);
    const std::vector<int64_t> lengths = lengths_of(port, tensor.shape);
    for (size_t b = 0; b < lengths.size(); ++b)
      claims.add(port.layout.bounds[b], lengths[b], text("'%s'", tensor.input));
  }
  rank_.select(choose_variant(rank_.executable, claims));
}

void Inputs::give(const WholeTensor& tensor) {
  const bool is_given_once = rank_.executable.generation != nullptr && !is_fed(rank_.executable, tensor.name);
  if (!is_given_once) return current().give(tensor);
  for (VariantInputs& inputs : of_variants_) inputs.give(tensor);
}

}  // namespace weft
