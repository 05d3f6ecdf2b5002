// A typed index into an arena. The compiler stores it instead of pointers.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace weftc {

template <class Tag>
struct Id {
  uint32_t index = UINT32_MAX;

  constexpr explicit operator bool() const { return index != UINT32_MAX; }
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace weftc

template <class Tag>
struct std::hash<weftc::Id<Tag>> {
  size_t operator()(weftc::Id<Tag> id) const noexcept { return id.index; }
};
