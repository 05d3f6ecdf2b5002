// Einsum of any number of operands (ONNX Einsum-12): pairs are contracted from the left, each as Transpose,
// Reshape and one MatMul, so that the layout rules and kernels of products apply.
//
//   Einsum "bhqd,bhkd->bhqk" (q, k):  batch b h, left q, inner d, right k
//     ->  MatMul(q [b, h, q, d], Transpose(k) [b, h, d, k])  ->  [b, h, q, k]
//
// A letter of two operands is `batch` if the output or a later operand has it, else `inner` (summed). A letter of one
// operand only is summed before the product. The order of contraction is the model's: no search for a cheaper one.
#include <algorithm>
#include <map>

#include "ir/ops/composite.h"

namespace weftc {

namespace {

/// One letter a dimension. Dimensions of "..." get the letters '0', '1', ..., aligned so that the last letter is always
/// the same.
using Labels = std::string;

/// The parsed equation: one list of labels for each operand, and one for the result.
struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

/// Letters for `count` dimensions of an ellipsis, aligned right.
Labels ellipsis(int count) {
  Labels labels;
  for (int i = count; i > 0; --i) labels += static_cast<char>('0' + i - 1);
  return labels;
}

/// Replaces "..." by one letter for each remaining dimension of the operand.
std::optional<Labels> expand(const OpView& op, std::string term, int ndim) {
  const size_t dots = term.find("...");
  if (dots != std::string::npos) {
    const int rest = ndim - static_cast<int>(term.size() - 3);
    if (rest >= 0 && rest < 10) term.replace(dots, 3, ellipsis(rest));
  }
  const bool letters =
      std::all_of(term.begin(), term.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)); });
  if (letters && static_cast<int>(term.size()) == ndim) return term;
  op.fail("einsum-term", "term '{}' does not fit an operand of {} dimensions", printable(term), ndim);
  return {};
}

/// The output without "->": the ellipsis and then the letters that occur once, sorted.
Labels implicit_output(const std::vector<Labels>& inputs) {
  std::map<char, int> count;
  for (const Labels& labels : inputs)
    for (char c : labels) ++count[c];
  Labels dots, output;
  for (const auto& [label, times] : count) {
    if (std::isdigit(static_cast<unsigned char>(label)))
      dots.insert(dots.begin(), label);
    else if (times == 1)
      output += label;
  }
  return dots + output;
}

/// Parses `equation` against the operands' numbers of dims; nothing after reporting.
std::optional<Equation> parse(const OpView& op) {
  std::string text = text_of(op.op(), "equation");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = split(text.substr(0, arrow), ',');
  if (static_cast<int>(terms.size()) != op.inputs())
    return op.fail("einsum-operands", "equation '{}' has {} terms for {} operands", printable(text), terms.size(),
                   op.inputs()),
           std::nullopt;
  Equation equation;
  Labels dots;
  for (int i = 0; i < op.inputs(); ++i) {
    const std::optional<Labels> labels = expand(op, terms[i], op.type(i).ndim());
    if (!labels) return {};
    for (char c : *labels) {
      if (std::isdigit(static_cast<unsigned char>(c)) && dots.find(c) == Labels::npos) dots += c;
    }
    equation.inputs.push_back(*labels);
  }
  std::sort(dots.rbegin(), dots.rend());
  equation.output = arrow == std::string::npos ? implicit_output(equation.inputs) : text.substr(arrow + 2);
  const size_t at = equation.output.find("...");
  if (at != std::string::npos) equation.output.replace(at, 3, dots);
  return equation;
}

bool refuse_extents(const OpView& op, char label, const Extent& a, const Extent& b) {
  return op.fail("einsum-extents", "'{}' has extents {} and {}", std::string(1, label), shape_text({a}),
                 shape_text({b}));
}

/// Extent of each letter; nothing after reporting.
std::optional<std::map<char, Extent>> extents_of(const OpView& op, const Equation& equation) {
  std::map<char, Extent> extents;
  for (int i = 0; i < op.inputs(); ++i)
    for (size_t d = 0; d < equation.inputs[i].size(); ++d) {
      const char label = equation.inputs[i][d];
      const Extent& extent = op.type(i).shape[d];
      const auto [at, is_new] = extents.emplace(label, extent);
      if (is_new || is_one(extent)) continue;
      const std::optional<Extent> one = is_one(at->second) ? extent : one_extent(at->second, extent);
      if (!one) return refuse_extents(op, label, at->second, extent), std::nullopt;
      at->second = *one;
    }
  return extents;
}

