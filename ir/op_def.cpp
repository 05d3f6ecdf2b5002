// Looks records up. Does for every op what its record leaves to the category or to defaults: attributes, inference with
// its checks, factor rules.
#include "ir/op_def.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ir/base/check.h"
#include "ir/op_records.h"

namespace weftc {

static constexpr const OpDef* kAllOps[] = {
#define WEFT_OP(kind) &k##kind,
#include "ir/ops.def"
#undef WEFT_OP
};

const OpDef& op_def(OpKind kind) { return *kAllOps[static_cast<size_t>(kind)]; }
std::span<const OpDef* const> all_op_defs() { return kAllOps; }

const OpDef* find_onnx_op(std::string_view domain, std::string_view name) {
  using Names = std::unordered_map<std::string, const OpDef*>;
  static const Names names = [] {
    Names made;
    for (const OpDef* def : kAllOps) {
      if (*def->onnx.name) made.emplace(std::string(def->onnx.domain) + ":" + def->onnx.name, def);
      for (const OnnxName& alias : def->aliases) made.emplace(std::string(alias.domain) + ":" + alias.name, def);
    }
    return made;
  }();
  if (domain == "ai.onnx") domain = "";
  const auto at = names.find(std::string(domain) + ":" + std::string(name));
  return at == names.end() ? nullptr : at->second;
}

std::optional<OpKind> parse_op_kind(std::string_view name) {
  for (const OpDef* def : kAllOps)
    if (name == def->name) return def->kind;
  return {};
}

/// The op's attribute, else the default of its record; null without either.
static const AttrValue* find_or_default(const Op& op, std::string_view attr) {
  if (const AttrValue* value = op.find(attr)) return value;
  for (const AttrSpec& spec : op_def(op).attrs)
    if (spec.name == attr && spec.otherwise) return &*spec.otherwise;
  return nullptr;
}

template <class T>
static const T& required(const Op& op, std::string_view attr) {
  const AttrValue* value = find_or_default(op, attr);
  WEFT_CHECK(value && std::holds_alternative<T>(*value), "op '" + op.name + "' lacks attribute " + std::string(attr));
  return std::get<T>(*value);
}

int64_t int_of(const Op& op, std::string_view attr) { return required<int64_t>(op, attr); }
double real_of(const Op& op, std::string_view attr) { return required<double>(op, attr); }
const std::string& text_of(const Op& op, std::string_view attr) { return required<std::string>(op, attr); }

std::vector<int64_t> ints_of(const Op& op, std::string_view attr) {
  if (!find_or_default(op, attr)) return {};
  return required<std::vector<int64_t>>(op, attr);
}

void fill_defaults(Op& op) {
  for (const AttrSpec& spec : op_def(op).attrs)
    if (spec.otherwise && !op.has(spec.name)) op.set(spec.name, *spec.otherwise);
}

const char* category_name(Category category) {
  static constexpr const char* kNames[] = {"pointwise", "reduction", "contraction", "view",   "index",
                                           "scan",      "region",    "collective",  "source", "composite"};
  return kNames[static_cast<int>(category)];
}

/// True if a tensor has at most 2^40 elements, so that sizes of buffers and offsets fit into 64 bits.
static bool is_countable(const TensorType& type) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const Extent& extent : type.shape) {
    if (extent.bound > 0 && count > kMost / extent.bound) return false;
    count *= extent.bound;
  }
  return true;
}

/// True if the op computes with types of at most 8 bits. ONNX only moves and converts these.
static bool computes_with_small_type(const OpView& op, const OpDef& def) {
  const bool computes = def.category == Category::Reduction || def.category == Category::Contraction ||
                        def.category == Category::Scan ||
                        (def.category == Category::Pointwise && def.kind != OpKind::Cast &&
                         def.kind != OpKind::RoundedCast && def.kind != OpKind::Identity && def.kind != OpKind::Where);
  for (int i = 0; computes && i < op.inputs(); ++i)
    if (op.has(i) && (is_small_float(op.type(i).dtype) || is_small_int(op.type(i).dtype))) return true;
  return false;
}

/// Whether an operand or one of the given results holds strings.
static bool has_strings(const OpView& op, const std::vector<TensorType>& results) {
  bool found =
      std::any_of(results.begin(), results.end(), [](const auto& type) { return type.dtype == DType::String; });
  for (int i = 0; i < op.inputs(); ++i) found |= op.has(i) && op.type(i).dtype == DType::String;
  return found;
}

static bool refuse_strings(const OpView& op) {
  return op.fail("strings-unsupported", "{} of strings is not supported", op_def(op.op()).name);
}

