// Rules for views of views. The type of a view's result tells lengths known at run time too: a rule fires where the
// result keeps them.
#include <numeric>

#include "passes/simplify/rules.h"

namespace weftc {

namespace {

/// Ops that give the same elements, in the same order, another shape.
const std::vector<OpKind> kReshapes{OpKind::Reshape, OpKind::Flatten, OpKind::Squeeze, OpKind::Unsqueeze};

ValueId put_x(Rewriter&, const Match& match) { return match["x"]; }
bool keeps_type(const Match& match) { return match.root_type() == match.type("x"); }

bool permutes_nothing(const Match& match) {
  const std::vector<int64_t>& perm = match.root().ints("perm");
  std::vector<int64_t> identity(perm.size());
  std::iota(identity.begin(), identity.end(), 0);
  return perm == identity;
}

ValueId put_composed(Rewriter& write, const Match& match) {
  std::vector<int64_t> perm;
  for (int64_t d : match.root().ints("perm")) perm.push_back(match.op("inner").ints("perm")[static_cast<size_t>(d)]);
  return write.op(OpKind::Transpose, {match["x"]}, {{"perm", perm}});
}

Attrs reshape_attrs(const Match& match) { return {{"allowzero", int64_t{1}}, {"shape", match.root_type().dims()}}; }

/// A run-time length that the first reshape moved may have no place in the direct one.
bool reshapes_at_once(const Match& match) {
  Op reshape = match.root();
  reshape.kind = OpKind::Reshape;
  reshape.inputs = {match["x"]};
  reshape.attrs = reshape_attrs(match);
  return match.fits_root(reshape);
}

ValueId put_reshape(Rewriter& write, const Match& match) {
  return write.reshape_to(match["x"], match.root_type().shape);
}

}  // namespace

std::span<const Rule> view_rules() {
  static const std::vector<Rule> rules{
      // Transpose(x) with perm 0, 1, 2  ->  x
      {"identity-transpose", op(OpKind::Transpose, {any("x")}), permutes_nothing, put_x},
      // Transpose(Transpose(x, p), q)  ->  Transpose(x, p[q])
      {"transpose-of-transpose", op(OpKind::Transpose, {op(OpKind::Transpose, {any("x")}).as("inner")}), nullptr,
       put_composed},
      // Reshape(x) to its own shape  ->  x
      {"identity-reshape", op(kReshapes, {any("x")}), keeps_type, put_x},
      // Expand(x) to its own shape  ->  x
      {"identity-expand", op(OpKind::Expand, {any("x")}), keeps_type, put_x},
      // Reshape(Reshape(x))  ->  Reshape(x)
      {"reshape-of-reshape", op(kReshapes, {op(kReshapes, {any("x")})}), reshapes_at_once, put_reshape},
  };
  return rules;
}

}  // namespace weftc
