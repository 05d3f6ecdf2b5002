// Shards on devices as digits of ranks: the arithmetic of device annotations.
#pragma once
#include <optional>
#include <set>
#include <vector>

#include "frontend/onnx_model.h"
#include "ir/schedule.h"

namespace weftc {

/// A dimension in `size` shards, each of `parts` blocks. The rank at position p of the place has shard (p div stride)
/// mod size.
struct ShardDigit {
  int dim;
  int64_t parts;
  int64_t size;
  int64_t stride;
};

/// Adds the devices of a spec, groups resolved. False after reporting.
bool collect_devices(const OnnxSharding& sharding, int64_t devices, const Loc& loc, std::set<int>& ranks, Diags& diags);
/// The digits that slice a spec's tensor, outer first, for the devices `ranks` of a stage. Nothing after reporting.
std::optional<std::vector<ShardDigit>> shard_digits(const OnnxSharding& sharding, const std::vector<int>& ranks,
                                                    const Loc& loc, Diags& diags);
/// The coarsest mesh of that many ranks with boundaries at the cuts (strides, and ends of digits), with axes d0, d1,
/// ... outer first. If `given` is a mesh with these boundaries, returns it. Nothing if no mesh has them.
std::optional<Mesh> mesh_of(std::set<int64_t> cuts, int64_t ranks, const Mesh& given);
/// The digits as axes of the mesh; all other axes replicate. False after reporting.
bool axis_requests(const std::vector<ShardDigit>& digits, const Mesh& mesh, const Loc& loc,
                   std::vector<AxisRequest>& axes, Diags& diags);

}  // namespace weftc
