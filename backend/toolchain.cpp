// The sources are compiled in parallel, as many at once as there are jobs, and linked; then the packed weights, the
// manifest and a footer that finds them are put behind the executable's last byte. All of it is written beside the
// result's place and renamed, so that a failure leaves what was there.
#include "backend/toolchain.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "backend/dialects/target_dialect.h"
#include "backend/precompiled.h"
#include "ir/base/children.h"
#include "ir/base/output_file.h"

namespace weftc {

namespace fs = std::filesystem;

namespace {

/// A compiler run under way.
struct Job {
  std::string file;  // what it makes, for people
  std::string log;
  std::chrono::steady_clock::time_point begin;
};

/// Starts a command whose output goes to a file; nothing where that fails (errno says why).
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

/// The first lines of a compiler's log: what it complains about stands there.
std::string log_head(const std::string& log) {
  size_t end = 0;
  for (int lines = 0; lines < 20 && end != std::string::npos; ++lines) end = log.find('\n', end ? end + 1 : 0);
  return log.substr(0, std::min<size_t>(end, 4000));
}

/// What a compiler that failed has printed; without a word from it, how it ended and whether its files had room.
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

  /// Runs a command when a place is free.
  void run(const Command& command, const std::string& file, const std::string& log) {
    while (running_.size() >= jobs_) wait_one();
    const std::optional<pid_t> child = start(command, log);
    if (!child) return fail(file, format("{} cannot be started: {}", command[0], std::strerror(errno)));
    running_[*child] = {file, log, std::chrono::steady_clock::now()};
  }
  bool finish() {
    while (!running_.empty()) wait_one();
    return !failed_;
  }

 private:
  void wait_one() {
    // Only our own children: a library that is linked with us may have others.
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
  /// A line for each file that is done; the last is the executable.
  void show(const Job& job) {
    ++done_;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - job.begin).count();
    if (options_.progress)
      fprintf(stderr, "weft: [%zu/%zu] %s %s  %.1f s\n", done_, count_, done_ == count_ ? "link" : "compile",
              job.file.c_str(), seconds);
  }
  void fail(const std::string& file, const std::string& why) {
    failed_ = true;
    diags_.error("toolchain-failed", Loc::in_file(file), "the compiler failed:\n{}", why);
  }

  const BuildOptions& options_;
  const size_t count_;  // commands in all, the link with them
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

/// The compiler and all its flags but includes.
Command compiler_of(const Target& target, const BuildOptions& options, const fs::path& root, const std::string& file) {
  const TargetDialect& dialect = dialect_of(target);
  const Compilers compilers{options.compiler, options.toolkit, options.quick};
  const bool is_kernel = file.find("kernels/") != std::string::npos;
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
                        const std::string& file) {
  Command command = compiler_of(target, options, root, file);
  command.push_back("-I" + (fs::path(options.runtime_dir) / "include").string());
  if (!options.library.empty()) command.push_back("-I" + (root / "include").string());
  for (const char* word : {"-c", "-o"}) command.emplace_back(word);
  command.push_back((root / (file + ".o")).string());
  command.push_back((root / file).string());
  return command;
}

/// The runtime library's part that talks MPI. It is compiled with the program, since each MPI has its own headers.
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

}  // namespace

BuildResult build_program(const Target& target, const std::vector<SourceFile>& files, const BuildOptions& options,
                          Diags& diags) {
  const TargetDialect& dialect = dialect_of(target);
  const fs::path root = fs::absolute(options.work_dir);
  if (!write_sources(files, root, diags)) return BuildResult::FileFailed;
  Command link = {options.compiler, "-o", options.output};
  // Large files first, so that the last core is not left alone with one.
  std::vector<const SourceFile*> order;
  for (const SourceFile& file : files)
    if (is_code(dialect, file.path)) order.push_back(&file);
  for (const SourceFile* file : order) link.push_back((root / (file->path + ".o")).string());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
  Compiles compiles(options, order.size() + 1 + options.over_mpi, diags);
  if (options.over_mpi) {
    const NetworkPart part = network_part(target, options, root);
    compiles.run(part.command, part.name, part.object + ".log");
    link.push_back(part.object);
  }
  for (const SourceFile* file : order)
    compiles.run(compile_command(target, options, root, file->path), file->path,
                 (root / (file->path + ".log")).string());
  if (!compiles.finish()) return BuildResult::ToolchainFailed;
  link.push_back(options.runtime_library);
  link.insert(link.end(), options.mpi_flags.begin(), options.mpi_flags.end());
  if (!dialect.libraries.empty()) link.push_back("-L" + options.toolkit + "/lib");
  link.insert(link.end(), dialect.libraries.begin(), dialect.libraries.end());
  for (const char* word : {"-static-libstdc++", "-static-libgcc", "-pthread", "-Wl,--build-id=none", "-s"})
    link.emplace_back(word);
  // Whatever else a process has loaded, the library calls its own runtime.
  if (!options.library.empty())
    link.insert(link.end(),
                {"-shared", "-Wl,-soname,lib" + options.library + ".so", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs"});
  compiles.run(link, fs::path(options.output).filename().string(), (root / "link.log").string());
  return compiles.finish() ? BuildResult::Built : BuildResult::ToolchainFailed;
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
  for (const char* part :
       {"include", "src", dialect_of(plans.front()->target).runtime_folder, "CMakeLists.txt", "program.cmake"})
    fs::copy(fs::path(options.runtime_dir) / part, runtime / part,
             fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  if (error) return file_failed(diags, runtime.string(), error.message());
  const fs::path transport = runtime / "transport.cmake";
  if (!options.over_mpi)
    fs::remove(transport, error);  // of sources that lay here before
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
