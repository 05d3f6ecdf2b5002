// Compiles the sources in parallel, as many at once as there are jobs, and links them. The packed weights, the manifest
// and a footer that locates them become a section of the executable. All files are written next to the result and
// renamed, so that a failure leaves the old result.
#include "backend/toolchain.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "backend/dialects/target_dialect.h"
#include "backend/level_files.h"
#include "backend/precompiled.h"
#include "ir/base/children.h"
#include "ir/base/contains.h"
#include "ir/base/output_file.h"

namespace weftc {

namespace fs = std::filesystem;

namespace {

/// A running compiler.
struct Job {
  const char* verb;
  std::string file;  // its output, for messages
  std::string log;
  std::chrono::steady_clock::time_point begin;
};

/// Starts a command whose output goes to a file; nothing on failure (errno says why).
std::optional<pid_t> start(const Command& command, const std::string& log) {
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) return {};
  const std::optional<pid_t> child = start_child(command, out, out);
  const int error = errno;
  close(out);
  errno = error;
  return child;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The first lines of a compiler's log, which have the errors.
std::string log_head(const std::string& log) {
  size_t end = 0;
  for (int lines = 0; lines < 20 && end != std::string::npos; ++lines) end = log.find('\n', end ? end + 1 : 0);
  return log.substr(0, std::min<size_t>(end, 4000));
}

/// The output of a failed compiler. If it is empty, how the compiler ended and whether the disk is full.
std::string complaint(const Job& job, int status) {
  std::string log = log_head(read_file(job.log));
  if (!log.empty()) return log;
  const fs::path folder = fs::path(job.log).parent_path();
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  const std::string ended =
      WIFSIGNALED(status) ? format("signal {}", WTERMSIG(status)) : format("exit code {}", WEXITSTATUS(status));
  return format("it printed nothing and ended with {}; {} has {} MB left\n", ended, folder.string(),
                error ? 0 : space.available / 1'000'000);
}

class Compiles {
 public:
  Compiles(const BuildOptions& options, size_t count, Diags& diags) : options_(options), count_(count), diags_(diags) {
    jobs_ = options.jobs > 0 ? static_cast<size_t>(options.jobs) : std::max(1u, std::thread::hardware_concurrency());
  }

  /// Runs a command once a job slot is free.
  void run(const Command& command, const std::string& file, const std::string& log) {
    while (running_.size() >= jobs_) wait_one();
    const std::optional<pid_t> child = start(command, log);
    if (!child) return fail(file, format("{} cannot be started: {}", command[0], std::strerror(errno)));
    running_[*child] = {contains(command, "-c") ? "compile" : "link", file, log, std::chrono::steady_clock::now()};
  }
  bool finish() {
    while (!running_.empty()) wait_one();
    return !failed_;
  }

 private:
  void wait_one() {
    // Waits only for its own children: a library linked with it may have others.
    for (const auto& [child, job] : running_) {
      const std::optional<int> status = end_of_child(child, running_.size() == 1);
      if (!status) continue;
      const Job ended = job;
      running_.erase(child);
      return WIFEXITED(*status) && WEXITSTATUS(*status) == 0 ? show(ended)
                                                             : fail(ended.file, complaint(ended, *status));
    }
    usleep(2000);
  }
  /// Prints a line for each finished file.
  void show(const Job& job) {
    ++done_;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - job.begin).count();
    if (options_.progress)
      fprintf(stderr, "weft: [%zu/%zu] %s %s  %.1f s\n", done_, count_, job.verb, job.file.c_str(), seconds);
  }
  void fail(const std::string& file, const std::string& why) {
    failed_ = true;
    diags_.error("toolchain-failed", Loc::in_file(file), "the compiler failed:\n{}", why);
  }

