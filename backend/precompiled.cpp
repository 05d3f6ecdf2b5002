// Builds the folder of precompiled headers. Its name is a hash of the command and of all headers' text, so that a stale
// one is never used. It gets that name only when it is complete.
#include "backend/precompiled.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/base/children.h"
#include "ir/base/text.h"

namespace weftc {

namespace fs = std::filesystem;

namespace {

/// GCC does not notice changes of a header: its text is part of the folder's name.
std::string key_of(const std::vector<std::string>& command, const fs::path& include) {
  std::vector<fs::path> headers;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(include))
    if (entry.is_regular_file()) headers.push_back(entry.path());
  std::sort(headers.begin(), headers.end());
  std::string all = join(command, " ") + " " + include.string();
  for (const fs::path& header : headers) {
    std::ifstream in(header, std::ios::binary);
    all += "\n" + header.string() + "\n";
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return format("{}", std::hash<std::string>()(all));
}

/// Runs a command, discarding its output; true if it succeeded.
bool succeeds(const std::vector<std::string>& command) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const std::optional<pid_t> child = start_child(command, nowhere, nowhere);
  if (nowhere >= 0) close(nowhere);
  const std::optional<int> status = child ? end_of_child(*child, true) : std::nullopt;
  return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

}  // namespace

std::string precompiled_headers(const std::string& cache, const std::vector<std::string>& command,
                                const std::string& include, const std::vector<const char*>& headers) {
  const fs::path folder = fs::absolute(cache) / key_of(command, include);
  std::error_code error;
  if (fs::exists(folder, error)) return folder.string();
  // Several compilers may build the same folder at once: each builds its own, and the first one renames it.
  const fs::path own = format("{}.{}", folder.string(), getpid());
  fs::create_directories(own / "weft", error);
  for (const char* header : headers) {
    std::vector<std::string> make = command;
    const std::string to = (own / header).string() + ".gch", from = (fs::path(include) / header).string();
    make.insert(make.end(), {"-I" + include, "-x", "c++-header", "-o", to, from});
    // A second #include of the header in a file finds this folder again, and needs the text.
    fs::create_symlink(fs::absolute(from), own / header, error);
    if (!error && succeeds(make)) continue;
    fs::remove_all(own, error);
    return "";
  }
  fs::rename(own, folder, error);
  if (error) fs::remove_all(own, error);
  return fs::exists(folder, error) ? folder.string() : "";
}

}  // namespace weftc
