// What kernels do with strings. They throw BadString where one would have more bytes than a String holds, or is no
// number that one is made of.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/string.h"

namespace weft {

/// What a kernel throws that meets a string which it cannot go on with. The step around it refuses the request.
struct BadString {
  std::string what;
};

inline std::string_view view_of(const String& string) { return {string.bytes, string.length}; }
/// The string of these bytes.
String string_of(std::string_view bytes);
String concat(const String& a, const String& b);

/// How many pieces a string has between delimiters; with an empty delimiter, between white space, of which none stands
/// at the ends. At most `most` times the string is cut, from the left; -1: at every delimiter.
int64_t piece_count(const String& string, const String& delimiter, int64_t most);
/// One of these pieces; "" behind the last.
String piece(const String& string, int64_t number, const String& delimiter, int64_t most);

/// Letters from `first` to `last`, each `step` code points from the one before, that become others, `delta` away.
struct LetterRange {
  int32_t first, last, step, delta;
};
/// The string with its letters changed by `count` ranges in ascending order, four numbers each.
String change_case(const String& string, const int32_t* ranges, int64_t count);

/// The place of a string in a list in ascending order of bytes; `count` where it is not there.
int64_t find_string(const String& string, const String* list, int64_t count);

/// Whether an automaton accepts the bytes. A row of its table is a state, beginning with the first one: where each of
/// 256 bytes leads, and then whether the automaton may end there.
bool is_accepted(const String& string, const int32_t* table);

namespace detail {
String integer_text(int64_t value);
String integer_text(uint64_t value);
String real_text(float value);
String real_text(double value);
double real_of(const String& string);
int64_t integer_of(const String& string);
uint64_t unsigned_of(const String& string);
}  // namespace detail

/// A number as NumPy prints it: the fewest digits that read back as the same number of its type.
template <class T>
String number_to_string(T value) {
  if constexpr (std::floating_point<T>)
    return detail::real_text(value);
  else if constexpr (std::unsigned_integral<T>)
    return detail::integer_text(uint64_t{value});
  else
    return detail::integer_text(int64_t{value});
}

/// The number that a string is as a whole, in plain or scientific notation, or INF and NaN in any case. The fraction of
/// what becomes an integer is left out.
template <class T>
T string_to_number(const String& string) {
  if constexpr (std::same_as<T, uint64_t>)
    return detail::unsigned_of(string);
  else if constexpr (std::integral<T>)
    return T(detail::integer_of(string));
  else
    return T(detail::real_of(string));
}

}  // namespace weft
