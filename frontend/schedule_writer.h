// Layouts, transforms and strategies of kernels as schedule YAML: a planner or a tuner adds them to an existing
// schedule.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace weftc {

/// One step as an item of a `transform:` list, in the reader's syntax: `split: {op: "y.sum", dim: 0, into: [...]}`.
std::string transform_text(const TransformStep& step);

/// The text of a schedule with `steps` appended to its `transform:` list. Comments and the rest stay the same, except
/// that a byte order mark is dropped, so that text can be added before it. Nothing after reporting: the schedule must
/// be in block style, a line a key and a step. `comments`: by step, "" for none.
std::optional<std::string> with_transforms(const std::string& file, const std::string& text,
                                           const std::vector<TransformStep>& steps, Diags& diags,
                                           const std::vector<std::string>& comments = {});

/// One kernel as an entry of the mapping `kernels:`: `"fc": {strategy: tiled-product, tile: [64, 64]}`.
std::string pin_text(const KernelPin& pin);
/// The same for `pins` in the mapping `kernels:`, each with an optional comment.
std::optional<std::string> with_pins(const std::string& file, const std::string& text,
                                     const std::vector<KernelPin>& pins, Diags& diags,
                                     const std::vector<std::string>& comments = {});

/// One layout as an entry of the mapping `shard:`: `"h.{l}.attn.c_attn.weight": {tp: {dim: 1, parts: 3}}`.
std::string shard_text(const ShardEntry& entry);
/// The same for `entries` in the mapping `shard:`, each with an optional comment.
std::optional<std::string> with_shard(const std::string& file, const std::string& text,
                                      const std::vector<ShardEntry>& entries, Diags& diags,
                                      const std::vector<std::string>& comments = {});
/// The same for `recompute: {limit: 512MiB}` in the mapping `train:`, followed by a comment.
std::optional<std::string> with_recompute_limit(const std::string& file, const std::string& text, int64_t bytes,
                                                const std::string& comment, Diags& diags);
/// A place as an entry of the mapping `places:`: `p0: {ranks: [0, 1], mesh: {tp: 2}}`.
std::string place_text(const PlaceRequest& place);
/// A stage at the place of its name as an entry of the mapping `stages:` of `pipeline:`: `p0: ["h.{0..5}.*", "ln_f"]`.
std::string stage_text(const StageRequest& stage);
/// Adds a key and its value, on one or more lines, after the line `weft: 1`. The schedule must not have the key.
std::string with_line(const std::string& text, const std::string& line);
/// Adds the line `mesh: {dp: 2, tp: 4}` there.
std::string with_mesh(const std::string& text, const Mesh& mesh);

}  // namespace weftc
