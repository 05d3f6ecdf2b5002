// Strings in programs: exceptions for strings that do not fit, a table of letters, the search of a list; strings in
// .npy files. Pieces and numbers are compared with ONNX's definitions by kernels (test/ir/pointwise_rows.h).
#include "weft/strings.h"

#include <doctest/doctest.h>

#include <cstring>

#include "runtime_lib/src/npy.h"
#include "runtime_lib/src/npy_strings.h"

using namespace weft;

TEST_CASE("strings: a string of more than 255 bytes, and one that is no number, is thrown") {
  const String half = string_of(std::string(128, 'x'));
  CHECK(concat(half, string_of(std::string(127, 'y'))).length == 255);
  CHECK_THROWS_AS(concat(half, half), BadString);
  for (const char* no_number : {"", "+", "1x", " 1", "0x10", "infinity", "+-1"})
    CHECK_THROWS_AS(string_to_number<double>(string_of(no_number)), BadString);
  CHECK_THROWS_AS(string_to_number<int64_t>(string_of("1e30")), BadString);
  CHECK_THROWS_AS(string_to_number<uint64_t>(string_of("-1")), BadString);
}

TEST_CASE("strings: letters of the table change, and a list is searched") {
  const int32_t ranges[] = {'a', 'z', 1, -32, 0x101, 0x12f, 2, -1};
  CHECK(change_case(string_of("aZ\xc4\x81\xc4\x82 1"), ranges, 2) == string_of("AZ\xc4\x80\xc4\x82 1"));
  const String list[] = {string_of(""), string_of("a"), string_of("ab"), string_of("\xc3\xa9")};
  CHECK(find_string(string_of(""), list, 4) == 0);
  CHECK(find_string(string_of("\xc3\xa9"), list, 4) == 3);
  CHECK(find_string(string_of("aa"), list, 4) == 4);
}

TEST_CASE("strings: .npy files have them as code points of the longest one's width") {
  const String strings[] = {string_of("a"), string_of(""), string_of("\xe4\xbd\xa0\xf0\x9f\x98\x80")};
  const NpyParts parts(DType::String, {3}, reinterpret_cast<const char*>(strings));
  CHECK(parts.head().find("'<U2'") != std::string::npos);
  CHECK(parts.elements().size() == size_t{3} * 2 * 4);
  const std::string file = parts.head() + std::string(parts.elements());
  const NpyArray read(file, DType::String, "x");
  CHECK(memcmp(read.data(), strings, sizeof strings) == 0);
}

TEST_CASE("strings: elements of files that are none, or too long, are refused by their place") {
  const auto complaint = [](const std::string& type, const std::string& element) {
    const NpyHeader header{type, false, {1}, 0};
    try {
      npy_element_bytes(header, DType::String, "f");
      converted_elements(header, element, DType::String, "f");
    } catch (const Failure& failure) {
      return failure.text;
    }
    return std::string();
  };
  CHECK(complaint("<f4", "1234") == "f: elements are '<f4'; strings such as '<U12' are expected");
  for (const char* type : {"<U0", "<U", "<U-1", "<U1x", "<U99999999999", "|S3", "|O"})
    CHECK(complaint(type, "1234").find("strings such as '<U12' are expected") != std::string::npos);
  CHECK(complaint("<U1", std::string("\x00\xd8\x00\x00", 4)) == "f: element [0] holds 55296, which is no code point");
  std::string points;
  for (int i = 0; i < 256; ++i) points += std::string("a\0\0\0", 4);
  CHECK(complaint("<U256", points) == "f: element [0] has 256 bytes as UTF-8; a string has at most 255");
  CHECK(complaint("<U255", points.substr(4)).empty());
}