/// Checks that dims of one term with the same letter have the same extent; else reports.
bool has_diagonals(const OpView& op, const Equation& equation) {
  for (int i = 0; i < op.inputs(); ++i) {
    const Labels& labels = equation.inputs[i];
    for (size_t d = 0; d < labels.size(); ++d) {
      const Extent &first = op.type(i).shape[labels.find(labels[d])], &own = op.type(i).shape[d];
      if (is_one(first) != is_one(own) || !one_extent(first, own)) return refuse_extents(op, labels[d], first, own);
    }
  }
  return true;
}

/// The extents of the output's letters, from the operands; extent 1 in one operand broadcasts.
bool infer_einsum(const OpView& op, std::vector<TensorType>& results) {
  if (!same_dtypes(op)) return false;
  const std::optional<Equation> equation = parse(op);
  if (!equation || !has_diagonals(op, *equation)) return false;
  const std::optional<std::map<char, Extent>> extents = extents_of(op, *equation);
  if (!extents) return false;
  TensorType type{op.type(0).dtype, {}, {}};
  for (char label : equation->output) {
    if (!extents->contains(label))
      return op.fail("einsum-output", "'{}' of the output is in no operand", std::string(1, label));
    type.shape.push_back(extents->at(label));
  }
  results = {type};
  return true;
}

/// Dims with the same letter are equal unless they are broadcast.
std::vector<LengthRelation> relate_einsum(const OpView& op) {
  const Equation equation = *parse(op);
  std::map<char, Length> first;
  std::vector<LengthRelation> relations;
  for (int i = 0; i < op.inputs(); ++i)
    for (size_t d = 0; d < equation.inputs[i].size(); ++d) {
      const Extent& extent = op.type(i).shape[d];
      if (is_one(extent)) continue;
      const auto [at, is_new] = first.emplace(equation.inputs[i][d], length_of(extent));
      if (!is_new) relations.push_back({"", at->second, length_of(extent)});
    }
  return relations;
}

/// A value and the letter of each of its dims.
struct LabelledValue {
  ValueId value;
  Labels labels;

  bool has(char label) const { return labels.find(label) != Labels::npos; }
};

/// The first two dims with the same letter: a diagonal is taken along them.
std::optional<std::pair<size_t, size_t>> repeated(const Labels& labels) {
  for (size_t second = 0; second < labels.size(); ++second)
    if (const size_t first = labels.find(labels[second]); first < second) return std::pair(first, second);
  return {};
}

/// Builds the products of one Einsum.
class Contraction {
 public:
  explicit Contraction(Builder& build) : build_(build) {}

  /// Sums over the letters that are not in `keep`.
  LabelledValue reduce(LabelledValue term, const Labels& keep) {
    std::vector<int64_t> axes;
    Labels rest;
    for (size_t d = 0; d < term.labels.size(); ++d) {
      if (keep.find(term.labels[d]) == Labels::npos)
        axes.push_back(static_cast<int64_t>(d));
      else
        rest += term.labels[d];
    }
    return {build_.reduce(OpKind::ReduceSum, term.value, axes, false), rest};
  }

  /// The operand with each letter once: elements off a diagonal become 0, then one of its dims is summed.
  LabelledValue operand(ValueId value, Labels labels) {
    while (const auto pair = repeated(labels)) {
      // Both dims use the first one's length; Where requires that the second has the same.
      const Extent extent = build_.type(value).shape[pair->first];
      const auto index = [&](size_t d) {
        Shape shape(static_cast<size_t>(build_.type(value).ndim()), {1, {}});
        shape[d] = extent;
        const ValueId at = build_.op(OpKind::Iota, {}, {{"axis", static_cast<int64_t>(d)}, {"shape", bounds(shape)}});
        return build_.with_lengths(at, shape);
      };
      const ValueId is_on = build_.op(OpKind::Equal, {index(pair->first), index(pair->second)});
      const ValueId kept = build_.op(OpKind::Where, {is_on, value, build_.scalar(value, 0)});
      value = build_.reduce(OpKind::ReduceSum, kept, {static_cast<int64_t>(pair->second)}, false);
      labels.erase(pair->second, 1);
    }
    return {value, labels};
  }

  /// Permutes the dims of the term to `order`, which has the same letters.
  LabelledValue transpose(const LabelledValue& term, const Labels& order) {
    if (order == term.labels) return term;
    std::vector<int64_t> perm;
    for (char label : order) perm.push_back(static_cast<int64_t>(term.labels.find(label)));
    return {build_.transpose(term.value, perm), order};
  }

