// Names of mechanisms in schedules and in the text form.
#include "ir/mechanism.h"

namespace weftc {

static constexpr const char* kNames[] = {"streams", "signal", "fused", "pipeline", "beside"};

const char* mechanism_name(Mechanism mechanism) { return kNames[static_cast<int>(mechanism)]; }

std::optional<Mechanism> parse_mechanism(std::string_view name) {
  for (int m = 0; m < 5; ++m)
    if (name == kNames[m]) return static_cast<Mechanism>(m);
  return {};
}

}  // namespace weftc
