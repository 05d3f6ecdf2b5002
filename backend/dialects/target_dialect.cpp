#include "backend/dialects/target_dialect.h"

namespace weftc {

const TargetDialect& dialect_of(const Target& target) {
  static const TargetDialect kHost{"host", "kernel.h", ".cpp", "CXX", "r.invocation()", "cuda", {}, host_dialect};
  static const TargetDialect kCuda{
      "cuda",        "device.h", ".cu", "CXX CUDA", "r.invocation_at()", "mpi", {"-lcudart_static", "-lrt", "-ldl"},
      device_dialect};
  switch (target.kind) {
    case Target::Kind::Host:
      return kHost;
    case Target::Kind::Cuda:
      return kCuda;
  }
  return kHost;
}

}  // namespace weftc
