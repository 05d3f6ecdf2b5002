// Each value computed from x is written as a polynomial in x and t, where t is the only tanh or erf (of a polynomial in
// x) on the way. Two forms of Gelu then become equal:
//   h = Mul(x, 0.5)  t1 = Add(t, 1)  y = Mul(h, t1)     ->    y = 0.5 x + 0.5 x t
#include "ir/gelu.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace weftc {

namespace {

/// Coefficients by the powers of x and t.
using Polynomial = std::map<std::pair<int, int>, double>;

constexpr size_t kMostOps = 16;  // the longest forms have 10

Polynomial number(double value) { return {{{0, 0}, value}}; }

Polynomial sum(Polynomial a, const Polynomial& b, double factor) {
  for (const auto& [powers, coefficient] : b) a[powers] += factor * coefficient;
  return a;
}

Polynomial product(const Polynomial& a, const Polynomial& b) {
  Polynomial all;
  for (const auto& [p, c] : a)
    for (const auto& [q, d] : b) all[{p.first + q.first, p.second + q.second}] += c * d;
  return all;
}

std::optional<double> as_number(const Polynomial& p) {
  if (p.size() != 1 || p.begin()->first != std::pair{0, 0}) return {};
  return p.begin()->second;
}

/// The largest error of a product of two constants that were both rounded to the type.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 1e-12;
    case DType::F16:
      return 2e-3;
    case DType::BF16:
      return 1e-2;
    default:
      return 1e-6;
  }
}

bool is_near(const Polynomial& p, const Polynomial& wanted, DType dtype) {
  return p.size() == wanted.size() && std::all_of(p.begin(), p.end(), [&](const auto& term) {
           const auto at = wanted.find(term.first);
           return at != wanted.end() && std::abs(term.second - at->second) <= rounding(dtype) * std::abs(at->second);
         });
}

class GeluMatcher {
 public:
  GeluMatcher(const Graph& graph, const Constants& constants, ValueId x, OpKind by)
      : graph_(graph), constants_(constants), x_(x), by_(by) {
    known_[x] = {{{1, 0}, 1}};
  }

  std::optional<Gelu> run() {
    std::vector<ValueId> values{x_};
    for (size_t i = 0; i < values.size() && values.size() <= kMostOps; ++i)
      for (const Use& use : graph_.value(values[i]).uses) {
        if (!use.op || !read(graph_.op(use.op))) continue;
        values.push_back(graph_.op(use.op).outputs[0]);
        if (is_gelu(values.back())) return between(values);
      }
    return {};
  }

 private:
  std::optional<Polynomial> operand(ValueId value) const {
    if (const auto at = known_.find(value); at != known_.end()) return at->second;
    const Op& op = graph_.producer_op(value);
    if (op.kind != OpKind::Constant || graph_.type(value).count() != 1) return {};
    const Tensor tensor = constants_.tensor(op.constant("value"));
    return number(tensor.is_real() ? tensor.real[0] : static_cast<double>(tensor.integers[0]));
  }

  /// True if the op's result has become known.
  bool read(const Op& op) {
    if (op.outputs.size() != 1 || known_.contains(op.outputs[0])) return false;
    const TensorType &type = graph_.type(op.outputs[0]), &of_x = graph_.type(x_);
    if (type.dtype != of_x.dtype || type.shape != of_x.shape) return false;
    std::vector<Polynomial> operands;
    for (ValueId v : op.inputs) {
      const std::optional<Polynomial> one = v ? operand(v) : std::nullopt;
      if (!one) return false;
      operands.push_back(*one);
    }
    const std::optional<Polynomial> result = value_of(op.kind, operands);
    if (result) known_[op.outputs[0]] = *result;
    return result.has_value();
  }

  std::optional<Polynomial> value_of(OpKind kind, const std::vector<Polynomial>& in) {
    if (kind == by_) {
      if (inside_ && *inside_ != in[0]) return {};
      inside_ = in[0];
      return Polynomial{{{0, 1}, 1}};
    }
    switch (kind) {
      case OpKind::Add:
        return sum(in[0], in[1], 1);
      case OpKind::Sub:
        return sum(in[0], in[1], -1);
      case OpKind::Mul:
        return product(in[0], in[1]);
      case OpKind::Div: {
        const std::optional<double> by = as_number(in[1]);
        return by && *by != 0 ? std::optional(product(in[0], number(1 / *by))) : std::nullopt;
      }
      case OpKind::Pow: {
        const std::optional<double> power = as_number(in[1]);
        if (power == 2) return product(in[0], in[0]);
        return power == 3 ? std::optional(product(product(in[0], in[0]), in[0])) : std::nullopt;
      }
      default:
        return {};
    }
  }

  bool is_gelu(ValueId value) const {
    const double scale = std::sqrt(2 / M_PI);
    const DType dtype = graph_.type(x_).dtype;
    const Polynomial of_tanh = {{{1, 0}, scale}, {{3, 0}, scale * 0.044715}}, of_erf = {{{1, 0}, std::sqrt(0.5)}};
    return inside_ && is_near(*inside_, by_ == OpKind::Tanh ? of_tanh : of_erf, dtype) &&
           is_near(known_.at(value), {{{1, 0}, 0.5}, {{1, 1}, 0.5}}, dtype);
  }

  /// The ops, among those read so far, on which the last value depends.
  Gelu between(const std::vector<ValueId>& values) const {
    std::vector<ValueId> needed{values.back()};
    for (size_t i = 0; i < needed.size(); ++i)
      for (ValueId v : graph_.producer_op(needed[i]).inputs)
        if (v != x_ && known_.contains(v) && std::find(needed.begin(), needed.end(), v) == needed.end())
          needed.push_back(v);
    Gelu found{values.back(), {}, true};
    for (ValueId v : values)
      if (std::find(needed.begin(), needed.end(), v) != needed.end()) found.ops.push_back(graph_.producer(v));
    const auto is_inside = [&](const Use& use) {
      return use.op && std::find(found.ops.begin(), found.ops.end(), use.op) != found.ops.end();
    };
    needed[0] = x_;  // others may read the result
    for (ValueId v : needed) {
      const std::vector<Use>& uses = graph_.value(v).uses;
      found.is_alone &= std::all_of(uses.begin(), uses.end(), is_inside);
    }
    return found;
  }

  const Graph& graph_;
  const Constants& constants_;
  const ValueId x_;
  const OpKind by_;
  std::map<ValueId, Polynomial> known_;
  std::optional<Polynomial> inside_;  // the argument of the function
};

}  // namespace

std::optional<Gelu> find_gelu(const Graph& graph, const Constants& constants, ValueId x, OpKind by) {
  return GeluMatcher(graph, constants, x, by).run();
}

}  // namespace weftc
