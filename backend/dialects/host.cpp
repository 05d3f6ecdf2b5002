// The host: kernels are functions that the threads of a team run, compiled by the same compiler as the program.
#include "backend/dialects/target_dialect.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

/// One thread runs a kernel's loops unless a team takes tasks; the compiler vectorises vector loops.
class HostLoops final : public LoopDialect {
 public:
  std::string pragma(const For& loop) const override {
    if (loop.kind == LoopKind::Together) return "#pragma omp simd";
    // Any other loop around a loop is not a vector loop.
    if (loop.kind != LoopKind::Vector || has_loop(loop.body)) return "";
    if (!loop.accumulator) return "#pragma omp simd";
    return "#pragma omp simd reduction(" + operation(loop.accumulator->op) + " : " + loop.accumulator->name + ")";
  }
  std::string first(LoopKind) const override { return refuse(); }
  std::string step(LoopKind) const override { return refuse(); }
  std::string is_first(LoopKind) const override { return refuse(); }
  std::string barrier(LoopKind) const override { return refuse(); }

 private:
  static std::string operation(ReduceOp op) {
    switch (op) {
      case ReduceOp::Sum:
        return "+";
      case ReduceOp::Prod:
        return "*";
      case ReduceOp::Max:
        return "weft_maximum";
      case ReduceOp::Min:
        return "weft_minimum";
    }
    return "";
  }
  [[noreturn]] static std::string refuse() { check_failed(__FILE_NAME__, __LINE__, "the host has no grid of threads"); }
};

const LoopDialect& loops() {
  static const HostLoops dialect;
  return dialect;
}

std::string launch(const KernelLaunch& kernel) { return kernel.name + "(" + join(kernel.arguments, kComma) + ");"; }

/// The -march values of the levels.
std::vector<std::string> march_values(const Target& target) {
  std::vector<std::string> values;
  for (const std::string& arch : target.archs) values.emplace_back(find_host_arch(arch)->march);
  return values;
}

std::string archs(const Target& target) { return join(march_values(target), ";"); }

std::string arch_of(const Target& target) { return target.archs.empty() ? "x86-64-v3" : march_values(target).front(); }

Command program_compiler(const Target& target, const Compilers& compilers) {
  return host_command(compilers.host, "-O1", arch_of(target));
}

Command kernel_compiler(const Target& target, const Compilers& compilers) {
  Command command = host_command(compilers.host, compilers.quick ? "-O1" : "-O3", arch_of(target));
  // A product and a sum are fused at every level of optimisation, so that sums have the same bits.
  if (compilers.quick) command.emplace_back("-fexpensive-optimizations");
  command.emplace_back("-DWEFT_TILES");  // the runtime library that it is linked with has the tiles of products
  return command;
}

}  // namespace

Command host_command(const std::string& compiler, const char* optimisation, const std::string& arch) {
  Command command = {compiler, "-std=c++20", optimisation};
  if (!arch.empty()) command.push_back("-march=" + arch);
  // GCC 12 confuses the sum or maximum of a few comparisons with one of masks when it vectorizes straight code. The
  // bodies of loops over a team are always inlined: otherwise loops reload captured pointers, are not vectorised, and
  // sum in another order. A row of sums in a tile's registers must not become a call of memcpy. Scheduling before
  // register allocation, which GCC does for Arm and not for x86, loads so early that tiles spill.
  for (const char* flag :
       {"-fno-math-errno", "-fno-trapping-math", "-fwrapv", "-fno-tree-slp-vectorize", "-fopenmp-simd", "-w", "-pipe"})
    command.emplace_back(flag);
  if (compiler.find("clang") == std::string::npos)
    for (const char* flag :
         {"-fno-tree-loop-distribute-patterns", "-fno-schedule-insns", "--param=large-stack-frame=1000000"})
      command.emplace_back(flag);
  return command;
}

const TargetDialect& host_dialect() {
  static const TargetDialect dialect{.name = "host",
                                     .program_header = "host.h",
                                     .kernel_header = "kernel.h",
                                     .kernel_suffix = ".cpp",
                                     .facts = {.has_grid = false,
                                               .passes_values = true,
                                               .waits_may_fail = false,
                                               .has_peer_arrays = false,
                                               .counts_received = true,
                                               .has_group_tables = false,
                                               .has_stream_events = false},
                                     .words = {.kernel = "",
                                               .function = "",
                                               .table = "weft::Peers ",
                                               .function_table = "weft::Peers ",
                                               .one_block = "",
                                               .invocation = "uint32_t ",
                                               .invocation_name = "invocation",
                                               .invocation_of_rank = "r.invocation()",
                                               .shared_loop = LoopKind::Serial},
                                     .loops = loops,
                                     .launch = launch,
                                     .languages = "CXX",
                                     .arch_variable = "WEFT_ARCH",
                                     .arch_meaning = "-march of the kernels, whose blocks were chosen for it",
                                     .archs = archs,
                                     .program_compiler = program_compiler,
                                     .kernel_compiler = kernel_compiler,
                                     .host_flag = "",
                                     .precompiled = {"weft/kernel.h", "weft/host.h"},
                                     .libraries = {},
                                     .runtime_library = "libweft_runtime.a",
                                     .runtime_folder = "mpi",
                                     .toolkit = nullptr};
  return dialect;
}

}  // namespace weftc
