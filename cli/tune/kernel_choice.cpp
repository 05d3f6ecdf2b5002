// Kernels by the names that explain prints.
#include "cli/tune/kernel_choice.h"

#include <algorithm>
#include <thread>

#include "ir/base/contains.h"

namespace weftc {

void check_named_kernels(const Options& options, const Plan& plan, const std::vector<KernelCandidates>& kernels,
                         Diags& diags) {
  std::vector<std::string> known;
  for (const KernelCandidates& kernel : kernels) known.push_back(kernel.kernel);
  const Loc file = Loc::in_file(options.schedules.front());
  for (const std::string& name : options.kernels) {
    if (contains(known, name)) continue;
    const auto pinned = std::find_if(plan.kernels.begin(), plan.kernels.end(), [&](const Kernel& kernel) {
      return kernel.name == name && kernel.pin.kind != Loc::Kind::None;
    });
    if (pinned != plan.kernels.end())
      diags.error("tune-pinned-kernel", file, "the schedule pins kernel '{}' to {}: nothing is left to try",
                  printable(name), strategy_text(pinned->strategy));
    else
      diags.error("tune-no-kernel", file, "'{}' is no kernel with another strategy to try{}; there are: {}",
                  printable(name), did_you_mean(name, known), known.empty() ? "none" : join(known, ", "));
  }
}

bool has_one_thread(const Options& options) {
  const auto flag = std::find(options.run_args.begin(), options.run_args.end(), "--threads");
  const bool is_given = flag != options.run_args.end() && flag + 1 != options.run_args.end();
  return is_given ? *(flag + 1) == "1" : std::thread::hardware_concurrency() == 1;
}

void drop_one_thread(std::vector<KernelCandidates>& kernels) {
  for (KernelCandidates& kernel : kernels)
    std::erase_if(kernel.pins, [](const KernelPin& pin) { return pin.one_thread; });
  std::erase_if(kernels, [](const KernelCandidates& kernel) { return kernel.pins.empty(); });
}

}  // namespace weftc
