// Settles one op, axis by axis. On an axis the largest sliced operand decides which loop the axis serves (L4). Others
// that have the loop are sliced alike; operands that cannot agree are gathered. Two examples on one axis:
//
//   MatMul(x [R], w [S(1)])   n passes   ->  x R, y S(1)
//   MatMul(x [S(1)], w [R])   k reduces  ->  w is sliced to S(0), y is P(sum)
#include "passes/layout/layout_rules.h"

#include <algorithm>

#include "ir/base/check.h"

namespace weftc {

namespace {

using Kind = AxisState::Kind;

/// True if one more slice of a dim is legal together with those of earlier axes.
bool nests(const TensorType& type, const Layout& settled, int dim, const Mesh& mesh, int axis, int64_t block) {
  std::vector<Digit> digits;
  for (int a = 0; a < axis; ++a)
    if (settled[a].is(Kind::S) && settled[a].dim == dim) digits.push_back({a, mesh[a].size, settled[a].block});
  digits.push_back({axis, mesh[axis].size, block});
  std::stable_sort(digits.begin(), digits.end(), [](const Digit& x, const Digit& y) { return x.block > y.block; });
  return check_slices(type.shape[dim], digits).empty();
}

/// A dimension may run over a loop several times, as a grouped convolution's channels do: slices of `period` elements
/// then have to cut each time alike.
bool is_cut_alike(const Factor& loop, const Extent& extent, int64_t period) {
  return extent.is_run_time() || extent.bound == loop.extent || loop.extent % period == 0;
}

/// The state of one op while its axes are settled one after the other, in mesh order.
class LayoutSolver {
 public:
  LayoutSolver(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
               const std::vector<bool>& yielding)
      : op_(op),
        mesh_(mesh),
        arriving_(arriving),
        yielding_(yielding),
        is_view_(op_def(op.op()).category == Category::View) {
    out_.operands = arriving;
    out_.results.resize(op.op().outputs.size());
    if (!is_view_) rule_ = factor_rule(op);
  }

  OpLayouts run() {
    for (size_t a = 0; a < mesh_.size() && out_.refusal.empty(); ++a)
      if (mesh_[a].size > 1) settle_axis(static_cast<int>(a));
    return std::move(out_);
  }

 private:
  void settle_axis(int axis);
  bool settle_varying(int axis);
  bool settle_partial(int axis);
  void settle_slices(int axis);
  bool try_winner(int axis, int winner);
  bool try_factor(int axis, int winner);
  bool try_view(int axis, int winner);
  bool any(int axis, Kind kind) const;
  void set_results(int axis, AxisState state) {
    for (Layout& l : out_.results) l.set(axis, state);
  }
  void give_up(int axis, int operand, const char* why);
  int64_t bytes(int operand) const { return op_.type(operand).count() * dtype_bytes(op_.type(operand).dtype); }