/// True if the attribute is absent or has a value that its record lists; else reports.
static bool is_choice(const OpView& op, const AttrSpec& spec) {
  const AttrValue* value = spec.choices ? op.op().find(spec.name) : nullptr;
  if (!value) return true;
  const std::string given = spec.type == AttrType::Int              ? std::to_string(std::get<int64_t>(*value))
                            : std::get<std::string>(*value).empty() ? "''"
                                                                    : std::get<std::string>(*value);
  const std::vector<std::string> choices = split(spec.choices, ' ');
  if (std::find(choices.begin(), choices.end(), given) != choices.end()) return true;
  return op.fail("attribute-choice", "'{}' is '{}', expected one of {}", spec.name, printable(given),
                 join(choices, ", "));
}

bool infer_op(const Module& module, Graph& graph, OpId id, Diags* diags, const ShapeValues* shapes) {
  std::vector<TensorType> results;
  const OpView view(module, graph, graph.op(id), diags, shapes);
  const OpDef& def = op_def(graph.op(id));
  if (computes_with_small_type(view, def))
    return view.fail("small-type-unsupported", "{} on an element type of at most 8 bits, such as {}, is not supported",
                     def.name, dtype_name(view.type(0).dtype));
  if (!def.takes_strings && has_strings(view, {})) return refuse_strings(view);
  for (const AttrSpec& spec : def.attrs)
    if (!is_choice(view, spec)) return false;
  if (!def.infer(view, results)) return false;
  if (!def.takes_strings && has_strings(view, results)) return refuse_strings(view);
  for (const TensorType& result : results)
    if (!is_countable(result))
      return view.fail("too-many-elements", "a result of shape {} has more than 2^40 elements",
                       dims_text(result.dims()));
  WEFT_CHECK(results.size() >= view.op().outputs.size(), "too few result types of '" + view.op().name + "'");
  for (size_t r = 0; r < view.op().outputs.size(); ++r) graph.retype(view.op().outputs[r], std::move(results[r]));
  if (def.canonicalize)
    def.canonicalize(graph.edit(id), view);
  else
    fill_defaults(graph.edit(id));
  return true;
}

bool decomposes(const OpView& op) {
  const OpDef& def = op_def(op.op());
  return def.decompose && !(def.is_primitive && def.is_primitive(op));
}

std::vector<std::vector<int>> linear_groups(const OpView& op) {
  const OpDef& def = op_def(op.op());
  if (def.is_linear && !def.is_linear(op)) return {};
  std::vector<std::vector<int>> groups = def.linear;
  if (groups == std::vector<std::vector<int>>{{-1}}) {
    groups[0].clear();
    for (int i = 0; i < op.inputs(); ++i) groups[0].push_back(i);
  }
  return groups;
}

std::optional<Tensor> OpView::known(int input) const {
  if (!has(input)) return {};
  const OpId producer = graph_.producer(op_.inputs[input]);
  if (!producer || graph_.op(producer).kind != OpKind::Constant) return {};
  return module_.constants.tensor(graph_.op(producer).constant("value"));
}

/// True if the number is an integer that an int64 can hold.
static bool is_whole(double x) { return std::abs(x) < 0x1p63 && std::floor(x) == x; }

/// A constant's elements as lengths; nothing for strings or if an element is not an integer.
static std::optional<std::vector<Length>> as_lengths(const Tensor& tensor) {
  if (tensor.dtype == DType::String) return {};
  std::vector<Length> lengths;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (tensor.is_real() && !is_whole(tensor.at(i))) return {};
    lengths.emplace_back(tensor.int_at(i));
  }
  return lengths;
}

std::optional<std::vector<Length>> OpView::lengths(int input) const {
  if (!has(input)) return {};
  if (type(input).count() <= kMostLengths)
    if (const std::optional<Tensor> tensor = known(input)) return as_lengths(*tensor);
  const std::vector<Length>* found = shapes_ ? shapes_->find(op_.inputs[input]) : nullptr;
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<std::vector<Length>> OpView::lengths_of(std::string_view attr, int input) const {
  if (!op_.has(attr)) return lengths(input);
  const std::vector<int64_t> ints = ints_of(op_, attr);
  return std::vector<Length>(ints.begin(), ints.end());
}

Extent OpView::extent(const Length& length) const {
  return shapes_ ? shapes_->extent(length) : ShapeValues().extent(length);
}

static bool is_axis(int64_t axis, int64_t last, int ndim) { return axis >= -ndim && axis <= last; }

std::optional<std::vector<int64_t>> OpView::axes(std::string_view attr, int ndim) const {
  std::vector<int64_t> axes = ints_of(op_, attr);
  for (int64_t& axis : axes) {
    if (!is_axis(axis, ndim - 1, ndim)) {
      fail("axes-range", "axis {} in '{}' is outside a tensor of {} dimensions", axis, attr, ndim);
      return {};
    }
    axis = from_front(axis, ndim);
  }
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    fail("axes-repeated", "'{}' names an axis twice", attr);
    return {};
  }
  return axes;
}

