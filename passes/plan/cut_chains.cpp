// The step cut-chains of planning, for targets whose threads of a team share a kernel. Consecutive kernels with much
// memory between them run one after another for a block of rows, then for the next block. Attention is the common case:
//
//   scores = q kT            [12, 1500, 1500]         for 12 x 13 blocks of 1 x 120 rows:
//   p      = softmax(scores) [12, 1500, 1500]    ->     scores [120, 1500], p [120, 1500], y of 120 rows
//   y      = p v             [12, 1500, 64]
//
// The values between the kernels stay in the cache of the thread that computes the block, and memory grows with the
// length of the sequence instead of its square (FLAT). Every row is computed as before, so that no bit changes.
#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "ir/kernel/kernel_body.h"
#include "passes/plan/row_kernels.h"
#include "passes/strategy/strategy_rules.h"

namespace weftc {

namespace {

/// A chain that saves less than the cache of a core holds is not worth it.
constexpr int64_t kLeastBytes = int64_t{1} << 20;
/// A block has at most as many rows as contract.h takes at once. Longer rows mean fewer rows, so that the third level
/// of caches holds the intermediate values of some threads. But each block packs the other operand of a product into
/// panels again (attention of 16384 tokens: 24 rows 2.1 s, 120 rows 1.7 s).
constexpr int64_t kManyBytes = int64_t{1} << 23, kMostBytes = int64_t{1} << 25;
constexpr int64_t kManyRows = 120, kFewRows = 24, kTileRows = 12;  // as contract.h cuts rows
/// Small matrices go together, so that a call of a kernel is worth making.
constexpr int64_t kFewBytes = int64_t{1} << 17;
/// Fewer blocks than that leave threads without work.
constexpr int64_t kLeastBlocks = 16;
constexpr size_t kMostKernels = 8;
/// Indices of a dimension that are one row together, as heads of attention that share keys.
constexpr int64_t kMostTogether = 64;
constexpr int64_t kCacheLine = 64;

class ChainCutter {
 public:
  explicit ChainCutter(PlanDraft& draft) : draft_(draft), plan_(draft.plan), context_(plan_, draft.module) {}

  void run() {
    for (size_t axis = 0; axis < SharedRows::kMostAxes; ++axis)
      if (draft_.module.lengths.contains(row_words(axis, SharedRows::kMostAxes).length)) return;
    find_joined();
    for (Block& block : plan_.blocks) visit(block.steps);
    std::vector<RowLaunch> launches;
    for (Block& block : plan_.blocks)
      for_each_step(block.steps, [&](Step& step) {
        auto* loop = std::get_if<LoopStep>(&step.what);
        if (!loop || !loop->is_chain()) return;
        for (RowLaunch& launch : row_launches(plan_, draft_.module, *loop)) {
          launch.kept = panels_to_keep(*loop->rows, launch);
          launches.push_back(std::move(launch));
        }
      });
    give_rows(draft_, std::move(launches));
  }

 private:
  /// Buffers that share memory with another one: a block might overwrite data that the next block still has to read.
  void find_joined() {
    for (const StateSlot& state : plan_.states)
      if (state.in_place) joined_.insert({state.buffer, state.next});
    for (const Block& block : plan_.blocks)
      for_each_step(block.steps, [&](const Step& step) {
        const auto* copy = std::get_if<CopyStep>(&step.what);
        if (copy && copy->in_place) joined_.insert({copy->from, copy->to});
      });
  }

  bool writes_joined(const LoopStep& chain) const {
    for (const Step& step : chain.body)
      for (const Access& access : step.accesses)
        if (access.write && joined_.contains(access.buffer)) return true;
    return false;
  }

  /// Some steps that follow each other, as one step.
  struct Chain {
    size_t first, count;
    LoopStep loop;
    int64_t bytes;  // that need not be stored any more

    bool is_better_than(const Chain& other) const {
      return std::pair(loop.rows->axes.size(), bytes) > std::pair(other.loop.rows->axes.size(), other.bytes);
    }
    bool overlaps(const Chain& other) const { return first < other.first + other.count && other.first < first + count; }
  };

