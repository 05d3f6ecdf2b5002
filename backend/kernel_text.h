// A kernel of the Plan as a C++ function. The head has the operands and the arguments that the body needs; the body
// follows the kernel's strategy. The writers of the strategies are also declared here.
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
  std::vector<Argument> arguments;  // before the operands
  std::vector<int64_t> group;       // axes of its peer table
  std::string text;                 // comment and definition; empty for a library call
  int64_t blocks = 1, threads = 1;  // launch size on a grid
  std::set<std::string> headers;    // of the runtime, in addition to those of every file
};

/// Writes the function. Ops that cannot be computed in a kernel are reported; the text is then invalid. On a device,
/// KernelUse::InChunks gives the function that loops over chunks call; it calls no library.
KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags,
                        KernelUse use = KernelUse::Launched);

/// "constexpr weft::SlidingWindow window{...};"
std::string window_line(const KernelContext& context, const WindowGeometry& geometry, const std::string& name);

/// "MatMul h.0.mlp.c_fc, Add h.0.mlp.bias", at most `limit` characters.
std::string nodes_text(const Plan& plan, const std::vector<OriginId>& origins, size_t limit);

/// "void NAME(PARAMETERS)" in lines of at most 120 columns, from "void NAME".
std::string wrapped_head(const std::string& head, const std::vector<std::string>& parameters);

/// Declares for each strategy S the function that writes its body,
///   Statements write_body(KernelContext& context, const S& strategy, Writer<S>);
/// which is defined in the file of its family. One that is missing does not link.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"  // each must be a function of its own, not a template
template <class S>
struct Writer {
  friend Statements write_body(KernelContext& context, const S& strategy, Writer);
};
#pragma GCC diagnostic pop

/// The expressions that a step passes to a kernel.
struct CallSite {
  std::function<std::string(size_t parameter)> operand;
  std::function<std::string(const Argument&)> argument;
};
/// The statement that calls a library instead of a kernel.
std::string library_call(const KernelContext& context, const LibraryProduct& product, const CallSite& site);

}  // namespace weftc