  /// The product of two terms, summed over letters that are not in `keep`.
  LabelledValue multiply(LabelledValue a, LabelledValue b, const Labels& keep) {
    a = drop_ones(reduce(a, keep + b.labels), b);
    b = drop_ones(reduce(b, keep + a.labels), a);
    Labels batch, inner, left, right;
    for (char c : a.labels) (!b.has(c) ? left : keep.find(c) != Labels::npos ? batch : inner) += c;
    for (char c : b.labels)
      if (!a.has(c)) right += c;
    const LabelledValue left_term = transpose(a, batch + left + inner),
                        right_term = transpose(b, batch + inner + right);
    const Labels result = batch + left + right;
    if (inner.empty()) return {outer(left_term, right_term, batch.size(), left.size(), right.size()), result};
    const Dims shape = joined(left_term, batch.size() + left.size(), right_term, batch.size() + inner.size());
    const ValueId x = matrix(left_term, batch.size(), left.size()), y = matrix(right_term, batch.size(), inner.size());
    return {reshape(build_.op(OpKind::MatMul, {x, y}), shape), result};
  }

 private:
  /// A Reshape, or x itself if it already has these dims.
  ValueId reshape(ValueId x, const Dims& dims) { return build_.dims(x) == dims ? x : build_.reshape(x, dims); }

  /// Extent 1 against a longer one broadcasts: the letter is dropped from this term.
  LabelledValue drop_ones(const LabelledValue& term, const LabelledValue& other) {
    const Dims dims = build_.dims(term.value), others = build_.dims(other.value);
    Dims rest;
    Labels labels;
    for (size_t d = 0; d < dims.size(); ++d) {
      const size_t at = other.labels.find(term.labels[d]);
      if (dims[d] == 1 && at != Labels::npos && others[at] != 1) continue;
      rest.push_back(dims[d]);
      labels += term.labels[d];
    }
    return {reshape(term.value, rest), labels};
  }

  /// Keeps the first `batch` dims, joins the next `rows`, and joins the others.
  ValueId matrix(const LabelledValue& term, size_t batch, size_t rows) {
    const Dims dims = build_.dims(term.value);
    Dims shape(dims.begin(), dims.begin() + batch);
    shape.push_back(element_count(Dims(dims.begin() + batch, dims.begin() + batch + rows)));
    shape.push_back(element_count(Dims(dims.begin() + batch + rows, dims.end())));
    return reshape(term.value, shape);
  }

  /// The dims of the product: the first `first` dims of `a`, then the dims of `b` starting at `from`.
  Dims joined(const LabelledValue& a, size_t first, const LabelledValue& b, size_t from) {
    const Dims left = build_.dims(a.value), right = build_.dims(b.value);
    Dims shape(left.begin(), left.begin() + first);
    shape.insert(shape.end(), right.begin() + from, right.end());
    return shape;
  }

  /// A product without inner letters: the operands are broadcast and multiplied element by element. It stays a
  /// pointwise op and needs no kernel of its own.
  ValueId outer(const LabelledValue& a, const LabelledValue& b, size_t batch, size_t left, size_t right) {
    Dims x = build_.dims(a.value), y = build_.dims(b.value);
    x.insert(x.end(), right, 1);
    y.insert(y.begin() + batch, left, 1);
    return build_.op(OpKind::Mul, {reshape(a.value, x), reshape(b.value, y)});
  }

  Builder& build_;
};

std::vector<ValueId> decompose_einsum(Builder& build, const OpView& op) {
  const Equation equation = *parse(op);
  const std::vector<ValueId> inputs = op.op().inputs;
  Contraction contraction(build);
  LabelledValue term = contraction.operand(inputs[0], equation.inputs[0]);
  for (size_t i = 1; i < inputs.size(); ++i) {
    Labels keep = equation.output;
    for (size_t later = i + 1; later < inputs.size(); ++later) keep += equation.inputs[later];
    term = contraction.multiply(term, contraction.operand(inputs[i], equation.inputs[i]), keep);
  }
  return {contraction.transpose(contraction.reduce(term, equation.output), equation.output).value};
}

}  // namespace

const OpDef kEinsum{.kind = OpKind::Einsum,
                    .name = "Einsum",
                    .onnx = {"Einsum", 12},
                    .attrs = {{"equation", AttrType::Text, {}, true}},
                    .inputs = {1, -1},
                    .infer = infer_einsum,
                    .relate = relate_einsum,
                    .decompose = decompose_einsum};

}  // namespace weftc
