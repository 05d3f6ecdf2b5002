// Integer arithmetic on lengths. Ops that move elements are evaluated by their own records, on tensors that hold the
// numbers of symbols as values.
#include "ir/shape_arithmetic.h"

#include <algorithm>
#include <cmath>

namespace weftc {

using Lengths = std::vector<Length>;
using Result = std::optional<Lengths>;

static Lengths lengths_of_dims(const OpView& op) {
  Lengths lengths;
  for (const Extent& extent : op.type(0).shape) lengths.push_back(length_of(extent));
  return lengths;
}

static Result shape_of_operand(const OpView& op) {
  const Lengths all = lengths_of_dims(op);
  const auto ndim = static_cast<int64_t>(all.size());
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(from_front(at, ndim), 0, ndim); };
  const int64_t first = clamp(int_of(op.op(), "start")),
                last = op.op().has("end") ? clamp(op.op().integer("end")) : ndim;
  return Lengths(all.begin() + first, all.begin() + std::max(first, last));
}

static Lengths product_of(const Lengths& factors) {
  Length product = 1;
  for (const Length& factor : factors) product = product * factor;
  return {product};
}

/// Whether a < b, if that is the same in every run.
static std::optional<Length> is_less(const Length& a, const Length& b) {
  const Length gap = b - a;
  if (gap.low() > 0) return 1;
  if (gap.high() <= 0) return 0;
  return {};
}

static std::optional<Length> are_equal(const Length& a, const Length& b) {
  const Length gap = b - a;
  if (gap.is_constant()) return gap.constant() == 0;
  if (gap.low() > 0 || gap.high() < 0) return 0;
  return {};
}

static std::optional<Length> negated(const std::optional<Length>& truth) {
  if (!truth || !truth->is_constant()) return {};
  return Length(truth->constant() == 0);
}

/// Whether a != 0, if that is the same in every run.
static std::optional<Length> is_true(const Length& a) { return negated(are_equal(a, 0)); }

/// True if a type represents every number that the length can have exactly.
static bool fits(DType dtype, const Length& length) {
  const auto lies_between = [&](int64_t low, int64_t high) { return length.low() >= low && length.high() <= high; };
  if (dtype == DType::F64) return lies_between(-(int64_t{1} << 53), int64_t{1} << 53);
  if (dtype == DType::F32) return lies_between(-(1 << 24), 1 << 24);
  if (dtype == DType::F16) return lies_between(-(1 << 11), 1 << 11);
  if (dtype == DType::BF16) return lies_between(-(1 << 8), 1 << 8);
  if (is_float(dtype)) return lies_between(0, 0);
  if (dtype == DType::U64) return length.low() >= 0;
  return wrap(dtype, length.low()) == length.low() && wrap(dtype, length.high()) == length.high();
}

/// Folds the operands of an op that takes any number of them.
static Length folded(const Lengths& in, Length (*join)(const Length&, const Length&)) {
  Length all = in[0];
  for (size_t i = 1; i < in.size(); ++i) all = join(all, in[i]);
  return all;
}

static std::optional<Length> chosen(const Length& condition, const Length& yes, const Length& no) {
  if (condition.is_constant()) return condition.constant() ? yes : no;
  return yes == no ? std::optional(yes) : std::nullopt;
}

/// One element of a pointwise op; nothing if it is not a length. A quotient of floats must be exact.
static std::optional<Length> element(const OpView& op, const Lengths& in) {
  const bool is_real = is_float(op.type(static_cast<int>(in.size()) - 1).dtype);
  switch (op.op().kind) {
    case OpKind::Add:
      return in[0] + in[1];
    case OpKind::Sub:
      return in[0] - in[1];
    case OpKind::Mul:
      return in[0] * in[1];
    case OpKind::Div:
      return is_real ? exact_quotient(in[0], in[1]) : floor_quotient(in[0], in[1]);
    case OpKind::Mod:
      return is_real ? std::nullopt : remainder_of(in[0], in[1]);
    case OpKind::Min:
      return folded(in, minimum);
    case OpKind::Max:
      return folded(in, maximum);
    case OpKind::Neg:
      return Length() - in[0];
    case OpKind::Abs:
      return in[0].low() >= 0 ? std::optional(in[0]) : std::nullopt;
    case OpKind::Cast:
      return op.result_type(0).dtype == DType::Bool ? is_true(in[0]) : in[0];
    case OpKind::Identity:
    case OpKind::Floor:
    case OpKind::Ceil:
    case OpKind::Round:
      return in[0];
    case OpKind::Equal:
      return are_equal(in[0], in[1]);
    case OpKind::Less:
      return is_less(in[0], in[1]);
    case OpKind::Greater:
      return is_less(in[1], in[0]);
    case OpKind::LessOrEqual:
      return negated(is_less(in[1], in[0]));
    case OpKind::GreaterOrEqual:
      return negated(is_less(in[0], in[1]));
    case OpKind::Not:
      return negated(in[0]);
    case OpKind::And:
      return in[0] * in[1];
    case OpKind::Or:
      return maximum(in[0], in[1]);
    case OpKind::Where:
      return chosen(in[0], in[1], in[2]);
    default:
      return {};
  }
}

