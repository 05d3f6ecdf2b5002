// From the first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks.
#include "cli/tune/machine_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/process.h"

namespace weftc {

namespace {

double seconds_of(int who) {
  rusage used = {};
  getrusage(who, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

MachineLoad::MachineLoad() : start_(now()) {}

MachineLoad::Seconds MachineLoad::now() {
  std::istringstream text(read_file("/proc/stat").value_or(""));
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft_irq = 0, steal = 0;
  if (!(text >> cpu >> user >> nice >> system >> idle >> waiting >> irq >> soft_irq >> steal)) return {};
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  return {(user + nice + system + irq + soft_irq + steal) * tick, seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN),
          (idle + waiting) * tick};
}

double MachineLoad::of_others() const {
  const Seconds end = now();
  const double busy = end.all - start_.all, all = busy + end.idle - start_.idle;
  return all > 0 ? std::clamp((busy - (end.own - start_.own)) / all, 0.0, 1.0) : 0;
}

}  // namespace weftc
