// Lets images lie with their channels innermost where convolutions want it:
//
//   conv -> x[1, 64, 56, 56] -> conv      both multiply runs of channels: x is stored as 0 2 3 1
//   input of the model -> conv            stays row-major: the convolution brings it into that order
//
//   conv -> Transpose -> y[1, 56, 56, 64]       the channels are innermost already: y stays row-major
//   product -> Transpose -> x[1, 64, 56, 56]    its columns are channels: x is stored as 0 2 3 1
//
// Buffers that steps other than kernels read or write stay row-major, and so do windows that peers reach. Launches of
// one kernel whose buffers lie differently get a kernel each.
#include <algorithm>
#include <set>

#include "passes/plan/kernel_forms.h"

namespace weftc {

namespace {

IndexList element_of(const KernelBody& body, ValueId value) { return element_of(body.extents(value), "i"); }

/// Whether an index goes with the channel: it is the same, or the index of one of several images whose channels lie
/// side by side (the phases of a ConvTranspose).
bool goes_with(const IndexExpr& index, const IndexExpr& channel) {
  const Stride stride = stride_of(index, channel.text());
  return index == channel || (stride.affine && stride.coefficient == 1);
}

/// Whether each element of `value` is computed from one element of `from`, and dimension `dim` of `from` holds the
/// channels of the image `value`. Views may lie between the two, so `dim` may be another dimension of `value`.
bool makes_channels_of(const KernelBody& body, ValueId value, ValueId from, int dim) {
  const IndexList index = element_of(body, value);
  if (index.size() <= 2) return false;
  const IndexExpr& channel = index[kChannels];
  std::set<ValueId> seen;
  std::vector<std::pair<ValueId, IndexList>> reached{{value, index}};
  for (size_t i = 0; i < reached.size(); ++i) {
    const auto [at, place] = reached[i];
    if (at == from)
      return place.size() > static_cast<size_t>(dim) && goes_with(place[static_cast<size_t>(dim)], channel);
    if (!seen.insert(at).second) continue;
    const Op& op = body.body.producer_op(at);
    if (op.kind == OpKind::Concat || op.kind == OpKind::Pad) {  // move elements along their dimensions
      for (const ValueId v : op.inputs)
        if (v) reached.emplace_back(v, place);
    } else if (category(op) == Category::View) {
      if (std::optional<IndexList> before = body.view_index(at, place)) reached.emplace_back(op.inputs[0], *before);
    } else if (category(op) == Category::Pointwise) {
      for (const ValueId v : op.inputs)
        if (v) reached.emplace_back(v, broadcast_index(place, body.dims(v)));
    }
  }
  return false;
}

/// Constraints and votes on a buffer's storage.
struct Wishes {
  bool is_fixed = false;  // row-major, whatever kernels want
  int votes = 0;          // of kernels, for channels innermost; negative: against
  bool has_rows = false;  // kernels read it by rows, which may be any dimensions
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
    // In the order of steps: a kernel that reads an image with channels innermost leaves its result so too.
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
      const bool is_result = f >= kernel.body.inputs().size();
      if (!is_same || !(reads_any_storage(kernel) || (is_result && writes_any_storage(kernel)))) fix(id);
      if (!is_result && std::holds_alternative<Rows>(kernel.strategy)) wishes_of(id).has_rows = true;
      bound.buffers[f] = id;
    }
    launches_.push_back(std::move(bound));
  }

  /// Strategies that reach elements by their indices, in any storage.
  static bool reads_any_storage(const Kernel& kernel) {
    return copies_image(kernel.strategy) || std::holds_alternative<WindowReduction>(kernel.strategy) ||
           std::holds_alternative<Elementwise>(kernel.strategy) || std::holds_alternative<Rows>(kernel.strategy);
  }

  /// Products store their results by index.
  static bool writes_any_storage(const Kernel& kernel) {
    return std::holds_alternative<PackedProduct>(kernel.strategy) ||
           std::holds_alternative<StridedProduct>(kernel.strategy);
  }

  KernelBody body_of(const Kernel& kernel) const { return {kernel, plan_.places[kernel.place.index].mesh.size()}; }

