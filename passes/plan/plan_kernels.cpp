// Kernels and weights of a Plan: equal ones once, named after their first users. Twelve layers of GPT-2 become
// ten kernels, launched many times, and a tied embedding is one weight where its uses want one storage.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "ir/base/check.h"
#include "ir/kernel/kernel_body.h"
#include "passes/fusion/kernel_values.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

void append(std::string& key, int64_t number) { key += std::to_string(number) + ","; }

/// A key for the computation of a body: values by number instead of name, attributes, constants by their bytes, types.
class BodyKey {
 public:
  BodyKey(const Module& module, const Graph& body, std::map<std::string, std::string>& lengths)
      : module_(module), body_(body), lengths_(lengths), number_(body.value_capacity(), -1) {
    for (OpId id = body.first(); id; id = body.next(id)) add_op(body.op(id));
    key_ += "->";
    for (const Graph::Output& output : body.outputs()) append(key_, number_[output.value.index]);
  }
  void add_type(const TensorType& type) {
    append(key_, static_cast<int>(type.dtype));
    for (const Extent& e : type.shape) {
      append(key_, e.bound);
      if (e.is_run_time()) key_ += numbered(*e.length) + ",";
    }
    for (int a = 0; a < type.layout.size(); ++a) key_ += state_text(type.layout[a]) + ";";
    key_ += "|";
  }
  std::string& text() { return key_; }

