// BatchNormalization with statistics of each micro-batch, as if it were a batch of its own.
//
//   y = BatchNormalization(x, scale, bias, mean, variance)     x: [8, C, ...], two micro-batches
//   ->
//   x4 = Reshape(x) : [2, 4, C, -1]
//   m, v = the mean and the variance of x4 along its dims 1 and 3
//   y = Reshape((x4 - m) / sqrt(v + epsilon) * scale + bias)
//   mean.next = momentum^2 mean + (1 - momentum) (momentum m[0] + m[1])
//
// Ranks that each hold a slice of the batch each run a part of every micro-batch: x5 = Reshape(x) : [ranks, 2, ...].
//
// An evaluation normalizes by the running statistics.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

/// The nodes that replace a node in the form for training with its three results. The batch is in `slices` on as many
/// ranks. `evaluates` is the value that says whether the invocation is an evaluation.
std::vector<OnnxNode> normalize_micro_batches(const OnnxNode& node, int count, int slices,
                                              const std::string& evaluates);

}  // namespace weftc
