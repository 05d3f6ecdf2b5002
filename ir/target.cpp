// The capabilities of each target. A new target is a function here; passes read only these numbers.
#include "ir/target.h"

#include <utility>

#include "ir/base/check.h"

namespace weftc {

namespace {

#if defined(__x86_64__)
constexpr const char* kThisMachine = "x86_64";
HostArch native_arch() {
  const int vector_floats = __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") ? 8 : 4;
  return {"native", "native", kThisMachine, vector_floats, vector_floats > 4};
}
#else
#if defined(__aarch64__)
constexpr const char* kThisMachine = "aarch64";
#else
constexpr const char* kThisMachine = "this";
#endif
HostArch native_arch() { return {"native", "native", kThisMachine, 4, true}; }
#endif

const std::vector<HostArch>& host_archs() {
  static const std::vector<HostArch> archs = {
      {"x86-64", "x86-64", "x86_64", 4, false},      {"x86-64-v2", "x86-64-v2", "x86_64", 4, false},
      {"x86-64-v3", "x86-64-v3", "x86_64", 8, true}, {"x86-64-v4", "x86-64-v4", "x86_64", 16, true},
      {"aarch64", "armv8-a", "aarch64", 4, true},    native_arch(),
  };
  return archs;
}

}  // namespace

const HostArch* find_host_arch(std::string_view name) {
  for (const HostArch& arch : host_archs())
    if (name == arch.name) return &arch;
  return nullptr;
}

std::vector<std::string> host_arch_names() {
  std::vector<std::string> names;
  for (const HostArch& arch : host_archs()) names.emplace_back(arch.name);
  return names;
}

const char* this_machine() { return kThisMachine; }

Target host_target(std::vector<std::string> archs) {
  const HostArch* lowest = find_host_arch(archs.front());
  WEFT_CHECK(lowest, "a level of CPUs that no table has");
  Target target;
  target.archs = std::move(archs);
  target.machine = lowest->machine;
  target.vector_floats = lowest->vector_floats;
  target.has_fma = lowest->has_fma;
  return target;
}

Target cuda_target(std::vector<std::string> archs) {
  Target target;
  target.kind = Target::Kind::Cuda;
  target.archs = std::move(archs);
  target.panel_width = 0;
  target.warp = 32;
  target.resident_blocks = 32;  // kMaxPeerBlocks of weft/peers.h
  target.chunk_threads = 128;
  target.multiprocessors = 132;               // an H100; smaller devices run the blocks in two rounds
  target.shared_memory = int64_t{48} * 1024;  // available to a kernel on every device without opting in
  target.library_products = true;
  return target;
}

}  // namespace weftc
