// Operands of a Concat lie in its result from the beginning, so that nothing is copied:
//
//   a = Conv(x)   b = Conv(y)   c = Concat(a, b)      a and b are stripes of c, and c is no step any more
//   y = Conv(x)   c = Concat(Slice(y, 0 .. 7), Slice(y, 8 .. 15), z)   y is one stripe of c
//
// An operand can lie there if its kernel can write each element in place, if its runs fill cache lines, and if only the
// Concat reads it. Another reader would use half of the lines of each page, which map to half of the sets of a cache:
// pools of a U-Net took four times as long. Other operands are copied as before, together if they are neighbours.
#include <algorithm>
#include <map>

#include "passes/plan/kernel_forms.h"

namespace weftc {

namespace {

constexpr int64_t kCacheLine = 64;  // bytes; shorter runs share lines, which two kernels would each store in part

/// Neighbouring operands of a Concat that together are all of one parameter.
struct Piece {
  size_t first = 0, count = 0;  // operands
  size_t parameter = 0;
  Stripe stripe = {};  // of the result
};

/// The parameter a slice of which along the dimension is the operand, and where the slice begins; nothing for a
/// computed operand, or one moved in another way.
struct Origin {
  size_t parameter;
  int64_t start;
};
std::optional<Origin> origin_of(const KernelBody& body, ValueId value, int dim) {
  const Dims dims = body.dims(value);
  const IndexList element = element_of(body.extents(value), "i");
  IndexList at = element;
  while (body.body.producer_op(value).kind == OpKind::Slice) {
    const std::optional<IndexList> before = body.view_index(value, at);
    if (!before) return {};
    at = *before, value = body.body.producer_op(value).inputs[0];
  }
  if (body.body.producer_op(value).kind != OpKind::Input) return {};
  const Dims whole = body.dims(value);
  for (size_t d = 0; d < at.size(); ++d) {
    const bool is_along = static_cast<int>(d) == dim;
    if (!(at[d] - (is_along ? at[d].constant() : 0) == element[d]) || (!is_along && dims[d] != whole[d])) return {};
  }
  return Origin{body.input_parameter(value), at[static_cast<size_t>(dim)].constant()};
}

/// Whether a value is computed or moved from another one.
bool comes_from(const Graph& body, ValueId value, ValueId from) {
  const std::vector<ValueId>& inputs = body.producer_op(value).inputs;
  return value == from || std::any_of(inputs.begin(), inputs.end(),
                                      [&](ValueId input) { return input && comes_from(body, input, from); });
}

/// Whether no other operand of the Concat comes from the piece's parameter.
bool reads_once(const KernelBody& body, const Op& concat, const Piece& piece) {
  const ValueId from = body.body.inputs()[piece.parameter];
  for (size_t i = 0; i < concat.inputs.size(); ++i)
    if ((i < piece.first || i >= piece.first + piece.count) && comes_from(body.body, concat.inputs[i], from))
      return false;
  return true;
}

/// The pieces that make up a Concat, as far as it consists of pieces.
std::vector<Piece> pieces_of(const KernelBody& body, const Op& concat) {
  const int dim = static_cast<int>(concat.integer("axis"));
  const auto extent = [&](ValueId value) { return body.dims(value)[static_cast<size_t>(dim)]; };
  std::vector<Piece> pieces;
  int64_t start = 0;  // of the operand in the result
  for (size_t first = 0, count = 1; first < concat.inputs.size(); first += count) {
    count = 1;
    const std::optional<Origin> origin = origin_of(body, concat.inputs[first], dim);
    int64_t end = extent(concat.inputs[first]);
    while (origin && first + count < concat.inputs.size()) {
      const std::optional<Origin> next = origin_of(body, concat.inputs[first + count], dim);
      if (!next || next->parameter != origin->parameter || next->start != origin->start + end) break;
      end += extent(concat.inputs[first + count]), ++count;
    }
    if (origin && origin->start == 0 && end == extent(body.body.inputs()[origin->parameter])) {
      pieces.push_back({first, count, origin->parameter, {dim, start, end, extent(concat.outputs[0])}});
    }
    start += end;
  }
  std::erase_if(pieces, [&](const Piece& piece) { return !reads_once(body, concat, piece); });
  return pieces;
}

/// Host strategies that store each result by its index.
bool writes_stripes(const Strategy& strategy) {
  return std::holds_alternative<Elementwise>(strategy) || std::holds_alternative<PackedProduct>(strategy) ||
         std::holds_alternative<StridedProduct>(strategy) || std::holds_alternative<WindowReduction>(strategy) ||
         copies_image(strategy);
}

class OperandJoiner {
 public:
  explicit OperandJoiner(PlanDraft& draft)
      : draft_(draft), plan_(draft.plan), users_(plan_.buffers.size()), is_fixed_(plan_.buffers.size()) {}

