// What a Plan is built for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weftc {

struct Target {
  enum class Kind : uint8_t { Host, Cuda };
  Kind kind = Kind::Host;
  std::vector<std::string> archs;  // host: one -march value; cuda: sm_80, ...
  int vector_floats = 8;           // host: floats in a vector register
  int64_t memory = 0;              // bytes a rank may use; 0: not limited
};

}  // namespace weftc
