// mmap and munmap of memory without a file.
#include "mapping.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "failure.h"

namespace weft {

Mapping Mapping::zeroed(int64_t bytes) {
  if (bytes == 0) return {};
  void* at = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) fail(kEnvironment, "cannot map %ld bytes of memory: %s", long(bytes), strerror(errno));
  return {at, bytes};
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_t(bytes_));
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace weft