  void run() {
    find_users();
    for (Block& block : plan_.blocks)
      for (Step& step : block.steps)
        if (auto* launch = std::get_if<LaunchStep>(&step.what)) join(block, step, *launch);
    lay();
    for (Block& block : plan_.blocks) std::erase_if(block.steps, [&](const Step& step) { return is_needless(step); });
    drop_unused_kernels();
  }

 private:
  struct User {
    const Block* block;
    Step* step;
  };

  void fix(BufferId id) { is_fixed_[id.index] = true; }

  /// The users of each buffer. Memory of ports, of transfers and of loop bodies must stay as it is.
  void find_users() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      is_fixed_[b] = buffer.window || buffer.life != Life::Run || buffer.depth != 1 || !is_static(buffer.type.shape) ||
                     buffer.dims() != buffer.type.dims() || buffer.storage.by_bounds;
    }
    for (const Port& port : plan_.inputs) fix(port.buffer);
    for (const Port& port : plan_.outputs) fix(port.buffer);
    for (const TransferTable& table : plan_.transfers) fix(table.from), fix(table.to);
    for (const LengthBuffer& length : plan_.lengths) fix(length.buffer);
    for (Block& block : plan_.blocks)
      for (Step& step : block.steps) {
        for (auto* body : bodies_of(step)) for_each_step(*body, [&](const Step& inner) { fix_all(inner); });
        if (!is_plain(step)) fix_all(step);
        for (const Access& access : step.accesses) users_[access.buffer.index].push_back({&block, &step});
        if (const auto* launch = std::get_if<LaunchStep>(&step.what)) stripes_[&step].resize(launch->operands.size());
      }
  }

  void fix_all(const Step& step) {
    for (const Access& access : step.accesses) fix(access.buffer);
  }

  /// A launch that touches its operands whole, each on this rank alone.
  static bool is_plain(const Step& step) {
    return std::holds_alternative<LaunchStep>(step.what) &&
           std::all_of(step.accesses.begin(), step.accesses.end(), [](const Access& access) {
             return access.part.empty() && access.peers.empty() && !access.accumulate;
           });
  }

