// GPUs with CUDA: kernels are launched on a grid of threads, and nvcc compiles them.
#include "backend/dialects/target_dialect.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

/// Threads, warps and blocks take the iterations of a loop in turn.
class CudaLoops final : public LoopDialect {
 public:
  std::string pragma(const For& loop) const override { return loop.kind == LoopKind::Unrolled ? "#pragma unroll" : ""; }
  std::string first(LoopKind kind) const override { return turns(kind).first; }
  std::string step(LoopKind kind) const override { return turns(kind).step; }
  std::string is_first(LoopKind kind) const override { return turns(kind).first + std::string(" == 0"); }
  std::string barrier(LoopKind among) const override {
    return among == LoopKind::Lanes ? "__syncwarp();" : "__syncthreads();";
  }

 private:
  /// The number of a thread among those that share iterations, and how many these are.
  struct Turns {
    const char *first, *step;
  };
  static Turns turns(LoopKind kind) {
    switch (kind) {
      case LoopKind::Threads:
        return {"weft::thread()", "weft::threads()"};
      case LoopKind::Warps:
        return {"weft::warp()", "weft::warps()"};
      case LoopKind::Blocks:
        return {"blockIdx.x", "gridDim.x"};
      case LoopKind::Lanes:
        return {"weft::lane()", "32"};
      case LoopKind::BlockThreads:
        return {"threadIdx.x", "blockDim.x"};
      case LoopKind::BlockWarps:
        return {"threadIdx.x / 32", "blockDim.x / 32"};
      case LoopKind::Serial:
      case LoopKind::Vector:
      case LoopKind::Together:
      case LoopKind::Unrolled:
        break;
    }
    check_failed(__FILE_NAME__, __LINE__, "one thread runs all iterations of this loop");
  }
};

const LoopDialect& loops() {
  static const CudaLoops dialect;
  return dialect;
}

std::string launch(const KernelLaunch& kernel) {
  return std::string("r.launch") + (kernel.waits ? "_resident" : "") + "(" + kernel.name +
         ", {.blocks = " + std::to_string(kernel.blocks) + ", .threads = " + std::to_string(kernel.threads) + "}" +
         (kernel.arguments.empty() ? "" : kComma) + join(kernel.arguments, kComma) + ");";
}

/// "80" of sm_80.
std::string number_of(const std::string& arch) { return arch.substr(arch.find('_') + 1); }

/// "80;90": nvcc's target architectures in CMake's notation.
std::string archs(const Target& target) {
  std::vector<std::string> numbers;
  for (const std::string& arch : target.archs) numbers.push_back(number_of(arch));
  return join(numbers, ";");
}

Command program_compiler(const Target&, const Compilers& compilers) { return host_command(compilers.host, "-O1", ""); }

/// Code for each architecture; for the newest also in a form that the drivers of later GPUs translate.
Command kernel_compiler(const Target& target, const Compilers& compilers) {
  Command command = {compilers.toolkit + "/bin/nvcc", "-std=c++20", "-O3", "-w", "--expt-relaxed-constexpr"};
  command.insert(command.end(), {"--objdir-as-tempdir", "-ccbin", compilers.host});
  for (const std::string& arch : target.archs) {
    const std::string number = number_of(arch);
    const bool last = &arch == &target.archs.back();
    command.push_back("-gencode=arch=compute_" + number +
                      ",code=" + (last ? "[sm_" + number + ",compute_" + number + "]" : "sm_" + number));
  }
  return command;
}

}  // namespace

const TargetDialect& cuda_dialect() {
  static const Toolkit toolkit{.title = "CUDA toolkit",
                               .compiler = "nvcc",
                               .version = "release ",
                               .variable = "CUDA_HOME",
                               .folder = "/usr/local/cuda",
                               .device_file = "/dev/nvidia0"};
  static const TargetDialect dialect{.name = "cuda",
                                     .program_header = "cuda.h",
                                     .kernel_header = "device.h",
                                     .kernel_suffix = ".cu",
                                     .facts = {.has_grid = true,
                                               .passes_values = false,
                                               .waits_may_fail = true,
                                               .has_peer_arrays = true,
                                               .counts_received = false,
                                               .has_group_tables = true,
                                               .has_stream_events = true},
                                     .words = {.kernel = "__global__ ",
                                               .function = "static WEFT_DEVICE ",
                                               .table = "const __grid_constant__ weft::Peers ",
                                               .function_table = "const weft::Peers& ",
                                               .one_block = "if (blockIdx.x == 0) ",
                                               .invocation = "const uint32_t* ",
                                               .invocation_name = "invocation_at",
                                               .invocation_of_rank = "r.invocation_at()",
                                               .shared_loop = LoopKind::Threads},
                                     .loops = loops,
                                     .launch = launch,
                                     .languages = "CXX CUDA",
                                     .arch_variable = "CMAKE_CUDA_ARCHITECTURES",
                                     .arch_meaning = "compute capabilities to build for",
                                     .archs = archs,
                                     .program_compiler = program_compiler,
                                     .kernel_compiler = kernel_compiler,
                                     .host_flag = "-Xcompiler",
                                     .precompiled = {},
                                     .libraries = {"-lcudart_static", "-lrt", "-ldl"},
                                     .runtime_library = "libweft_runtime_cuda.a",
                                     .runtime_folder = "cuda",
                                     .toolkit = &toolkit};
  return dialect;
}

}  // namespace weftc
