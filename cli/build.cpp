// Finds what building needs (compiler, CUDA, MPI, runtime library), checks that the result can be written
// before any work is done, builds in a temporary folder and moves the executable to its place at the end.
#include "cli/build.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "backend/library_files.h"
#include "backend/toolchain.h"
#include "cli/process.h"
#include "weft_build_config.h"

namespace weftc {

namespace fs = std::filesystem;

namespace {

bool is_executable(const std::string& path) { return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path); }

/// True if PATH has a program of that name.
bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':'))
    if (is_executable(folder + "/" + program)) return true;
  return false;
}

/// True for a pipe, /dev/null and the like: they are written directly, never replaced.
bool is_special(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// Why a result cannot be written; without an id it can.
struct Problem {
  std::string id, text;
};

/// A problem unless this user may write there.
Problem unless_writable(const std::string& path) {
  if (access(path.c_str(), W_OK) == 0) return {};
  return {"output-unwritable", std::strerror(errno)};
}

/// The folder above the file must be there and writable; a folder cannot become a file.
Problem output_problem(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return {"output-path", "it is a folder"};
  if (is_special(path)) return unless_writable(path);
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (fs::is_directory(folder, error)) return unless_writable(folder);
  return {"output-path", format("there is no folder '{}'", printable(folder.string()))};
}

/// A folder of sources is made with the first of them, in the innermost folder that is there already.
Problem folder_problem(const std::string& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  while (folder.has_relative_path() && !fs::exists(fs::symlink_status(folder, error))) folder = folder.parent_path();
  if (fs::is_directory(folder, error)) return unless_writable(folder);
  return {"output-path", format("'{}' is no folder", printable(folder.string()))};
}

/// Writes the executable into a pipe or device.
bool copy_into(const std::string& from, const std::string& to, Diags& diags) {
  OutputFile out(to);
  out.write(read_file(from).value_or(""));
  const std::string why = out.finish();
  if (!why.empty()) diags.error("output-unwritable", Loc::in_file(to), "the executable cannot be written: {}", why);
  return why.empty();
}

/// Moves a finished file to its place atomically, so that nobody sees half an executable. Across file systems it is
/// copied beside the place first, since only a rename within one is a single step.
bool move_to(const std::string& from, const std::string& to, Diags& diags) {
  if (is_special(to)) return copy_into(from, to, diags);
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return true;
  const std::string beside = format("{}.{}.part", to, getpid());
  error.clear();
  fs::copy_file(from, beside, fs::copy_options::overwrite_existing, error);
  if (!error) fs::rename(beside, to, error);
  if (!error) return true;
  diags.error("output-unwritable", Loc::in_file(to), "the executable cannot be written: {}", error.message());
  fs::remove(beside, error);
  return false;
}

/// A folder as `make install` leaves it: the library, its header, its CMake package.
bool place_library(const std::string& name, const std::vector<SourceFile>& files, const std::string& built,
                   const std::string& folder, Diags& diags) {
  for (const SourceFile& file : files) {
    if (!file.path.starts_with("include/") && !file.path.starts_with("lib/")) continue;
    const std::string path = folder + "/" + file.path;
    if (const std::string why = write_file(path, file.text); !why.empty())
      return diags.error("library-file-unwritable", Loc::in_file(path), "the file cannot be written: {}", why), false;
  }
  return move_to(built, folder + "/lib/lib" + name + ".so", diags);
}

int exit_code_of(BuildResult result) {
  switch (result) {
    case BuildResult::Built:
      return 0;
    case BuildResult::ToolchainFailed:
      return kToolchain;
    case BuildResult::FileFailed:
      return kEnvironment;
  }
  return kBug;
}

}  // namespace

std::string find_toolkit(const Toolkit* toolkit) {
  if (!toolkit) return "";
  std::vector<std::string> places;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path ? path : "", ':'))
    places.push_back(fs::path(folder).parent_path().string());
  if (const char* home = std::getenv(toolkit->variable)) places.emplace_back(home);
  places.emplace_back(toolkit->folder);
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (*WEFT_BUILD_CUDA_DIR) places.push_back((here / WEFT_BUILD_CUDA_DIR).string());
  for (const std::string& place : places)
    if (is_executable(place + "/bin/" + toolkit->compiler)) return fs::weakly_canonical(place, error).string();
  return "";
}

std::string missing_toolkit(const Toolkit& toolkit) {
  return format("no {} in PATH, {} or {}", toolkit.compiler, toolkit.variable, toolkit.folder);
}

/// The files of a runtime library that are not there.
static std::string missing_of(const RuntimeLibrary& place) {
  std::vector<std::string> missing;
  for (const std::string& path :
       {place.library, place.folder + "/include/weft/host.h", place.folder + "/program.cmake"})
    if (!fs::exists(path)) missing.push_back(path);
  return join(missing, " and no ");
}

