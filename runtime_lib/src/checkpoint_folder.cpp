#include "checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "checks.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPart = ".part";

/// True for what write_checkpoint calls a step's folder.
bool is_step(const std::string& name) {
  const std::string digits = name.starts_with("step-") ? name.substr(5) : "";
  return !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
}

/// True for what writers that were killed leave: step-000105.part, latest.4711.part.
bool is_part(const std::string& name) {
  if (!name.ends_with(kPart)) return false;
  const std::string whole = name.substr(0, name.size() - kPart.size());
  return is_step(whole) || whole.starts_with("latest.");
}

/// It is renamed first, so that a process killed meanwhile leaves no checkpoint that looks complete.
void remove_step(const fs::path& step) {
  std::error_code ignored;
  const fs::path part = step.string() + std::string(kPart);
  fs::remove_all(part, ignored);
  fs::rename(step, part, ignored);
  fs::remove_all(part, ignored);
}

/// Complete checkpoints, the oldest first.
std::vector<fs::path> complete_steps(const std::string& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (const fs::path state = entry.path() / kStateFile; is_step(entry.path().filename()) && fs::exists(state))
      found.emplace_back(fs::last_write_time(state), entry.path());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> steps;
  for (const auto& [time, path] : found) steps.push_back(path);
  return steps;
}

bool is_same(const fs::path& a, const fs::path& b) {
  std::error_code missing;
  return fs::equivalent(a, b, missing);
}

}  // namespace

CheckpointFolder::CheckpointFolder(const std::string& path) {
  make_folder(path);
  lock_ = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  if (lock_ >= 0) close(lock_);
  if (reason == EWOULDBLOCK)
    fail(kEnvironment, "--checkpoint %s: another run writes its checkpoints there: give each run a folder of its own",
         path.c_str());
  // Some file systems of other machines have no locks: there a second run is not noticed.
  lock_ = -1;
  fprintf(stderr, "warning: --checkpoint %s cannot be locked against other runs: %s\n", path.c_str(), strerror(reason));
}

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) close(lock_);
}

void remove_old_checkpoints(const std::string& folder, int keep) {
  const std::vector<fs::path> steps = complete_steps(folder);
  for (size_t i = 0; keep > 0 && i + size_t(keep) < steps.size(); ++i) remove_step(steps[i]);
}

void tidy_checkpoints(const std::string& folder, int keep, const std::string& latest, const std::string& resumed) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_incomplete = is_step(name) && !fs::exists(entry.path() / kStateFile);
    if (is_part(name) || (keep > 0 && is_incomplete)) left.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& each : left) fs::remove_all(each, ignored);
  const std::vector<fs::path> steps = complete_steps(folder);
  for (size_t i = 0; keep > 0 && i + size_t(keep) < steps.size(); ++i)
    if (!is_same(steps[i], latest) && !is_same(steps[i], resumed)) remove_step(steps[i]);
}

}  // namespace weft
