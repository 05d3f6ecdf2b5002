// Operations on strings for kernels. They throw BadString if a result would have more bytes than a String holds, or if
// a string to be converted is not a number.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/string.h"

namespace weft {

/// The exception of a kernel that cannot process a string. The step around it refuses the request.
struct BadString {
  std::string what;
};

inline std::string_view view_of(const String& string) { return {string.bytes, string.length}; }
/// The string of these bytes.
String string_of(std::string_view bytes);
String concat(const String& a, const String& b);

/// How many pieces a string has between delimiters. An empty delimiter splits at white space, and ignores it at the
/// ends. The string is cut at most `most` times, from the left; -1: at every delimiter.
int64_t piece_count(const String& string, const String& delimiter, int64_t most);
/// One of these pieces; "" after the last.
String piece(const String& string, int64_t number, const String& delimiter, int64_t most);

/// Letters from `first` to `last`, `step` code points apart, each of which becomes the code point `delta` further on.
struct LetterRange {
  int32_t first, last, step, delta;
};
/// The string with its letters changed by `count` ranges in ascending order, four numbers each.
String change_case(const String& string, const int32_t* ranges, int64_t count);

/// The index of a string in a list in ascending order of bytes; `count` if it is not in the list.
int64_t find_string(const String& string, const String* list, int64_t count);

/// Whether an automaton accepts the bytes. Each row of its table is a state, and it starts in the first one. A row has
/// the next state for each of 256 bytes, and then whether the state accepts.
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

/// The number that the whole string denotes, in plain or scientific notation, or INF and NaN in upper or lower case.
/// For an integer type the fraction is dropped.
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
