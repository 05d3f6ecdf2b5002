#include "cli/build.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backend/pack.h"
#include "backend/toolchain.h"
#include "cli/json.h"
#include "cli/process.h"
#include "cli/table.h"
#include "weft_build_config.h"

namespace weftc {

namespace fs = std::filesystem;

namespace {

bool is_executable(const std::string& path) { return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path); }

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':'))
    if (is_executable(folder + "/" + program)) return true;
  return false;
}

/// Where the file goes must be a folder that can be written to; a path that is there must be a plain file.
std::string output_problem(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return "it is a folder";
  if (fs::exists(status) && !fs::is_regular_file(status)) return "it is not a plain file";
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) return format("there is no folder '{}'", printable(folder.string()));
  return access(folder.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

std::string folder_problem(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return error.message();
  return access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
}

/// Moves a finished file to its place in one step, so that nobody meets half an executable.
bool move_to(const std::string& from, const std::string& to, Diags& diags) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return true;
  const std::string beside = format("{}.{}.part", to, getpid());
  error.clear();
  fs::copy_file(from, beside, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(beside, to, error);
  if (!error) return true;
  diags.error("output-file", Loc::in_file(to), "the executable cannot be written: {}", error.message());
  fs::remove(beside, error);
  return false;
}

int exit_code_of(BuildResult result) {
  switch (result) {
    case BuildResult::Built:
      return 0;
    case BuildResult::ToolchainFailed:
      return kToolchain;
    case BuildResult::FileFailed:
      return 1;
  }
  return kBug;
}

}  // namespace

std::string find_cuda() {
  std::vector<std::string> places;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':'))
    places.push_back(fs::path(folder).parent_path().string());
  if (const char* home = std::getenv("CUDA_HOME")) places.emplace_back(home);
  places.emplace_back("/usr/local/cuda");
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (*WEFT_BUILD_CUDA_DIR) places.push_back((here / WEFT_BUILD_CUDA_DIR).string());
  for (const std::string& place : places)
    if (is_executable(place + "/bin/nvcc")) return fs::weakly_canonical(place, error).string();
  return "";
}

std::optional<RuntimeLibrary> find_runtime(Target::Kind target, Diags& diags) {
  const std::string file = target == Target::Kind::Cuda ? "libweft_runtime_cuda.a" : "libweft_runtime.a";
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const RuntimeLibrary places[] = {
      {(here / WEFT_BUILD_RUNTIME_DIR).string(), (here / WEFT_BUILD_LIBRARY_DIR / file).string()},
      {(here / WEFT_INSTALLED_RUNTIME_DIR).string(), (here / WEFT_INSTALLED_LIBRARY_DIR / file).string()}};
  for (const RuntimeLibrary& place : places)
    if (fs::exists(place.folder + "/include/weft/host.h") && fs::exists(place.library)) return place;
  diags.error("no-runtime-library", {}, "the runtime library is neither at {} nor at {}", places[0].library,
              places[1].library);
  return {};
}

std::string find_compiler() {
  for (const char* name : {"g++", "clang++"})
    if (in_path(name)) return name;
  return "";
}

std::vector<std::string> find_mpi(const std::string& wrapper) {
  const Finished shown = run_program({wrapper, "-show"}, 60);
  if (shown.exit_code != 0) return {};
  std::vector<std::string> words;
  for (const std::string& word : split(shown.out.substr(0, shown.out.find('\n')), ' '))
    if (!word.empty()) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());  // the compiler
  return words;
}

bool check_output(const Options& options, Diags& diags) {
  if (!options.stop_after.empty()) return true;
  const std::string problem = options.emit_source ? folder_problem(options.output) : output_problem(options.output);
  if (!problem.empty())
    diags.error("output-path", Loc::in_file(options.output), "the result cannot be written here: {}", problem);
  return problem.empty();
}

