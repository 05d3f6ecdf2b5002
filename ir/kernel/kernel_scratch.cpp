// The counts follow the runtime's functions (runtime_lib/include/weft) and the arrays that the backend writes: each
// formula names its place.
#include "ir/kernel/kernel_scratch.h"

#include <algorithm>

#include "ir/kernel/scattered_sums.h"
#include "ir/kernel/top_k_lines.h"
#include "ir/kernel/window_geometry.h"
#include "ir/op_def.h"
#include "ir/plan_walk.h"
#include "ir/segments.h"

namespace weftc {

namespace {

/// Bytes of an element in computations; small floats are computed as f32.
int64_t computed_bytes(DType dtype) {
  return is_float(dtype) ? std::max<int64_t>(4, dtype_bytes(dtype)) : dtype_bytes(dtype);
}

class ScratchCounter {
 public:
  explicit ScratchCounter(const KernelBody& body) : body_(body), root_(contraction_of(body.body)) {
    if (root_ && root().has("kernel_shape")) geometry_ = window_geometry(body, root_);
  }

  /// Entries of 16 bytes, a key and its index (top_k.h): the first k seen so far and as many others.
  int64_t operator()(const TopK&) const {
    constexpr int64_t kEntry = 16, kBlock = 32;
    int64_t entries = 0;
    for_each_op(OpKind::TopK, [&](const Op& op) {
      const auto axis = static_cast<size_t>(op.integer("axis"));
      const int64_t length = body_.dims(op.inputs[0])[axis], k = body_.dims(op.outputs[0])[axis];
      if (!finds_by_passes(length, k)) entries = std::max(entries, most_candidates(length, k) + kBlock);
    });
    return entries * kEntry;
  }

  /// A heap of all boxes of a line, and the edges and areas of those that are kept (box_selection.h).
  int64_t operator()(const BoxSelection&) const {
    constexpr int64_t kEntry = 16, kNumbers = 5;
    int64_t bytes = 0;
    for_each_op(OpKind::BoxChoice, [&](const Op& op) {
      const Dims boxes = body_.dims(op.inputs[0]);
      const int64_t length = boxes[boxes.size() - 2], kept = std::min(length, op.integer("places"));
      bytes = std::max(bytes, length * kEntry + kept * kNumbers * computed_bytes(body_.body.type(op.inputs[0]).dtype));
    });
    return bytes;
  }

  /// Sums in wider numbers (backend/kernel_scatter.cpp).
  int64_t operator()(const Scatter&) const {
    int64_t bytes = 0;
    for (const OpKind kind : {OpKind::ScatterElements, OpKind::ScatterND})
      for_each_op(kind, [&](const Op& op) {
        const int64_t element = summed_bytes(op);
        bytes = std::max(bytes, element * element_count(body_.dims(op.inputs[0])));
      });
    return bytes;
  }

  /// Sums of the blocks of each row, and rows divided by powers of two if there are few (block_product.h).
  int64_t operator()(const BlockProduct&) const {
    int64_t bytes = computed_operands();
    for_each_op(OpKind::BlockMatMul, [&](const Op& op) {
      constexpr int64_t kFewRows = 3, kFloat = 4;
      const Dims dims = body_.dims(op.inputs[0]);  // blocks and places last
      const int64_t size = dims.back(), k = size * dims[dims.size() - 2], elements = element_count(dims);
      if (k > 0) bytes += kFloat * (elements / size + (elements / k <= kFewRows ? elements : 0));
    });
    return bytes;
  }

  /// Some panels of 16 columns (backend/kernel_windows.cpp), made from planes.
  int64_t operator()(const UnfoldedConvolution& s) const {
    return planes_copy() + (geometry_ ? s.panels * 16 * geometry_->channels * geometry_->taps * element() : 0);
  }
  /// Planes are copied into bordered images at once, other images first into one with channels innermost.
  int64_t operator()(const DirectConvolution& s) const {
    if (s.is_product) return image_copy(s.copies_image) + filters_copy(s);
    const bool from_planes = root_ && s.copies_image && s.together != 2 && is_row_major(root().inputs[0]);
    return filters_copy(s) + (from_planes ? 0 : image_copy(s.copies_image)) + bordered_images(from_planes);
  }
  int64_t operator()(const WinogradConvolution& s) const { return image_copy(s.copies_image); }
  int64_t operator()(const ChannelConvolution& s) const { return image_copy(s.copies_image) + filters_copy(s); }
  int64_t operator()(const PlaneConvolution&) const { return planes_copy(); }
  int64_t operator()(const PointConvolution&) const { return planes_copy(); }
  /// The rows of a plane after the first dimension is reduced (planes.h).
  int64_t operator()(const WindowReduction& s) const {
    if (s.channels_last || !geometry_) return planes_copy();
    const int64_t in_rows =
        geometry_->in.size() < 2 ? 1 : geometry_->inputs.high() / std::max<int64_t>(1, geometry_->in.back().high());
    return planes_copy() + (in_rows + 3) * geometry_->out.back().high() * element();
  }
  int64_t operator()(const PackedProduct&) const { return computed_operands(); }
  int64_t operator()(const StridedProduct&) const { return computed_operands(); }
  template <class Other>
  int64_t operator()(const Other&) const {
    return 0;
  }

