// The two ways in which models list the nodes of trees; both are read into a TreeModel.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/ml/tree_tables.h"

namespace weftc {

/// A list of floats, or the tensor of doubles that may replace it, under the name with `_as_tensor`.
std::vector<double> tree_reals(const OpView& op, const std::string& attr);
/// The trees of a classifier or regressor, which list nodes and votes by tree and number; `votes` is "class" or
/// "target". Nothing after reporting lists that do not fit.
std::optional<TreeModel> listed_trees(const OpView& op, const char* votes, int64_t targets);
/// The trees of TreeEnsemble-5, whose nodes refer to nodes and leaves by position. Nothing after reporting.
std::optional<TreeModel> placed_trees(const OpView& op);

}  // namespace weftc
