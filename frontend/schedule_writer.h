// Transforms -> schedule YAML: what a tuner adds to a schedule that somebody else wrote.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace weftc {

/// One step as an item of a `transform:` list, as the reader takes it: `split: {op: "y.sum", dim: 0, into: [...]}`.
std::string transform_text(const TransformStep& step);

/// The text of a schedule with `steps` behind those of its `transform:` list; comments and all else stay as they are,
/// but for a byte order mark, so that more can be written before it. Nothing after reporting: the schedule must be in
/// block style, a line a key and a step.
std::optional<std::string> with_transforms(const std::string& file, const std::string& text,
                                           const std::vector<TransformStep>& steps, Diags& diags);

}  // namespace weftc
