// Headers of the runtime precompiled by GCC, for callers that build many small programs, such as tests. Reading
// `weft/kernel.h` is more than half of the compile time of a small kernel file.
//
//   CACHE/3f9c.../weft/kernel.h.gch     one folder for each set of flags and each state of the headers
//
// With -ICACHE/3f9c... before the runtime's own folder, GCC uses these; sources and objects stay the same.
#pragma once
#include <string>
#include <vector>

namespace weftc {

/// The folder below `cache` for files that `command` compiles (a compiler and its flags, without files) against
/// `headers` in the folder `include`. It is created if necessary. Empty if it cannot be created: headers are then read
/// as usual.
std::string precompiled_headers(const std::string& cache, const std::vector<std::string>& command,
                                const std::string& include, const std::vector<const char*>& headers);

}  // namespace weftc
