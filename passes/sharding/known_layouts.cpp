#include "passes/sharding/known_layouts.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/base/contains.h"
#include "ir/base/text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// How a parameter is read: by products, or looked up in.
enum class Reader : uint8_t { Product, Lookup };

class KnownLayoutsFinder {
 public:
  KnownLayoutsFinder(const Module& module, const KeptLayouts& kept, const Mesh& mesh)
      : graph_(module.graph), kept_(kept) {
    for (const MeshAxis& axis : mesh) axes_.push_back(axis.name), ranks_ *= axis.size;
    for (const State& state : module.states) states_.emplace(graph_.find_value(state.input), &state);
  }

  std::vector<KnownLayouts> run() const { return {{"all ranks alike"}, data_parallel(), fsdp(), megatron()}; }

  KnownLayouts data_parallel() const {
    KnownLayouts known{"data parallel"};
    const std::optional<Extent> samples = batch();
    if (!samples)
      known.missing = "no input has more than one sample";
    else if (samples->is_run_time())
      known.missing = "the number of samples is known at run time";
    else if (samples->bound < ranks_)
      known.missing = format("{} samples are too few for {} ranks", samples->bound, ranks_);
    if (!known.missing.empty()) return known;
    for (const ValueId input : graph_.inputs())
      if (is_data(input) && graph_.type(input).ndim() > 0 && graph_.type(input).shape[0] == *samples)
        add_slices(input, 0, known.entries);
    return known;
  }

 private:
  KnownLayouts fsdp() const {
    KnownLayouts known = data_parallel();
    known.name = "FSDP";
    if (!known.missing.empty()) return known;
    const size_t without = known.entries.size();
    for (const ValueId parameter : parameters({Reader::Product, Reader::Lookup}))
      if (const std::optional<int> dim = divisible_dim(parameter)) {
        add_slices(parameter, *dim, known.entries);
        if (kept_.has(parameter, true)) continue;
        known.entries.push_back({named(parameter), true, {}});
        for (const std::string& axis : axes_) known.entries.back().axes.push_back({{axis}, true, 0, 1, {}});
      }
    if (known.entries.size() == without) known.missing = format("no parameter has slices for {} ranks", ranks_);
    return known;
  }

  KnownLayouts megatron() const {
    KnownLayouts known{"Megatron"};
    for (const ValueId parameter : parameters({Reader::Product}))
      if (divisible_dim(parameter)) add_with_views(parameter, known.sliced);
    if (known.sliced.empty()) known.missing = format("no product has a parameter with slices for {} ranks", ranks_);
    return known;
  }

  /// How many samples there are: the rows of the first input that has several.
  std::optional<Extent> batch() const {
    for (const ValueId input : graph_.inputs())
      if (is_data(input) && graph_.type(input).ndim() > 0 && graph_.type(input).shape[0].bound > 1)
        return graph_.type(input).shape[0];
    return {};
  }

  const State* state_of(ValueId value) const {
    const auto state = states_.find(value);
    return state == states_.end() ? nullptr : state->second;
  }

  /// True for inputs that are neither parameters nor optimizer states of parameters.
  bool is_data(ValueId input) const {
    const State* state = state_of(input);
    return !state || (!state->initial && state->of.empty());
  }

  bool is_parameter(ValueId value) const {
    const State* state = state_of(value);
    if (graph_.type(value).ndim() < 2) return false;
    return state ? state->initial && state->of.empty() : graph_.producer_op(value).kind == OpKind::Constant;
  }

  /// Matrices and larger ones: other parameters take hardly any time or memory.
  std::vector<ValueId> parameters(const std::set<Reader>& wanted) const {
    std::vector<ValueId> found;
    for (const OpId id : graph_.order())
      for (const ValueId v : graph_.op(id).outputs)
        if (is_parameter(v) && has_reader(v, wanted)) found.push_back(v);
    return found;
  }

  bool has_reader(ValueId value, const std::set<Reader>& wanted) const {
    return std::ranges::any_of(graph_.value(value).uses, [&](const Use& use) {
      if (!use.op) return false;
      const Op& op = graph_.op(use.op);
      if (category(op) == Category::View) return has_reader(op.outputs[0], wanted);
      if (category(op) == Category::Contraction) return wanted.contains(Reader::Product);
      return op.kind == OpKind::Gather && use.input == 0 && wanted.contains(Reader::Lookup);
    });
  }

  std::optional<int> divisible_dim(ValueId value) const {
    const TensorType& type = graph_.type(value);
    for (int dim = 0; dim < type.ndim(); ++dim)
      if (!type.shape[static_cast<size_t>(dim)].is_run_time() &&
          type.shape[static_cast<size_t>(dim)].bound % ranks_ == 0)
        return dim;
    return {};
  }

  Selector named(ValueId value) const { return {Selector::Kind::Name, graph_.value(value).name, {}}; }

  void add_slices(ValueId value, int dim, std::vector<ShardEntry>& entries) const {
    if (!kept_.has(value, false)) entries.push_back({named(value), false, {{axes_, false, dim, 1, {}}}});
  }

  /// A product may read a parameter as a view of it.
  void add_with_views(ValueId value, std::vector<ValueId>& values) const {
    if (contains(values, value)) return;
    values.push_back(value);
    for (const Use& use : graph_.value(value).uses)
      if (use.op && category(graph_.op(use.op)) == Category::View) add_with_views(graph_.op(use.op).outputs[0], values);
  }

  const Graph& graph_;
  const KeptLayouts& kept_;
  std::vector<std::string> axes_;
  int64_t ranks_ = 1;
  std::map<ValueId, const State*> states_;
};

}  // namespace

std::vector<KnownLayouts> known_layouts(const Module& module, const KeptLayouts& kept, const Mesh& mesh) {
  return KnownLayoutsFinder(module, kept, mesh).run();
}

KnownLayouts data_parallel_layouts(const Module& module, const KeptLayouts& kept, const Mesh& mesh) {
  return KnownLayoutsFinder(module, kept, mesh).data_parallel();
}

}  // namespace weftc
