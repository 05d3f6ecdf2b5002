#include "checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "checkpoint_folder.h"
#include "checks.h"
#include "checksum.h"
#include "manifest.h"
#include "npy.h"
#include "output_file.h"
#include "tensors.h"

namespace weft {

namespace {

constexpr const char* kLatest = "latest";

std::string folder_of_step(int64_t step) { return text("step-%06ld", long(step)); }

/// Data must be on the disk before a name refers to it.
void sync_to_disk(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool is_synced = fd >= 0 && fsync(fd) == 0;
  const int reason = errno;
  if (fd >= 0) close(fd);
  if (!is_synced) fail(kEnvironment, "cannot write %s: %s", path.c_str(), strerror(reason));
}

void write_text(const std::string& path, const std::string& content) {
  OutputFile file(path);
  file.write(content);
  file.finish();
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code ignored;
  std::filesystem::remove_all(to, ignored);  // of a run that was started again from an earlier step
  if (rename(from.c_str(), to.c_str()) != 0)
    fail(kEnvironment, "cannot rename %s to %s: %s", from.c_str(), to.c_str(), strerror(errno));
}

/// A folder that rank 0 fills. Unless it was renamed, it is removed, so that it takes no room on a full disk.
class PartFolder {
 public:
  PartFolder(const RankBase& rank, std::string path) : path_(rank.rank == 0 ? std::move(path) : "") { remove(); }
  ~PartFolder() { remove(); }
  PartFolder(const PartFolder&) = delete;
  PartFolder& operator=(const PartFolder&) = delete;

 private:
  void remove() const {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string path_;
};

std::vector<std::string> state_names(const Executable& executable) {
  std::vector<std::string> names;
  for (const Port* port : distinct_ports(executable, &Program::inputs))
    if (is_state_input(executable, port->name)) names.emplace_back(port->name);
  return names;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file || content.empty()) fail(kWrongInput, "%s: cannot be read, or is empty", path.c_str());
  return content;
}

/// The number after a key in the file that write_checkpoint has written.
uint64_t number_of(const std::string& json, const char* key, const std::string& path) {
  const size_t at = json.find(text("\"%s\": ", key));
  unsigned long long value = 0;
  const char* number = at == std::string::npos ? "" : json.c_str() + at + strlen(key) + 4;
  if (isdigit(static_cast<unsigned char>(*number)) == 0 || sscanf(number, "%llu", &value) != 1)
    fail(kWrongInput, "%s: '%s' is missing, or no number", path.c_str(), key);
  return value;
}

/// Optimizers may keep states of the same names, which mean other things to each.
void check_optimizer(const std::string& json, const char* wanted, const std::string& folder) {
  constexpr std::string_view kKey = "\"optimizer\": ";
  const size_t at = json.find(kKey);
  const std::string found = json_string(wanted);
  if (at == std::string::npos || json.compare(at + kKey.size(), found.size(), found) == 0) return;
  const size_t begin = at + kKey.size(), end = json.find(", \"", begin);
  fail(kWrongInput, "--resume %s: a checkpoint of another optimizer: %s, and this program's is %s", folder.c_str(),
       json.substr(begin, end - begin).c_str(), found.c_str());
}

uint32_t checksum_of_file(const std::string& path) {
  const FileMapping file(path);
  return crc32c(0, file.bytes().data(), file.bytes().size());
}

constexpr std::string_view kSumOfState = ", \"checksum\": ";

/// `begin`, without its brace at the end, with the checksums of the folder's files and of this text.
void write_state(const std::string& folder, const std::string& begin) {
  std::string sums;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path());
  for (const auto& file : files)
    sums += (sums.empty() ? "" : ", ") + json_string(file.filename().string()) + text(": %u", checksum_of_file(file));
  const std::string json = begin + ", \"checksums\": {" + sums + "}";
  write_text(folder + "/" + kStateFile,
             json + std::string(kSumOfState) + text("%u}\n", crc32c(0, json.data(), json.size())));
}

[[noreturn]] void fail_of_bytes(const std::string& file) {
  fail(kWrongInput, "%s: its bytes are not those that were written, by their checksum: the checkpoint is damaged",
       file.c_str());
}

}  // namespace

