// Opens, shares and cuts loops. An axis that lanes share becomes one loop whose iterations they take in turn; any other
// axis becomes one loop for each of its cuts.
#include "backend/loops.h"

#include <algorithm>

namespace weftc {

/// The extent in index algebra; 0 if that is less than the bound.
static Scale scale_of(const LoopAxis& axis) { return axis.bound.empty() ? Scale(axis.extent) : axis.below; }
static std::string key_of(const LoopAxis& axis) {
  return axis.name + ":" + std::to_string(axis.extent) + ":" + axis.below.text();
}

bool Cuts::add(const LoopAxis& axis, const Scale& block) {
  const Scale extent = scale_of(axis);
  if (extent.number == 0 || block == 1 || block == extent || !exact_quotient(extent, block)) return false;
  std::vector<Scale>& blocks = blocks_[key_of(axis)];
  for (const Scale& b : blocks)
    if (b == block || !(exact_quotient(b, block) || exact_quotient(block, b))) return false;
  const auto larger =
      std::find_if(blocks.begin(), blocks.end(), [&](const Scale& b) { return exact_quotient(b, block).has_value(); });
  blocks.insert(larger, block);
  return true;
}

/// A loop of `extent` iterations of an axis.
static Loop part_of(const LoopAxis& axis, const std::string& variable, const Scale& extent, const Scale& unit) {
  const Scale below = extent.is_number() ? Scale(0) : extent;
  return {variable, extent.high(), IndexExpr::of(extent), axis.name, unit, below};
}

std::vector<Loop> Cuts::loops(const LoopAxis& axis) const {
  const auto at = blocks_.find(key_of(axis));
  if (at == blocks_.end() || at->second.empty())
    return {{axis.name, axis.extent, axis.bound.empty() ? Expr(axis.extent) : axis.bound, axis.name, 1, axis.below}};
  std::vector<Loop> loops;
  const auto variable = [&] { return axis.name + "_" + std::to_string(loops.size()); };
  Scale above = scale_of(axis);
  for (auto block = at->second.rbegin(); block != at->second.rend(); ++block) {
    loops.push_back(part_of(axis, variable(), *exact_quotient(above, *block), *block));
    above = *block;
  }
  loops.push_back(part_of(axis, variable(), above, 1));
  return loops;
}

IndexExpr Cuts::index(const std::vector<Loop>& loops) {
  IndexExpr sum;
  for (const Loop& loop : loops) sum = sum + loop.index() * loop.unit;
  return sum;
}

LoopScopes::LoopScopes(KernelContext& context, Cuts& cuts) : context(context), names(context.names), cuts_(cuts) {}

void LoopScopes::declare_loop(const Loop& loop, const LoopAxis& axis, Scope* scope) {
  owners_[loop.variable] = scope;
  loops_[{loop.variable, loop.extent}] = {loop, axis};
  names.reserve(loop.variable);
}

void split_number(Scope& scope, const Expr& number, const std::vector<Loop>& loops) {
  Expr rest = number;
  for (size_t i = loops.size(); i-- > 0;) {
    scope.put(Let{"int64_t", loops[i].variable, i ? binary(rest, "%", loops[i].bound) : rest});
    rest = binary(rest, "/", loops[i].bound);
  }
}

Expr run_bound(KernelContext& context, const TensorType& type, size_t dim) {
  if (const Scale scale = run_scale(context, type, dim); scale.number) {
    context.need_lengths(IndexExpr::of(scale));
    return IndexExpr::of(scale);
  }
  const std::string bound = context.run_extent(type, static_cast<int>(dim));
  return bound.empty() ? Expr() : name(bound);
}

Scale run_scale(const KernelContext& context, const TensorType& type, size_t dim) {
  return type.shape[dim].is_run_time() ? context.extents(type)[dim] : Scale(0);
}

LoopKind lanes_loop(Lanes lanes) { return lanes == Lanes::Warp ? LoopKind::Lanes : LoopKind::BlockThreads; }

/// One loop over the whole axis, which the lanes take in turn: an element each, or neighbours.
void LoopScopes::open_shared(Open& open, Scope* under, const LoopAxis& axis) {
  std::vector<Loop> loops = open.loops;
  const bool is_vector = row_vector > 1 && loops.size() > 1 && loops.back().extent == row_vector;
  const int64_t width = is_vector ? row_vector : 1, turns = axis.extent / width;
  if (is_vector) loops.pop_back();
  const std::string v = loops.size() == 1 ? loops[0].variable : axis.name + "_all";
  const LoopKind kind = lanes_loop(lanes);
  open.shared = true;
  open.scopes.push_back(std::make_unique<Scope>(
      under, For{.kind = kind, .variable = v, .bound = axis.bound.empty() ? Expr(turns) : axis.bound, .most = turns}));
  Scope& scope = open.inner();
  scope.uniform = false;
  if (loops.size() > 1) split_number(scope, name(v), loops);
  for (const Loop& loop : open.loops) open.hidden[loop.variable] = owners_[loop.variable];
  for (const Loop& loop : loops) declare_loop(loop, axis, &scope);
  const Expr turn = binary(name(v), "/", 32);
  Scope::RowArray keeping{&scope, axis.extent, (turns + 31) / 32 * width, name(v), turn};
  if (is_vector) {
    open_neighbours(open.scopes, open.loops.back(), axis);
    const Expr n = name(open.loops.back().variable);
    keeping.at = binary(binary(n, "*", turns), "+", name(v));  // neighbouring lanes, neighbouring banks
    keeping.lane_at = binary(binary(turn, "*", width), "+", n);
  }
  if (axis.bound.empty()) open.inner().keeping = keeping;
  current = &open.inner();
}

void LoopScopes::open_neighbours(std::vector<std::unique_ptr<Scope>>& scopes, const Loop& loop, const LoopAxis& axis) {
  scopes.push_back(std::make_unique<Scope>(
      scopes.back().get(),
      For{.kind = LoopKind::Unrolled, .variable = loop.variable, .bound = loop.bound, .most = loop.extent}));
  declare_loop(loop, axis, scopes.back().get());
  vector = {loop.variable, loop.extent, scopes.back().get()};
}

LoopScopes::Open LoopScopes::open(Scope* under, const LoopAxis& axis, const For& like, bool may_share) {
  Open open;
  open.before = current, open.vector_before = vector;
  const bool loops = axis.extent != 1 || !axis.bound.empty();
  const bool shares = may_share && loops && under->uniform && (lanes == Lanes::Warp || lanes == Lanes::Block);
  if (shares && row_vector > 1 && axis.bound.empty()) cuts_.add(axis, row_vector);
  open.loops = cuts_.loops(axis);
  open.index = Cuts::index(open.loops);
  if (shares) {
    open_shared(open, under, axis);
    return open;
  }
  for (const Loop& loop : open.loops) {
    const std::string& v = loop.variable;
    const bool loops = loop.extent != 1 || !axis.bound.empty();
    context.need_lengths(IndexExpr::of(loop.below));
    Scope* parent = open.scopes.empty() ? under : open.scopes.back().get();
    const bool innermost = &loop == &open.loops.back();
    For node = innermost ? like : For{};
    node.variable = v, node.bound = loop.bound, node.most = loop.extent;
    open.scopes.push_back(std::make_unique<Scope>(parent, loops ? Statement(std::move(node)) : Statement(Braces{})));
    open.hidden[v] = owners_.contains(v) ? owners_[v] : nullptr;
    declare_loop(loop, axis, open.scopes.back().get());
  }
  // The host keeps the values of a short row in an array on the stack.
  constexpr int64_t kMostKept = 9999;
  ++opened;
  if (lanes == Lanes::Host && loops && open.loops.size() == 1)
    open.inner().keeping = Scope::RowArray{.loop = &open.inner(),
                                           .count = axis.extent,
                                           .at = name(open.loops[0].variable),
                                           .lane_at = {},
                                           .has_room = axis.bound.empty() && axis.extent <= kMostKept,
                                           .number = opened};
  current = &open.inner();
  return open;
}

void LoopScopes::close(Open& open) {
  for (auto scope = open.scopes.rbegin(); scope != open.scopes.rend(); ++scope) (*scope)->finish();
  drop(open);
}

void LoopScopes::drop(Open& open) {
  for (const auto& [variable, owner] : open.hidden) owners_[variable] = owner;
  current = open.before, vector = open.vector_before;
}

LoopAxis LoopScopes::fresh_axis(const std::string& wanted, int64_t extent, const Expr& bound, const Scope* under,
                                const Scale& below) const {
  const auto is_open = [&](const std::string& variable) {
    const auto owner = owners_.find(variable);
    for (const Scope* s = under; s && owner != owners_.end(); s = s->parent)
      if (s == owner->second) return true;
    return false;
  };
  // Consecutive loops may have the same variable, if no other local has it.
  const auto is_loop = [&](const std::string& variable) {
    const auto at = loops_.lower_bound({variable, 0});
    return at != loops_.end() && at->first.first == variable;
  };
  const auto is_free = [&](const std::string& variable) { return !names.has(variable) || is_loop(variable); };
  const auto is_axis_open = [&](const std::string& axis) {
    return std::any_of(loops_.begin(), loops_.end(),
                       [&](const auto& loop) { return loop.second.second.name == axis && is_open(loop.first.first); });
  };
  LoopAxis axis{wanted, extent, bound, below};
  for (int n = 2;; axis.name = wanted + std::to_string(n++)) {
    const std::vector<Loop> loops = cuts_.loops(axis);
    if (is_free(axis.name) && !is_axis_open(axis.name) &&
        std::all_of(loops.begin(), loops.end(), [&](const Loop& loop) { return is_free(loop.variable); }))
      return axis;
  }
}

// Statements with these indices can be in the deepest scope that owns one of their variables, but no further out.
Scope* LoopScopes::home(const IndexList& index) const {
  Scope* deepest = floor;
  for (const IndexExpr& expr : index) {
    context.need_lengths(expr);
    for (const AtomPtr& atom : variables_of(expr)) {
      const auto at = owners_.find(atom->text);
      if (at != owners_.end() && at->second && at->second->depth > deepest->depth) deepest = at->second;
    }
  }
  return deepest;
}

// A digit of a bare loop variable is a cut of its axis. A digit of a sum is searched for digits inside it.
bool LoopScopes::cut_digits(const IndexExpr& expr) {
  bool is_new = false;
  for (const IndexExpr::Term& t : expr.terms()) {
    const Atom& atom = *t.atom;
    if (!atom.is_digit()) continue;
    const std::vector<IndexExpr::Term>& of = atom.of.terms();
    const auto at = of.size() == 1 ? loops_.find({of[0].atom->text, of[0].atom->high + 1}) : loops_.end();
    if (at == loops_.end() || atom.of.constant() || !(of[0].scale == 1)) {
      is_new |= cut_digits(atom.of);
      continue;
    }
    const auto& [loop, axis] = at->second;
    for (const Scale& cut : {atom.divisor, atom.divisor * atom.modulus})
      if (cut.number) is_new |= cuts_.add(axis, cut * loop.unit);
  }
  return is_new;
}

bool LoopScopes::cut_digits(const Statements& nest) {
  bool is_new = false;
  for_each_expression(nest, [&](const Expr& expr) {
    if (expr.node().kind == Expr::Node::Kind::Index) is_new |= cut_digits(expr.node().index);
  });
  return is_new;
}

}  // namespace weftc
