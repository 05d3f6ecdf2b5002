#include "passes/plan/kernel_forms.h"

#include <algorithm>

#include "ir/kernel/window_geometry.h"

namespace weftc {

ValueId image_of(const KernelBody& body) {
  const ValueId root = contraction_of(body.body);
  return root ? body.body.producer_op(root).inputs[0] : ValueId{};
}

std::optional<Load> load_of_image(const KernelBody& body) {
  const ValueId image = image_of(body);
  return image ? body.load_of(image, element_of(body.extents(image), "i")) : std::nullopt;
}

namespace {

/// The channels of a group that one filter sums, for the strategy whose groups lie innermost.
int64_t channels_of_group(const KernelBody& body) {
  const bool is_grouped = std::holds_alternative<ChannelConvolution>(body.kernel.strategy);
  return is_grouped ? window_geometry(body, contraction_of(body.body))->channels : 1;
}

}  // namespace

bool has_channels_innermost(const KernelBody& body) {
  const std::optional<Load> load = load_of_image(body);
  if (!load) return false;
  const IndexDims extents = body.extents(image_of(body));
  const Storage storage = Storage::groups_last(static_cast<int>(extents.size()), channels_of_group(body));
  return load->offset == storage.offset(extents, element_of(extents, "i"));
}

namespace {

/// Whether a pool may read its image in the stored layout: pools do not compute with floats of 16 bits.
bool computes_as_stored(const KernelBody& body) {
  const std::optional<Load> load = load_of_image(body);
  const DType dtype = load ? body.kernel.parameters[load->parameter].type.dtype : DType::Bool;
  return !is_float(dtype) || dtype_bytes(dtype) > 2;
}

/// The kernel takes its operands so.
void lay_kernel(const Plan& plan, Kernel& kernel, const std::vector<Storage>& storages) {
  for (size_t f = 0; f < storages.size(); ++f) kernel.parameters[f].storage = storages[f];
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  const bool lies_so = has_channels_innermost(body);
  set_copies_image(kernel.strategy, !lies_so);
  if (auto* window = std::get_if<WindowReduction>(&kernel.strategy))
    window->channels_last = lies_so && computes_as_stored(body);
}

}  // namespace

void KernelForms::lay(LaunchStep& launch, const std::string& user, const std::vector<Storage>& storages) {
  Plan& plan = draft_.plan;
  const auto lies_so = [&](KernelId id) {
    const std::vector<Parameter>& parameters = plan.kernel(id).parameters;
    return std::equal(storages.begin(), storages.end(), parameters.begin(),
                      [](const Storage& wanted, const Parameter& parameter) { return wanted == parameter.storage; });
  };
  std::vector<KernelId>& known = forms_[launch.kernel];
  auto form = std::find_if(known.begin(), known.end(), lies_so);
  if (form == known.end()) {
    const KernelId own = launch.kernel;
    known.push_back(known.empty() ? own : copy_kernel(draft_, own, user));
    form = known.end() - 1;
    lay_kernel(plan, plan.kernels[form->index], storages);
  }
  if (!(*form == launch.kernel)) move_user(plan, launch, *form, user);
}

}  // namespace weftc
