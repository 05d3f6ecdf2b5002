// Runs other programs with a time limit and keeps the end of their output.
#include "cli/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/options.h"
#include "frontend/mapped_file.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr size_t kKeptBytes = size_t{64} * 1024;

/// Both ends of a pipe, closed at the end of scope and not inherited.
struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) read_end = ends[0], write_end = ends[1];
  }
  ~Pipe() {
    if (read_end >= 0) close(read_end);
    close_write();
  }
  void close_write() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

/// Reads available data; false at the end of the stream.
bool drain(int fd, std::string& text) {
  char block[8192];
  const ssize_t n = read(fd, block, sizeof block);
  if (n <= 0) return n < 0 && errno == EINTR;
  text.append(block, static_cast<size_t>(n));
  if (text.size() > 2 * kKeptBytes) text.erase(0, text.size() - kKeptBytes);
  return true;
}

/// Collects both streams until they end; false when the time is over.
bool collect(const Pipe& out, const Pipe& err, Finished& finished, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  pollfd streams[] = {{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}};
  std::string* texts[] = {&finished.out, &finished.err};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return false;
    if (poll(streams, 2, static_cast<int>(left * 1000) + 1) < 0 && errno != EINTR) return true;
    for (int i = 0; i < 2; ++i)
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !drain(streams[i].fd, *texts[i])) streams[i].fd = -1;
  }
  return true;
}

}  // namespace

/// A terminal, /dev/null; nothing of a device that has no end, such as /dev/zero.
static std::optional<std::string> read_device(std::istream& file) {
  constexpr size_t kMost = size_t{64} << 20;
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(kMost));
  text.resize(static_cast<size_t>(file.gcount()));
  return file.eof() ? std::optional(text) : std::nullopt;
}

std::optional<std::string> read_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    const MappedFile pipe = map_file(path);
    if (!pipe.error.empty()) return {};
    return std::string(reinterpret_cast<const char*>(pipe.bytes.data()), pipe.bytes.size());
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  if (std::filesystem::is_character_file(path, error)) return read_device(file);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return {};
  return text.str();
}

Finished run_program(const std::vector<std::string>& command, double seconds) {
  Finished finished;
  Pipe out, err;
  const std::optional<pid_t> child = start_child(command, out.write_end, err.write_end);
  if (!child) {
    finished.exit_code = 127;
    return finished;
  }
  out.close_write();
  err.close_write();
  const bool in_time = collect(out, err, finished, seconds);
  if (!in_time) kill_child(*child);
  const int status = end_of_child(*child, true).value_or(0);
  finished.exit_code = !in_time              ? 124
                       : WIFEXITED(status)   ? WEXITSTATUS(status)
                       : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                             : 127;
  return finished;
}

std::string ending_text(const Finished& finished) {
  if (finished.exit_code == 127) return "cannot be run";
  if (finished.exit_code > 128) return format("ended by signal {}", finished.exit_code - 128);
  return format("exit code {}", finished.exit_code);
}

void progress(const Options& options, const std::string& line) {
  if (!options.quiet) std::fprintf(stderr, "weft: %s\n", line.c_str());
}

void progress(const Options& options, const std::string& stage, double seconds) {
  constexpr double kWorthALine = 1;
  char text[32];
  std::snprintf(text, sizeof text, "  %.1f s", seconds);
  if (seconds >= kWorthALine) progress(options, stage + text);
}

}  // namespace weftc