/// True if every operand has an element for each element of the result. Operands of a product of two rows do not.
static bool is_broadcast(const OpView& op) {
  const Dims dims = op.result_type(0).dims();
  for (int i = 0; i < op.inputs(); ++i) {
    const Dims own = op.dims(i);
    if (own.size() > dims.size()) return false;
    const size_t before = dims.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d)
      if (own[d] != 1 && own[d] != dims[before + d]) return false;
  }
  return element_count(dims) > 0;
}

/// A pointwise op, element by element with broadcast operands.
static Result pointwise(const OpView& op, const std::vector<Lengths>& in) {
  const Dims dims = op.result_type(0).dims();
  std::vector<Dims> strides;
  for (int i = 0; i < op.inputs(); ++i) {
    Dims own = strides_of(op.dims(i));
    for (size_t d = 0; d < own.size(); ++d) own[d] = op.dims(i)[d] == 1 ? 0 : own[d];
    own.insert(own.begin(), dims.size() - own.size(), 0);
    strides.push_back(std::move(own));
  }
  Lengths result;
  for (Index at(dims); at.more(); at.next()) {
    Lengths operands;
    for (size_t i = 0; i < in.size(); ++i) operands.push_back(in[i][static_cast<size_t>(at.dot(strides[i]))]);
    std::optional<Length> made = element(op, operands);
    if (!made || !fits(op.result_type(0).dtype, *made)) return {};
    result.push_back(std::move(*made));
  }
  return result;
}

/// A reduction of all elements to one.
static Result reduced(const OpView& op, const Lengths& in) {
  if (op.result_type(0).count() != 1 || in.empty()) return {};
  Length result = in[0];
  for (size_t i = 1; i < in.size(); ++i) switch (op.op().kind) {
      case OpKind::ReduceSum:
        result = result + in[i];
        break;
      case OpKind::ReduceProd:
        result = result * in[i];
        break;
      case OpKind::ReduceMin:
        result = minimum(result, in[i]);
        break;
      case OpKind::ReduceMax:
        result = maximum(result, in[i]);
        break;
      default:
        return {};
    }
  const bool is_plain = op.op().kind == OpKind::ReduceSum || op.op().kind == OpKind::ReduceProd ||
                        op.op().kind == OpKind::ReduceMin || op.op().kind == OpKind::ReduceMax;
  return is_plain ? Result(Lengths{result}) : std::nullopt;
}

/// True if operand `i` of a gather holds positions, not elements.
static bool is_position(const Op& op, int i) { return category(op) == Category::Index && i == 1; }

/// Evaluates an op that moves elements by its record, on the numbers of the elements, from 1 on. A 0 in the result is
/// fill, not an element.
static std::optional<std::vector<Lengths>> moved(const OpView& op, const std::vector<Lengths>& in) {
  const OpDef& def = op_def(op.op());
  if (!def.eval) return {};
  Lengths table;
  std::vector<Tensor> numbers;
  for (int i = 0; i < op.inputs(); ++i) {
    Tensor& tensor = numbers.emplace_back(DType::I64, op.dims(i));
    for (size_t e = 0; e < in[static_cast<size_t>(i)].size(); ++e) {
      const Length& each = in[static_cast<size_t>(i)][e];
      if (is_position(op.op(), i) && !each.is_constant()) return {};
      if (!is_position(op.op(), i)) table.push_back(each);
      tensor.put_int(static_cast<int64_t>(e),
                     is_position(op.op(), i) ? each.constant() : static_cast<int64_t>(table.size()));
    }
  }
  std::vector<Tensor> results(op.op().outputs.size());
  EvalContext context{op.op(), {}, {}, {}, results, {}, {}, {}, {}, {}};
  for (const Tensor& tensor : numbers) context.inputs.push_back(&tensor);
  for (size_t r = 0; r < op.op().outputs.size(); ++r) {
    context.result_dims.push_back(op.result_type(static_cast<int>(r)).dims());
    context.result_dtypes.push_back(DType::I64);
  }
  def.eval(context);
  std::vector<Lengths> found(results.size());
  for (size_t r = 0; r < results.size(); ++r)
    for (int64_t e = 0; e < results[r].size(); ++e) {
      const int64_t number = results[r].int_at(e);
      if (number == 0) return {};
      found[r].push_back(table[static_cast<size_t>(number - 1)]);
    }
  return found;
}