  /// Chunks have instances of their buffers, and threads that share a loop are in different trips of it.
  void visit(std::vector<Step>& steps) {
    for (Step& step : steps) {
      const auto* loop = std::get_if<LoopStep>(&step.what);
      if (std::holds_alternative<ForStep>(step.what) || (loop && loop->rows)) continue;
      for (auto* body : bodies_of(step)) visit(*body);
    }
    std::vector<Chain> found;
    for (size_t first = 0; first < steps.size(); ++first) find_chains(steps, first, found);
    std::stable_sort(found.begin(), found.end(), [](const Chain& a, const Chain& b) { return a.is_better_than(b); });
    std::vector<Chain> taken;
    for (Chain& chain : found)
      if (std::none_of(taken.begin(), taken.end(), [&](const Chain& other) { return chain.overlaps(other); }) &&
          is_as_fast(chain.loop))
        taken.push_back(std::move(chain));
    std::sort(taken.begin(), taken.end(), [](const Chain& a, const Chain& b) { return a.first > b.first; });
    for (Chain& chain : taken) cut(steps, std::move(chain));
  }

  /// The chains that begin with a step: up to the last reader of its result, and of the results computed from that in
  /// turn.
  void find_chains(const std::vector<Step>& steps, size_t first, std::vector<Chain>& found) const {
    size_t end = first;
    for (size_t i = first; i <= end && i < steps.size(); ++i) {
      const size_t last = last_reader(steps, first, i);
      if (last <= end) continue;
      end = last;
      Chain chain{first, end + 1 - first, {}, 0};
      chain.loop.max_trips = 1;
      chain.loop.body = {steps.begin() + static_cast<long>(first), steps.begin() + static_cast<long>(end) + 1};
      const std::vector<BufferId> inside = inside_of(chain.loop);
      for (const BufferId buffer : inside) chain.bytes += plan_.buffer(buffer).bytes;
      if (chain.bytes < kLeastBytes || writes_joined(chain.loop)) continue;
      const std::vector<RowAxis> axes = axes_of_chain(chain.loop, inside);
      if (axes.empty()) return;  // longer chains have no such axes either
      if (!std::all_of(axes.begin(), axes.end(), [&](const RowAxis& axis) { return is_known(axis); })) continue;
      chain.loop.rows = SharedRows{axes, {inside.begin(), inside.end()}};
      if (choose_blocks(*chain.loop.rows) && writes_lines(chain.loop, *chain.loop.rows))
        found.push_back(std::move(chain));
    }
  }

  /// The last step that reads a large buffer that step `maker` makes, if steps from `first` on are all that touches it:
  /// kernels of one stream between which nothing waits. Else 0.
  size_t last_reader(const std::vector<Step>& steps, size_t first, size_t maker) const {
    size_t last = 0;
    for (const Access& access : steps[maker].accesses) {
      if (!access.write || plan_.buffer(access.buffer).bytes < kLeastBytes / 2) continue;
      size_t reader = 0;
      int users = 0;
      for (size_t i = first; i < steps.size() && i < first + kMostKernels && follows(steps[first], steps[i]); ++i)
        if (touches(steps[i], access.buffer)) ++users, reader = i;
      if (users == context_.users[access.buffer.index]) last = std::max(last, reader);
    }
    return last;
  }

  static bool touches(const Step& step, BufferId buffer) {
    return std::any_of(step.accesses.begin(), step.accesses.end(),
                       [&](const Access& access) { return access.buffer == buffer; });
  }

  bool follows(const Step& first, const Step& step) const {
    return std::holds_alternative<LaunchStep>(step.what) && step.stream == first.stream && step.waits.empty() &&
           step.raises.empty() && step.transform.empty();
  }

  void cut(std::vector<Step>& steps, Chain chain) {
    const SharedRows& rows = *chain.loop.rows;
    for (const BufferId own : rows.own) {
      Buffer& buffer = plan_.buffers[own.index];
      buffer.life = Life::Block;
      buffer.bytes = round_up_to(block_elements(plan_, rows, own) * dtype_bytes(buffer.type.dtype), kBufferAlign);
    }
    Step step;
    step.name = chain.loop.body.back().name, step.stream = steps[chain.first].stream;
    for (const Step& inner : chain.loop.body)
      for (const OriginId origin : inner.origins)
        if (!contains(step.origins, origin)) step.origins.push_back(origin);
    const auto begin = steps.begin() + static_cast<long>(chain.first);
    steps.erase(begin + 1, begin + static_cast<long>(chain.count));
    step.what = std::move(chain.loop);
    *begin = std::move(step);
  }

  /// The axes along which all kernels have rows.
  std::vector<RowAxis> axes_of_chain(const LoopStep& chain, const std::vector<BufferId>& inside) const {
    const BufferId widest = *std::max_element(inside.begin(), inside.end(), [&](BufferId a, BufferId b) {
      return plan_.buffer(a).bytes < plan_.buffer(b).bytes;
    });
    std::vector<RowAxis> axes;
    for (int d = plan_.buffer(widest).type.ndim() - 2; d >= 0 && axes.size() < SharedRows::kMostAxes; --d)
      if (std::optional<RowAxis> axis = axis_of_chain(chain, widest, d)) axes.insert(axes.begin(), std::move(*axis));
    return axes;
  }

