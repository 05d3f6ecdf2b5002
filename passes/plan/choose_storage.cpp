// Lets images lie with their channels innermost where convolutions want it:
//
//   conv -> x[1, 64, 56, 56] -> conv      both multiply runs of channels: x is stored as 0 2 3 1
//   input of the model -> conv            stays row-major: the convolution brings it into that order
//
// What steps other than kernels read or write, and windows that peers reach, stay row-major. Launches of one kernel
// whose buffers lie differently get a kernel each.
#include <algorithm>
#include <map>

#include "ir/kernel/kernel_body.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// What is known of a buffer.
struct Wishes {
  bool is_fixed = false;  // row-major, whatever kernels want
  int votes = 0;          // of kernels, for channels innermost; negative: against
  bool channels_last = false;
};

class StorageChooser {
 public:
  explicit StorageChooser(PlanDraft& draft) : draft_(draft), plan_(draft.plan), wishes_(plan_.buffers.size()) {}

  void run() {
    for (const Port& port : plan_.inputs) fix(port.buffer);
    for (const Port& port : plan_.outputs) fix(port.buffer);
    for (const TransferTable& table : plan_.transfers) fix(table.from), fix(table.to);
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (const Buffer& buffer = plan_.buffers[b]; buffer.window || buffer.life != Life::Run || buffer.type.ndim() < 3)
        fix({static_cast<uint32_t>(b)});
    for (Block& block : plan_.blocks) for_each_step(block.steps, [&](Step& step) { read_step(step); });
    for (const Bound& bound : launches_) vote(kernel_of(bound), bound.buffers);
    for (Wishes& wishes : wishes_) wishes.channels_last = !wishes.is_fixed && wishes.votes > 0;
    // In the order of steps: what computes from an image that lies so leaves one that does.
    for (const Bound& bound : launches_) pass_on(kernel_of(bound), bound.buffers);
    apply();
  }

 private:
  using Buffers = std::vector<BufferId>;
  /// A launch, with the buffer of each parameter that has one.
  struct Bound {
    LaunchStep* launch;
    std::string user;  // the step's name
    Buffers buffers;
  };

  const Kernel& kernel_of(const Bound& bound) const { return plan_.kernel(bound.launch->kernel); }
  Wishes& wishes_of(BufferId id) { return wishes_[id.index]; }
  void fix(BufferId id) {
    if (id) wishes_of(id).is_fixed = true;
  }

  void read_step(Step& step) {
    auto* launch = std::get_if<LaunchStep>(&step.what);
    if (launch) read_launch(*launch, step.name);
    for (const Access& access : step.accesses)
      if (!launch || !access.part.empty() || !access.peers.empty()) fix(access.buffer);
  }

  void read_launch(LaunchStep& launch, const std::string& user) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    Bound bound{&launch, user, Buffers(kernel.parameters.size())};
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      const BufferId id = launch.operands[f].buffer;
      if (!id) continue;
      // A Reshape outside of kernels gives the memory another shape.
      const bool is_same = plan_.buffer(id).type.dims() == kernel.parameters[f].type.dims();
      if (!is_same || !reads_any_storage(kernel)) fix(id);
      bound.buffers[f] = id;
    }
    launches_.push_back(std::move(bound));
  }

  /// Strategies whose elements are reached by their indices, wherever they lie.
  static bool reads_any_storage(const Kernel& kernel) {
    return copies_image(kernel.strategy) || std::holds_alternative<WindowReduction>(kernel.strategy) ||
           std::holds_alternative<Elementwise>(kernel.strategy) || std::holds_alternative<Rows>(kernel.strategy);
  }

  /// A convolution that multiplies runs of channels wants its image and its results so.
  void vote(const Kernel& kernel, const Buffers& bound) {
    if (!copies_image(kernel.strategy)) return;
    if (const std::optional<size_t> image = image_of(kernel); image && bound[*image]) ++wishes_of(bound[*image]).votes;
    for (size_t f = kernel.body.inputs().size(); f < bound.size(); ++f)
      if (bound[f] && kernel.parameters[f].type.ndim() > 2) ++wishes_of(bound[f]).votes;
  }

  /// The parameter that a convolution or pool reads its image from, if it reads it as it lies.
  static std::optional<size_t> image_of(const Kernel& kernel) {
    const ValueId root = contraction_of(kernel.body);
    if (!root) return {};
    const ValueId image = kernel.body.producer_op(root).inputs[0];
    if (kernel.body.producer_op(image).kind != OpKind::Input) return {};
    const std::vector<ValueId>& inputs = kernel.body.inputs();
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), image) - inputs.begin());
  }

  void pass_on(const Kernel& kernel, const Buffers& bound) {
    const bool passes = std::holds_alternative<Elementwise>(kernel.strategy) ||
                        std::holds_alternative<WindowReduction>(kernel.strategy);
    const size_t inputs = kernel.body.inputs().size();
    if (!passes) return;
    const bool reads = std::any_of(bound.begin(), bound.begin() + static_cast<long>(inputs),
                                   [&](BufferId id) { return id && wishes_of(id).channels_last; });
    for (size_t f = inputs; reads && f < bound.size(); ++f)
      if (bound[f] && !wishes_of(bound[f]).is_fixed) wishes_of(bound[f]).channels_last = true;
  }

  void apply() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (wishes_[b].channels_last)
        plan_.buffers[b].storage.parts = Storage::channels_last(plan_.buffers[b].type.ndim()).parts;
    std::map<KernelId, std::vector<KernelId>> forms;  // of each kernel, the first itself
    for (Bound& bound : launches_) {
      std::vector<KernelId>& known = forms[bound.launch->kernel];
      auto form =
          std::find_if(known.begin(), known.end(), [&](KernelId id) { return lies_as(plan_.kernel(id), bound); });
      if (form == known.end()) {
        const KernelId own = bound.launch->kernel;
        known.push_back(known.empty() ? own : copy_kernel(draft_, own, bound.user));
        form = known.end() - 1;
        lay(plan_.kernels[form->index], bound);
      }
      if (!(*form == bound.launch->kernel)) move_user(plan_, *bound.launch, *form, bound.user);
    }
  }

  bool lies_as(const Kernel& kernel, const Bound& bound) const {
    for (size_t f = 0; f < bound.buffers.size(); ++f)
      if (bound.buffers[f] && !(kernel.parameters[f].storage == plan_.buffer(bound.buffers[f]).storage)) return false;
    return true;
  }

  /// The kernel reads and writes these buffers as they lie.
  void lay(Kernel& kernel, const Bound& bound) const {
    for (size_t f = 0; f < bound.buffers.size(); ++f)
      if (bound.buffers[f]) kernel.parameters[f].storage = plan_.buffer(bound.buffers[f]).storage;
    const std::optional<size_t> image = image_of(kernel);
    const bool lies_so = image && !kernel.parameters[*image].storage.is_row_major();
    set_copies_image(kernel.strategy, !lies_so);
    if (auto* window = std::get_if<WindowReduction>(&kernel.strategy)) window->channels_last = lies_so;
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<Wishes> wishes_;   // by BufferId
  std::vector<Bound> launches_;  // in the order of steps
};

}  // namespace

void choose_storage(PlanDraft& planning) { StorageChooser(planning).run(); }

}  // namespace weftc