int build(const Plan& plan, const std::vector<SourceFile>& files, const Options& options, Diags& diags) {
  const std::optional<RuntimeLibrary> runtime = find_runtime(plan.target.kind, diags);
  const std::string compiler = find_compiler(), cuda = find_cuda();
  if (plan.target.kind == Target::Kind::Cuda && cuda.empty())
    diags.error("no-cuda", {},
                "there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda; `weft doctor --target cuda` says more");
  if (compiler.empty())
    diags.error("no-compiler", {}, "neither g++ nor clang++ is in PATH; `weft doctor` says what is needed");
  const std::vector<std::string> mpi = options.transport_mpi ? find_mpi(options.mpicc) : std::vector<std::string>{};
  if (options.transport_mpi && mpi.empty())
    diags.error("no-mpi", {}, "'{} -show' does not say how to compile for MPI (Debian: apt-get install libopenmpi-dev)",
                printable(options.mpicc));
  const WorkFolder work;
  if (work.path().empty())
    diags.error("no-work-folder", {}, "no folder can be made below TMPDIR or /tmp: {}", std::strerror(errno));
  if (!diags.ok()) return kEnvironment;
  const std::string program = work.path() + "/" + fs::path(options.output).filename().string();
  const BuildOptions build{.work_dir = work.path() + "/sources",
                           .output = program,
                           .runtime_dir = runtime->folder,
                           .runtime_library = runtime->library,
                           .compiler = compiler,
                           .over_mpi = options.transport_mpi,
                           .mpi_flags = mpi,
                           .cuda_dir = cuda,
                           .jobs = 0,
                           .progress = !options.quiet};
  progress(options, format("compiling {} kernels with {}", plan.kernels.size(), compiler));
  const int code = exit_code_of(build_executable(plan, files, build, diags));
  if (code != 0) return code;
  return move_to(program, options.output, diags) ? 0 : 1;
}

int write_sources(const Plan& plan, const std::vector<SourceFile>& files, const Options& options, Diags& diags) {
  const std::optional<RuntimeLibrary> runtime = find_runtime(Target::Kind::Host, diags);
  if (!runtime) return kEnvironment;
  const BuildOptions build{.work_dir = options.output,
                           .output = options.output,
                           .runtime_dir = runtime->folder,
                           .runtime_library = runtime->library,
                           .compiler = "",
                           .over_mpi = options.transport_mpi,
                           .mpi_flags = {},
                           .mpicc = options.mpicc == Options().mpicc ? "" : options.mpicc,
                           .cuda_dir = "",
                           .jobs = 0,
                           .progress = false};
  return exit_code_of(write_source_folder(plan, files, build, diags));
}

void report_build(const Compilation& c, const Options& options, double seconds, Diags& diags) {
  char time[32];
  std::snprintf(time, sizeof time, "%.1f", seconds);
  std::printf("%s: %d rank%s, %zu kernels, %s of weights, compiled in %s s\n", options.output.c_str(), c.plan.world,
              c.plan.world == 1 ? "" : "s", c.plan.kernels.size(), bytes_text(weights_bytes(c.plan)).c_str(), time);
  if (options.report.empty()) return;
  std::vector<std::string> passes;
  for (const PassReport& pass : c.passes.passes)
    passes.push_back(json_object(
        {{"name", json_string(pass.name)}, {"seconds", shortest(pass.seconds)}, {"ops", std::to_string(pass.ops)}}));
  const std::string error =
      write_file(options.report,
                 json_object({{"model", json_string(options.model)},
                              {"schedule", options.schedules.empty() ? "null" : json_string(options.schedules.front())},
                              {"output", json_string(options.output)},
                              {"ranks", std::to_string(c.plan.world)},
                              {"kernels", std::to_string(c.plan.kernels.size())},
                              {"weights_bytes", std::to_string(weights_bytes(c.plan))},
                              {"seconds", time},
                              {"passes", json_list(passes)},
                              {"warnings", std::to_string(diags.all().size())}}) +
                     "\n");
  if (!error.empty())
    diags.error("report-file", Loc::in_file(options.report), "the report cannot be written: {}", error);
}

}  // namespace weftc