  bool is_as_fast(LoopStep& chain) const {
    const std::vector<RowLaunch> launches = row_launches(plan_, draft_.module, chain);
    return std::all_of(launches.begin(), launches.end(), [&](const RowLaunch& launch) { return is_as_fast(launch); });
  }

  static bool goes_through_rows(const Step& step, const RowAxis& axis) {
    bool has_rows = false, has_long_ones = false;
    for (const Access& access : step.accesses)
      if (const auto stride = axis.strides.find(access.buffer); stride != axis.strides.end())
        has_rows = true, has_long_ones |= stride->second.high() > 1;
    return has_long_ones || !has_rows;
  }

  /// As many rows as there are along a dimension: all of its indices, or some together where kernels have them so, as
  /// heads of attention that share keys. A row is more than one element, so that kernels go through it as before.
  std::optional<RowAxis> axis_of_chain(const LoopStep& chain, BufferId widest, int dim) const {
    const int64_t extent = plan_.buffer(widest).type.shape[static_cast<size_t>(dim)].bound;
    for (int64_t block = 1; block <= kMostTogether && 2 * block <= extent; ++block) {
      if (extent % block) continue;
      std::optional<SharedRows> found = rows_of_loop(context_, chain, widest, dim, block);
      if (!found || !found->own.empty()) continue;
      const RowAxis& axis = found->axes[0];
      const bool has_rows = std::all_of(chain.body.begin(), chain.body.end(),
                                        [&](const Step& step) { return goes_through_rows(step, axis); });
      return has_rows ? std::optional(axis) : std::nullopt;
    }
    return {};
  }

  /// Whether all lengths are known before the kernels run, as those of inputs are: one of the steps might make a
  /// length.
  bool is_known(const RowAxis& axis) const {
    const auto is_made = [&](const std::string& name) {
      return std::any_of(plan_.lengths.begin(), plan_.lengths.end(),
                         [&](const LengthBuffer& each) { return each.is_made && each.name == name; });
    };
    bool all = true;
    const auto visit = [&](const Length& length) {
      for_each_name(length, [&](const LengthSymbolPtr& name) { all = all && !is_made(name->text); });
    };
    visit(axis.count);
    for (const auto& [buffer, stride] : axis.strides) visit(stride);
    return all;
  }

  /// Plain buffers that only the chain touches.
  std::vector<BufferId> inside_of(const LoopStep& chain) const {
    std::vector<BufferId> inside;
    for (const Step& step : chain.body)
      for (const Access& access : step.accesses) {
        const Buffer& buffer = plan_.buffer(access.buffer);
        const bool is_plain = !buffer.window && buffer.depth == 1 && buffer.life == Life::Run;
        if (access.write && is_plain && !contains(inside, access.buffer) &&
            is_inside(context_.users, chain, access.buffer))
          inside.push_back(access.buffer);
      }
    return inside;
  }

  int64_t bytes_of_block(const SharedRows& rows) const {
    int64_t bytes = 0;
    for (const BufferId own : rows.own)
      bytes += block_elements(plan_, rows, own) * dtype_bytes(plan_.buffer(own).type.dtype);
    return bytes;
  }

  /// One row of the outer axes, and as many rows of the innermost one as a product takes at once and a cache holds;
  /// whole matrices if they are small. False where that leaves threads without work, or takes too much.
  bool choose_blocks(SharedRows& rows) const {
    for (RowAxis& axis : rows.axes) axis.block = 1;
    const auto even = [](int64_t count, int64_t most) {
      const int64_t parts = (count + most - 1) / most;
      return std::min(count, round_up_to((count + parts - 1) / parts, kTileRows));
    };
    RowAxis& inner = rows.axes.back();
    int64_t most = kManyRows;
    for (inner.block = even(inner.count.high(), most);
         most > kFewRows && (bytes_of_block(rows) > kManyBytes || blocks_of(rows) < kLeastBlocks);) {
      most = std::max(kFewRows, most - kTileRows);
      inner.block = even(inner.count.high(), most);
    }
    for (size_t a = rows.axes.size(); --a > 0 && rows.axes[a].in_one_block();) {
      int64_t& block = rows.axes[a - 1].block;
      block = std::clamp<int64_t>(kFewBytes / bytes_of_block(rows), 1, rows.axes[a - 1].count.high());
      while (block > 1 && blocks_of(rows) < kLeastBlocks) block /= 2;
    }
    return blocks_of(rows) >= kLeastBlocks && bytes_of_block(rows) <= kMostBytes;
  }

