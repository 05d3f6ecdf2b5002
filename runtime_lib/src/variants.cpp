// Variants have the same programs on the same ranks, inputs, outputs and states of the same names, and the same
// weights; the compiler sees to it.
#include "variants.h"

#include <algorithm>
#include <cstring>

#include "nearest.h"
#include "ports.h"

namespace weft {

WholeExecutable::WholeExecutable(const Executable& emitted, bool generates) : whole_(emitted) {
  executables_.reserve(emitted.variants.size());
  for (const Variant& variant : emitted.variants) {
    executables_.push_back(*variant.executable);
    if (!generates) executables_.back().generation = nullptr;
    variants_.push_back({variant.name, variant.dims, &executables_.back()});
  }
  if (!generates) whole_.generation = nullptr;
  if (variants_.empty()) return;
  for (const DimValue& dim : variants_.front().dims) name_length(dim.name);
  const Executable &first = executables_.front(), &last = executables_.back();
  for (size_t p = 0; p < first.programs.size(); ++p) programs_.push_back(program(p));
  whole_.world = first.world;
  whole_.axes = first.axes;
  whole_.programs = programs_;
  whole_.states = first.states;
  whole_.lengths = names_;
  whole_.generation = last.generation;  // a text has room for as many tokens as the largest variant can be fed
  whole_.variants = variants_;
}

/// The index of a name in `names_`, to which it is added if it is new.
int WholeExecutable::name_length(const char* name) {
  const auto same = [&](const char* known) { return std::string_view(known) == name; };
  const auto at = std::find_if(names_.begin(), names_.end(), same);
  if (at == names_.end()) return names_.push_back(name), int(names_.size()) - 1;
  return int(at - names_.begin());
}

Program WholeExecutable::program(size_t number) {
  Program out = executables_.front().programs[number];
  out.run = nullptr;
  out.lengths = {};
  out.streams = streams(number);
  out.inputs = ports(number, &Program::inputs);
  out.outputs = ports(number, &Program::outputs);
  for (const Executable& variant : executables_) {
    const Program& program = variant.programs[number];
    out.own_bytes = std::max(out.own_bytes, program.own_bytes);
    out.window_bytes = std::max(out.window_bytes, program.window_bytes);
    out.signals = std::max(out.signals, program.signals);
  }
  return out;
}

std::vector<Stream>& WholeExecutable::streams(size_t program) {
  std::vector<Stream>& out = streams_.emplace_back();
  for (const Executable& variant : executables_) {
    const std::span<const Stream> streams = variant.programs[program].streams;
    for (size_t s = 0; s < streams.size(); ++s) {
      if (s == out.size()) out.push_back(streams[s]);
      out[s].parallel |= streams[s].parallel;
    }
  }
  return out;
}

std::span<const Port> WholeExecutable::ports(size_t program, std::span<const Port> Program::*ports) {
  std::vector<Port>& out = ports_.emplace_back();
  for (const Executable& variant : executables_)
    for (const Port& named : variant.programs[program].*ports) {
      if (find_port(out, named.name) != nullptr) continue;
      std::vector<const Port*> of_variants;
      for (const Executable& each : executables_)
        of_variants.push_back(find_port(each.programs[program].*ports, named.name));
      if (std::find(of_variants.begin(), of_variants.end(), nullptr) != of_variants.end())
        fail(kBug, "'%s' is not in all variants of the executable", named.name);
      out.push_back(port(of_variants));
    }
  return out;
}

static const Bound* find_bound(const Port& port, int dim) {
  for (const Bound& bound : port.layout.bounds)
    if (bound.dim == dim) return &bound;
  return nullptr;
}

/// The index of a dimension's length in `names_`; -1 if it has no name because it is computed from others.
int WholeExecutable::length_of(const std::vector<const Port*>& port, int dim) {
  const size_t dims = variants_.front().dims.size();
  for (size_t d = 0; d < dims; ++d) {
    bool is_this = true;
    for (size_t v = 0; v < variants_.size(); ++v) {
      const DimValue& value = variants_[v].dims[d];
      const Bound* bound = find_bound(*port[v], dim);
      const bool has_name =
          bound == nullptr ? !value.is_bound
                           : value.is_bound && bound->length.name >= 0 &&
                                 std::string_view(executables_[v].lengths[size_t(bound->length.name)]) == value.name;
      is_this &= has_name && port[v]->shape.dims[dim] == value.value;
    }
    if (is_this) return name_length(variants_.front().dims[d].name);
  }
  const char* name = nullptr;
  for (size_t v = 0; v < variants_.size(); ++v) {
    const Bound* bound = find_bound(*port[v], dim);
    if (bound == nullptr) continue;  // a number in this variant: the model takes it for one
    if (bound->length.name < 0) return -1;
    const char* here = executables_[v].lengths[size_t(bound->length.name)];
    if (name != nullptr && strcmp(name, here) != 0) return -1;
    name = here;
  }
  return name == nullptr ? -1 : name_length(name);
}

Port WholeExecutable::port(const std::vector<const Port*>& of_variants) {
  Port out = *of_variants.front();
  std::vector<Bound>& bounds = bounds_.emplace_back();
  for (int d = 0; d < out.shape.ndim; ++d) {
    std::vector<int64_t> extents;
    bool is_bounded = false;
    for (const Port* port : of_variants) {
      extents.push_back(port->shape.dims[d]);
      is_bounded |= find_bound(*port, d) != nullptr;
    }
    std::sort(extents.begin(), extents.end());
    out.shape.dims[d] = extents.back();
    if (!is_bounded && extents.front() == extents.back()) continue;
    extents.erase(std::unique(extents.begin(), extents.end()), extents.end());
    Bound& bound = bounds.emplace_back(Bound{d, length_of(of_variants, d)});
    if (!is_bounded) bound.values = values_.emplace_back(std::move(extents));
  }
  out.layout.bounds = bounds;
  return out;
}

size_t variant_count(const Executable& whole) { return std::max<size_t>(1, whole.variants.size()); }

const Executable& variant_of(const Executable& whole, size_t number) {
  return whole.variants.empty() ? whole : *whole.variants[number].executable;
}

static int number_of(const Executable& whole, const char* length) {
  const auto same = [&](const char* name) { return std::string_view(name) == length; };
  return int(std::find_if(whole.lengths.begin(), whole.lengths.end(), same) - whole.lengths.begin());
}

/// The length of a dim according to the inputs; -1: unknown. The model merges dims that have the same values in all
/// variants, so inputs may claim either of them.
static int64_t said_of(const Executable& whole, const LengthClaims& claims, size_t dim) {
  const std::span<const DimValue> dims = whole.variants.front().dims;
  int64_t said = claims.of(number_of(whole, dims[dim].name));
  for (size_t other = 0; said < 0 && other < dims.size(); ++other) {
    const auto is_same = [&](const Variant& variant) { return variant.dims[other].value == variant.dims[dim].value; };
    if (std::all_of(whole.variants.begin(), whole.variants.end(), is_same))
      said = claims.of(number_of(whole, dims[other].name));
  }
  return said;
}

size_t choose_variant(const Executable& whole, const LengthClaims& claims) {
  std::vector<std::string> names;
  std::string wanted;
  for (size_t v = 0; v < whole.variants.size(); ++v) {
    const std::span<const DimValue> dims = whole.variants[v].dims;
    bool fits = true;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t said = said_of(whole, claims, d);
      const int64_t length = said >= 0 ? said : whole.variants.back().dims[d].value;
      fits &= dims[d].is_bound ? length <= dims[d].value : length == dims[d].value;
      if (v == 0) wanted += text("%s%s=%ld", d > 0 ? ", " : "", dims[d].name, long(length));
    }
    if (fits) return v;
    names.emplace_back(whole.variants[v].name);
  }
  if (names.empty()) return 0;
  fail(kWrongInput, "no variant of the program is for %s; there are: %s", wanted.c_str(), list_text(names).c_str());
}

}  // namespace weft
