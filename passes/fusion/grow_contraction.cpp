// Grows the kernel of a contraction. The pointwise ops that follow it are computed on each element before it is stored
// (the epilogue), down to the one value that others read. A transposition of that value decides where it is stored.
//
//   m = MatMul(x, w)                        one kernel:
//   b = Add(m, bias)                          for i, j:  sum = 0;  for k: sum += x[i, k] * w[k, j]
//   g = Gelu(b)                                          g = gelu(sum + bias[j])
//   t = Transpose(g)                                     t[j, i] = g
//
// An element that is looked up (Gather) for such an op alone is looked up there. An element that is computed for it
// alone from inputs and constants (a parameter times its decay) is computed there. If m had another reader, m would
// have to be stored too: then the kernel ends at m, and `explain` lists b as a near miss. On a target whose library
// multiplies matrices, only ops that the library computes in the same call are taken.
#include <algorithm>
#include <set>

#include "ir/base/check.h"
#include "passes/fusion/grow.h"
#include "passes/fusion/trial_kernel.h"
#include "passes/strategy/library_epilogue.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

class ContractionGrower {
 public:
  explicit ContractionGrower(FusionState& state) : s_(state) {}

  void run(OpId root) {
    const int g = s_.start(root, Category::Contraction);
    if (s_.op(root).outputs.size() != 1) return;
    const bool by_library = is_library_product({root});
    const Epilogue epilogue = by_library ? library_epilogue(root) : find_epilogue(root);
    for (size_t i = 0; i < epilogue.kept; ++i) {
      const bool merged = s_.merge(root, epilogue.ops[i]);
      WEFT_CHECK(merged, "an epilogue with one result made a cycle at '" + s_.op(epilogue.ops[i]).name + "'");
      s_.put(epilogue.ops[i], g);
      if (by_library) continue;
      absorb_look_ups(epilogue.ops[i], g);
      absorb_operands(epilogue.ops[i], g);
    }
    for (size_t i = epilogue.kept; i < epilogue.ops.size() && i <= epilogue.kept; ++i)
      s_.miss(epilogue.ops[i], g, "a value before it has other readers");
    absorb_views(epilogue.tail, g, by_library);
  }

 private:
  /// Pointwise ops that follow the contraction, in graph order.
  struct Epilogue {
    std::vector<OpId> ops;  // all that could follow
    size_t kept = 0;        // how many of them the kernel takes, so that one value is left that others read
    OpId tail;              // the op that makes that value
  };

  /// True if `id` computes one element from the element of the contraction at the same index. It must not read a member
  /// through a view: a view reads other elements, which are not computed yet.
  bool fits_epilogue(OpId id, const LoopShape& loop, const std::set<OpId>& inside) const {
    if (!s_.has_node(id) || category(s_.op(id)) != Category::Pointwise || s_.taken(id) || s_.op(id).outputs.size() != 1)
      return false;
    if (!(s_.loop_of(id) == loop) || !s_.may_share_kernel(id, *inside.begin())) return false;
    for (ValueId v : s_.op(id).inputs) {
      if (!v) continue;
      const ValueId base = s_.loaded(v);
      if (base != v && base && inside.contains(s_.graph().producer(base))) return false;
    }
    return true;
  }

  /// Follows readers in graph order and counts the values that ops outside of the kernel still read. Whenever the last
  /// op's result is the only such value, the kernel may end there: it then has one result, as the root alone has, and
  /// fusion adds no other result to memory. `left` holds the reads outside for each member.
  Epilogue find_epilogue(OpId root) const {
    Epilogue found{{}, 0, root};
    const LoopShape loop = s_.loop_of(root);
    std::set<OpId> inside{root};
    std::set<std::pair<int, OpId>> next;
    std::vector<std::pair<OpId, size_t>> left{{root, s_.graph().value(s_.graph().result(root)).uses.size()}};
    size_t open = 1;  // values that ops outside read
    const auto add_readers = [&](OpId id) {
      for (const Use& use : s_.graph().value(s_.graph().result(id)).uses)
        if (use.op) next.insert({s_.position(use.op), use.op});
    };
    const auto left_of = [&](OpId id) {
      return std::find_if(left.begin(), left.end(), [&](const auto& l) { return l.first == id; });
    };
    add_readers(root);
    while (!next.empty() && static_cast<int>(found.ops.size()) < kMostMembers) {
      const OpId id = next.begin()->second;
      next.erase(next.begin());
      if (!fits_epilogue(id, loop, inside)) continue;
      for (ValueId v : s_.op(id).inputs) {
        if (!v || !inside.contains(s_.graph().producer(v))) continue;
        const auto at = left_of(s_.graph().producer(v));
        if (--at->second == 0) --open;
      }
      inside.insert(id);
      found.ops.push_back(id);
      const size_t uses = s_.graph().value(s_.graph().result(id)).uses.size();
      left.push_back({id, uses});
      open += uses > 0;
      if (open == 1 && left_of(id)->second > 0) found.kept = found.ops.size(), found.tail = id;
      add_readers(id);
    }
    return found;
  }