  const OpView& op_;
  const Mesh& mesh_;
  const std::vector<Layout>& arriving_;
  const std::vector<bool>& yielding_;
  const bool is_view_;
  FactorRule rule_;
  OpLayouts out_;
};

bool LayoutSolver::any(int axis, Kind kind) const {
  return std::any_of(arriving_.begin(), arriving_.end(), [&](const Layout& l) { return l[axis].is(kind); });
}

void LayoutSolver::settle_axis(int axis) {
  if (settle_varying(axis) || settle_partial(axis)) return;
  settle_slices(axis);
}

// L10: V joins V and R to V; with S or P it is an error.
bool LayoutSolver::settle_varying(int axis) {
  if (!any(axis, Kind::V)) return false;
  if (any(axis, Kind::S) || any(axis, Kind::P))
    out_.refusal =
        format("a value that varies over axis '{}' meets one that is sliced or partial on it", mesh_[axis].name);
  set_results(axis, AxisState::varying());
  return true;
}

// L6: P(sum) passes iff exactly one linear group is P and the rest R; else it must be reduced before.
bool LayoutSolver::settle_partial(int axis) {
  if (!any(axis, Kind::P)) return false;
  std::vector<bool> is_partial;
  for (const Layout& l : arriving_) is_partial.push_back(l[axis].is(Kind::P) && l[axis].op == ReduceOp::Sum);
  for (const std::vector<int>& group : linear_groups(op_)) {
    std::vector<bool> wanted(arriving_.size(), false);
    for (int i : group)
      if (op_.has(i)) wanted[i] = true;
    bool rest_replicated = true;
    for (size_t i = 0; i < arriving_.size(); ++i)
      if (!wanted[i] && !arriving_[i][axis].is(Kind::R)) rest_replicated = false;
    if (wanted == is_partial && rest_replicated) {
      set_results(axis, AxisState::partial(ReduceOp::Sum));
      return true;
    }
  }
  for (Layout& l : out_.operands)
    if (l[axis].is(Kind::P)) l.set(axis, {});
  // After the reduction, another operand may still slice this axis.
  settle_slices(axis);
  return true;
}

/// Gathers an operand over the axis, with a remark for `explain`.
void LayoutSolver::give_up(int axis, int operand, const char* why) {
  out_.operands[operand].set(axis, {});
  out_.remarks.push_back(
      format("operand {} of '{}' is gathered over '{}': {}", operand, op_.op().name, mesh_[axis].name, why));
}

// L4: the largest sliced operand decides which loop the axis serves; operands that do not agree are resharded.
void LayoutSolver::settle_slices(int axis) {
  std::vector<int> sliced;
  for (size_t i = 0; i < arriving_.size(); ++i)
    if (arriving_[i][axis].is(Kind::S)) sliced.push_back(static_cast<int>(i));
  std::stable_sort(sliced.begin(), sliced.end(), [&](int i, int j) { return bytes(i) > bytes(j); });
  if (!yielding_.empty())
    std::stable_partition(sliced.begin(), sliced.end(), [&](int i) { return !yielding_[static_cast<size_t>(i)]; });
  for (size_t w = 0; w < sliced.size(); ++w) {
    if (try_winner(axis, sliced[w])) return;
    give_up(axis, sliced[w], "the op cannot keep this slice");
  }
}

/// Tries to keep the slice of operand `winner`; false if the op cannot.
bool LayoutSolver::try_winner(int axis, int winner) {
  return is_view_ ? try_view(axis, winner) : try_factor(axis, winner);
}

/// The loop of the winner's slice decides: every operand that has the loop gets the same block, the others are
/// replicated, and the result is sliced (pass) or partial (reduce).
bool LayoutSolver::try_factor(int axis, int winner) {
  const AxisState state = arriving_[winner][axis];
  const int factor = rule_.inputs[winner][state.dim];
  if (factor < 0 || rule_.factors[factor].role == Factor::Role::Whole) return false;
  const int operands = static_cast<int>(arriving_.size());
  const int64_t period = state.block * mesh_[axis].size;
  for (int i = 0; i < operands; ++i)
    for (size_t d = 0; op_.has(i) && d < rule_.inputs[i].size(); ++d)
      if (rule_.inputs[i][d] == factor &&
          (!nests(op_.type(i), out_.operands[i], static_cast<int>(d), mesh_, axis, state.block) ||
           !is_cut_alike(rule_.factors[factor], op_.type(i).shape[d], period)))
        return false;
  for (int i = 0; i < operands; ++i) {
    if (!op_.has(i)) continue;
    const auto& dims = rule_.inputs[i];
    const auto at = std::find(dims.begin(), dims.end(), factor);
    const AxisState wanted =
        at == dims.end() ? AxisState{} : AxisState::sliced(static_cast<int>(at - dims.begin()), state.block);
    if (i != winner && !arriving_[i][axis].is(Kind::R) && !(arriving_[i][axis] == wanted))
      out_.remarks.push_back(format("operand {} of '{}' is resharded over '{}' to agree with operand {}", i,
                                    op_.op().name, mesh_[axis].name, winner));
    out_.operands[i].set(axis, wanted);
  }
  const Factor& loop = rule_.factors[factor];
  for (size_t r = 0; r < out_.results.size(); ++r) {
    if (loop.role == Factor::Role::Reduce) {
      out_.results[r].set(axis, AxisState::partial(loop.reduce));
      continue;
    }
    const auto& dims = rule_.outputs[r];
    const auto at = std::find(dims.begin(), dims.end(), factor);
    if (at != dims.end())
      out_.results[r].set(axis, AxisState::sliced(static_cast<int>(at - dims.begin()), state.block));
  }
  return true;
}

/// The slice that a view gets: its dim, block, number of ranks, and whether it is ragged.
struct Slicing {
  int dim;
  int64_t block;
  int size;
  bool ragged;
};

/// The result's dim whose digits hold the slice's digit (L5); a ragged slice needs a dim whose steps cover the same
/// range of elements. Run-time lengths to the right must be the same in both shapes, so that steps are numbers of
/// elements.
std::optional<AxisState> through_reshape(const Shape& from, const Shape& to, const Slicing& s) {
  if (element_count(bounds(to)) == 0) return {};
  Length right = 1, product = 1;
  for (size_t d = static_cast<size_t>(s.dim) + 1; d < from.size(); ++d) right = right * length_of(from[d]);
  for (int e = static_cast<int>(to.size()) - 1; e >= 0;
       product = product * length_of(to[static_cast<size_t>(e)]), --e) {
    const Extent& extent = to[static_cast<size_t>(e)];
    const std::optional<Length> block = exact_quotient(right * s.block, product);
    if (!block || !block->is_constant() || block->constant() < 1) continue;
    const bool is_same_range = length_of(extent) * product == length_of(from[static_cast<size_t>(s.dim)]) * right;
    const bool fits =
        s.ragged ? is_same_range : !extent.is_run_time() && extent.bound % (block->constant() * s.size) == 0;
    if (fits) return AxisState::sliced(e, block->constant());
  }
  return {};
}

/// Cuts must fall on the slice's period, a step must divide its block (L5).
std::optional<AxisState> through_slice(const Op& op, const Extent& from, const Extent& to, const Slicing& s) {
  const int64_t start = op.ints("starts")[s.dim], end = op.ints("ends")[s.dim], step = op.ints("steps")[s.dim];
  if (start == 0 && step == 1 && from == to) return AxisState::sliced(s.dim, s.block);
  const int64_t period = s.block * s.size;
  if (s.ragged || step < 1 || s.block % step || start % period || std::min(end, from.bound) % period) return {};
  return AxisState::sliced(s.dim, s.block / step);
}

/// A border must be whole periods of constants (L5).
std::optional<AxisState> through_pad(const Op& op, const Shape& from, const Slicing& s) {
  const std::vector<int64_t>& pads = op.ints("pads");
  const int64_t before = pads[s.dim], after = pads[s.dim + from.size()], period = s.block * s.size;
  if (before == 0 && after == 0) return AxisState::sliced(s.dim, s.block);
  if (s.ragged || op.text("mode") != "constant" || before % period || after % period) return {};
  return AxisState::sliced(s.dim, s.block);
}

/// The slice of the result that a slice of the operand becomes; nothing if the view cannot keep it.
std::optional<AxisState> through_view(const Op& op, const Shape& from, const Shape& to, const Slicing& s) {
  const int grown = static_cast<int>(to.size()) - static_cast<int>(from.size());
  switch (op.kind) {
    case OpKind::Reshape:
      return through_reshape(from, to, s);
    case OpKind::Transpose: {
      const std::vector<int64_t>& perm = op.ints("perm");
      const auto at = std::find(perm.begin(), perm.end(), s.dim);
      return AxisState::sliced(static_cast<int>(at - perm.begin()), s.block);
    }
    case OpKind::Expand:
      if (!(from[s.dim] == to[s.dim + grown])) return {};  // a ragged slice of extent 1
      return AxisState::sliced(s.dim + grown, s.block);
    case OpKind::Tile:
      if (s.ragged && !(to[s.dim] == from[s.dim])) return {};
      return AxisState::sliced(s.dim, s.block);
    case OpKind::Slice:
      return through_slice(op, from[s.dim], to[s.dim], s);
    case OpKind::Pad:
      return through_pad(op, from, s);
    default:
      return {};
  }
}

/// Along the axis, every operand must be whole periods.
std::optional<AxisState> through_concat(const OpView& op, const Slicing& s, int axis) {
  if (s.dim != axis) return AxisState::sliced(s.dim, s.block);
  for (int i = 0; i < op.inputs(); ++i)
    if (s.ragged || op.dims(i)[axis] % (s.block * s.size)) return {};
  return AxisState::sliced(s.dim, s.block);
}

/// Keeps the slice if the view moves it as a whole, in all operands of a Concat alike.
bool LayoutSolver::try_view(int axis, int winner) {
  const AxisState state = arriving_[winner][axis];
  const int size = mesh_[axis].size;
  const bool ragged = is_ragged(op_.type(winner).shape[state.dim], {{axis, size, state.block}});
  const Slicing slicing{state.dim, state.block, size, ragged};
  const bool concat = op_.op().kind == OpKind::Concat;
  const std::optional<AxisState> through =
      concat ? through_concat(op_, slicing, static_cast<int>(op_.op().integer("axis")))
             : through_view(op_.op(), op_.type(winner).shape, op_.result_type(0).shape, slicing);
  if (!through) return false;
  const int operands = concat ? op_.inputs() : 1;
  for (int i = 0; i < operands; ++i)
    if (!nests(op_.type(i), out_.operands[i], state.dim, mesh_, axis, state.block)) return false;
  if (!nests(op_.result_type(0), out_.results[0], through->dim, mesh_, axis, through->block)) return false;
  for (int i = 0; i < operands; ++i) out_.operands[i].set(axis, state);
  out_.results[0].set(axis, *through);
  return true;
}

}  // namespace

OpLayouts settle(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                 const std::vector<bool>& yielding) {
  WEFT_CHECK(arriving.size() == op.op().inputs.size(), "one layout for each operand");
  return LayoutSolver(op, mesh, arriving, yielding).run();
}

/// The block with which dim `dim` of an operand would have to be sliced so that `wanted` comes of it; settling
/// decides whether it does. Nothing if that is no integer.
static std::optional<int64_t> block_before(const OpView& op, int operand, int dim, size_t result, AxisState wanted) {
  const Dims from = op.dims(operand), to = op.result_type(static_cast<int>(result)).dims();
  if (op.op().kind == OpKind::Slice) return wanted.block * op.op().ints("steps")[dim];
  if (op.op().kind != OpKind::Reshape) return wanted.block;
  const auto right_of = [](const Dims& dims, int d) { return element_count({dims.begin() + d + 1, dims.end()}); };
  const int64_t step = wanted.block * right_of(to, wanted.dim), right = right_of(from, dim);
  return right > 0 && step % right == 0 ? std::optional(step / right) : std::nullopt;
}

std::optional<OpLayouts> settle_for(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, int axis,
                                    size_t result, AxisState wanted) {
  for (int i = 0; i < op.inputs(); ++i)
    for (int d = 0; op.has(i) && d < op.type(i).ndim(); ++d) {
      const std::optional<int64_t> block = block_before(op, i, d, result, wanted);
      if (!block || *block < 1) continue;
      std::vector<Layout> tried = arriving;
      tried[i].set(axis, AxisState::sliced(d, *block));
      OpLayouts settled = settle(op, mesh, tried);
      if (settled.refusal.empty() && settled.results[result][axis] == wanted) return settled;
    }
  return {};
}

}  // namespace weftc
