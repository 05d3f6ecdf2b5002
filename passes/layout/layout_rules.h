// How an op passes layouts on (L4, L5, L6, L10 of ir/README.md): the rule that layout inference, reorder and overlap
// use.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/op_def.h"

namespace weftc {

/// The layouts that an op needs of its operands, given how they arrive, and those of its results.
struct OpLayouts {
  std::vector<Layout> operands;  // the arriving layout, or the one that the operand must be resharded to
  std::vector<Layout> results;
  std::vector<std::string> remarks;  // each choice that was made between operands, for `explain`
  std::string refusal;               // "": legal. Else the rule broken (V with S or P)
};

/// Settles the axes of `mesh` in order for an op with a factor rule or of category View; `arriving` has one layout an
/// operand. The slice of a `yielding` operand decides only what no other operand's slice can. Region, Collective and
/// Source ops are not settled here.
OpLayouts settle(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving,
                 const std::vector<bool>& yielding = {});

/// The reverse, for one axis on which nothing is sliced yet: how the op settles when the slice of an operand makes
/// `wanted` of a result. Nothing where no slice of an operand does.
std::optional<OpLayouts> settle_for(const OpView& op, const Mesh& mesh, const std::vector<Layout>& arriving, int axis,
                                    size_t result, AxisState wanted);

}  // namespace weftc
