// A memory mapping, freed by its owner.
#pragma once
#include <cstdint>

namespace weft {

class Mapping {
 public:
  Mapping() = default;
  /// Takes over memory that mmap gave.
  Mapping(void* data, int64_t bytes) : data_(static_cast<char*>(data)), bytes_(bytes) {}
  /// Zeroed memory of this process, which the system provides as it is used; no mapping for 0 bytes. Throws Failure
  /// (environment).
  static Mapping zeroed(int64_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  char* data() const { return data_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace weft
