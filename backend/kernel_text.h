// A kernel of the Plan as a C++ function.
#pragma once
#include "backend/kernel_context.h"

namespace weft {

struct KernelText {
  std::string name;  // legal and unique in the program
  std::string parameters;
  std::vector<Argument> arguments;  // in front of the operands
  std::vector<int64_t> group;       // axes of its peer table
  std::string text;                 // comment and definition
};

/// Reports what cannot be lowered; the text is then of no use.
KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags);

/// "MatMul h.0.mlp.c_fc, Add h.0.mlp.bias", at most `limit` characters.
std::string nodes_text(const Plan& plan, const std::vector<OriginId>& origins, size_t limit);

// ---- bodies by category: the statements inside the function

/// MatMul, convolution: through the packed micro-kernel where the operands' strides allow.
std::vector<std::string> write_contraction(KernelContext& context);
/// Scatter.
std::vector<std::string> write_scatter(KernelContext& context);

}  // namespace weft