std::optional<int64_t> OpView::axis(std::string_view attr, int ndim, bool end) const {
  const int64_t axis = int_of(op_, attr);
  if (is_axis(axis, end ? ndim : ndim - 1, ndim)) return from_front(axis, ndim);
  fail("axis-range", "'{}' is {}, outside a tensor of {} dimensions", attr, axis, ndim);
  return {};
}

bool is_one(const Extent& extent) { return extent.bound == 1 && !extent.is_run_time(); }

std::optional<Extent> one_extent(const Extent& a, const Extent& b) {
  const Extent& smaller = b.bound < a.bound || (b.bound == a.bound && a.is_run_time() && !b.is_run_time()) ? b : a;
  const Extent& larger = &smaller == &a ? b : a;
  const bool may_be_equal = larger.bound == smaller.bound || larger.is_run_time();
  return may_be_equal ? std::optional(smaller) : std::nullopt;
}

/// Merges one aligned dimension; false if no request can satisfy both. Two run-time lengths, or one and a number, are
/// assumed equal (a key and a value cache may have a length each). The op's relations record that.
static bool merge(Extent& into, const Extent& from) {
  if (is_one(from)) return true;
  const std::optional<Extent> both = is_one(into) ? from : one_extent(into, from);
  if (both) into = *both;
  return both.has_value();
}

std::optional<Shape> broadcast(const std::vector<Shape>& shapes) {
  size_t ndim = 0;
  for (const Shape& shape : shapes) ndim = std::max(ndim, shape.size());
  Shape result(ndim, {1, {}});
  for (const Shape& shape : shapes) {
    const size_t offset = ndim - shape.size();
    for (size_t d = 0; d < shape.size(); ++d)
      if (!merge(result[offset + d], shape[d])) return {};
  }
  return result;
}

FactorRule pass_rule(const Shape& shape) {
  FactorRule rule;
  for (const Extent& extent : shape) rule.factors.push_back({extent.bound, Factor::Role::Pass, ReduceOp::Sum});
  return rule;
}

/// A pass factor for each dimension of the result. Operands are aligned right, as NumPy broadcasts.
static FactorRule pointwise_rule(const OpView& op) {
  const Shape& result = op.result_type(0).shape;
  FactorRule rule = pass_rule(result);
  const int ndim = static_cast<int>(result.size());
  for (int i = 0; i < op.inputs(); ++i) {
    std::vector<int>& dims = rule.inputs.emplace_back();
    if (!op.has(i)) continue;
    const Shape& shape = op.type(i).shape;
    const int offset = ndim - static_cast<int>(shape.size());
    for (size_t d = 0; d < shape.size(); ++d) {
      const int factor = offset + static_cast<int>(d);
      dims.push_back(is_one(shape[d]) && !is_one(result[factor]) ? -1 : factor);
    }
  }
  std::vector<int> all(ndim);
  for (int d = 0; d < ndim; ++d) all[d] = d;
  rule.outputs.assign(op.op().outputs.size(), all);
  return rule;
}

/// The factors of "b m k" by name; new names join `names`.
static std::vector<int> einsum_term(std::string_view term, std::vector<std::string>& names) {
  std::vector<int> dims;
  for (const std::string& word : split(trim(term), ' ')) {
    if (word.empty()) continue;
    const auto at = std::find(names.begin(), names.end(), word);
    dims.push_back(static_cast<int>(at - names.begin()));
    if (at == names.end()) names.push_back(word);
  }
  return dims;
}

/// A factor for each letter: letters of the result pass, the others are summed.
static FactorRule einsum_rule(const OpView& op, std::string_view text) {
  const size_t arrow = text.find("->");
  std::vector<std::string> names;
  FactorRule rule;
  for (const std::string& term : split(text.substr(0, arrow), ',')) rule.inputs.push_back(einsum_term(term, names));
  const std::vector<int> out = einsum_term(text.substr(arrow + 2), names);
  rule.outputs = {out};
  rule.factors.assign(names.size(), {0, Factor::Role::Reduce, ReduceOp::Sum});
  for (int factor : out) rule.factors[factor].role = Factor::Role::Pass;
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    for (size_t d = 0; d < rule.inputs[i].size(); ++d)
      rule.factors[rule.inputs[i][d]].extent = op.type(static_cast<int>(i)).shape[d].bound;
  return rule;
}

FactorRule factor_rule(const OpView& op) {
  const OpDef& def = op_def(op.op());
  if (def.factors) return def.factors(op);
  if (def.einsum) return einsum_rule(op, def.einsum);
  return def.category == Category::Pointwise ? pointwise_rule(op) : FactorRule{};
}

}  // namespace weftc
