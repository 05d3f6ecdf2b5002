// `weft doctor`: which requirements of a target this machine meets.
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "cli/build.h"
#include "cli/commands.h"
#include "cli/process.h"

namespace weftc {

namespace {

constexpr double kSeconds = 60;

/// Prints one line of the report and returns whether it was well.
bool line(const char* what, bool ok, const std::string& text) {
  std::printf("%-8s%-20s %s\n", ok ? "ok" : "missing", what, text.c_str());
  return ok;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool check_compiler(const Options& options) {
  const std::string compiler = find_compiler(options.target);
  if (compiler.empty()) return line("C++ compiler", false, missing_compiler(options.target));
  const Finished version = run_program({compiler, "--version"}, kSeconds);
  if (!line("C++ compiler", version.exit_code == 0, compiler + ": " + first_line(version.out))) return false;
  const WorkFolder work;
  const std::string source = work.path() + "/probe.cpp", program = work.path() + "/probe";
  write_file(source, "#include <span>\n#include <thread>\nint main() { std::thread([] {}).join(); return 0; }\n");
  const std::string &arch = options.target.archs.front(), march = find_host_arch(arch)->march;
  const Finished built = run_program({compiler, "-std=c++20", "-march=" + march, "-static-libstdc++", "-static-libgcc",
                                      "-pthread", "-o", program, source},
                                     kSeconds);
  if (!line("C++20 program", built.exit_code == 0,
            built.exit_code == 0 ? "compiles and links with -march=" + march : first_line(built.err)))
    return false;
  const Finished ran = run_program({program}, kSeconds);
  const bool must_run = options.target.machine == this_machine();
  const bool runs = line("this machine", ran.exit_code == 0,
                         ran.exit_code == 0 ? "runs " + arch + " programs"
                                            : "a program for " + arch + ": " + ending_text(ran) +
                                                  (must_run ? "" : "; not needed to build"));
  return runs || !must_run;
}

bool check_library(const Target& target) {
  Diags diags;
  const std::optional<RuntimeLibrary> runtime = find_runtime(target, diags);
  return line("runtime library", runtime.has_value(), runtime ? runtime->library : diags.all().front().message);
}

/// Wanted with --transport mpi only.
bool check_mpi(const Options& options) {
  const std::vector<std::string> flags = find_mpi(options.mpicc);
  const std::string install = options.mpicc +
                              " cannot be run; for --transport mpi only (Debian: apt-get install "
                              "libopenmpi-dev openmpi-bin, or mpich libmpich-dev and --mpicc mpicc.mpich)";
  return line("MPI", !flags.empty(), flags.empty() ? install : options.mpicc + ": " + join(flags, " "));
}

bool check_host(const Options& options) {
  bool ok = check_compiler(options);
  ok &= check_library(options.target);
  const bool has_mpi = check_mpi(options);
  ok &= has_mpi || !options.transport_mpi;
  const WorkFolder work;
  ok &= line("temporary folder", !work.path().empty(),
             work.path().empty() ? "none can be made below TMPDIR or /tmp" : work.path());
  ok &= line("shared memory", access("/dev/shm", W_OK) == 0, "/dev/shm, for ranks that a launcher starts");
  line("cores", true, std::to_string(std::thread::hardware_concurrency()));
  return ok;
}

/// Checks the tools that a target with a toolkit of its own needs to build programs. A GPU and its driver are needed
/// only where a program runs.
bool check_device(const Target& target, const Toolkit& toolkit) {
  const std::string compiler = find_compiler(target), folder = find_toolkit(&toolkit);
  bool ok = line("C++ compiler", !compiler.empty(), compiler.empty() ? missing_compiler(target) : compiler);
  ok &= line(toolkit.title, !folder.empty(), folder.empty() ? missing_toolkit(toolkit) : folder);
  if (!folder.empty()) {
    const Finished version = run_program({folder + "/bin/" + toolkit.compiler, "--version"}, kSeconds);
    const size_t at = version.out.find(toolkit.version);
    ok &= line(toolkit.compiler, at != std::string::npos,
               at == std::string::npos ? ending_text(version) : first_line(version.out.substr(at)));
  }
  ok &= check_library(target);
  const bool has_device = access(toolkit.device_file, F_OK) == 0;
  line("GPU", has_device, has_device ? toolkit.device_file : "none here; not needed to build");
  return ok;
}

}  // namespace

int run_doctor(const Options& options) {
  const Toolkit* toolkit = dialect_of(options.target).toolkit;
  const bool ok = toolkit ? check_device(options.target, *toolkit) : check_host(options);
  return ok ? 0 : kEnvironment;
}

}  // namespace weftc