  const BuildOptions& options_;
  const size_t count_;  // number of commands, including the link
  size_t done_ = 0;
  Diags& diags_;
  size_t jobs_;
  std::map<pid_t, Job> running_;
  bool failed_ = false;
};

/// Paths are relative to the work folder, so that an executable does not depend on where it was built.
std::vector<std::string> path_flags(const BuildOptions& options, const fs::path& root, const std::string& file) {
  return {"-frandom-seed=" + file, "-ffile-prefix-map=" + root.string() + "=.",
          "-ffile-prefix-map=" + fs::absolute(options.runtime_dir).string() + "=runtime_lib"};
}

bool is_kernel_file(const std::string& file) { return file.find("kernels/") != std::string::npos; }

/// Whether a file is compiled for each level of CPUs. Products, convolutions, sums and kernels in chunks are. Other
/// kernels are bound by memory, which wider vectors do not read faster. Further levels use those of the lowest, which
/// give the same bits if it also multiplies and adds in one instruction.
bool is_level_file(const Target& target, const std::string& file) {
  if (!is_kernel_file(file)) return false;
  if (!target.has_levels() || !find_host_arch(target.archs.front())->has_fma) return true;
  return file.find("kernels/contraction") != std::string::npos || file.find("kernels/reduction") != std::string::npos ||
         file.find("kernels/chunks") != std::string::npos;
}

/// The compiler and all its flags except includes.
Command compiler_of(const Target& target, const BuildOptions& options, const fs::path& root, const std::string& file) {
  const TargetDialect& dialect = dialect_of(target);
  const Compilers compilers{options.compiler, options.toolkit, options.quick};
  const bool is_kernel = is_kernel_file(file);
  Command command =
      is_kernel ? dialect.kernel_compiler(target, compilers) : dialect.program_compiler(target, compilers);
  if (!options.library.empty()) command.insert(command.end(), {"-fPIC", "-fvisibility=hidden"});
  if (!dialect.precompiled.empty() && !options.precompiled.empty()) {
    const std::string include = (fs::path(options.runtime_dir) / "include").string();
    const std::string headers = precompiled_headers(options.precompiled, command, include, dialect.precompiled);
    if (!headers.empty()) command.push_back("-I" + headers);
  }
  for (const std::string& flag : path_flags(options, root, file)) {
    if (is_kernel && *dialect.host_flag) command.emplace_back(dialect.host_flag);
    command.push_back(flag);
  }
  return command;
}

Command compile_command(const Target& target, const BuildOptions& options, const fs::path& root,
                        const std::string& file, const std::string& object) {
  Command command = compiler_of(target, options, root, file);
  command.push_back("-I" + (fs::path(options.runtime_dir) / "include").string());
  if (!options.library.empty()) command.push_back("-I" + (root / "include").string());
  for (const char* word : {"-c", "-o"}) command.emplace_back(word);
  command.push_back(object);
  command.push_back((root / file).string());
  return command;
}

/// The part of the runtime library that uses MPI. It is compiled with the program, since each MPI has its own headers.
struct NetworkPart {
  std::string name, object;
  Command command;
};
NetworkPart network_part(const Target& target, const BuildOptions& options, const fs::path& root) {
  const std::string name = "mpi_network.cpp";
  const fs::path runtime = options.runtime_dir;
  NetworkPart part{name, (root / (name + ".o")).string(), compiler_of(target, options, root, name)};
  for (const std::string& flag : options.mpi_flags) part.command.push_back(flag);
  for (const char* folder : {"include", "src"}) part.command.push_back("-I" + (runtime / folder).string());
  part.command.insert(part.command.end(), {"-c", "-o", part.object, (runtime / "mpi" / name).string()});
  return part;
}

bool is_code(const TargetDialect& dialect, const std::string& path) {
  return path.ends_with(".cpp") || path.ends_with(dialect.kernel_suffix);
}

BuildResult file_failed(Diags& diags, const std::string& path, const std::string& why) {
  diags.error("file-unwritable", Loc::in_file(path), "the file cannot be written: {}", why);
  return BuildResult::FileFailed;
}

/// All sources below a folder; false after reporting.
bool write_sources(const std::vector<SourceFile>& files, const fs::path& root, Diags& diags) {
  for (const SourceFile& file : files) {
    const std::string path = (root / file.path).string();
    if (const std::string why = write_file(path, file.text); !why.empty()) {
      file_failed(diags, path, why);
      return false;
    }
  }
  return true;
}

/// The objects of a program; some are compiled once for each level of CPUs.
class ProgramBuild {
 public:
  ProgramBuild(const Target& target, const std::vector<SourceFile>& files, const BuildOptions& options, Diags& diags)
      : target_(target), options_(options), root_(fs::absolute(options.work_dir)), levels_(further_levels(target)) {
    for (const SourceFile& file : files) {
      if (is_code(dialect_of(target), file.path)) sources_.push_back(&file);
      if (file.path.ends_with(".h")) headers_ += file.text;
    }
    const auto kernels =
        std::count_if(sources_.begin(), sources_.end(), [&](auto* file) { return is_for_levels(file); });
    const size_t count = sources_.size() + 1 + options.over_mpi + levels_.size() * (size_t(kernels) + 2);
    compiles_.emplace(options, count, diags);
    std::error_code error;
    if (!options.objects.empty()) fs::create_directories(options.objects, error);
  }