  /// A convolution that multiplies runs of channels wants its image so, and as a product does, its results where its
  /// columns are their channels.
  void vote(const Kernel& kernel, const Buffers& bound) {
    const bool is_convolution = copies_image(kernel.strategy).has_value();
    if (!is_convolution && !writes_any_storage(kernel)) return;
    const KernelBody body = body_of(kernel);
    const bool leaves_rows = !is_convolution || is_of_training(kernel.strategy);
    if (is_convolution) vote_for_image(body, bound, leaves_rows);
    const ValueId root = contraction_of(kernel.body);
    const int columns = is_convolution ? kChannels : kernel.body.type(root).ndim() - 1;
    for (size_t f = kernel.body.inputs().size(); f < bound.size(); ++f)
      if (bound[f] && !(leaves_rows && wishes_of(bound[f]).has_rows) &&
          makes_channels_of(body, body.computed_value(f - kernel.body.inputs().size()), root, columns))
        ++wishes_of(bound[f]).votes;
  }

  /// Whether a convolution copies its image anyway: channels are multiplied four at a time, and there are fewer.
  static bool fills_channels_up(const KernelBody& body) {
    const auto* direct = std::get_if<DirectConvolution>(&body.kernel.strategy);
    return direct && body.dims(image_of(body))[kChannels] % direct->together != 0;
  }

  /// Whether a convolution has filters that change. Derivatives of norms read the rows of their images, and take
  /// several times as long where rows are not contiguous; copying the images takes less time than that gains.
  static bool is_of_training(const Strategy& strategy) {
    const auto* direct = std::get_if<DirectConvolution>(&strategy);
    return direct && direct->copies_filters;
  }

  void vote_for_image(const KernelBody& body, const Buffers& bound, bool leaves_rows) {
    const std::optional<Load> load = load_of_image(body);
    if (!load || !bound[load->parameter] || fills_channels_up(body)) return;
    if (leaves_rows && wishes_of(bound[load->parameter]).has_rows) return;
    if (makes_channels_of(body, image_of(body), body.body.inputs()[load->parameter], kChannels))
      ++wishes_of(bound[load->parameter]).votes;
  }

  void pass_on(const Kernel& kernel, const Buffers& bound) {
    const bool passes = std::holds_alternative<Elementwise>(kernel.strategy) ||
                        std::holds_alternative<WindowReduction>(kernel.strategy);
    if (!passes) return;
    const KernelBody body = body_of(kernel);
    const size_t inputs = kernel.body.inputs().size();
    for (size_t f = inputs; f < bound.size(); ++f) {
      if (!bound[f] || wishes_of(bound[f]).is_fixed) continue;
      const ValueId result = body.computed_value(f - inputs);
      for (size_t i = 0; i < inputs; ++i)
        if (bound[i] && wishes_of(bound[i]).channels_last && passes_channels(body, result, i))
          wishes_of(bound[f]).channels_last = true;
    }
  }

  /// Whether the channels of image `input` are the channels of the result. A pool reads its image itself.
  static bool passes_channels(const KernelBody& body, ValueId result, size_t input) {
    const ValueId pool = contraction_of(body.body), image = body.body.inputs()[input];
    const bool is_pooled = pool && body.body.producer_op(pool).inputs[0] == image;
    return makes_channels_of(body, result, is_pooled ? pool : image, kChannels);
  }

  void apply() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (wishes_[b].channels_last)
        plan_.buffers[b].storage.parts = Storage::channels_last(plan_.buffers[b].type.ndim()).parts;
    KernelForms forms(draft_);
    for (Bound& bound : launches_) {
      std::vector<Storage> storages;
      for (size_t f = 0; f < bound.buffers.size(); ++f)
        storages.push_back(bound.buffers[f] ? plan_.buffer(bound.buffers[f]).storage
                                            : kernel_of(bound).parameters[f].storage);
      forms.lay(*bound.launch, bound.user, storages);
    }
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<Wishes> wishes_;   // by BufferId
  std::vector<Bound> launches_;  // in the order of steps
};

}  // namespace

void choose_storage(PlanDraft& planning) { StorageChooser(planning).run(); }

}  // namespace weftc
