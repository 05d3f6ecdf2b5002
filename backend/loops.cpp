#include "backend/loops.h"

#include <algorithm>

namespace weftc {

bool Cuts::add(const LoopAxis& axis, int64_t block) {
  if (block <= 1 || block >= axis.extent || axis.extent % block || !axis.bound.empty()) return false;
  std::set<int64_t>& blocks = blocks_[axis.name + ":" + std::to_string(axis.extent)];
  for (int64_t b : blocks)
    if (b == block || (b < block ? block % b : b % block)) return false;
  blocks.insert(block);
  return true;
}

std::vector<Loop> Cuts::loops(const LoopAxis& axis) const {
  if (!axis.bound.empty()) return {{axis.name, axis.extent, axis.bound, axis.name, 1}};
  const auto at = blocks_.find(axis.name + ":" + std::to_string(axis.extent));
  std::vector<Loop> loops;
  int64_t above = axis.extent;
  if (at != blocks_.end())
    for (auto block = at->second.rbegin(); block != at->second.rend(); ++block) {
      const int64_t extent = above / *block;
      loops.push_back(
          {axis.name + "_" + std::to_string(loops.size()), extent, std::to_string(extent), axis.name, *block});
      above = *block;
    }
  const std::string name = loops.empty() ? axis.name : axis.name + "_" + std::to_string(loops.size());
  loops.push_back({name, above, std::to_string(above), axis.name, 1});
  return loops;
}

IndexExpr Cuts::index(const std::vector<Loop>& loops) {
  IndexExpr sum;
  for (const Loop& loop : loops) sum = sum + index_variable(loop.variable, 0, loop.extent - 1) * loop.unit;
  return sum;
}

LoopScopes::LoopScopes(KernelContext& context, Cuts& cuts) : context(context), names(context.names), cuts_(cuts) {}

void LoopScopes::declare_loop(const Loop& loop, const LoopAxis& axis, Scope* scope) {
  owners_[loop.variable] = scope;
  loops_[loop.variable] = {loop, axis};
  names.reserve(loop.variable);
}

void split_number(Scope& scope, const std::string& number, const std::vector<Loop>& loops) {
  std::string rest = number;
  for (size_t i = loops.size(); i-- > 0;) {
    scope.put("const int64_t " + loops[i].variable + " = " + rest + (i ? " % " + loops[i].bound : "") + ";");
    rest += " / " + loops[i].bound;
  }
}

/// One loop over the whole axis, which the lanes take in turn: an element each, or neighbours.
void LoopScopes::open_shared(Open& open, Scope* under, const LoopAxis& axis) {
  std::vector<Loop> loops = open.loops;
  const bool is_vector = row_vector > 1 && loops.size() > 1 && loops.back().extent == row_vector;
  const int64_t width = is_vector ? row_vector : 1, turns = axis.extent / width;
  if (is_vector) loops.pop_back();
  const std::string bound = axis.bound.empty() ? std::to_string(turns) : axis.bound;
  const std::string v = loops.size() == 1 ? loops[0].variable : axis.name + "_all";
  const std::string first = lanes == Lanes::Warp ? "weft::lane()" : "threadIdx.x";
  const std::string step = lanes == Lanes::Warp ? "32" : "blockDim.x";
  open.shared = true;
  open.scopes.push_back(std::make_unique<Scope>(
      under, "for (int64_t " + v + " = " + first + "; " + v + " < " + bound + "; " + v + " += " + step + ") {"));
  Scope& scope = open.inner();
  scope.uniform = false;
  if (loops.size() > 1) split_number(scope, v, loops);
  for (const Loop& loop : open.loops) open.hidden[loop.variable] = owners_[loop.variable];
  for (const Loop& loop : loops) declare_loop(loop, axis, &scope);
  Scope::RowArray keeping{&scope, axis.extent, (turns + 31) / 32 * width, v, v + " / 32"};
  if (is_vector) {
    open_neighbours(open.scopes, open.loops.back(), axis);
    const std::string& n = open.loops.back().variable;
    keeping.at = n + " * " + std::to_string(turns) + " + " + v;  // neighbouring lanes, neighbouring banks
    keeping.lane_at = v + " / 32 * " + std::to_string(width) + " + " + n;
  }
  if (axis.bound.empty()) open.inner().keeping = keeping;
  current = &open.inner();
}

void LoopScopes::open_neighbours(std::vector<std::unique_ptr<Scope>>& scopes, const Loop& loop, const LoopAxis& axis) {
  const std::string& n = loop.variable;
  scopes.push_back(std::make_unique<Scope>(
      scopes.back().get(), "for (int64_t " + n + " = 0; " + n + " < " + loop.bound + "; ++" + n + ") {"));
  scopes.back()->pragma = "#pragma unroll";
  declare_loop(loop, axis, scopes.back().get());
  vector = {n, loop.extent, scopes.back().get()};
}

LoopScopes::Open LoopScopes::open(Scope* under, const LoopAxis& axis, const std::string& pragma, bool may_share) {
  Open open;
  open.before = current, open.vector_before = vector;
  const bool loops = axis.extent != 1 || !axis.bound.empty();
  const bool shares = may_share && loops && under->uniform && (lanes == Lanes::Warp || lanes == Lanes::Block);
  if (shares && row_vector > 1) cuts_.add(axis, row_vector);
  open.loops = cuts_.loops(axis);
  open.index = Cuts::index(open.loops);
  if (shares) {
    open_shared(open, under, axis);
    return open;
  }
  for (const Loop& loop : open.loops) {
    const std::string& v = loop.variable;
    const bool loops = loop.extent != 1 || !axis.bound.empty();
    Scope* parent = open.scopes.empty() ? under : open.scopes.back().get();
    open.scopes.push_back(std::make_unique<Scope>(
        parent, loops ? "for (int64_t " + v + " = 0; " + v + " < " + loop.bound + "; ++" + v + ") {" : "{"));
    open.hidden[v] = owners_.contains(v) ? owners_[v] : nullptr;
    declare_loop(loop, axis, open.scopes.back().get());
  }
  if (open.inner().open != "{" && lanes == Lanes::Host) open.inner().pragma = pragma;
  current = &open.inner();
  return open;
}

void LoopScopes::close(Open& open) {
  // A loop around another loop is not a vector loop, and the host's pragmas do not nest.
  for (const std::string& line : open.inner().lines)
    if (lanes == Lanes::Host && line.find("for (") != std::string::npos) open.inner().pragma.clear();
  for (auto scope = open.scopes.rbegin(); scope != open.scopes.rend(); ++scope) (*scope)->finish();
  for (const auto& [variable, owner] : open.hidden) owners_[variable] = owner;
  current = open.before, vector = open.vector_before;
}

LoopAxis LoopScopes::fresh_axis(const std::string& name, int64_t extent, const std::string& bound,
                                const Scope* under) const {
  LoopAxis axis{context.names.has(name) ? name + "_at" : name, extent, bound};
  const auto is_open = [&](const std::string& tried) {
    for (const auto& [variable, owner] : owners_) {
      if (!owner || (variable != tried && !variable.starts_with(tried + "_"))) continue;
      for (const Scope* s = under; s; s = s->parent)
        if (s == owner) return true;
    }
    return false;
  };
  const std::string plain = axis.name;
  for (int n = 2; is_open(axis.name); ++n) axis.name = plain + std::to_string(n);
  return axis;
}

Scope* LoopScopes::home(const IndexList& index) const {
  Scope* deepest = floor;
  for (const IndexExpr& expr : index)
    for (const AtomPtr& atom : variables_of(expr)) {
      const auto at = owners_.find(atom->text);
      if (at != owners_.end() && at->second && at->second->depth > deepest->depth) deepest = at->second;
    }
  return deepest;
}

void LoopScopes::ask_cuts(const IndexExpr& expr) {
  for (const IndexExpr::Term& t : expr.terms()) {
    const Atom& atom = *t.atom;
    if (!atom.is_digit()) continue;
    const std::vector<IndexExpr::Term>& of = atom.of.terms();
    const auto at = of.size() == 1 ? loops_.find(of[0].atom->text) : loops_.end();
    if (at == loops_.end() || atom.of.constant() || of[0].coefficient != 1) {
      ask_cuts(atom.of);
      continue;
    }
    const auto& [loop, axis] = at->second;
    again_ |= cuts_.add(axis, atom.divisor * loop.unit);
    if (atom.modulus) again_ |= cuts_.add(axis, atom.divisor * atom.modulus * loop.unit);
  }
}

std::string LoopScopes::text(const IndexExpr& expr) {
  ask_cuts(expr);
  return expr.text();
}

}  // namespace weftc
