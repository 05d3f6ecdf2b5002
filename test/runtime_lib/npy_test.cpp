// .npy files: what is written is read back, and every way in which a file can be wrong is one clear line.
#include "runtime_lib/src/npy.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

using namespace weft;

namespace {

struct TemporaryFile {
  std::string name = "runtime_test_" + std::to_string(getpid()) + ".npy";
  ~TemporaryFile() { remove(name.c_str()); }
  void write(const std::string& bytes) const {
    FILE* out = fopen(name.c_str(), "wb");
    REQUIRE(out != nullptr);
    fwrite(bytes.data(), 1, bytes.size(), out);
    fclose(out);
  }
  std::string bytes() const {
    std::ifstream in(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::string npy_bytes(const std::string& header, size_t data, char major = 1) {
  std::string out = "\x93NUMPY";
  out += {major, 0, char(header.size() & 255), char(header.size() >> 8)};
  if (major > 1) out += {0, 0};
  return out + header + std::string(data, '\1');
}

std::string header(const std::string& descr, const std::string& shape, const char* order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string error_of(const std::string& bytes, DType dtype) {
  const TemporaryFile file;
  file.write(bytes);
  try {
    NpyFile npy(file.name, dtype);
  } catch (const Failure& failure) {
    CHECK(failure.code == kWrongInput);
    CHECK(failure.text.starts_with(file.name));
    return failure.text;
  }
  return "";
}

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("npy: written files are read back") {
  const TemporaryFile file;
  const float values[6] = {1, 2, 3, 4, 5, 6};
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3}, {6}, {1, 6, 1}}) {
    write_npy(file.name, DType::F32, shape, reinterpret_cast<const char*>(values));
    const NpyFile npy(file.name, DType::F32);
    CHECK(npy.shape() == shape);
    CHECK(reinterpret_cast<const float*>(npy.data())[5] == 6);
    CHECK(reinterpret_cast<uintptr_t>(npy.data()) % 64 == 0);
  }
  write_npy(file.name, DType::I64, {}, reinterpret_cast<const char*>(values));
  CHECK(NpyFile(file.name, DType::I64).shape().empty());
}

TEST_CASE("npy: good headers of other writers") {
  CHECK(error_of(npy_bytes(header("<f4", "(2,)"), 8), DType::F32) == "");
  CHECK(error_of(npy_bytes(header("<f4", "()"), 4), DType::F32) == "");
  CHECK(error_of(npy_bytes(header("<f4", "(0, 3)"), 0), DType::F32) == "");
  CHECK(error_of(npy_bytes("{'shape': (1,2), 'fortran_order': False, 'descr': '<i8'}", 16), DType::I64) == "");
  CHECK(error_of(npy_bytes(header("<u2", "(2,)"), 4), DType::BF16) == "");
  for (const char* ml_dtypes : {"<V2", "|V2"})
    CHECK(error_of(npy_bytes(header(ml_dtypes, "(2,)"), 4), DType::BF16) == "");
  CHECK(error_of(npy_bytes(header("<f2", "(2,)"), 4, 2), DType::F16) == "");
  CHECK(error_of(npy_bytes(header("|b1", "(3,)"), 3), DType::Bool) == "");
}

TEST_CASE("npy: bad files are refused") {
  CHECK(contains(error_of("", DType::F32), "not a .npy file"));
  CHECK(contains(error_of("PK\3\4 an archive", DType::F32), "not a .npy file"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(2,)"), 8, 9), DType::F32), "version 9"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(2,)"), 8).substr(0, 40), DType::F32), "ends inside"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(2,)", "Maybe"), 8), DType::F32), "neither True nor False"));
  CHECK(contains(error_of(npy_bytes(header(">f4", "(2,)"), 8), DType::F32), "big endian"));
  CHECK(contains(error_of(npy_bytes(header("<i8", "(2,)"), 16), DType::F32), "'<f4' (f32) is expected"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(2,)"), 8), DType::I64), "'<i8' (i64) is expected"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(3,)"), 8), DType::F32),
                 "8 bytes of elements; shape 3 of '<f4' needs 12"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(1,)"), 8), DType::F32), "needs 4"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(99999999999999999999,)"), 8), DType::F32), "too large"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(4611686018427387904, 8)"), 8), DType::F32), "needs more than"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(-1,)"), 8), DType::F32), "expected a number"));
  CHECK(contains(error_of(npy_bytes("{'descr': '<f4'}", 8), DType::F32), "are required"));
  CHECK(contains(error_of(npy_bytes("{'descr': '<f4', 'descr': '<f4'}", 8), DType::F32), "unexpected key"));
  CHECK(contains(error_of(npy_bytes(header("<f4", "(2"), 8), DType::F32), "expected a number"));
  CHECK(contains(error_of(npy_bytes("{", 0), DType::F32), "expected a string"));
  CHECK(contains(error_of(npy_bytes("", 0), DType::F32), "expected '{'"));
  CHECK_THROWS_AS(NpyFile("no such file.npy", DType::F32), Failure);
  CHECK_THROWS_AS(NpyFile("/", DType::F32), Failure);
}

