// Headers of the runtime in the form that GCC reads fastest, for those who build many small programs, as the tests do.
// Reading `weft/kernel.h` is more than half of the time that a small kernel file takes to compile.
//
//   CACHE/3f9c.../weft/kernel.h.gch     one folder for each set of flags and each state of the headers
//
// With -ICACHE/3f9c... in front of the runtime's own folder GCC takes these; the sources and the objects stay the same.
#pragma once
#include <string>
#include <vector>

namespace weftc {

/// The folder below `cache` for files that `command` compiles (a compiler and its flags, without files) against
/// `headers` in the folder `include`; it is made if it is not there. Empty where it cannot be made: then headers are
/// read as usual.
std::string precompiled_headers(const std::string& cache, const std::vector<std::string>& command,
                                const std::string& include, const std::vector<const char*>& headers);

}  // namespace weftc
