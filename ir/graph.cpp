// The mutators of the graph. Each keeps use lists, names and the order correct. The verifier checks them (links, uses).
#include "ir/graph.h"

#include <algorithm>

#include "ir/base/check.h"

namespace weftc {

const AttrValue* Op::find(std::string_view attr) const {
  for (const Attr& a : attrs)
    if (a.name == attr) return &a.value;
  return nullptr;
}

bool Op::has(std::string_view attr) const { return find(attr) != nullptr; }

template <class T>
static const T& attr_as(const Op& op, std::string_view attr) {
  const AttrValue* value = op.find(attr);
  WEFT_CHECK(value && std::holds_alternative<T>(*value), "op '" + op.name + "' lacks attribute " + std::string(attr));
  return std::get<T>(*value);
}

int64_t Op::integer(std::string_view attr) const { return attr_as<int64_t>(*this, attr); }
double Op::real(std::string_view attr) const { return attr_as<double>(*this, attr); }
const std::string& Op::text(std::string_view attr) const { return attr_as<std::string>(*this, attr); }
const std::vector<int64_t>& Op::ints(std::string_view attr) const { return attr_as<std::vector<int64_t>>(*this, attr); }
const std::vector<double>& Op::reals(std::string_view attr) const { return attr_as<std::vector<double>>(*this, attr); }
const std::vector<std::string>& Op::texts(std::string_view attr) const {
  return attr_as<std::vector<std::string>>(*this, attr);
}
ConstantId Op::constant(std::string_view attr) const { return attr_as<ConstantId>(*this, attr); }
int64_t Op::integer_or(std::string_view attr, int64_t otherwise) const { return has(attr) ? integer(attr) : otherwise; }

void Op::set(std::string attr, AttrValue value) {
  const auto at = std::lower_bound(attrs.begin(), attrs.end(), attr,
                                   [](const Attr& a, const std::string& name) { return a.name < name; });
  if (at != attrs.end() && at->name == attr)
    at->value = std::move(value);
  else
    attrs.insert(at, {std::move(attr), std::move(value)});
}

void Op::remove(std::string_view attr) {
  std::erase_if(attrs, [&](const Attr& a) { return a.name == attr; });
}

/// The name, with "_2", "_3" ... appended if it is taken.
static std::string unique_name(const std::unordered_map<std::string, uint32_t>& taken, const std::string& name) {
  if (!taken.contains(name)) return name;
  for (int i = 2;; ++i) {
    std::string candidate = name + "_" + std::to_string(i);
    if (!taken.contains(candidate)) return candidate;
  }
}

NewOp copy_of(const Op& op) {
  return {op.kind,    {},           {}, op.attrs, {},      op.place,    op.name,
          op.origins, op.transform, {}, op.block, op.port, op.mechanism};
}

OpId Graph::add(NewOp made, OpId before) {
  const OpId id{static_cast<uint32_t>(ops_.size())};
  std::sort(made.attrs.begin(), made.attrs.end(), [](const Attr& a, const Attr& b) { return a.name < b.name; });
  Op op{made.kind,
        std::move(made.inputs),
        {},
        std::move(made.attrs),
        std::move(made.regions),
        made.place,
        std::move(made.name),
        std::move(made.origins),
        made.transform,
        made.block,
        made.port,
        made.mechanism};
  std::sort(op.origins.begin(), op.origins.end());
  op.origins.erase(std::unique(op.origins.begin(), op.origins.end()), op.origins.end());
  op.name = unique_name(op_names_, op.name);
  op_names_.emplace(op.name, id.index);
  for (uint32_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i]) values_[op.inputs[i].index].uses.push_back({id, i});
  for (uint32_t r = 0; r < made.results.size(); ++r) {
    const ValueId value{static_cast<uint32_t>(values_.size())};
    std::string name = r < made.result_names.size() ? made.result_names[r] : "";
    if (name.empty()) name = op.name + (r ? "." + std::to_string(r) : "");
    name = unique_name(value_names_, name);
    value_names_.emplace(name, value.index);
    values_.push_back({std::move(made.results[r]), id, r, std::move(name), {}});
    op.outputs.push_back(value);
    if (made.kind == OpKind::Input) inputs_.push_back(value);
  }
  ops_.push_back({std::move(op), {}, {}, true});
  link(id, before);
  ++live_;
  return id;
}

/// Links an op into the order, before `before` or at the end.
void Graph::link(OpId id, OpId before) {
  Node& node = ops_[id.index];
  node.next = before;
  node.previous = before ? ops_[before.index].previous : last_;
  (node.previous ? ops_[node.previous.index].next : first_) = id;
  (before ? ops_[before.index].previous : last_) = id;
}

