// Kernels by how their operands lie in memory: launches of one kernel whose operands lie differently get a kernel each.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/kernel/kernel_body.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

/// The dimension of an image that its channels are.
inline constexpr int kChannels = 1;

/// The image that a convolution or pool reads, or the first operand of a product; invalid for other kernels.
ValueId image_of(const KernelBody& body);
/// Where an element of the image is read, through views; nothing where it is computed.
std::optional<Load> load_of_image(const KernelBody& body);
/// Whether the image, or a view of it, has its channels or groups innermost.
bool has_channels_innermost(const KernelBody& body);

class KernelForms {
 public:
  explicit KernelForms(PlanDraft& draft) : draft_(draft) {}

  /// The launch of step `user` takes its operands in `storages`, one for each parameter. The kernel itself takes the
  /// form of its first launch, so all its launches must be given one.
  void lay(LaunchStep& launch, const std::string& user, const std::vector<Storage>& storages);

 private:
  PlanDraft& draft_;
  std::map<KernelId, std::vector<KernelId>> forms_;  // of each kernel, the first itself
};

}  // namespace weftc
