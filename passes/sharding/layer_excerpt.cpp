#include "passes/sharding/layer_excerpt.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace weftc {

namespace {

// The layers that are kept: the first ones, the last of which stands for those that are left out, and the last ones. A
// layer that stands for others has one on each side that does not stand at an end itself.
constexpr int64_t kFirst = 3, kLast = 2;
constexpr int kMiddle = kFirst - 1, kKept = kFirst + kLast;
// With fewer layers an excerpt gains nothing.
constexpr int64_t kFewest = 8;

/// Layers of names that begin alike: "h." of "h.{l}.mlp.c_fc".
struct Stack {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;

  int64_t size() const { return last - first + 1; }
  int64_t left_out() const { return size() - kKept; }
  bool operator==(const Stack&) const = default;
  /// Which of the kept layers a number is; -1: it is left out.
  int kept(int64_t number) const {
    if (number - first < kFirst) return static_cast<int>(number - first);
    return number > last - kLast ? static_cast<int>(number - last) + kKept - 1 : -1;
  }
};

std::string stack_name(const std::string& pattern) { return pattern.substr(0, pattern.find("{l}")); }

}  // namespace

class ExcerptMaker {
 public:
  ExcerptMaker(const Module& module, const LayerClasses& classes)
      : module_(module), whole_(module.graph), classes_(classes), layers_(whole_.op_capacity(), -1) {
    made_.whole_ = &whole_, made_.whole_classes_ = &classes;
    made_.graph.time_axes = whole_.time_axes;
  }

  std::optional<LayerExcerpt> make() {
    find_stacks();
    if (!is_left_out_anywhere() || !classes_are_whole()) return {};
    for (const OpId id : whole_.order())
      if (!is_left_out(id) && !add(id)) return {};
    const bool is_much_smaller = made_.graph.op_count() < whole_.op_count() * 3 / 4;
    if (!is_much_smaller || !take_outputs()) return {};
    return std::move(made_);
  }

 private:
  void find_stacks() {
    for (const OpId id : whole_.order()) {
      const std::optional<int64_t> layer = classes_.layer_of(whole_, id);
      if (!layer) continue;
      layers_[id.index] = *layer;
      Stack& stack = stacks_[stack_name(classes_.class_of(id).pattern)];
      stack.first = std::min(stack.first, *layer), stack.last = std::max(stack.last, *layer);
    }
  }

  bool is_left_out_anywhere() const {
    return std::ranges::any_of(stacks_, [](const auto& named) { return named.second.size() >= kFewest; });
  }

  /// The layers of an op, if they are many; nothing: all of it is kept.
  const Stack* stack_of(OpId id) const {
    if (layers_[id.index] < 0) return nullptr;
    const Stack& stack = stacks_.at(stack_name(classes_.class_of(id).pattern));
    return stack.size() >= kFewest ? &stack : nullptr;
  }

  int kept_layer(OpId id) const {
    const Stack* const stack = stack_of(id);
    return stack == nullptr ? -1 : stack->kept(layers_[id.index]);
  }
  bool is_left_out(OpId id) const { return stack_of(id) != nullptr && kept_layer(id) < 0; }

  /// The op of a class is in all layers but, at most, the first and the last one.
  bool classes_are_whole() const {
    return std::ranges::all_of(classes_.all(), [this](const LayerClasses::Class& one) {
      const Stack* const stack = stack_of(one.ops.front());
      return stack == nullptr || static_cast<int64_t>(one.ops.size()) >= stack->size() - 2;
    });
  }

  /// The excerpt's value for an operand. If the operand's layer is left out, it is the one at the same distance from
  /// the reader's layer.
  std::optional<ValueId> operand_for(OpId reader, ValueId value) const {
    if (!value) return value;
    const OpId producer = whole_.producer(value);
    if (!is_left_out(producer)) return parts_.at(value);
    const Stack *const own = stack_of(reader), *const other = stack_of(producer);
    if (own == nullptr || !(*own == *other)) return {};
    const int64_t kept = kept_layer(reader) + layers_[producer.index] - layers_[reader.index];
    const auto found = ops_.find({classes_.of(producer), kept});
    if (found == ops_.end()) return {};
    return made_.graph.op(found->second).outputs[whole_.value(value).result];
  }

  bool add(OpId id) {
    const Op& op = whole_.op(id);
    NewOp copy = copy_of(op);
    copy.regions = op.regions;
    for (const ValueId input : op.inputs) {
      const std::optional<ValueId> operand = operand_for(id, input);
      if (!operand) return false;
      copy.inputs.push_back(*operand);
    }
    for (const ValueId output : op.outputs) {
      copy.results.push_back(whole_.type(output));
      copy.result_names.push_back(whole_.value(output).name);
    }
    const OpId added = made_.graph.add(std::move(copy));
    const int kept = kept_layer(id);
    if (kept >= 0) ops_[{classes_.of(id), kept}] = added;
    made_.whole_ops_.push_back(id);
    made_.kept_.push_back(kept);
    made_.copies_.push_back(kept == kMiddle ? stack_of(id)->left_out() + 1 : 1);
    for (size_t r = 0; r < op.outputs.size(); ++r) {
      parts_[op.outputs[r]] = made_.graph.op(added).outputs[r];
      made_.whole_values_.push_back(op.outputs[r]);
    }
    return true;
  }