void check_sums(const std::string& folder) {
  const std::string path = folder + "/" + kStateFile, json = read_text(path);
  const size_t end = json.rfind(kSumOfState), sums = json.find("\"checksums\": ");
  if (end == std::string::npos && sums == std::string::npos) return;
  if (end == std::string::npos || sums == std::string::npos ||
      json.substr(end + kSumOfState.size()) != text("%u}\n", crc32c(0, json.data(), end)))
    fail_of_bytes(path);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = json_string(entry.path().filename().string()) + ": ";
    const size_t at = json.find(name, sums);
    if (at == std::string::npos) continue;
    if (strtoul(json.c_str() + at + name.size(), nullptr, 10) != checksum_of_file(entry.path()))
      fail_of_bytes(entry.path());
  }
}

void write_checkpoint(RankBase& rank, const Options& options, const Progress& progress) {
  const std::string name = folder_of_step(progress.step), place = options.checkpoint + "/" + name,
                    part = place + ".part";
  const PartFolder removed(rank, part);
  write_states(rank, options, part, States::Finite::Demanded);
  if (rank.rank == 0) {
    write_state(
        part,
        text("{\"step\": %ld, \"batch\": %ld, \"shuffles\": %d, \"seed\": %llu, \"program\": \"%s\", \"ranks\": %d, "
             "\"optimizer\": %s, \"evaluation_is_due\": %d, \"random_seed\": %ld",
             long(progress.step), long(progress.batch), int(progress.shuffles),
             static_cast<unsigned long long>(progress.seed), rank.executable.name, rank.executable.world,
             json_string(rank.executable.training->optimizer).c_str(), int(progress.evaluation_is_due),
             long(progress.random_seed.value_or(0))));
    for (const auto& entry : std::filesystem::directory_iterator(part)) sync_to_disk(entry.path());
    sync_to_disk(part);
    rename_folder(part, place);
    write_text(options.checkpoint + "/" + kLatest, name + "\n");
    sync_to_disk(options.checkpoint);
    remove_old_checkpoints(options.checkpoint, options.keep);
  }
  rank.barrier();
}

std::string checkpoint_folder(const std::string& given) {
  const std::string latest = given + "/" + kLatest;
  if (access(latest.c_str(), F_OK) != 0) return given;
  std::string name = read_text(latest);
  while (!name.empty() && isspace(static_cast<unsigned char>(name.back()))) name.pop_back();
  return given + "/" + name;
}

Progress read_checkpoint(const Executable& executable, const std::string& folder) {
  const std::string path = folder + "/" + kStateFile;
  if (access(path.c_str(), F_OK) != 0)
    fail(kWrongInput, "--resume %s: no checkpoint, which has a file %s: %s", folder.c_str(), kStateFile,
         strerror(errno));
  std::set<std::string> wanted, found;
  for (const std::string& name : state_names(executable)) wanted.insert(file_name(name) + ".npy");
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".npy") found.insert(entry.path().filename());
  for (const std::string& file : wanted)
    if (!found.contains(file))
      fail(kWrongInput, "--resume %s: a checkpoint of another model or optimizer: it has no %s", folder.c_str(),
           file.c_str());
  for (const std::string& file : found)
    if (!wanted.contains(file))
      fail(kWrongInput, "--resume %s: a checkpoint of another model or optimizer: the program has no state for %s",
           folder.c_str(), file.c_str());
  const std::string json = read_text(path);
  check_optimizer(json, executable.training->optimizer, folder);
  if (number_of(json, "step", path) > uint64_t{1} << 40) fail(kWrongInput, "%s: 'step' is too large", path.c_str());
  std::optional<int64_t> seed;
  if (json.find("\"random_seed\": ") != std::string::npos) seed = int64_t(number_of(json, "random_seed", path));
  return {int64_t(number_of(json, "step", path)),
          number_of(json, "shuffles", path) != 0,
          number_of(json, "seed", path),
          int64_t(number_of(json, "batch", path)),
          seed,
          json.find("\"evaluation_is_due\": 1") != std::string::npos};
}

}  // namespace weft