  /// Threads do not write into each other's cache lines.
  bool writes_lines(const LoopStep& chain, const SharedRows& rows) const {
    for (const Step& step : chain.body)
      for (const Access& access : step.accesses)
        for (const RowAxis& axis : rows.axes) {
          if (!access.write || rows.own.contains(access.buffer)) continue;
          const int64_t bytes = dtype_bytes(plan_.buffer(access.buffer).type.dtype);
          if (axis.block * axis.strides.at(access.buffer).high() * bytes < kCacheLine) return false;
        }
    return true;
  }

  static int64_t blocks_of(const SharedRows& rows) {
    int64_t blocks = 1;
    for (const RowAxis& axis : rows.axes) blocks *= axis.blocks();
    return blocks;
  }

  /// Whether the kernel can be computed by its strategy for some rows, and computes nothing for each block that it
  /// computed once for all.
  bool is_as_fast(const RowLaunch& launch) const {
    const Kernel kernel = with_rows(draft_, launch);
    const KernelBody body(kernel, plan_.places[kernel.place.index].mesh.size());
    const StrategyContext context{body, draft_.module.constants, plan_.target};
    const std::string name = strategy_name(kernel.strategy);
    if (!find_strategy(context, name).strategy) return false;
    if (name == Rows::kName || name == Elementwise::kName) return true;
    if (name != StridedProduct::kName && name != PackedProduct::kName) return false;
    // A 16-bit float, too, is brought into another array first.
    const Op& product = body.body.producer_op(contraction_of(body.body));
    return std::all_of(product.inputs.begin(), product.inputs.end(), [&](ValueId operand) {
      const DType dtype = body.body.type(operand).dtype;
      return (dtype == DType::F32 || dtype == DType::F64) &&
             body.load_of(operand, IndexList(body.dims(operand).size())).has_value();
    });
  }

  /// The panels of a product's second operand, if the blocks of rows that follow each other have the same one: a matrix
  /// that no kernel of the chain makes.
  StridedProduct panels_to_keep(const SharedRows& rows, const RowLaunch& launch) const {
    if (rows.axes.back().in_one_block()) return {};
    const Kernel kernel = with_rows(draft_, launch);
    const auto* product = std::get_if<StridedProduct>(&kernel.strategy);
    if (!product) return {};
    const KernelBody body(kernel, plan_.places[kernel.place.index].mesh.size());
    const ValueId columns = body.body.producer_op(contraction_of(body.body)).inputs[1];
    const Dims dims = body.dims(columns);
    const std::optional<Load> load = body.load_of(columns, matrix_of_block(rows, launch, columns, dims));
    const bool has_own = launch.rows.back()[columns.index].has_rows();
    if (!load || has_own || depends_on_matrix(load->offset, dims) ||
        rows.own.contains(launch.launch->operands[load->parameter].buffer))
      return {};
    const int64_t elements = round_up_to(dims.back(), plan_.target.panel_width) * dims[dims.size() - 2];
    return {product->is_short, elements * dtype_bytes(body.body.type(columns).dtype), load->parameter};
  }

  /// The first element of one matrix in a block of rows.
  static IndexList matrix_of_block(const SharedRows& rows, const RowLaunch& launch, ValueId value, const Dims& dims) {
    IndexList index(dims.size());
    for (size_t d = 0; d + 2 < dims.size(); ++d) {
      int64_t extent = dims[d];
      for (size_t a = 0; a < rows.axes.size(); ++a)
        if (const ValueRows& own = launch.rows[a][value.index]; own.has_rows() && own.state.dim == static_cast<int>(d))
          extent = rows.axes[a].block * own.state.block;
      index[d] = index_variable(matrix_variable(d), extent);
    }
    return index;
  }
  static std::string matrix_variable(size_t dim) { return "matrix" + std::to_string(dim); }

  static bool depends_on_matrix(const IndexExpr& offset, const Dims& dims) {
    for (size_t d = 0; d + 2 < dims.size(); ++d)
      if (!(substitute(offset, matrix_variable(d), 0) == offset)) return true;
    return false;
  }

  PlanDraft& draft_;
  Plan& plan_;
  const RowContext context_;
  std::set<BufferId> joined_;
};

}  // namespace

void cut_chains(PlanDraft& draft) {
  if (!draft.plan.target.has_grid()) ChainCutter(draft).run();
}

}  // namespace weftc
