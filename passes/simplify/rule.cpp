// Matches patterns and applies rules. A match is found from the root upwards, operand by operand. Bindings of a failed
// attempt are undone (an addition or multiplication is tried with its operands exchanged too). The driver sweeps over
// the graph until no rule fires.
#include "passes/simplify/rule.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

Pattern Pattern::as(std::string bound) const {
  Pattern pattern = *this;
  pattern.name = std::move(bound);
  return pattern;
}

Pattern Pattern::read_once() const {
  Pattern pattern = *this;
  pattern.is_read_once = true;
  return pattern;
}

Pattern any(std::string name) { return {{}, {}, std::move(name)}; }
Pattern constant(std::string name) { return {{OpKind::Constant}, {}, std::move(name)}; }
Pattern op(OpKind kind, std::vector<Pattern> operands) { return {{kind}, std::move(operands), ""}; }
Pattern op(std::vector<OpKind> kinds, std::vector<Pattern> operands) {
  return {std::move(kinds), std::move(operands), ""};
}

ValueId Match::operator[](std::string_view name) const {
  const auto at = std::find_if(named_.begin(), named_.end(), [&](const auto& entry) { return entry.first == name; });
  WEFT_CHECK(at != named_.end(), "the pattern names no '" + std::string(name) + "'");
  return at->second;
}

Tensor Match::tensor(ValueId value) const {
  return module_.constants.tensor(graph_.producer_op(value).constant("value"));
}

bool Match::begins_otherwise(ValueId constant, double value) const {
  const Constant& stored = module_.constants[graph_.producer_op(constant).constant("value")];
  const auto size = static_cast<int64_t>(stored.bytes.size()), count = stored.count();
  if (count == 0 || size % count != 0) return false;  // no elements, or several in a byte
  return tensor_from_bytes(stored.dtype, {1}, stored.bytes.first(static_cast<size_t>(size / count))).at(0) != value;
}

bool Match::fits_root(const Op& changed) const {
  std::vector<TensorType> results;
  const OpView view(module_, graph_, changed);
  return op_def(changed).infer(view, results) && results[0] == root_type();
}

/// Only the first result of the op is read: no rule looks at the others.
static bool makes_one_result(const Graph& graph, const Op& op) {
  return std::all_of(op.outputs.begin() + 1, op.outputs.end(), [&](ValueId v) { return graph.value(v).uses.empty(); });
}

bool Match::add(const Pattern& pattern, ValueId value) {
  if (!value || (pattern.is_read_once && !is_read_once(value))) return false;
  const size_t named = named_.size(), ops = ops_.size();
  if (!pattern.name.empty()) named_.emplace_back(pattern.name, value);
  if (pattern.kinds.empty()) return true;
  const Op& made = graph_.producer_op(value);
  const bool is_kind = std::find(pattern.kinds.begin(), pattern.kinds.end(), made.kind) != pattern.kinds.end();
  ops_.push_back(graph_.producer(value));
  if (is_kind && value == made.outputs[0] && makes_one_result(graph_, made)) {
    if (add_operands(pattern.operands, made.inputs)) return true;
    const bool commutes = made.kind == OpKind::Add || made.kind == OpKind::Mul;
    if (commutes && pattern.operands.size() == 2 && add_operands(pattern.operands, {made.inputs[1], made.inputs[0]}))
      return true;
  }
  named_.resize(named);
  ops_.resize(ops);
  return false;
}

bool Match::add_operands(const std::vector<Pattern>& patterns, const std::vector<ValueId>& operands) {
  if (operands.size() < patterns.size()) return false;
  const size_t named = named_.size(), ops = ops_.size();
  for (size_t i = 0; i < patterns.size(); ++i) {
    if (add(patterns[i], operands[i])) continue;
    named_.resize(named);
    ops_.resize(ops);
    return false;
  }
  return true;
}

/// The root, with the origins of all that was matched.
static Op joined(const Graph& graph, const Match& match) {
  Op like = match.root();
  for (OpId id : match.ops()) {
    const Op& op = graph.op(id);
    if (op.kind != OpKind::Constant) like.origins.insert(like.origins.end(), op.origins.begin(), op.origins.end());
  }
  return like;
}

Rewriter::Rewriter(Module& module, Graph& graph, const Match& match)
    : build_(module, graph, match.ops().front(), joined(graph, match)) {}

ValueId Rewriter::op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs) {
  return build_.op(kind, std::move(inputs), std::move(attrs));
}

ValueId Rewriter::first_of(ValueId x, const Shape& shape) {
  const std::vector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
  const ValueId part = op(OpKind::Slice, {x}, {{"ends", bounds(shape)}, {"starts", zeros}, {"steps", ones}});
  return build_.with_lengths(part, shape);
}

