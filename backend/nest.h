// Loop nests over an iteration space that store outputs: the body of every kernel that is not a dense contraction.
#pragma once
#include "backend/element.h"

namespace weftc {

/// The statements of a kernel's body, or nothing after refusing. Every output is written whole.
Statements write_nests(KernelContext& context);

/// Statements that compute all elements of a value into a new array `array` of its compute type, stored so.
Statements write_array(KernelContext& context, ValueId value, const std::string& array, const Storage& storage = {});

/// Loops of an iteration space, handed to a team where there is work for one.
struct OuterLoops {
  std::vector<LoopAxis> axes;
  int64_t work = 1;    // elements inside one iteration of all axes
  int64_t vector = 1;  // device: neighbours of the last axis that a thread takes together
};
struct OpenOuter {
  std::vector<std::unique_ptr<Scope>> scopes;
  std::vector<IndexExpr> index;  // by axis
  Scope& inner() { return *scopes.back(); }
};
OpenOuter open_outer(LoopScopes& scopes, const OuterLoops& outer, const Cuts& cuts, KernelContext& context);
void close_outer(LoopScopes& scopes, OpenOuter& open);

/// Where element `index` of a tensor of local dims `space` is in `output`, which views and pointwise ops make from one
/// of those dims. Nothing if it is not such.
std::optional<IndexList> place_in(const KernelContext& context, ValueId output, const Dims& space,
                                  const IndexList& index);

}  // namespace weftc