namespace {

/// A file of these elements of another type, read as `dtype`.
template <class T>
std::string file_of(const std::string& descr, const std::vector<T>& values, const std::string& shape,
                    const char* fortran = "False") {
  return npy_bytes(header(descr, shape, fortran), 0) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
std::vector<T> read_as(const std::string& bytes, DType dtype, size_t count) {
  const TemporaryFile file;
  file.write(bytes);
  const NpyFile npy(file.name, dtype);
  const T* data = reinterpret_cast<const T*>(npy.data());
  return {data, data + count};
}

}  // namespace

TEST_CASE("npy: Fortran order is turned, and other widths are converted where no value changes") {
  const std::vector<float> columns = {1, 4, 2, 5, 3, 6}, rows = {1, 2, 3, 4, 5, 6};
  CHECK(read_as<float>(file_of("<f4", columns, "(2, 3)", "True"), DType::F32, 6) == rows);
  CHECK(read_as<double>(file_of("<f4", columns, "(2, 3)", "True"), DType::F64, 6) ==
        std::vector<double>(rows.begin(), rows.end()));
  CHECK(read_as<float>(file_of<double>("<f8", {0.5, -3, 65536}, "(3,)"), DType::F32, 2) ==
        std::vector<float>{0.5f, -3});
  CHECK(read_as<int64_t>(file_of<int32_t>("<i4", {-7, 9}, "(2,)"), DType::I64, 2) == std::vector<int64_t>{-7, 9});
  CHECK(read_as<uint8_t>(file_of<int64_t>("<i8", {255, 0}, "(2,)"), DType::U8, 2) == std::vector<uint8_t>{255, 0});
  CHECK(read_as<uint64_t>(file_of<uint64_t>("=u8", {~uint64_t{0}}, "(1,)"), DType::U64, 1)[0] == ~uint64_t{0});
  CHECK(read_as<uint8_t>(file_of<int64_t>("<i8", {1, 0}, "(2,)"), DType::Bool, 2) == std::vector<uint8_t>{1, 0});
  CHECK(read_as<uint16_t>(file_of<float>("<f4", {1, -2}, "(2,)"), DType::BF16, 2) ==
        std::vector<uint16_t>{0x3f80, 0xc000});
  CHECK(read_as<uint16_t>(file_of<double>("<f8", {1, NAN}, "(2,)"), DType::F16, 1)[0] == 0x3c00);
  CHECK(read_as<uint16_t>(file_of<uint16_t>("<u2", {0x7fc1}, "(1,)"), DType::BF16, 1)[0] == 0x7fc1);
  CHECK(read_as<uint16_t>(file_of<uint16_t>("<V2", {0x7fc1}, "(1,)"), DType::BF16, 1)[0] == 0x7fc1);
  CHECK(read_as<float>(file_of<uint16_t>("|V2", {0x3f80, 0xc000}, "(2,)"), DType::F32, 2) == std::vector<float>{1, -2});
  CHECK(contains(error_of(file_of<uint16_t>("|V2", {1}, "(1,)"), DType::U16), "elements are '|V2'"));
}

TEST_CASE("npy: bf16 is written as bits, or as ml_dtypes saves it") {
  const uint16_t bits[2] = {0x3f80, 0xc000};
  const TemporaryFile file;
  for (const Bfloat16Form form : {Bfloat16Form::Bits, Bfloat16Form::MlDtypes}) {
    write_npy(file.name, DType::BF16, {2}, reinterpret_cast<const char*>(bits), form);
    const NpyFile npy(file.name, DType::BF16);
    CHECK(memcmp(npy.data(), bits, sizeof bits) == 0);
    CHECK(contains(file.bytes(), form == Bfloat16Form::Bits ? "'<u2'" : "'|V2'"));
  }
  write_npy(file.name, DType::F16, {2}, reinterpret_cast<const char*>(bits), Bfloat16Form::MlDtypes);
  CHECK(contains(file.bytes(), "'<f2'"));
}

TEST_CASE("npy: a bool is 0 or 1; beside no elements the other extents may be of any size") {
  std::string bytes = npy_bytes(header("|b1", "(3,)"), 3);
  CHECK(error_of(bytes, DType::Bool).empty());
  bytes.back() = '\2';
  CHECK(contains(error_of(bytes, DType::Bool), "element [2] is 2, which bool does not hold"));
  const std::string huge = header("<f8", "(4611686018427387904, 4611686018427387904, 0)", "True");
  CHECK(error_of(npy_bytes(huge, 0), DType::F32).empty());
}

TEST_CASE("npy: the first value that would change is named") {
  CHECK(contains(error_of(file_of<double>("<f8", {0.5, 0.25, 0.1, 0.7}, "(2, 2)"), DType::F32),
                 "element [1, 0] is 0.1, which f32 does not hold; '<f4' is expected"));
  CHECK(contains(error_of(file_of<double>("<f8", {0.5, 0.1, 0.25, 0.7}, "(2, 2)", "True"), DType::F32),
                 "element [1, 0] is 0.1"));
  CHECK(contains(error_of(file_of<double>("<f8", {1e300}, "()"), DType::F32), "element [] is 1e+300"));
  CHECK(
      contains(error_of(file_of<int64_t>("<i8", {1, 3'000'000'000}, "(2,)"), DType::I32), "element [1] is 3000000000"));
  CHECK(contains(error_of(file_of<int8_t>("|i1", {-1}, "(1,)"), DType::U64), "element [0] is -1, which u64"));
  CHECK(contains(error_of(file_of<uint64_t>("<u8", {~uint64_t{0}}, "(1,)"), DType::I64), "is 18446744073709551615"));
  CHECK(contains(error_of(file_of<int32_t>("<i4", {2}, "(1,)"), DType::Bool), "element [0] is 2"));
  CHECK(contains(error_of(file_of<float>("<f4", {1.0009765f}, "(1,)"), DType::BF16), "which bf16 does not hold"));
  CHECK(contains(error_of(file_of<double>("<f8", {65536}, "(1,)"), DType::F16), "which f16 does not hold"));
}