 private:
  template <class Visit>
  void for_each_op(OpKind kind, const Visit& visit) const {
    for (OpId id = body_.body.first(); id; id = body_.body.next(id))
      if (body_.body.op(id).kind == kind) visit(body_.body.op(id));
  }

  int64_t summed_bytes(const Op& op) const {
    const std::optional<DType> sum =
        scattered_sum_type(op, body_.body.type(op.outputs[0]).dtype, element_count(body_.dims(op.inputs[0])),
                           element_count(body_.dims(op.inputs[2])));
    return sum ? dtype_bytes(*sum) : 0;
  }

  const Op& root() const { return body_.body.producer_op(root_); }
  int64_t element() const { return computed_bytes(body_.body.type(root_).dtype); }
  int64_t array_bytes(ValueId value) const {
    return element_count(body_.dims(value)) * computed_bytes(body_.body.type(value).dtype);
  }
  std::optional<Load> load(ValueId value) const { return body_.load_of(value, element_of(body_.extents(value), "x")); }
  bool is_row_major(ValueId value) const {
    const IndexDims extents = body_.extents(value);
    const std::optional<Load> found = load(value);
    return found && found->offset == linear_index(element_of(extents, "x"), extents);
  }

  /// The first operand of a contraction that needs it in an array of its own.
  int64_t planes_copy() const { return !root_ || is_row_major(root().inputs[0]) ? 0 : array_bytes(root().inputs[0]); }
  int64_t image_copy(bool copies) const { return root_ && copies ? array_bytes(root().inputs[0]) : 0; }
  template <class Convolution>
  int64_t filters_copy(const Convolution& s) const {
    if (!root_ || !s.copies_filters) return 0;
    return s.packing.elements(body_.dims(root().inputs[1])) * element();
  }
  /// Operands of a product that the kernel computes before it multiplies them.
  int64_t computed_operands() const {
    int64_t bytes = 0;
    for (size_t i = 0; root_ && i < std::min<size_t>(2, root().inputs.size()); ++i)
      if (!load(root().inputs[i])) bytes += array_bytes(root().inputs[i]);
    return bytes;
  }
  /// Images with their borders, as many as are made at a time (bordered_image.h). Without a border none are made,
  /// unless images are copied anyway.
  int64_t bordered_images(bool copies) const {
    constexpr int64_t kMost = int64_t{1} << 20;
    if (!geometry_) return 0;
    const WindowGeometry& g = *geometry_;
    int64_t count = g.groups * g.channels, inside = count;
    for (size_t d = 0; d < g.in.size(); ++d) {
      const int64_t before = g.before[d].high();
      const int64_t last = (g.out[d].high() - 1) * g.stride[d] + (g.window[d] - 1) * g.dilation[d] - before;
      copies |= before > 0 || last >= g.in[d].high();
      count *= last + before + 1, inside *= g.in[d].high();
    }
    const int64_t image = std::max(count, inside), batch = std::max<int64_t>(1, g.batch.high());
    return copies ? image * std::clamp<int64_t>(kMost / std::max<int64_t>(1, image), 1, batch) * element() : 0;
  }

  const KernelBody& body_;
  const ValueId root_;
  std::optional<WindowGeometry> geometry_;
};

}  // namespace

int64_t scratch_bytes(const Plan& plan, const Kernel& kernel) {
  if (plan.target.has_grid()) return 0;
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  return std::visit(ScratchCounter(body), kernel.strategy);
}

int64_t scratch_bytes(const Plan& plan, const Program& program) {
  int64_t most = 0;
  for (const Kernel& kernel : plan.kernels)
    if (holds(plan, program, kernel.place)) most = std::max(most, scratch_bytes(plan, kernel));
  return most;
}

int64_t needed_bytes(const Plan& plan, const Program& program) {
  return program.own_bytes + program.window_bytes + program.thread_bytes + scratch_bytes(plan, program) +
         image_bytes(plan, program);
}

}  // namespace weftc
