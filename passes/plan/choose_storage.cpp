// Lets images lie with their channels innermost where convolutions want it:
//
//   conv -> x[1, 64, 56, 56] -> conv      both multiply runs of channels: x is stored as 0 2 3 1
//   input of the model -> conv            stays row-major: the convolution brings it into that order
//
// What steps other than kernels read or write, and windows that peers reach, stay row-major. A kernel that is launched
// for several buffers reads all of them in one way: its buffers are decided together.
#include <algorithm>
#include <functional>

#include "ir/kernel/kernel_body.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

/// Buffers that must lie alike, with what is known of them.
struct StorageClass {
  bool is_fixed = false;  // row-major, whatever kernels want
  int votes = 0;          // of kernels, for channels innermost; negative: against
  bool channels_last = false;
};

class StorageChooser {
 public:
  explicit StorageChooser(Plan& plan) : plan_(plan), parent_(plan.buffers.size()), classes_(plan.buffers.size()) {
    for (size_t b = 0; b < parent_.size(); ++b) parent_[b] = b;
  }

  void run() {
    for (const Port& port : plan_.inputs) fix(port.buffer);
    for (const Port& port : plan_.outputs) fix(port.buffer);
    for (const TransferTable& table : plan_.transfers) fix(table.from), fix(table.to);
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (const Buffer& buffer = plan_.buffers[b]; buffer.window || buffer.life != Life::Run || buffer.type.ndim() < 3)
        fix({static_cast<uint32_t>(b)});
    bound_.resize(plan_.kernels.size());
    for (const Block& block : plan_.blocks) for_each_step(block.steps, [&](const Step& step) { read_step(step); });
    for (size_t k = 0; k < plan_.kernels.size(); ++k) vote(plan_.kernels[k], bound_[k]);
    decide();
    apply();
  }

 private:
  /// One buffer for each parameter of a kernel that is bound to one, after joining those of all launches.
  using Bound = std::vector<BufferId>;

  size_t find(size_t b) {
    while (parent_[b] != b) b = parent_[b] = parent_[parent_[b]];
    return b;
  }
  StorageClass& class_of(BufferId id) { return classes_[find(id.index)]; }
  void fix(BufferId id) {
    if (id) class_of(id).is_fixed = true;
  }
  void join(BufferId a, BufferId b) {
    const size_t from = find(a.index), to = find(b.index);
    if (from == to) return;
    parent_[from] = to;
    classes_[to].is_fixed = classes_[to].is_fixed || classes_[from].is_fixed;
  }

  void read_step(const Step& step) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    if (launch) read_launch(*launch);
    for (const Access& access : step.accesses)
      if (!launch || !access.part.empty() || !access.peers.empty()) fix(access.buffer);
  }

  void read_launch(const LaunchStep& launch) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    Bound& bound = bound_[launch.kernel.index];
    bound.resize(kernel.parameters.size());
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      const BufferId id = launch.operands[f].buffer;
      if (!id) continue;
      // A Reshape outside of kernels gives the memory another shape.
      const bool is_same = plan_.buffer(id).type.dims() == kernel.parameters[f].type.dims();
      if (!is_same || !reads_any_storage(kernel)) fix(id);
      if (bound[f]) join(bound[f], id);
      bound[f] = id;
    }
  }

  /// Strategies whose elements are reached by their indices, wherever they lie.
  static bool reads_any_storage(const Kernel& kernel) {
    return copies_image(kernel.strategy) || std::holds_alternative<WindowReduction>(kernel.strategy) ||
           std::holds_alternative<Elementwise>(kernel.strategy) || std::holds_alternative<Rows>(kernel.strategy);
  }

  /// A convolution that multiplies runs of channels wants its image and its results so.
  void vote(const Kernel& kernel, const Bound& bound) {
    if (!copies_image(kernel.strategy) || bound.empty()) return;
    if (const std::optional<size_t> image = image_of(kernel); image && bound[*image]) ++class_of(bound[*image]).votes;
    for (size_t f = kernel.body.inputs().size(); f < bound.size(); ++f)
      if (bound[f] && kernel.parameters[f].type.ndim() > 2) ++class_of(bound[f]).votes;
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

  void decide() {
    for (size_t b = 0; b < classes_.size(); ++b)
      classes_[b].channels_last = find(b) == b && !classes_[b].is_fixed && classes_[b].votes > 0;
    // Kernels in the order of their first launch: what computes from an image that lies so leaves one that does.
    for (size_t k = 0; k < plan_.kernels.size(); ++k) pass_on(plan_.kernels[k], bound_[k]);
  }

  void pass_on(const Kernel& kernel, const Bound& bound) {
    const bool passes = std::holds_alternative<Elementwise>(kernel.strategy) ||
                        std::holds_alternative<WindowReduction>(kernel.strategy);
    const size_t inputs = kernel.body.inputs().size();
    if (!passes || bound.empty()) return;
    const bool reads = std::any_of(bound.begin(), bound.begin() + static_cast<long>(inputs),
                                   [&](BufferId id) { return id && class_of(id).channels_last; });
    for (size_t f = inputs; reads && f < bound.size(); ++f)
      if (bound[f] && !class_of(bound[f]).is_fixed) class_of(bound[f]).channels_last = true;
  }

  void apply() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (classes_[find(b)].channels_last)
        plan_.buffers[b].storage.parts = Storage::channels_last(plan_.buffers[b].type.ndim()).parts;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      Kernel& kernel = plan_.kernels[k];
      for (size_t f = 0; f < bound_[k].size(); ++f)
        if (bound_[k][f]) kernel.parameters[f].storage = plan_.buffer(bound_[k][f]).storage;
      const std::optional<size_t> image = image_of(kernel);
      const bool lies_so = image && !kernel.parameters[*image].storage.is_row_major();
      set_copies_image(kernel.strategy, !lies_so);
      if (auto* window = std::get_if<WindowReduction>(&kernel.strategy)) window->channels_last = lies_so;
    }
  }

  Plan& plan_;
  std::vector<size_t> parent_;  // joined buffers, by BufferId
  std::vector<StorageClass> classes_;
  std::vector<Bound> bound_;  // by KernelId
};

}  // namespace

void choose_storage(PlanDraft& planning) { StorageChooser(planning.plan).run(); }

}  // namespace weftc