 private:
  /// The length with numbers in place of its names, which layers have each their own.
  std::string numbered(const Length& length) {
    return substitute(length,
                      [&](const LengthSymbol& name) {
                        const auto at = lengths_.emplace(name.text, "l" + std::to_string(lengths_.size())).first;
                        return Length::named(at->second, name.high);
                      })
        .text();
  }
  void add_op(const Op& op) {
    key_ += op_def(op).name;
    key_ += '(';
    if (op.kind == OpKind::LengthOf) {
      key_ += numbered(*OpView(module_, body_, op).length()) + ')';
      number_[op.outputs[0].index] = values_++;
      return;
    }
    for (ValueId v : op.inputs) append(key_, v ? number_[v.index] : -1);
    for (const Attr& attr : op.attrs) add_attr(attr);
    for (const Graph& region : op.regions) key_ += '{' + BodyKey(module_, region, lengths_).text() + '}';
    key_ += ')';
    for (ValueId v : op.outputs) number_[v.index] = values_++;
    for (ValueId v : op.outputs) add_type(body_.type(v));
  }
  void add_attr(const Attr& attr) {
    key_ += attr.name + "=";
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::string>)
            key_ += quote(value);
          else if constexpr (std::is_same_v<T, ConstantId>)
            add_bytes(module_.constants[value].bytes);
          else if constexpr (std::is_same_v<T, int64_t>)
            append(key_, value);
          else if constexpr (std::is_same_v<T, double>)
            add_double(value);
          else
            for (const auto& item : value) add_item(item);
        },
        attr.value);
    key_ += ';';
  }
  void add_item(int64_t item) { append(key_, item); }
  void add_item(double item) { add_double(item); }
  void add_item(const std::string& item) { key_ += quote(item); }
  void add_double(double value) { key_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void add_bytes(std::span<const std::byte> bytes) {
    key_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  const Module& module_;
  const Graph& body_;
  std::map<std::string, std::string>& lengths_;  // numbers by names, in the order of mention
  std::vector<int> number_;
  int values_ = 0;
  std::string key_;
};

/// Kernels of one key are one function: equal bodies whose parameters lie in memory alike.
std::string kernel_key(const PlanDraft& planning, const Kernel& kernel) {
  std::map<std::string, std::string> lengths;
  BodyKey key(planning.module, kernel.body, lengths);
  for (const Parameter& f : kernel.parameters) {
    for (int axis : f.whole_over) append(key.text(), axis);
    append(key.text(), f.window);
    append(key.text(), f.weight);
  }
  append(key.text(), kernel.place.index);
  for (const MeshAxis& axis : kernel.mesh) append(key.text(), axis.size);
  return std::move(key.text());
}

/// The parts of a name between '.', '/' and ':'.
std::vector<std::string> components(const std::string& name) {
  std::vector<std::string> parts(1);
  for (char c : name) {
    if (c == '/' || c == '.' || c == ':')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  std::erase(parts, "");
  return parts;
}

bool all_digits(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The parts joined to a C++ identifier.
std::string legal(const std::vector<std::string>& parts) {
  std::string name = join(parts, "_");
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "k_" + name;
  return name;
}

/// "h.0.mlp.c_fc" -> "h_mlp_c_fc".
std::string without_digits(const std::string& name) {
  std::vector<std::string> parts = components(name);
  std::erase_if(parts, all_digits);
  return legal(parts);
}

/// The root's name without layer numbers if it is free, else with them, else with a number appended.
std::string kernel_name(PlanDraft& planning, const std::string& root) {
  const std::string name = without_digits(root);
  return planning.kernel_names[name]++ == 0 ? name : unique_kernel_name(planning, legal(components(root)));
}

/// The value's name without the prefix that it shares with the kernel's, and without numbers.
std::string parameter_name(const std::string& value, const std::string& root, std::set<std::string>& taken) {
  std::vector<std::string> parts = components(value);
  const std::vector<std::string> prefix = components(root);
  size_t shared = 0;
  while (shared + 1 < parts.size() && shared < prefix.size() && parts[shared] == prefix[shared]) ++shared;
  parts.erase(parts.begin(), parts.begin() + static_cast<long>(shared));
  std::vector<std::string> wordy = parts;
  std::erase_if(wordy, all_digits);
  const std::string name = legal(wordy.empty() ? parts : wordy);
  for (int i = 1;; ++i) {
    const std::string unique = i == 1 ? name : name + "_" + std::to_string(i);
    if (taken.insert(unique).second) return unique;
  }
}

/// True if each rank brings a part of it to all; of an all-reduce each computes all, for itself.
bool is_gathered(const Graph& body, ValueId value) {
  const Op& op = body.producer_op(value);
  if (op.kind == OpKind::AllGather || op.kind == OpKind::AllToAll) return true;
  return category(op) == Category::View && is_gathered(body, op.inputs[0]);
}

/// A parameter for each operand and result of the body, with how its memory lies: over which axes it is not
/// cut, whether peers reach it, whether it is a weight.
void make_parameters(const PlanDraft& planning, Kernel& kernel, const std::string& root,
                     const std::vector<ValueMemory>& held) {
  const int place_axes = static_cast<int>(planning.module.place(kernel.place).mesh.size());
  const int mesh_axes = static_cast<int>(kernel.mesh.size());
  std::set<std::string> taken;
  const Graph& body = kernel.body;
  const auto add = [&](ValueId v, const std::string& name) {
    const ValueMemory& at = held[kernel.parameters.size()];
    Parameter parameter{parameter_name(name, root, taken), body.type(v), {}, false, bool(at.constant), {}};
    parameter.whole_over = whole_over(parameter.type, at.type, place_axes, mesh_axes);
    kernel.parameters.push_back(std::move(parameter));
  };
  for (ValueId v : body.inputs()) {
    add(v, body.value(v).name);
    Parameter& parameter = kernel.parameters.back();
    parameter.window = is_exchanged(body, v);
  }
  for (const Graph::Output& output : body.outputs()) {
    add(output.value, output.name);
    kernel.parameters.back().window = is_gathered(body, output.value);
  }
}

/// "past + seq * 2" -> "past_plus_seq_times_2"; one that would be long is "length".
std::string length_name(const Length& length) {
  constexpr size_t kLongest = 40;
  std::string text = length.text();
  for (const auto& [sign, word] :
       {std::pair{" + ", " plus "}, {" - ", " minus "}, {" * ", " times "}, {" / ", " over "}, {" % ", " modulo "}})
    for (size_t at = text.find(sign); at != std::string::npos; at = text.find(sign)) text.replace(at, 3, word);
  std::string name;
  for (char c : text) {
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (is_letter || (!name.empty() && name.back() != '_')) name += is_letter ? c : '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name.size() > kLongest || name.empty() ? "length" : legal({name});
}

std::string layout_key(const TensorType& type) {
  std::string key;
  for (int a = 0; a < type.layout.size(); ++a) key += state_text(type.layout[a]) + ";";
  return key;
}

/// One constant for all with the same dtype, dims and bytes.
ConstantId equal_constant(PlanDraft& planning, ConstantId id) {
  const Constants& constants = planning.module.constants;
  const std::string key = sampled_content(constants[id]);
  for (int same = 0;; ++same) {
    const auto [at, fresh] = planning.equal_constants.emplace(key + "#" + std::to_string(same), id);
    if (fresh || has_same_bytes(constants[at->second], constants[id])) return at->second;
  }
}

/// The mesh axes that slice a weight; they decide its segment (P8).
std::vector<int> sliced_axes(const Weight& weight) {
  std::vector<int> axes;
  for (int a = 0; a < weight.type.layout.size(); ++a)
    if (weight.type.layout[a].is(AxisState::Kind::S)) axes.push_back(a);
  return axes;
}

/// Gives each use of a weight the weight packed as its kernel wants it: one weight for each storage, in order
/// of use.
class WeightPacker {
 public:
  explicit WeightPacker(Plan& plan) : plan_(plan) {}

  void run() {
    for (Block& block : plan_.blocks) for_each_step(block.steps, [&](Step& step) { pack_uses(step); });
    for (StateSlot& state : plan_.states)
      if (state.initial) state.initial = packed(state.initial, {});
    plan_.weights = std::move(packed_);
  }

 private:
  void pack_uses(Step& step) {
    auto* launch = std::get_if<LaunchStep>(&step.what);
    for (size_t f = 0; launch && f < launch->operands.size(); ++f)
      if (WeightId& weight = launch->operands[f].weight)
        weight = packed(weight, plan_.kernel(launch->kernel).parameters[f].storage);
  }

  WeightId packed(WeightId id, const Storage& storage) {
    const auto [at, fresh] =
        made_.emplace(std::make_pair(id.index, storage.text()), WeightId{static_cast<uint32_t>(packed_.size())});
    if (!fresh) return at->second;
    Weight weight = plan_.weight(id);
    weight.storage = storage;
    weight.bytes = storage.elements(buffer_dims(weight.type, plan_.places[weight.place.index].mesh)) *
                   dtype_bytes(weight.type.dtype);
    packed_.push_back(std::move(weight));
    return at->second;
  }

  Plan& plan_;
  std::vector<Weight> packed_;
  std::map<std::pair<uint32_t, std::string>, WeightId> made_;
};

}  // namespace

std::string sampled_content(const Constant& c) {
  std::string key = dims_text(c.dims) + dtype_name(c.dtype) + ":";
  const size_t step = std::max<size_t>(1, c.bytes.size() / 512);
  for (size_t i = 0; i < c.bytes.size(); i += step) key += static_cast<char>(c.bytes[i]);
  return key;
}

bool has_same_bytes(const Constant& a, const Constant& b) {
  if (a.bytes.data() == b.bytes.data() && a.bytes.size() == b.bytes.size()) return true;
  return a.bytes.size() == b.bytes.size() && std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

void renumber_weights(Plan& plan, const std::vector<uint32_t>& now) {
  for (StateSlot& state : plan.states)
    if (state.initial) state.initial = {now[state.initial.index]};
  for (Block& block : plan.blocks)
    for_each_step(block.steps, [&](Step& step) {
      if (auto* launch = std::get_if<LaunchStep>(&step.what))
        for (Operand& operand : launch->operands)
          if (operand.weight) operand.weight = {now[operand.weight.index]};
    });
}

std::string unique_kernel_name(PlanDraft& planning, const std::string& wanted) {
  for (int i = 1;; ++i) {
    const std::string name = i == 1 ? wanted : wanted + "_" + std::to_string(i);
    if (planning.kernel_names[name]++ == 0) return name;
  }
}

KernelId copy_kernel(PlanDraft& planning, KernelId kernel, const std::string& name) {
  Kernel copy = planning.plan.kernel(kernel);
  copy.name = unique_kernel_name(planning, name);
  copy.users.clear();
  planning.plan.kernels.push_back(std::move(copy));
  return {static_cast<uint32_t>(planning.plan.kernels.size() - 1)};
}

void move_user(Plan& plan, LaunchStep& launch, KernelId to, const std::string& user) {
  std::erase(plan.kernels[launch.kernel.index].users, user);
  plan.kernels[to.index].users.push_back(user);
  launch.kernel = to;
}

void make_extents(const Module& module, Kernel& kernel) {
  kernel.extents = run_extents_of(module, kernel.body, kernel.mesh, kernel.parameters);
  for (RunExtent& extent : kernel.extents)
    extent.name = std::string(extent.is_slice() ? "valid_" : "") +
                  (extent.length ? length_name(*extent.length) : std::to_string(extent.extent));
}

/// Notes the names of ops and values in the region of a kernel's user: of equal kernels only the first one's body is
/// kept.
static void note_inner_names(PlanDraft& planning, const Graph& body, KernelId kernel) {
  for (OpId id = body.first(); id; id = body.next(id)) {
    const Op& op = body.op(id);
    if (category(op) == Category::Source) continue;
    planning.inner_names[op.name].insert(kernel.index);
    for (ValueId value : op.outputs) planning.inner_names[body.value(value).name].insert(kernel.index);
  }
}

KernelId intern_kernel(PlanDraft& planning, const Graph& graph, const Op& fused, const std::vector<ValueMemory>& held) {
  Kernel kernel;
  kernel.body = fused.regions[0];
  kernel.category = kernel_category(kernel.body);
  kernel.place = fused.place;
  kernel.mesh = planning.mesh(graph, fused.place);
  make_parameters(planning, kernel, fused.name, held);
  make_extents(planning.module, kernel);
  const auto [at, fresh] = planning.kernels.emplace(kernel_key(planning, kernel),
                                                    KernelId{static_cast<uint32_t>(planning.plan.kernels.size())});
  if (fresh) {
    kernel.name = kernel_name(planning, fused.name);
    kernel.origins = fused.origins;
    if (fused.transform) kernel.transform = planning.module.transforms[fused.transform.index].text;
    planning.plan.kernels.push_back(std::move(kernel));
  }
  planning.plan.kernels[at->second.index].users.push_back(fused.name);
  note_inner_names(planning, fused.regions[0], at->second);
  return at->second;
}

WeightId intern_weight(PlanDraft& planning, const ValueMemory& held, const Kernel& kernel, size_t parameter) {
  const ConstantId constant = equal_constant(planning, held.constant);
  TensorType type = kernel.parameters[parameter].type;  // a Reshape outside kernels changes the constant's shape only
  const int place_axes = static_cast<int>(planning.module.place(kernel.place).mesh.size());
  for (int a = type.layout.size() - 1; a >= place_axes; --a) type.layout.set(a, {});
  const std::string key =
      format("{} {} {} {}", constant.index, kernel.place.index, dims_text(type.dims()), layout_key(type));
  const auto [at, fresh] = planning.weights.emplace(key, WeightId{static_cast<uint32_t>(planning.plan.weights.size())});
  if (fresh)
    planning.plan.weights.push_back(
        {planning.module.constants[constant].name, constant, type, kernel.place, {}, 0, 0, 0});
  return at->second;
}

WeightId add_first_value(PlanDraft& planning, ConstantId constant, const Port& port) {
  const ConstantId equal = equal_constant(planning, constant);
  planning.plan.weights.push_back({planning.module.constants[equal].name, equal, port.type, port.place, {}, 0, 0, 0});
  return {static_cast<uint32_t>(planning.plan.weights.size() - 1)};
}

void place_weights(PlanDraft& planning) {
  Plan& plan = planning.plan;
  WeightPacker(plan).run();
  std::vector<std::pair<PlaceId, std::vector<int>>> keys;  // of segments, in order of first use
  std::vector<uint32_t> order;
  for (Weight& weight : plan.weights) {
    const auto key = std::make_pair(weight.place, sliced_axes(weight));
    auto at = std::find(keys.begin(), keys.end(), key);
    if (at == keys.end()) at = keys.insert(keys.end(), key);
    weight.segment = static_cast<int>(at - keys.begin());
  }
  // Replicated ones first, so that they are one run at the start of every image.
  std::vector<int> rank(keys.size()), sorted(keys.size());
  for (size_t s = 0; s < keys.size(); ++s) sorted[s] = static_cast<int>(s);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    if (!(keys[a].first == keys[b].first)) return keys[a].first < keys[b].first;
    return keys[a].second < keys[b].second;
  });
  for (size_t s = 0; s < keys.size(); ++s) rank[sorted[s]] = static_cast<int>(s);
  std::vector<uint32_t> now(plan.weights.size());
  int64_t end = 0;
  std::vector<Weight> placed;
  for (size_t s = 0; s < sorted.size(); ++s) {
    end = round_up_to(end, kWeightPage);
    for (size_t w = 0; w < plan.weights.size(); ++w) {
      if (rank[plan.weights[w].segment] != static_cast<int>(s)) continue;
      now[w] = static_cast<uint32_t>(placed.size());
      placed.push_back(plan.weights[w]);
      placed.back().segment = static_cast<int>(s);
      placed.back().offset = end;
      end = round_up_to(end + placed.back().bytes, kBufferAlign);
    }
    plan.segments.push_back(
        {keys[sorted[s]].first, keys[sorted[s]].second, placed.back().offset + placed.back().bytes});
  }
  plan.weights = std::move(placed);
  renumber_weights(plan, now);
}

}  // namespace weftc
