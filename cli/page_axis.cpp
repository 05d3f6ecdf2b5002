#include "cli/page_axis.h"

#include <cmath>

#include "cli/table.h"
#include "cli/timeline_text.h"

namespace weftc {

std::vector<Params> time_axis(double seconds) {
  std::vector<Params> ticks;
  const double rough = seconds / 10, power = std::pow(10, std::floor(std::log10(rough)));
  const double unit = rough / power < 1.5   ? power
                      : rough / power < 3.5 ? 2 * power
                      : rough / power < 7.5 ? 5 * power
                                            : 10 * power;
  for (int i = 0; i * unit < seconds * 0.97; ++i) {
    Params tick;
    tick.set("x", fixed(100 * i * unit / seconds, "%.4f%%")).set("label", i == 0 ? "0" : time_text(i * unit));
    tick.set("class", i % 4 == 0 ? "always" : i % 2 == 0 ? "half" : "full");
    ticks.push_back(std::move(tick));
  }
  return ticks;
}

}  // namespace weftc