void Graph::unlink(OpId id) {
  const Node& node = ops_[id.index];
  (node.previous ? ops_[node.previous.index].next : first_) = node.next;
  (node.next ? ops_[node.next.index].previous : last_) = node.previous;
}

void Graph::drop_use(ValueId value, Use use) {
  if (!value) return;
  auto& uses = values_[value.index].uses;
  const auto at = std::find(uses.begin(), uses.end(), use);
  WEFT_CHECK(at != uses.end(), "use list of '" + values_[value.index].name + "' is wrong");
  uses.erase(at);
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<Use> uses = std::move(values_[from.index].uses);
  values_[from.index].uses.clear();
  for (const Use& use : uses) {
    if (use.op)
      ops_[use.op.index].op.inputs[use.input] = to;
    else
      outputs_[use.input].value = to;
    values_[to.index].uses.push_back(use);
  }
}

void Graph::set_input(OpId op, size_t input, ValueId value) {
  const Use use{op, static_cast<uint32_t>(input)};
  ValueId& slot = ops_[op.index].op.inputs[input];
  drop_use(slot, use);
  slot = value;
  if (value) values_[value.index].uses.push_back(use);
}

void Graph::add_input(OpId op, ValueId value) {
  ops_[op.index].op.inputs.push_back({});
  set_input(op, ops_[op.index].op.inputs.size() - 1, value);
}

void Graph::remove_input(OpId op, size_t input) {
  auto& inputs = ops_[op.index].op.inputs;
  for (size_t i = input; i + 1 < inputs.size(); ++i) set_input(op, i, inputs[i + 1]);
  set_input(op, inputs.size() - 1, {});
  inputs.pop_back();
}

void Graph::erase(OpId id) {
  Node& node = ops_[id.index];
  for (ValueId v : node.op.outputs)
    WEFT_CHECK(values_[v.index].uses.empty(), "erasing '" + node.op.name + "', whose result is used");
  for (uint32_t i = 0; i < node.op.inputs.size(); ++i) drop_use(node.op.inputs[i], {id, i});
  for (ValueId v : node.op.outputs) {
    value_names_.erase(values_[v.index].name);
    std::erase(inputs_, v);
  }
  op_names_.erase(node.op.name);
  unlink(id);
  node.live = false;
  node.op.regions.clear();
  --live_;
}

void Graph::retype(ValueId value, TensorType type) { values_[value.index].type = std::move(type); }

void Graph::move_before(OpId op, OpId before) {
  if (op == before) return;
  unlink(op);
  link(op, before);
}

void Graph::rename(ValueId value, std::string name) {
  Value& v = values_[value.index];
  value_names_.erase(v.name);
  v.name = unique_name(value_names_, name);
  value_names_.emplace(v.name, value.index);
}

void Graph::rename_op(OpId op, std::string name) {
  Op& renamed = ops_[op.index].op;
  op_names_.erase(renamed.name);
  renamed.name = unique_name(op_names_, name);
  op_names_.emplace(renamed.name, op.index);
}

void Graph::add_output(ValueId value, std::string name) {
  values_[value.index].uses.push_back({{}, static_cast<uint32_t>(outputs_.size())});
  outputs_.push_back({value, std::move(name)});
}

void Graph::set_output(size_t output, ValueId value) {
  const Use use{{}, static_cast<uint32_t>(output)};
  drop_use(outputs_[output].value, use);
  outputs_[output].value = value;
  values_[value.index].uses.push_back(use);
}

void Graph::set_outputs(std::vector<Output> outputs) {
  for (uint32_t i = 0; i < outputs_.size(); ++i) drop_use(outputs_[i].value, {{}, i});
  outputs_.clear();
  for (Output& output : outputs) add_output(output.value, std::move(output.name));
}

std::vector<OpId> Graph::order() const {
  std::vector<OpId> ids;
  ids.reserve(live_);
  for (OpId id = first_; id; id = next(id)) ids.push_back(id);
  return ids;
}

ValueId Graph::find_value(std::string_view name) const {
  const auto at = value_names_.find(std::string(name));
  return at == value_names_.end() ? ValueId{} : ValueId{at->second};
}

OpId Graph::find_op(std::string_view name) const {
  const auto at = op_names_.find(std::string(name));
  return at == op_names_.end() ? OpId{} : OpId{at->second};
}

}  // namespace weftc