  BuildResult run() { return compile() && join_levels() && link() ? BuildResult::Built : BuildResult::ToolchainFailed; }

 private:
  bool is_for_levels(const SourceFile* file) const { return is_level_file(target_, file->path); }

  /// The target of each level but the first.
  static std::vector<Target> further_levels(const Target& target) {
    std::vector<Target> levels;
    for (size_t i = 1; target.has_levels() && i < target.archs.size(); ++i)
      levels.push_back(target), levels.back().archs = {target.archs[i]};
    return levels;
  }

  /// Objects that programs share are named by a hash of their inputs.
  std::string object(const SourceFile& file, const std::string& level = "") const {
    if (!options_.objects.empty())
      return format("{}/{}.o", options_.objects,
                    std::hash<std::string>()(join({file.path, level, headers_, file.text}, "\n")));
    return (root_ / (file.path + (level.empty() ? "" : "." + level) + ".o")).string();
  }

  /// Large files come first, so that the last core is not left alone with one.
  bool compile() {
    std::vector<const SourceFile*> order = sources_;
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
    if (options_.over_mpi) {
      const NetworkPart part = network_part(target_, options_, root_);
      compiles_->run(part.command, part.name, part.object + ".log");
      objects_.push_back(part.object);
    }
    for (const SourceFile* file : order) {
      compile(*file, target_, "");
      for (const Target& level : levels_)
        if (is_for_levels(file)) compile(*file, level, level.archs.front());
    }
    for (const SourceFile* file : sources_) objects_.push_back(object(*file));
    return compiles_->finish();
  }

  void compile(const SourceFile& file, const Target& target, const std::string& level) {
    const std::string to = object(file, level);
    std::error_code error;
    if (!options_.objects.empty() && fs::exists(to, error)) return;
    compiles_->run(compile_command(target, options_, root_, file.path, to),
                   file.path + (level.empty() ? "" : " for " + level), to + ".log");
  }

  /// One object for each further level: its own kernels, and the program that calls them and those of the lowest level.
  /// All its symbols except the program's are local: a linker that finds a template's function twice takes the first
  /// one.
  bool join_levels() {
    for (const Target& level : levels_) {
      const std::string& arch = level.archs.front();
      Command join = {options_.compiler, "-r", "-nostdlib", "-Wl,--force-group-allocation", "-o"};
      objects_.push_back((root_ / (arch + ".o")).string());
      join.push_back(objects_.back());
      for (const SourceFile* file : sources_)
        if (is_for_levels(file) || file->path.ends_with("program.cpp"))
          join.push_back(object(*file, is_for_levels(file) ? arch : ""));
      compiles_->run(join, arch + ".o", objects_.back() + ".log");
    }
    if (!compiles_->finish()) return false;
    for (const Target& level : levels_) {
      const std::string& arch = level.archs.front();
      const std::string own = level_symbol(target_, arch), path = (root_ / (arch + ".o")).string();
      compiles_->run({"objcopy", "--redefine-sym", kLevelSymbol + ("=" + own), "--keep-global-symbol", own, path},
                     arch + ".o", path + ".names.log");
    }
    return compiles_->finish();
  }