void Rewriter::change(ValueId constant, const Tensor& tensor) {
  const Value& value = build_.graph().value(constant);
  WEFT_CHECK(value.uses.size() == 1, "changing '" + value.name + "', which others read too");
  const ConstantId changed = build_.module().constants.add(value.name, tensor);
  build_.graph().edit(value.producer).set("value", changed);
}

namespace {

/// A rule whose result it matches again would fire forever. The rules of a terminating set fire at most a few times at
/// an op: each removes an op, or brings it nearer to a form in which no rule fires.
constexpr int kRewritesPerOp = 16;

class RuleDriver {
 public:
  RuleDriver(Module& module, std::span<const Rule> rules, const std::function<bool(const Match&)>& may_join)
      : module_(module), rules_(rules), may_join_(may_join) {
    for (const Rule& rule : rules) counts_.emplace_back(&rule, 0);
  }

  void run(Graph& graph) {
    int left = kRewritesPerOp * (static_cast<int>(graph.op_count()) + 1);
    while (sweep(graph, left)) {
    }
  }
  RuleCounts counts() const {
    RuleCounts fired = counts_;
    std::erase_if(fired, [](const auto& entry) { return entry.second == 0; });
    return fired;
  }

 private:
  /// True if a rule fired. Operands precede their readers, so a walk in order is bottom-up.
  bool sweep(Graph& graph, int& left) {
    bool any_fired = false;
    for (OpId id = graph.first(); id;) {
      for (Graph& region : graph.edit(id).regions) run(region);
      const OpId first_new{static_cast<uint32_t>(graph.op_capacity())}, after = graph.next(id);
      const Rule* fired = fire(graph, id);
      WEFT_CHECK(!fired || --left >= 0, std::string("rule ") + fired->name + " fires without end");
      any_fired |= fired != nullptr;
      const bool made_ops = graph.op_capacity() > first_new.index;
      id = made_ops ? first_new : after;  // the new ops may match again
    }
    return any_fired;
  }

  const Rule* fire(Graph& graph, OpId id) {
    if (graph.op(id).outputs.empty()) return nullptr;
    for (size_t r = 0; r < rules_.size(); ++r) {
      Match match(module_, graph, id);
      if (!match.add(rules_[r].find, graph.op(id).outputs[0]) || !may_join_(match)) continue;
      if (rules_[r].when && !rules_[r].when(match)) continue;
      apply(graph, rules_[r], match);
      ++counts_[r].second;
      return &rules_[r];
    }
    return nullptr;
  }

  void apply(Graph& graph, const Rule& rule, const Match& match) {
    const OpId root = match.ops().front(), first_new{static_cast<uint32_t>(graph.op_capacity())};
    const ValueId result = graph.op(root).outputs[0];
    Rewriter write(module_, graph, match);
    const ValueId replacement = rule.put(write, match);
    WEFT_CHECK(graph.type(replacement) == graph.type(result),
               std::string("rule ") + rule.name + " changes the type of '" + graph.value(result).name + "'");
    const bool is_new = graph.producer(replacement).index >= first_new.index;
    graph.replace_uses(result, replacement);
    if (is_new)
      hand_over_names(graph, root, replacement);
    else
      module_.note_replaced(graph, result, graph.value(replacement).name);
    remove_unread(graph, match, graph.value(replacement).name);
  }

  /// The new value is found by schedules and outputs under the names of the old one.
  static void hand_over_names(Graph& graph, OpId root, ValueId replacement) {
    const ValueId result = graph.op(root).outputs[0];
    const std::string value_name = graph.value(result).name, op_name = graph.op(root).name;
    graph.rename(result, value_name + "/before");
    graph.rename_op(root, op_name + "/before");
    graph.rename(replacement, value_name);
    graph.rename_op(graph.producer(replacement), op_name);
  }

  /// Matched ops without readers must not count as readers of their operands; a number stays, because it may be the
  /// length of an extent.
  void remove_unread(Graph& graph, const Match& match, const std::string& into) {
    for (OpId id : match.ops()) {
      if (!graph.is_live(id)) continue;  // the operand of two matched ops
      const Op& op = graph.op(id);
      const bool is_read =
          std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) { return !graph.value(v).uses.empty(); });
      const ValueId value = op.outputs[0];
      const bool may_be_length = graph.type(value).shape.empty() && graph.type(value).dtype == DType::I64;
      if (is_read) continue;
      if (id != match.ops().front()) module_.note_replaced(graph, value, into);
      if (!may_be_length || id == match.ops().front()) graph.erase(id);
    }
  }

  Module& module_;
  std::span<const Rule> rules_;
  const std::function<bool(const Match&)>& may_join_;
  RuleCounts counts_;
};

}  // namespace

RuleCounts rewrite(Module& module, std::span<const Rule> rules, const std::function<bool(const Match&)>& may_join) {
  RuleDriver driver(module, rules, may_join);
  driver.run(module.graph);
  return driver.counts();
}

}  // namespace weftc
