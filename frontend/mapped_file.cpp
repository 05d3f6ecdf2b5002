// Maps files read-only. Opens external data only inside the model's folder, or inside the cache that holds its
// snapshot. A downloaded model must not read other files through "..", absolute paths or links.
#include "frontend/mapped_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>

namespace weftc {

/// A result with the reason of the failure.
static MappedFile failed(std::string why) {
  MappedFile file;
  file.error = std::move(why);
  return file;
}

namespace {
/// Address and length for munmap.
struct Mapping {
  void* address;
  size_t length;
};
}  // namespace

/// Reads a pipe to its end into separate memory. With a non-blocking descriptor, a named pipe without a writer is
/// empty.
static MappedFile read_pipe(int descriptor) {
  auto bytes = std::make_unique<std::string>();
  char block[65536];
  for (;;) {
    const ssize_t count = read(descriptor, block, sizeof block);
    if (count == 0) break;
    if (count > 0) bytes->append(block, static_cast<size_t>(count));
    if (count > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return failed(std::strerror(errno));
    pollfd more{descriptor, POLLIN, 0};
    poll(&more, 1, -1);
  }
  MappedFile file;
  file.bytes = std::as_bytes(std::span(*bytes));
  file.memory = {bytes.release(), [](void* p) { delete static_cast<std::string*>(p); }};
  return file;
}

MappedFile map_descriptor(int descriptor) {
  struct stat status {};
  const bool is_known = fstat(descriptor, &status) == 0;
  if (is_known && S_ISFIFO(status.st_mode)) {
    MappedFile file = read_pipe(descriptor);
    close(descriptor);
    return file;
  }
  if (!is_known || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return failed("not a regular file");
  }
  MappedFile file;
  const size_t length = static_cast<size_t>(status.st_size);
  if (length > 0) {
    void* address = mmap(nullptr, length, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (address == MAP_FAILED) {
      const int code = errno;
      close(descriptor);
      return failed(std::string("cannot be mapped: ") + std::strerror(code));
    }
    file.bytes = {static_cast<const std::byte*>(address), length};
    file.memory = {new Mapping{address, length}, [](void* p) {
                     const auto* mapping = static_cast<const Mapping*>(p);
                     munmap(mapping->address, mapping->length);
                     delete mapping;
                   }};
  }
  close(descriptor);
  return file;
}

/// Reads the user's pipe, waiting for a writer. A pipe can be read once only, but a verb may need a file several times:
/// later requests for the path get the same bytes.
static MappedFile read_pipe_once(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, MappedFile> known;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(path);
  if (found == known.end()) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return failed(std::strerror(errno));
    found = known.emplace(path, map_descriptor(descriptor)).first;
  }
  MappedFile file;
  file.bytes = found->second.bytes;
  file.error = found->second.error;
  return file;
}

// O_NONBLOCK: a file that is not regular, such as a named pipe beneath a model, must not block the compiler.
static constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

MappedFile map_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) return read_pipe_once(path);
  const int descriptor = open(path.c_str(), kOpenFlags);
  if (descriptor < 0) return failed(std::strerror(errno));
  return map_descriptor(descriptor);
}

/// The folder part of a path.
static std::string folder_of(const std::string& file) {
  const size_t slash = file.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : file.substr(0, slash);
}

static constexpr const char* kLeaves =
    "it leaves the model's folder (links to the blobs of a cache whose 'snapshots' hold the model are followed; of any "
    "other link, copy the file that it stands for into the folder)";

/// For kernels without openat2: resolves all links first and compares paths.
static MappedFile map_resolved(const std::string& folder, const std::string& location) {
  char* base = realpath(folder.c_str(), nullptr);
  char* target = realpath((folder + "/" + location).c_str(), nullptr);
  const int code = errno;
  const std::string base_path = base ? base : "", target_path = target ? target : "";
  std::free(base);
  std::free(target);
  if (base_path.empty() || target_path.empty()) return failed(std::strerror(code));
  const std::string prefix = base_path == "/" ? base_path : base_path + "/";
  if (!target_path.starts_with(prefix)) return failed(kLeaves);
  // O_NOFOLLOW: the resolved path has no links.
  const int descriptor = open(target_path.c_str(), kOpenFlags | O_NOFOLLOW);
  return descriptor < 0 ? failed(std::strerror(errno)) : map_descriptor(descriptor);
}

/// A file beneath a folder, through links that stay beneath it.
static MappedFile map_in_folder(const std::string& folder, const std::string& location) {
  const int base = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (base < 0) return failed(std::strerror(errno));
  struct open_how how {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long descriptor = syscall(SYS_openat2, base, location.c_str(), &how, sizeof how);
  const int code = errno;
  close(base);
  if (descriptor >= 0) return map_descriptor(static_cast<int>(descriptor));
  if (code == ENOSYS || code == EPERM) return map_resolved(folder, location);
  return failed(code == EXDEV ? kLeaves : std::strerror(code));
}

namespace {
/// A hub's cache of models: files are blobs, and a snapshot of a model has links to them,
/// `snapshots/VERSION/model.onnx_data -> ../../blobs/HASH`.
struct Cache {
  std::string folder;
  std::string snapshot;  // the model's folder, inside the cache
};
}  // namespace

static bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The innermost cache with this folder among its snapshots.
static std::optional<Cache> cache_of(const std::string& folder) {
  char* resolved = realpath(folder.c_str(), nullptr);
  const std::string path = resolved ? resolved : "";
  std::free(resolved);
  for (size_t at = path.rfind("/snapshots/"); at != std::string::npos && at > 0; at = path.rfind("/snapshots/", at - 1))
    if (is_folder(path.substr(0, at) + "/blobs")) return Cache{path.substr(0, at), path.substr(at + 1)};
  return {};
}

/// Whether a location may leave its folder even without links.
static bool goes_up(const std::string& location) { return ("/" + location + "/").find("/../") != std::string::npos; }

MappedFile map_beneath(const std::string& file, const std::string& location) {
  if (location.empty()) return failed("its location is empty");
  if (location.find('\0') != std::string::npos) return failed("its location holds a zero byte");
  if (location.front() == '/') return failed("it is an absolute path");
  const std::string folder = folder_of(file);
  MappedFile mapped = map_in_folder(folder, location);
  if (mapped.error != kLeaves || goes_up(location)) return mapped;
  const std::optional<Cache> cache = cache_of(folder);
  return cache ? map_in_folder(cache->folder, cache->snapshot + "/" + location) : std::move(mapped);
}

}  // namespace weftc
