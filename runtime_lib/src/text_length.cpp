// The file lies in a folder of its own, so that no state has its name.
#include "text_length.h"

#include <unistd.h>

#include <cstring>

#include "checks.h"
#include "npy.h"

namespace weft {

namespace {
std::string folder_in(const std::string& states) { return states + "/text"; }
std::string file_in(const std::string& states) { return folder_in(states) + "/length.npy"; }
}  // namespace

int64_t read_text_length(const Options& options, const Generation& generation) {
  if (options.load_state.empty()) return 0;
  const std::string file = file_in(options.load_state);
  if (access(file.c_str(), F_OK) != 0) {
    const char* asks = generation.positions != nullptr ? generation.positions : generation.mask;
    if (asks == nullptr) return 0;
    fail(kWrongInput, "--load-state %s: no %s says how many tokens the states hold, which '%s' depends on",
         options.load_state.c_str(), file.c_str(), asks);
  }
  const NpyFile count(file, DType::I64);
  int64_t length = -1;
  if (count.shape().empty()) memcpy(&length, count.data(), sizeof length);
  if (length < 0) fail(kWrongInput, "%s: one number of tokens is needed", file.c_str());
  return length;
}

void write_text_length(const Options& options, int64_t length) {
  if (options.save_state.empty()) return;
  make_folder(folder_in(options.save_state));
  write_npy(file_in(options.save_state), DType::I64, {}, reinterpret_cast<const char*>(&length));
}

}  // namespace weft
