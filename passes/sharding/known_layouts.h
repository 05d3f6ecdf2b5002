// Well-known layouts for any model, with which a plan is compared.
//
//   repeated       every rank does all
//   data parallel  inputs in slices of samples
//   FSDP           the same, and parameters in slices, which are gathered where they are read (ZeRO 3)
//   Megatron       parameters of products in slices, by columns or rows, which are read as they lie
#pragma once
#include <string>
#include <vector>

#include "passes/sharding/kept_layouts.h"

namespace weftc {

struct KnownLayouts {
  std::string name;
  std::vector<ShardEntry> entries = {};  // from which all else follows
  std::vector<ValueId> sliced = {};      // or: of these a rank has and reads slices; how, and all else, is to be chosen
  std::string missing = {};              // why the model has no such layouts
};

/// On all axes of a mesh. They skip values that the user's entries cover.
std::vector<KnownLayouts> known_layouts(const Module& module, const KeptLayouts& kept, const Mesh& mesh);
/// Data parallel alone.
KnownLayouts data_parallel_layouts(const Module& module, const KeptLayouts& kept, const Mesh& mesh);

}  // namespace weftc
