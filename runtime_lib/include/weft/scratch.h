// Memory that a kernel needs while it runs. The calling thread keeps it for its next kernel, since mapping fresh pages
// can take longer than the kernel itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weft {

namespace detail {
/// Bytes from a multiple of 64 on, not initialised. Throws std::bad_alloc.
void* take_scratch(size_t bytes);
/// Memory is returned in the reverse order of taking, by the same thread.
void give_scratch_back(void* memory);
}  // namespace detail

/// `count` elements, not initialised.
template <class T>
class Scratch {
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit Scratch(int64_t count)
      : memory_(count > 0 ? static_cast<T*>(detail::take_scratch(static_cast<size_t>(count) * sizeof(T))) : nullptr) {}
  ~Scratch() {
    if (memory_) detail::give_scratch_back(memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* get() const { return memory_; }
  T& operator[](int64_t i) const { return memory_[i]; }

 private:
  T* memory_;
};

}  // namespace weft