  /// Adds the Gathers that only this op of the epilogue reads: an element is looked up where it is added.
  void absorb_look_ups(OpId id, int g) {
    for (ValueId v : s_.op(id).inputs) {
      if (!v) continue;
      const OpId maker = s_.graph().producer(v);
      const bool is_read_once = s_.op(maker).kind == OpKind::Gather && s_.graph().value(v).uses.size() == 1;
      if (!is_read_once || s_.taken(maker) || !s_.has_node(maker) || !s_.merge(id, maker)) continue;
      s_.put(maker, g);
    }
  }

  /// Adds the pointwise ops that only this op of the epilogue reads and that read nothing but inputs and constants.
  void absorb_operands(OpId id, int g) {
    const auto is_given = [&](ValueId v) {
      const OpKind kind = v ? s_.graph().producer_op(v).kind : OpKind::Input;
      return kind == OpKind::Input || kind == OpKind::Constant;
    };
    for (ValueId v : s_.op(id).inputs) {
      const OpId maker = v ? s_.graph().producer(v) : OpId{};
      if (!maker || s_.graph().value(v).uses.size() != 1 || !std::ranges::all_of(s_.op(maker).inputs, is_given))
        continue;
      if (!fits_epilogue(maker, s_.loop_of(id), {id}) || !s_.merge(id, maker)) continue;
      s_.put(maker, g);
    }
  }

  /// The ops that a device's library computes in the same call as the product: a bias, then an activation.
  Epilogue library_epilogue(OpId root) const {
    Epilogue found{{}, 0, root};
    const LoopShape loop = s_.loop_of(root);
    std::vector<EpilogueStep> steps;
    while (std::optional<EpilogueStep> step =
               next_epilogue_step(s_.graph(), s_.module().constants, s_.graph().result(found.tail), steps)) {
      const std::set<OpId> inside(step->ops.begin(), step->ops.end());
      if (!std::all_of(step->ops.begin(), step->ops.end(), [&](OpId id) { return fits_epilogue(id, loop, inside); }))
        break;
      found.ops.insert(found.ops.end(), step->ops.begin(), step->ops.end());
      if (!step->is_alone) break;
      found.kept = found.ops.size(), found.tail = step->ops.back();
      steps.push_back(std::move(*step));
    }
    return found;
  }

  /// True if a kernel of these ops would be one call of a library.
  bool is_library_product(const std::vector<OpId>& members) const {
    if (!s_.target().library_products || s_.op(members.front()).kind != OpKind::MatMul) return false;
    const auto in_memory = [&](OpId id) { return s_.taken(id) || s_.has_node(id) || s_.is_alias(id); };
    const Kernel kernel = trial_kernel(s_.module(), s_.graph(), members, in_memory);
    const KernelBody body(kernel, kernel.mesh.size() - s_.graph().time_axes.size());
    return library_product({body, s_.module().constants, s_.target()}).strategy.has_value();
  }

  /// Adds the reshapes and transpositions of the result that nothing else reads, up to the last transposition: the
  /// kernel then writes its elements where their reader wants them, and the reader loads without strides. A library
  /// writes only some orders of dims, so its product takes as many views as leave it one call.
  void absorb_views(OpId tail, int g, bool by_library) {
    std::vector<OpId> chain;
    size_t kept = 0;
    for (ValueId v = s_.graph().result(tail); s_.graph().value(v).uses.size() == 1;) {
      const OpId id = s_.graph().value(v).uses[0].op;
      if (!id || (s_.op(id).kind != OpKind::Reshape && s_.op(id).kind != OpKind::Transpose) || s_.is_alias(id)) break;
      chain.push_back(id);
      if (s_.op(id).kind == OpKind::Transpose) kept = chain.size();
      v = s_.graph().result(id);
    }
    if (kept && kept < chain.size() && !s_.has_node(chain.back())) kept = chain.size();
    while (by_library && kept > 0 && !is_library_product(with_views(g, chain, kept))) --kept;
    const auto ends = [&] { return s_.op(chain[kept - 1]).kind == OpKind::Transpose || !s_.has_node(chain[kept - 1]); };
    while (kept > 0 && !ends()) --kept;
    for (size_t i = 0; i < kept; ++i) {
      if (s_.has_node(chain[i])) {
        if (!s_.merge(tail, chain[i])) return;
      } else {
        s_.share_node(chain[i], tail);
      }
      s_.put(chain[i], g);
    }
  }

  /// The members of group `g` and the first `count` ops of `chain`.
  std::vector<OpId> with_views(int g, const std::vector<OpId>& chain, size_t count) const {
    std::vector<OpId> members = s_.group(g).members;
    members.insert(members.end(), chain.begin(), chain.begin() + static_cast<long>(count));
    return members;
  }

  FusionState& s_;
};

}  // namespace

void grow_contraction(FusionState& state, OpId root) { ContractionGrower(state).run(root); }

}  // namespace weftc
