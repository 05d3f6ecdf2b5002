// Numbers with units, as people write them in files and on the command line: "80GiB", "900GB/s", "3us".
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace weftc {

/// Kinds of quantity. Each has its units, by powers of 1000: KB is 1000 bytes, KiB is 1024.
enum class Quantity : unsigned char {
  Bytes,       // B, KB ... TB, KiB ... TiB; no unit: bytes
  ByteRate,    // B/s, KB/s ... TB/s, Gbit/s
  Seconds,     // ns, us, ms, s
  Operations,  // OP/s, KOP/s ... TOP/s: operations a second
};

/// Parses a decimal number that is not negative, with a unit. Returns bytes, bytes a second, seconds or operations a
/// second; nothing for any other text.
std::optional<double> parse_quantity(std::string_view text, Quantity quantity);
/// Writes a number that is not negative with a unit. Bytes are rounded to whole ones, all else to four digits.
std::string quantity_text(double number, Quantity quantity);
/// An example for messages: "a rate such as 900GB/s".
const char* example_of(Quantity quantity);

}  // namespace weftc
