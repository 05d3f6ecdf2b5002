// Lets convolutions take another strategy where that spares bringing images from one order to another:
//
//   conv a -> x -> conv b -> y -> conv c       a and c are computed channels innermost: b is too, unless computing b
//                                              by planes saves more than it takes to bring x and y to another order
//   model's input -> conv a                    the input lies in planes
//
// Pools and elementwise kernels read and write any order: their operands and results count as one image here.
#include "passes/plan/image_agreement.h"

#include <map>
#include <numeric>

#include "passes/cost/cost_model.h"
#include "passes/plan/kernel_forms.h"
#include "passes/strategy/convolution_price.h"

namespace weftc {

namespace {

/// Where a convolution reads an image or writes its result.
struct End {
  size_t kernel;
  BufferId buffer;
  double elements;
  bool is_turned;  // by a view: channels are innermost where the buffer is row-major
};

class ImageAgreement {
 public:
  ImageAgreement(const PlanDraft& planning, std::vector<StrategyChoice>& choices)
      : plan_(planning.plan),
        choices_(choices),
        joined_(plan_.buffers.size()),
        is_fixed_(plan_.buffers.size()),
        ends_of_(choices.size()),
        launches_(choices.size()) {
    std::iota(joined_.begin(), joined_.end(), size_t{0});
  }

  void run() {
    constexpr int kSweeps = 4;  // most plans need two
    // Most networks do best so; starting from each convolution's own best choice, planes would hold each other in
    // place.
    for (StrategyChoice& choice : choices_)
      if (choice.forms.innermost && choice.forms.planes) choice.strategy = choice.forms.innermost->strategy;
    fix_buffers();
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        if (const auto* launch = std::get_if<LaunchStep>(&step.what)) read_launch(*launch);
      });
    for (const auto& ends : ends_of_)
      for (const End& end : ends) readers_and_writers_[root(end.buffer)].push_back(end.kernel);
    bool changes = true;
    for (int sweep = 0; changes && sweep < kSweeps; ++sweep) {
      changes = false;
      for (size_t k = 0; k < choices_.size(); ++k) changes |= choose(k);
    }
  }

 private:
  /// Row-major, whatever convolutions want.
  void fix_buffers() {
    for (const Port& port : plan_.inputs) is_fixed_[port.buffer.index] = true;
    for (const Port& port : plan_.outputs) is_fixed_[port.buffer.index] = true;
    for (const TransferTable& table : plan_.transfers) is_fixed_[table.from.index] = is_fixed_[table.to.index] = true;
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      if (plan_.buffers[b].window || plan_.buffers[b].life != Life::Run) is_fixed_[b] = true;
  }

  void read_launch(const LaunchStep& launch) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    const Strategy& strategy = choices_[launch.kernel.index].strategy;
    const bool is_pool = std::holds_alternative<WindowReduction>(strategy);
    if (is_pool || std::holds_alternative<Elementwise>(strategy)) join_results(kernel, launch, {}, is_pool);
    const KernelBody body(kernel, plan_.places[kernel.place.index].mesh.size());
    const ValueId root = contraction_of(kernel.body);
    const OpKind kind = root ? kernel.body.producer_op(root).kind : OpKind::Input;
    if (kind != OpKind::Conv && kind != OpKind::ConvInteger) return;
    ++launches_[launch.kernel.index];
    const std::optional<Load> image = load_of_image(body);
    if (image && body.dims(image_of(body))[kChannels] > 1)
      add_end(body, launch, image->parameter, has_channels_innermost(body));
    for (size_t f = kernel.body.inputs().size(); f < launch.operands.size(); ++f)
      if (kernel.parameters[f].type.dims() == kernel.body.type(root).dims()) add_end(body, launch, f, false);
    join_results(kernel, launch, image ? std::optional(image->parameter) : std::nullopt, false);
  }

  void add_end(const KernelBody& body, const LaunchStep& launch, size_t parameter, bool is_turned) {
    const BufferId buffer = launch.operands[parameter].buffer;
    const size_t kernel = launch.kernel.index;
    const TensorType& type = body.kernel.parameters[parameter].type;
    if (!buffer) return;
    const int64_t elements = local_bytes(type, body.kernel.mesh) / dtype_bytes(type.dtype);
    ends_of_[kernel].push_back({kernel, buffer, static_cast<double>(elements), is_turned});
  }

  /// A pool's image and its result are one image. So are a result and each operand other than `image` that has as many
  /// elements along all dimensions except channels.
  void join_results(const Kernel& kernel, const LaunchStep& launch, std::optional<size_t> image, bool is_pool) {
    const BufferId result = launch.operands.back().buffer;
    if (!result) return;
    for (size_t f = 0; f + 1 < launch.operands.size(); ++f)
      if (const BufferId other = launch.operands[f].buffer; other && f != image && are_alike(kernel, f, is_pool))
        joined_[root(other)] = root(result);
  }
  static bool are_alike(const Kernel& kernel, size_t parameter, bool is_pool) {
    Dims dims = kernel.parameters[parameter].type.dims(), of_result = kernel.parameters.back().type.dims();
    if (dims.size() != of_result.size() || dims.size() < 3) return false;
    dims[kChannels] = of_result[kChannels] = 1;
    return is_pool || dims == of_result;
  }
  size_t root(BufferId buffer) {
    size_t at = buffer.index;
    while (joined_[at] != at) at = joined_[at] = joined_[joined_[at]];
    return at;
  }

  bool is_innermost(size_t k) const { return copies_image(choices_[k].strategy).has_value(); }

  /// The part of the other convolutions at an image that want it otherwise; 1 if the image is fixed otherwise.
  double part_against(const End& end, bool innermost) {
    if (end.is_turned || is_fixed_[end.buffer.index]) return innermost != end.is_turned ? 1 : 0;
    double others = 0, against = 0;
    for (const size_t k : readers_and_writers_[root(end.buffer)]) {
      if (k == end.kernel) continue;
      ++others;
      if (is_innermost(k) != innermost) ++against;
    }
    return others > 0 ? against / others : 0;
  }

  double seconds(size_t k, const PricedStrategy& form, bool innermost) {
    double total = form.seconds * launches_[k];
    for (const End& end : ends_of_[k]) total += kSecondsTransposed * end.elements * part_against(end, innermost);
    return total;
  }

  /// True if the kernel takes its other form.
  bool choose(size_t k) {
    const ConvolutionForms& forms = choices_[k].forms;
    if (!forms.innermost || !forms.planes || launches_[k] == 0) return false;
    const bool now = is_innermost(k);
    const PricedStrategy &mine = now ? *forms.innermost : *forms.planes,
                         &other = now ? *forms.planes : *forms.innermost;
    if (seconds(k, mine, now) <= seconds(k, other, !now)) return false;
    choices_[k].strategy = other.strategy;
    return true;
  }

  const Plan& plan_;
  std::vector<StrategyChoice>& choices_;
  std::vector<size_t> joined_;  // by BufferId: another buffer of the same image, or itself
  std::vector<bool> is_fixed_;
  std::vector<std::vector<End>> ends_of_;                      // by KernelId
  std::vector<double> launches_;                               // the same, of convolutions
  std::map<size_t, std::vector<size_t>> readers_and_writers_;  // of each image, convolutions
};

}  // namespace

void agree_on_images(const PlanDraft& planning, std::vector<StrategyChoice>& choices) {
  if (!planning.plan.target.has_grid()) ImageAgreement(planning, choices).run();
}

}  // namespace weftc
