// Assigns names. Axes carry their place's name only if there are several places; a single block is called `run`.
#include "backend/program_names.h"

#include <cstdint>

#include "ir/plan_walk.h"

namespace weftc {

ProgramNames::ProgramNames(const Plan& plan, const std::string& variant)
    : program(identifier(plan.name)), space(variant.empty() ? program : program + "::" + variant) {
  Names& names = taken;
  for (const char* word : {"states", "chunk", "trip", "own", "alone", "block", "layer"}) names.reserve(word);
  for (size_t axis = 0; axis < SharedRows::kMostAxes; ++axis) {
    const RowWords& words = row_words(axis, SharedRows::kMostAxes);
    for (const char* word : {words.first, words.count, words.all, words.blocks}) names.reserve(word);
  }
  names.reserve(program);
  for (const Kernel& kernel : plan.kernels) kernels.push_back(names.unique(kernel.name));
  for (const std::string& stream : plan.streams) streams.push_back(names.unique(stream));
  for (const Place& place : plan.places) {
    std::vector<std::string>& of_place = axes.emplace_back();
    for (const MeshAxis& axis : place.mesh)
      of_place.push_back(names.unique(plan.places.size() > 1 ? place.name + "_" + axis.name : axis.name));
  }
  for (const Block& block : plan.blocks) blocks.push_back(plan.blocks.size() == 1 ? "run" : names.unique(block.name));
  for (const Buffer& buffer : plan.buffers) {
    buffers.push_back(names.unique(buffer.name));
    lives.push_back(buffer.live);
  }
  for (const Weight& weight : plan.weights) weights.push_back(names.unique(weight.name));
  for (const Signal& signal : plan.signals) signals.push_back(names.unique(signal.name));
  for (const TransferTable& transfer : plan.transfers) transfers.push_back(names.unique(transfer.name));
}

std::string ProgramNames::group(PlaceId place, const std::vector<int>& list) const {
  std::vector<std::string> parts;
  for (int axis : list) parts.push_back(axes[place.index][axis]);
  return parts.size() == 1 ? parts[0] : "{" + join(parts, ", ") + "}";
}

std::string count_text(const Dims& dims) {
  // The product of two ints is an int in C++, also where it does not fit.
  const char* const suffix = element_count(dims) > INT32_MAX ? "L" : "";
  std::string text;
  for (int64_t d : dims)
    if (d != 1) text += text.empty() ? std::to_string(d) + suffix : " * " + std::to_string(d);
  return text.empty() ? "1" : text;
}

}  // namespace weftc
