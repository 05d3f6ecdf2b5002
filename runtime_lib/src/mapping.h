// Memory that the system maps, for as long as its owner lives.
#pragma once
#include <cstdint>

namespace weft {

class Mapping {
 public:
  Mapping() = default;
  /// Takes over memory that mmap gave.
  Mapping(void* data, int64_t bytes) : data_(static_cast<char*>(data)), bytes_(bytes) {}
  /// Zeroed memory of this process, which takes room as it is used. No bytes: none. Throws Failure (environment).
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