  bool link() {
    const TargetDialect& dialect = dialect_of(target_);
    Command link = {options_.compiler, "-o", options_.output};
    link.insert(link.end(), objects_.begin(), objects_.end());
    link.push_back(options_.runtime_library);
    link.insert(link.end(), options_.mpi_flags.begin(), options_.mpi_flags.end());
    if (!dialect.libraries.empty()) link.push_back("-L" + options_.toolkit + "/lib");
    link.insert(link.end(), dialect.libraries.begin(), dialect.libraries.end());
    // Keeps only the called tiles of a level (runtime_lib/tiles). A device's toolkit has sections of its own, for which
    // this is untested.
    if (!dialect.toolkit) link.emplace_back("-Wl,--gc-sections");
    for (const char* word : {"-static-libstdc++", "-static-libgcc", "-pthread", "-Wl,--build-id=none", "-s"})
      link.emplace_back(word);
    // The library must call its own runtime, whatever else a process has loaded.
    if (!options_.library.empty())
      link.insert(link.end(),
                  {"-shared", "-Wl,-soname,lib" + options_.library + ".so", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs"});
    compiles_->run(link, fs::path(options_.output).filename().string(), (root_ / "link.log").string());
    return compiles_->finish();
  }

  const Target& target_;
  const BuildOptions& options_;
  const fs::path root_;
  const std::vector<Target> levels_;
  std::vector<const SourceFile*> sources_;
  std::string headers_;  // headers that the sources may include
  std::optional<Compiles> compiles_;
  std::vector<std::string> objects_;  // in the order of the link
};

}  // namespace

BuildResult build_program(const Target& target, const std::vector<SourceFile>& files, const BuildOptions& options,
                          Diags& diags) {
  if (!write_sources(files, fs::absolute(options.work_dir), diags)) return BuildResult::FileFailed;
  return ProgramBuild(target, files, options, diags).run();
}

BuildResult build_executable(const Plans& plans, const std::vector<SourceFile>& files, const BuildOptions& options,
                             Diags& diags) {
  const BuildResult built = build_program(plans.front()->target, files, options, diags);
  if (built != BuildResult::Built) return built;
  std::string manifest;
  for (const SourceFile& file : files)
    if (file.path == "manifest.json") manifest = file.text;
  if (append_image(plans, manifest, options.output)) return BuildResult::Built;
  return file_failed(diags, options.output, std::strerror(errno));
}

static std::string transport_text(const BuildOptions& options) {
  std::string text = "set(WEFT_TRANSPORT mpi CACHE STRING \"how ranks talk: local or mpi\")\n";
  if (!options.mpicc.empty())
    text += "set(MPI_CXX_COMPILER [[" + options.mpicc + "]] CACHE STRING \"the compiler wrapper of the MPI\")\n";
  return text;
}

BuildResult write_source_folder(const Plans& plans, const std::vector<SourceFile>& files, const BuildOptions& options,
                                Diags& diags) {
  const fs::path root = options.output;
  if (!write_sources(files, root, diags)) return BuildResult::FileFailed;
  std::error_code error;
  const fs::path runtime = root / "runtime_lib";
  fs::create_directories(runtime, error);
  for (const char* part : {"include", "src", dialect_of(plans.front()->target).runtime_folder, "CMakeLists.txt",
                           "kernel_options.cmake", "program.cmake"})
    fs::copy(fs::path(options.runtime_dir) / part, runtime / part,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  if (error) return file_failed(diags, runtime.string(), error.message());
  const fs::path transport = runtime / "transport.cmake";
  if (!options.over_mpi)
    fs::remove(transport, error);  // left from earlier sources
  else if (const std::string why = write_file(transport, transport_text(options)); !why.empty())
    return file_failed(diags, transport.string(), why);
  if (weights_bytes(*plans.front()) == 0) return BuildResult::Built;
  const std::string path = (root / "weights.bin").string();
  OutputFile file(path);
  if (file.file()) write_weights(plans, file.file());
  const std::string why = file.finish();
  return why.empty() ? BuildResult::Built : file_failed(diags, path, why);
}

}  // namespace weftc