  /// A Concat that has nothing left to copy.
  static bool is_needless(const Step& step) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    return launch && launch->operands.empty();
  }

  KernelBody body_of(const Kernel& kernel) const { return {kernel, plan_.places[kernel.place.index].mesh.size()}; }

  void join(const Block& block, Step& step, LaunchStep& launch) {
    const Kernel& kernel = plan_.kernel(launch.kernel);
    if (kernel.body.outputs().size() != 1) return;
    const Op& concat = kernel.body.producer_op(kernel.body.outputs()[0].value);
    const BufferId whole = launch.operands.back().buffer;
    if (concat.kind != OpKind::Concat || is_fixed_[whole.index]) return;
    if (plan_.buffer(whole).type.dims() != kernel.parameters.back().type.dims()) return;
    std::vector<Piece> pieces = pieces_of(body_of(kernel), concat);
    std::erase_if(pieces, [&](const Piece& piece) { return !can_lie(block, step, launch, piece); });
    const std::optional<Piece> rest = rest_of(concat, pieces);
    if (pieces.empty() || !rest) return;
    for (const Piece& piece : pieces) move(step, launch.operands[piece.parameter].buffer, whole, piece.stripe);
    if (rest->count)
      copy_rest(step, launch, *rest);
    else
      std::erase(plan_.kernels[launch.kernel.index].users, step.name), launch.operands.clear();
  }

  /// The operands that are no pieces, if they are neighbours.
  static std::optional<Piece> rest_of(const Op& concat, const std::vector<Piece>& pieces) {
    std::vector<bool> is_joined(concat.inputs.size());
    for (const Piece& piece : pieces)
      for (size_t i = 0; i < piece.count; ++i) is_joined[piece.first + i] = true;
    const auto first = std::find(is_joined.begin(), is_joined.end(), false);
    const auto end = std::find(first, is_joined.end(), true);
    if (std::find(end, is_joined.end(), false) != is_joined.end()) return {};
    return Piece{static_cast<size_t>(first - is_joined.begin()), static_cast<size_t>(end - first)};
  }

  bool can_lie(const Block& block, const Step& concat, const LaunchStep& launch, const Piece& piece) const {
    const BufferId part = launch.operands[piece.parameter].buffer, whole = launch.operands.back().buffer;
    if (!part || part == whole || is_fixed_[part.index] || stripes_.at(&concat)[piece.parameter]) return false;
    const Buffer &from = plan_.buffer(part), &to = plan_.buffer(whole);
    if (!(from.storage == to.storage) || !(from.place == to.place) || run_bytes(from, piece.stripe) < kCacheLine)
      return false;
    const auto writes = [&](const User& user) {
      return user.block == &block && (user.step == &concat || writes_stripe(*user.step, part, piece.stripe.dim));
    };
    const std::vector<User>& users = users_[part.index];
    const auto touches_once = [&](const Operand& operand) { return operand.buffer == part; };
    return std::all_of(users.begin(), users.end(), writes) &&
           std::count_if(launch.operands.begin(), launch.operands.end(), touches_once) == 1;
  }

  /// Bytes side by side that a buffer has as a stripe of a larger one; 0 where dimensions are stored in blocks.
  static int64_t run_bytes(const Buffer& buffer, const Stripe& stripe) {
    const int64_t stride = buffer.storage.strides(buffer.type.dims())[static_cast<size_t>(stripe.dim)];
    return stride * stripe.count * dtype_bytes(buffer.type.dtype);
  }

  /// Whether the step's kernel makes the buffer, and may put it into a stripe of another one.
  bool writes_stripe(const Step& step, BufferId buffer, int dim) const {
    const auto& launch = std::get<LaunchStep>(step.what);
    const Kernel& kernel = plan_.kernel(launch.kernel);
    for (size_t f = 0; f < launch.operands.size(); ++f) {
      if (!(launch.operands[f].buffer == buffer)) continue;
      const Parameter& parameter = kernel.parameters[f];
      const std::optional<Stripe>& stripe = stripes_.at(&step)[f];
      if (!parameter.whole_over.empty() || (stripe && stripe->dim != dim)) return false;
      if (!stripe && parameter.type.dims() != plan_.buffer(buffer).type.dims()) return false;
      if (f < kernel.body.inputs().size() || !writes_stripes(kernel.strategy)) return false;
    }
    return true;
  }

  /// All but the Concat find `part` as a stripe of `whole`.
  void move(const Step& concat, BufferId part, BufferId whole, const Stripe& stripe) {
    for (const User& user : users_[part.index]) {
      if (user.step == &concat) continue;
      auto& launch = std::get<LaunchStep>(user.step->what);
      for (size_t f = 0; f < launch.operands.size(); ++f) {
        if (!(launch.operands[f].buffer == part)) continue;
        launch.operands[f].buffer = whole;
        std::optional<Stripe>& own = stripes_[user.step][f];
        own = own ? own->within(stripe) : stripe;
      }
      for (Access& access : user.step->accesses) {
        if (!(access.buffer == part)) continue;
        access.buffer = whole;
        access.stripe = access.stripe ? access.stripe->within(stripe) : stripe;
      }
      users_[whole.index].push_back(user);
    }
    users_[part.index].clear();
  }

  /// The step copies the operands that are left, by a kernel of its own.
  void copy_rest(Step& step, LaunchStep& launch, const Piece& rest) {
    const KernelId id = copy_kernel(draft_, launch.kernel, step.name);
    Kernel& kernel = plan_.kernels[id.index];
    Graph& body = kernel.body;
    const ValueId result = body.outputs()[0].value;
    const OpId concat = body.producer(result);
    const int dim = static_cast<int>(body.op(concat).integer("axis"));
    Stripe stripe{dim, 0, 0, body.type(result).dims()[static_cast<size_t>(dim)]};
    for (size_t i = body.op(concat).inputs.size(); i-- > 0;) {
      const int64_t count = body.type(body.op(concat).inputs[i]).dims()[static_cast<size_t>(dim)];
      if (i < rest.first) stripe.start += count;
      if (i >= rest.first && i < rest.first + rest.count)
        stripe.count += count;
      else
        body.remove_input(concat, i);
    }
    TensorType type = body.type(result);
    type.shape[static_cast<size_t>(dim)] = Extent{stripe.count};
    body.retype(result, type);
    kernel.parameters.back().type = type;
    drop_unread_inputs(kernel, step, launch);
    move_user(plan_, launch, id, step.name);
    const BufferId whole = launch.operands.back().buffer;
    stripes_[&step].back() = stripe;
    for (Access& access : step.accesses)
      if (access.buffer == whole) access.stripe = stripe;
  }

  /// Views and inputs of a body whose readers are gone, with their parameters, operands and accesses.
  void drop_unread_inputs(Kernel& kernel, Step& step, LaunchStep& launch) {
    Graph& body = kernel.body;
    const std::vector<ValueId> inputs = body.inputs();
    const std::vector<OpId> order = body.order();
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const std::vector<ValueId>& results = body.op(*id).outputs;
      const auto is_read = [&](ValueId v) { return v == body.outputs()[0].value || !body.value(v).uses.empty(); };
      if (std::none_of(results.begin(), results.end(), is_read)) body.erase(*id);
    }
    for (size_t f = inputs.size(); f-- > 0;) {
      if (std::find(body.inputs().begin(), body.inputs().end(), inputs[f]) != body.inputs().end()) continue;
      std::erase_if(step.accesses, [&](const Access& access) { return access.buffer == launch.operands[f].buffer; });
      kernel.parameters.erase(kernel.parameters.begin() + static_cast<long>(f));
      launch.operands.erase(launch.operands.begin() + static_cast<long>(f));
      stripes_[&step].erase(stripes_[&step].begin() + static_cast<long>(f));
    }
  }

  void lay() {
    KernelForms forms(draft_);
    for (Block& block : plan_.blocks)
      for_each_step(block.steps, [&](Step& step) {
        auto* launch = std::get_if<LaunchStep>(&step.what);
        if (!launch || is_needless(step)) return;
        std::vector<Storage> storages;
        for (const Parameter& parameter : plan_.kernel(launch->kernel).parameters)
          storages.push_back(parameter.storage);
        if (const auto stripes = stripes_.find(&step); stripes != stripes_.end())
          for (size_t f = 0; f < storages.size(); ++f) storages[f].stripe = stripes->second[f];
        forms.lay(*launch, step.name, storages);
      });
  }

  /// Kernels of Concats that are no steps any more.
  void drop_unused_kernels() {
    std::vector<KernelId> now(plan_.kernels.size());
    std::vector<Kernel> kept;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (plan_.kernels[k].users.empty()) continue;
      now[k] = {static_cast<uint32_t>(kept.size())};
      kept.push_back(std::move(plan_.kernels[k]));
    }
    plan_.kernels = std::move(kept);
    for (Block& block : plan_.blocks)
      for_each_step(block.steps, [&](Step& step) {
        if (auto* launch = std::get_if<LaunchStep>(&step.what)) launch->kernel = now[launch->kernel.index];
      });
  }

  PlanDraft& draft_;
  Plan& plan_;
  std::vector<std::vector<User>> users_;                               // by BufferId
  std::vector<bool> is_fixed_;                                         // by BufferId
  std::map<const Step*, std::vector<std::optional<Stripe>>> stripes_;  // of the operands of launches
};

}  // namespace

void join_operands(PlanDraft& draft) {
  // Device kernels take 16 bytes of a row at once, which begin where a stripe need not.
  if (!draft.plan.target.has_grid()) OperandJoiner(draft).run();
}

}  // namespace weftc
