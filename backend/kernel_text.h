// A kernel of the Plan as a C++ function: the head from the operands and the arguments that the body turned out
// to need, and the body as the kernel's strategy says. The writers of the strategies are declared here as well.
#pragma once
#include <functional>
#include <optional>

#include "backend/kernel_context.h"
#include "ir/kernel/window_geometry.h"

namespace weftc {

/// A written kernel.
struct KernelText {
  std::string name;  // legal and unique in the program
  std::string parameters;
  std::vector<Argument> arguments;  // in front of the operands
  std::vector<int64_t> group;       // axes of its peer table
  std::string text;                 // comment and definition; none for a library's
  int64_t blocks = 1, threads = 1;  // what it is launched with on a grid
  std::set<std::string> headers;    // of the runtime, beside those of every file
};

/// Writes the function. Ops that cannot be computed in a kernel are reported, and the text is then of no use.
/// On a device, KernelUse::InChunks gives the function that loops over chunks call; it calls no library.
KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags,
                        KernelUse use = KernelUse::Launched);

/// "constexpr weft::SlidingWindow window{...};"
std::string window_line(const WindowGeometry& geometry, const std::string& name);

/// "MatMul h.0.mlp.c_fc, Add h.0.mlp.bias", at most `limit` characters.
std::string nodes_text(const Plan& plan, const std::vector<OriginId>& origins, size_t limit);

/// "void NAME(PARAMETERS)" in lines of at most 120 columns, from "void NAME".
std::string wrapped_head(const std::string& head, const std::vector<std::string>& parameters);

/// One function a strategy.
Statements write_packed_product(KernelContext& context);
Statements write_strided_product(KernelContext& context);
Statements write_direct_convolution(KernelContext& context, const DirectConvolution& strategy);
Statements write_plane_convolution(KernelContext& context);
Statements write_point_convolution(KernelContext& context);
Statements write_unfolded_convolution(KernelContext& context, const UnfoldedConvolution& strategy);
Statements write_window_reduction(KernelContext& context, const WindowReduction& strategy);
Statements write_tiled_product(KernelContext& context, const TiledProduct& strategy);
Statements write_tiled_convolution(KernelContext& context, const TiledConvolution& strategy);
Statements write_transposition(KernelContext& context, const Transposition& strategy);
Statements write_scan(KernelContext& context, const Scan& strategy);
Statements write_scatter(KernelContext& context, const Scatter& strategy);
Statements write_append(KernelContext& context, const Append& strategy);

/// What a step passes to a kernel.
struct CallSite {
  std::function<std::string(size_t parameter)> operand;
  std::function<std::string(const Argument&)> argument;
};
/// The statement that calls a library in place of a kernel.
std::string library_call(const KernelContext& context, const LibraryProduct& product, const CallSite& site);

}  // namespace weftc