  /// Outputs and states of layers that are left out are, too.
  bool take_outputs() {
    std::set<std::string> outputs;
    for (const Graph::Output& output : whole_.outputs())
      if (const auto part = parts_.find(output.value); part != parts_.end()) {
        made_.graph.add_output(part->second, output.name);
        outputs.insert(output.name);
      }
    for (const State& state : module_.states) {
      const bool has_input = static_cast<bool>(made_.graph.find_value(state.input));
      if (has_input != outputs.contains(state.output)) return false;
      if (has_input) made_.states.push_back(state);
    }
    return true;
  }

  const Module& module_;
  const Graph& whole_;
  const LayerClasses& classes_;
  std::vector<int64_t> layers_;  // by op: the number of its layer, or -1
  std::map<std::string, Stack> stacks_;
  std::map<ValueId, ValueId> parts_;             // of the excerpt, by value
  std::map<std::pair<int, int64_t>, OpId> ops_;  // of the excerpt, by class and kept layer
  LayerExcerpt made_;
};

std::optional<LayerExcerpt> LayerExcerpt::of(const Module& module, const LayerClasses& classes) {
  return ExcerptMaker(module, classes).make();
}

ChosenLayouts LayerExcerpt::part_of(const ChosenLayouts& whole) const {
  ChosenLayouts part;
  for (const OpId id : whole_ops_) part.ops.push_back(whole.ops[id.index]);
  for (const ValueId value : whole_values_) part.values.push_back(whole.values[value.index]);
  return part;
}

// A reshard belongs to the layer of its operand; without one, to the layer of all its readers.
LayerCopies LayerExcerpt::copies(const Graph& laid_out) const {
  std::vector<int> likeness(laid_out.op_capacity(), -1);  // by op: an op of the excerpt that counts alike
  const std::vector<OpId> order = laid_out.order();
  const auto is_new = [&](OpId id) { return id.index >= whole_ops_.size(); };
  const auto is_layer = [&](int op) { return op >= 0 && kept_[static_cast<size_t>(op)] >= 0; };
  for (const OpId id : order) {
    const Op& op = laid_out.op(id);
    if (!is_new(id))
      likeness[id.index] = static_cast<int>(id.index);
    else if (!op.inputs.empty() && op.inputs[0])
      likeness[id.index] = likeness[laid_out.producer(op.inputs[0]).index];
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    if (!is_new(*at) || is_layer(likeness[at->index])) continue;
    std::optional<int> readers;
    for (const ValueId result : laid_out.op(*at).outputs)
      for (const Use& use : laid_out.value(result).uses) {
        const int reader = use.op ? likeness[use.op.index] : -1;
        const bool is_same = !readers || (is_layer(reader) && is_layer(*readers) &&
                                          kept_[static_cast<size_t>(reader)] == kept_[static_cast<size_t>(*readers)]);
        readers = is_same ? reader : -1;
      }
    if (readers && is_layer(*readers)) likeness[at->index] = *readers;
  }
  LayerCopies copies{std::vector<int64_t>(laid_out.op_capacity(), 1), std::vector<bool>(laid_out.op_capacity(), false)};
  for (const OpId id : order) {
    const int like = likeness[id.index];
    if (!is_layer(like)) continue;
    const int kept = kept_[static_cast<size_t>(like)];
    copies.times[id.index] = copies_[static_cast<size_t>(like)];
    copies.is_far[id.index] = kept == 0 || kept == kKept - 1;
  }
  return copies;
}

std::vector<PlannedEntry> LayerExcerpt::for_whole(const std::vector<PlannedEntry>& entries) const {
  std::vector<PlannedEntry> all;
  for (const PlannedEntry& planned : entries) {
    all.push_back(planned);
    const ValueId value = graph.find_value(planned.entry.target.text);
    if (!value || copies_[graph.producer(value).index] == 1) continue;
    const OpId own = whole_ops_[graph.producer(value).index];
    for (const OpId other : whole_classes_->class_of(own).ops) {
      if (graph.find_op(whole_->op(other).name)) continue;
      all.push_back(planned);
      all.back().entry.target.text = whole_->value(whole_->op(other).outputs[graph.value(value).result]).name;
    }
  }
  return all;
}

bool LayerExcerpt::has(const std::vector<PlannedEntry>& entries) const {
  return std::ranges::all_of(entries, [this](const PlannedEntry& planned) {
    const std::string& text = planned.entry.target.text;
    return text.find("{l}") != std::string::npos || graph.find_value(text);
  });
}

}  // namespace weftc