/// True of ops whose results are elements of their operands.
static bool moves_elements(const Op& op) {
  switch (op.kind) {
    case OpKind::Squeeze:
    case OpKind::Unsqueeze:
    case OpKind::Flatten:
    case OpKind::Split:
      return true;
    case OpKind::Slice:
      return op.has("starts");  // the elements are unknown when a run decides the start
    case OpKind::Pad:
      return false;
    case OpKind::ScatterElements:
    case OpKind::ScatterND:
      return text_of(op, "reduction") == "none";  // the others compute new elements
    default:
      return category(op) == Category::View || category(op) == Category::Index;
  }
}

/// A ConstantOfShape of an integer.
static Result filled(const OpView& op) {
  const TensorType& type = op.result_type(0);
  const double fill = is_float(type.dtype) ? real_of(op.op(), "fill") : 0;
  if (!(std::abs(fill) <= 0x1p53) || std::floor(fill) != fill) return {};
  const int64_t number = is_float(type.dtype) ? static_cast<int64_t>(fill) : int_of(op.op(), "whole");
  return Lengths(static_cast<size_t>(type.count()), number);
}

/// start + i * delta.
static Result counted(const OpView& op, const std::vector<Lengths>& in) {
  Lengths found;
  for (int64_t i = 0; i < op.result_type(0).count(); ++i) found.push_back(in[0][0] + in[2][0] * i);
  return found;
}

/// True for a tensor with few elements that may be numbers; strings are not lengths.
static bool is_small(const TensorType& type) {
  return is_static(type.shape) && type.count() <= kMostLengths && type.dtype != DType::String;
}

/// The elements of an op with one result.
static Result value_of(const OpView& op, const std::vector<Lengths>& in) {
  const Op& of = op.op();
  switch (of.kind) {
    case OpKind::Shape:
      return shape_of_operand(op);
    case OpKind::Size:
      return product_of(lengths_of_dims(op));
    case OpKind::LengthOf:
      return Lengths{*op.length()};
    case OpKind::ConstantOfShape:
      return filled(op);
    case OpKind::Range:
      return counted(op, in);
    default:
      if (in.empty()) return {};
      if (category(of) == Category::Reduction) return reduced(op, in[0]);
      return category(of) == Category::Pointwise && is_broadcast(op) ? pointwise(op, in) : std::nullopt;
  }
}

/// True if the types of the operands alone determine the op's results.
static bool reads_types(OpKind kind) {
  return kind == OpKind::Shape || kind == OpKind::Size || kind == OpKind::LengthOf || kind == OpKind::ConstantOfShape;
}

std::optional<std::vector<Lengths>> shape_values(const OpView& op) {
  const Op& of = op.op();
  for (size_t r = 0; r < of.outputs.size(); ++r)
    if (!is_small(op.result_type(static_cast<int>(r)))) return {};
  std::vector<Lengths> in;
  for (int i = 0; i < op.inputs() && !reads_types(of.kind); ++i) {
    std::optional<Lengths> each = op.has(i) ? op.lengths(i) : std::nullopt;
    if (!each) return {};
    in.push_back(std::move(*each));
  }
  if (moves_elements(of) && !in.empty()) return moved(op, in);
  if (of.outputs.size() != 1) return {};
  Result value = value_of(op, in);
  return value ? std::optional(std::vector<Lengths>{std::move(*value)}) : std::nullopt;
}

std::optional<std::pair<std::string, int64_t>> least_for(const Length& length) {
  std::map<std::string, LengthSymbolPtr> names;
  for_each_name(length, [&](const LengthSymbolPtr& each) { names.emplace(each->text, each); });
  if (names.size() != 1) return {};
  const auto& [name, symbol] = *names.begin();
  const auto is_enough = [&, name = name](int64_t least) {
    const std::optional<Length> raised = with_least(length, {{name, least}});
    return raised && raised->low() >= 0;
  };
  int64_t low = symbol->low, high = symbol->high;
  if (!is_enough(high)) return {};
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (is_enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return std::pair(name, high);
}

}  // namespace weftc