/// Whether programs run on another machine than this compiler.
static bool is_foreign(const Target& target) { return target.machine != this_machine(); }

static std::string cross_compiler(const Target& target) { return target.machine + "-linux-gnu-g++"; }

std::optional<RuntimeLibrary> find_runtime(const Target& target, Diags& diags) {
  const std::string file = (is_foreign(target) ? target.machine + "/" : "") + dialect_of(target).runtime_library;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const auto at = [&](const char* path) { return (here / path).lexically_normal().string(); };
  const RuntimeLibrary places[] = {{at(WEFT_BUILD_RUNTIME_DIR), at(WEFT_BUILD_LIBRARY_DIR) + "/" + file},
                                   {at(WEFT_INSTALLED_RUNTIME_DIR), at(WEFT_INSTALLED_LIBRARY_DIR) + "/" + file}};
  std::string missing[2];
  for (size_t i = 0; i < 2; ++i) {
    missing[i] = missing_of(places[i]);
    if (missing[i].empty()) return places[i];
  }
  diags.error("no-runtime-library", {},
              "the runtime library is incomplete. Beside a compiler in its build folder is no {}; beside an installed "
              "one is no {}{}",
              missing[0], missing[1],
              is_foreign(target) ? format("; {} makes it where the build finds it", cross_compiler(target)) : "");
  return {};
}

std::string find_compiler(const Target& target) {
  const std::vector<std::string> names =
      is_foreign(target) ? std::vector{cross_compiler(target)} : std::vector<std::string>{"g++", "clang++"};
  for (const std::string& name : names)
    if (in_path(name)) return name;
  return "";
}

std::string missing_compiler(const Target& target) {
  if (!is_foreign(target)) return "neither g++ nor clang++ is in PATH (Debian: apt-get install g++)";
  std::string package = target.machine;
  std::replace(package.begin(), package.end(), '_', '-');
  return format("{} is not in PATH (Debian: apt-get install g++-{}-linux-gnu)", cross_compiler(target), package);
}

std::string precompiled_folder() {
  const char* folder = std::getenv("WEFT_PRECOMPILED_HEADERS");
  return folder ? folder : "";
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
  const Problem problem =
      options.emit_source || options.emit_library ? folder_problem(options.output) : output_problem(options.output);
  if (problem.id.empty()) return true;
  diags.error(problem.id, Loc::in_file(options.output), "the result cannot be written here: {}", problem.text);
  return false;
}

int build(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags,
          const BuildCache& cache) {
  const Target& target = plans.front()->target;
  const TargetDialect& dialect = dialect_of(target);
  const std::string compiler = find_compiler(target), toolkit = find_toolkit(dialect.toolkit);
  if (dialect.toolkit && toolkit.empty())
    diags.error(format("no-{}", dialect.name), {}, "there is {}; `weft doctor --target {}` says more",
                missing_toolkit(*dialect.toolkit), dialect.name);
  if (compiler.empty())
    diags.error("no-compiler", {}, "{}; `weft doctor` says what is needed", missing_compiler(target));
  // Without its compiler there is no library for another machine either.
  const std::optional<RuntimeLibrary> runtime =
      compiler.empty() && is_foreign(target) ? std::nullopt : find_runtime(target, diags);
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
                           .library = options.emit_library ? library_name(*plans.front()) : "",
                           .over_mpi = options.transport_mpi,
                           .mpi_flags = mpi,
                           .toolkit = toolkit,
                           .precompiled = cache.precompiled,
                           .objects = cache.objects,
                           .jobs = 0,
                           .progress = !options.quiet};
  size_t kernels = 0;
  for (const Plan* plan : plans) kernels += plan->kernels.size();
  progress(options, format("compiling {} kernels with {}", kernels, compiler));
  const int code = exit_code_of(build_executable(plans, files, build, diags));
  if (code != 0) return code;
  const bool is_there = options.emit_library ? place_library(build.library, files, program, options.output, diags)
                                             : move_to(program, options.output, diags);
  return is_there ? 0 : kEnvironment;
}

int write_sources(const Plans& plans, const std::vector<SourceFile>& files, const Options& options, Diags& diags) {
  const std::optional<RuntimeLibrary> runtime = find_runtime(Target(), diags);
  if (!runtime) return kEnvironment;
  const BuildOptions build{.work_dir = options.output,
                           .output = options.output,
                           .runtime_dir = runtime->folder,
                           .runtime_library = runtime->library,
                           .compiler = "",
                           .over_mpi = options.transport_mpi,
                           .mpi_flags = {},
                           .mpicc = options.mpicc == Options().mpicc ? "" : options.mpicc,
                           .toolkit = "",
                           .jobs = 0,
                           .progress = false};
  return exit_code_of(write_source_folder(plans, files, build, diags));
}

}  // namespace weftc
