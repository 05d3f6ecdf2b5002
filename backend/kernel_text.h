// A kernel of the Plan as a C++ function.
#pragma once
#include <optional>

#include "backend/kernel_context.h"
#include "ir/kernel/window_geometry.h"

namespace weftc {

struct KernelText {
  std::string name;  // legal and unique in the program
  std::string parameters;
  std::vector<Argument> arguments;  // in front of the operands
  std::vector<int64_t> group;       // axes of its peer table
  std::string text;                 // comment and definition; none for a library's
  int64_t blocks = 1, threads = 1;  // device: what it is launched with
  std::string call;                 // a library's: "r.contract({...}, {{0}}, {{1}})" with operands and arguments named
};

/// Reports what cannot be lowered; the text is then of no use. In a loop over chunks a device has no library's calls.
KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags,
                        Written written = Written::Kernel);

/// "constexpr weft::SlidingWindow window{...};"
std::string window_line(const WindowGeometry& geometry);

/// "MatMul h.0.mlp.c_fc, Add h.0.mlp.bias", at most `limit` characters.
std::string nodes_text(const Plan& plan, const std::vector<OriginId>& origins, size_t limit);

/// "void NAME(PARAMETERS)" in lines of at most 120 columns, from "void NAME".
std::string wrapped_head(const std::string& head, const std::string& parameters);

/// MatMul, convolution: through the packed micro-kernel where the operands' strides allow.
std::vector<std::string> write_contraction(KernelContext& context);
/// A library call in place of a kernel, with {{number}} for each operand and {{name}} for each argument; nothing where
/// the library cannot do it.
std::optional<std::string> write_library_call(KernelContext& context);
/// A view through shared memory on a device; nothing where none is transposed.
std::optional<std::vector<std::string>> write_transposition(KernelContext& context);
/// A product in a loop over chunks that is one kernel of a device; nothing where it is none of floats, or has an extent
/// that only the run knows.
std::optional<std::vector<std::string>> write_device_product(KernelContext& context);
/// A convolution on a device; nothing where plain loops are as good, or its operands do not lie as it reads them.
std::optional<std::vector<std::string>> write_device_convolution(KernelContext& context);
/// Scatter.
std::vector<std::string> write_scatter(KernelContext& context);

}  // namespace weftc
