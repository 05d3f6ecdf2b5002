#include "backend/stream_rows.h"

#include <algorithm>

#include "backend/print.h"
#include "backend/sums_in_parts.h"

namespace weftc {

namespace {

/// Rows of up to a page or two arrive in time without prefetch, and so do operands that stay in a cache. With operands
/// of 4 MiB each, prefetches cost a LayerNormalization 10 %. With 8 MiB each they gain 5 %, with 16 MiB a third.
constexpr int64_t kLeastRowBytes = 8192, kLeastBytes = int64_t{8} << 20;
/// A result of this many bytes, together with an operand of as many, fills the 32 MiB cache that cores of today's
/// servers share.
constexpr int64_t kLeastStoredBytes = int64_t{16} << 20;
constexpr int64_t kLineBytes = 64;
/// A row in a kernel of one pass: shorter rows are mostly ends, which are stored as usual.
constexpr int64_t kLeastLoneRowBytes = 1024;
/// Maximum number of elements of a part. Prefetches of single lines, between loads and stores, are slower than bursts
/// of them.
constexpr int64_t kMostInPart = 512;

/// A loop over a whole row, or a call that contains one.
struct Pass {
  Statement* statement;
  For* loop;  // null in a call
  bool stores;
};
/// Elements of an operand that the passes read in order.
struct Stream {
  std::string base;
  IndexExpr index;
};

bool stores(const Statement& statement) {
  const Statements* body = statement.body();
  return std::holds_alternative<Store>(statement.what) || (body && std::any_of(body->begin(), body->end(), stores));
}

std::vector<Pass> passes_of(Statements& row) {
  std::vector<Pass> passes;
  for (Statement& statement : row) {
    For* loop = std::get_if<For>(&statement.what);
    if (loop || std::holds_alternative<Callback>(statement.what))
      passes.push_back({&statement, loop, stores(statement)});
  }
  return passes;
}

/// The loop over elements of a pass, which may be in parts.
For& elements_of(For& pass) {
  For* inner = pass.body.empty() ? nullptr : std::get_if<For>(&pass.body.back().what);
  return number_of(pass.step) > 1 && inner ? *inner : pass;
}

/// The element stored at the end of a loop, if it is the only one.
Expr stored_element(const For& loop) {
  const Statements& body = loop.body;
  if (body.empty() || !std::holds_alternative<Store>(body.back().what)) return {};
  const bool is_only_one = std::none_of(body.begin(), body.end() - 1, stores);
  return is_only_one ? std::get<Store>(body.back().what).to : Expr();
}

/// The element type of an operand; nothing for a local array of the kernel.
std::optional<DType> dtype_of(KernelContext& context, const std::string& base) {
  for (size_t i = 0; i < context.kernel.parameters.size(); ++i)
    if (context.parameter_name(i) == base) return context.kernel.parameters[i].type.dtype;
  return {};
}
int64_t bytes_of(KernelContext& context, const std::string& base) {
  const std::optional<DType> dtype = dtype_of(context, base);
  return dtype ? dtype_bytes(*dtype) : 0;
}
bool is_stored_as_vectors(KernelContext& context, const std::string& base) {
  const std::optional<DType> dtype = dtype_of(context, base);
  return dtype == DType::F32 || dtype == DType::F64;
}

/// True if a loop handles one element after the other and carries no values.
bool is_plain(const For& loop) { return loop.kind == LoopKind::Vector && !loop.accumulator && !has_loop(loop.body); }

/// The call that stores the elements of a plain loop in `row`, one for each value of its variable.
Callback past_caches(For loop, const Expr& row) {
  std::string head = text_of(
      call("weft::store_past_caches", {row, loop.first, loop.bound, name("[&](int64_t " + loop.variable + ") {")}));
  head.pop_back();
  Callback callback{.head = head, .body = std::move(loop.body)};
  callback.body.back() = Return{std::get<Store>(callback.body.back().what).value};
  return callback;
}

class RowLoop {
 public:
  RowLoop(KernelContext& context, For& loop) : context_(context), loop_(loop), passes_(passes_of(loop.body)) {}

  /// True if it stores past the caches.
  bool stream() {
    if (passes_.empty() || !passes_.back().loop) return false;
    count_ = number_of(passes_.back().loop->bound), variable_ = elements_of(*passes_.back().loop).variable;
    if (passes_.size() > 1) ask_for_next();  // otherwise memory is read in order
    return store_past_caches();
  }

 private:
  /// Adds prefetches of the next row to each part of a pass: the pass that computes most and keeps its results, else
  /// the last one.
  void ask_for_next() {
    std::vector<Stream> streams;
    for_each_expression(loop_.body, [&](const Expr& expr) {
      const std::optional<Stream> stream = stream_of(expr, kLeastBytes);
      if (stream && std::none_of(streams.begin(), streams.end(), [&](const Stream& other) {
            return other.base == stream->base && other.index == stream->index;
          }))
        streams.push_back(*stream);
    });
    const auto keeps = [&](const Pass& pass) { return pass.stores && part_in(pass); };
    Pass& pass = *std::find_if(passes_.begin(), passes_.end() - 1, keeps);
    const Expr stored = stored_element(elements_of(*passes_.back().loop));
    for (const Stream& stream : streams) {
      const bool is_result = !stored.empty() && stored.node().text == stream.base;
      if (is_result || count_ * bytes_of(context_, stream.base) < kLeastRowBytes || !cut(pass)) continue;
      const IndexExpr next = substitute(stream.index, variable_, part_start(pass)) + count_;
      const Expr request = call("weft::ask_to_read", {address(stream.base, next), part_in(pass)});
      pass.loop->body.insert(pass.loop->body.begin(), Call{request});
    }
  }

  bool store_past_caches() {
    const Expr stored = stored_element(elements_of(*passes_.back().loop));
    const std::optional<Stream> stream = stored.empty() ? std::nullopt : stream_of(stored, kLeastStoredBytes);
    For& last = *passes_.back().loop;
    For& elements = elements_of(last);
    if (!stream || !is_stored_as_vectors(context_, stream->base)) return false;
    const int64_t bytes = count_ * bytes_of(context_, stream->base);
    if (bytes % kLineBytes != 0 || !is_plain(elements)) return false;
    if (passes_.size() == 1 && bytes < kLeastLoneRowBytes) return false;
    const Expr row = address(stream->base, substitute(stream->index, variable_, 0));
    // A loop in parts stays, and contains the call.
    Statement& replaced = &elements == &last ? *passes_.back().statement : last.body.back();
    replaced = past_caches(std::move(elements), row);
    if (loop_.kind == LoopKind::Vector) loop_.kind = LoopKind::Serial;
    return true;
  }

  /// Number of elements of a part of the pass; 0 if it has no parts and cannot be cut.
  int64_t part_in(const Pass& pass) const {
    For* loop = pass.loop;
    if (!loop || number_of(loop->bound) != count_) return 0;
    if (number_of(loop->step) > 1) return number_of(loop->step);
    return is_plain(*loop) && loop->variable == variable_ ? equal_part(count_, kMostInPart) : 0;
  }
  /// Cuts the pass; true if it is in parts afterwards.
  bool cut(Pass& pass) const {
    const int64_t part = part_in(pass);
    if (part && number_of(pass.loop->step) == 1) {
      *pass.statement = in_parts(std::move(*pass.loop), part);
      pass.loop = std::get_if<For>(&pass.statement->what);
    }
    return part != 0;
  }
  IndexExpr part_start(const Pass& pass) const {
    return index_variable(pass.loop->variable, 0, count_ - part_in(pass));
  }

  /// An element of a row of an operand with at least this many bytes, whose rows are contiguous.
  std::optional<Stream> stream_of(const Expr& expr, int64_t least_bytes) const {
    const Expr::Node& node = expr.node();
    if (node.kind != Expr::Node::Kind::Element || node.operands[0].expr.node().kind != Expr::Node::Kind::Index)
      return {};
    const IndexExpr& index = node.operands[0].expr.node().index;
    const Stride along = stride_of(index, variable_), down = stride_of(index, loop_.variable);
    if (!along.affine || !(along.coefficient == 1) || !down.affine || !(down.coefficient == count_)) return {};
    if ((index.high() + 1) * bytes_of(context_, node.text) < least_bytes) return {};
    return Stream{node.text, index};
  }

  KernelContext& context_;
  For& loop_;
  std::vector<Pass> passes_;
  int64_t count_ = 0;
  std::string variable_;
};

/// True if the loop over all tasks, one for each element of the result, stores past the caches now.
bool stream_elements(KernelContext& context, Statement& statement, int64_t count) {
  For* loop = std::get_if<For>(&statement.what);
  const Expr stored = loop && is_plain(*loop) ? stored_element(*loop) : Expr();
  if (stored.empty() || stored.node().kind != Expr::Node::Kind::Element) return false;
  const Expr::Node &node = stored.node(), &index = node.operands[0].expr.node();
  if (index.kind != Expr::Node::Kind::Index || index.index.text() != loop->variable) return false;
  if (count * bytes_of(context, node.text) < kLeastStoredBytes || !is_stored_as_vectors(context, node.text))
    return false;
  statement = past_caches(std::move(*loop), address(node.text, 0));
  return true;
}

/// True if a loop in the statements stores past the caches and is not finished.
bool stream_inside(KernelContext& context, Statements& statements, bool in_tasks) {
  bool stores = false;
  for (Statement& statement : statements) {
    TeamTasks* tasks = std::get_if<TeamTasks>(&statement.what);
    if (Statements* body = statement.body()) stores |= stream_inside(context, *body, in_tasks || tasks);
    if (For* loop = std::get_if<For>(&statement.what); loop && in_tasks) stores |= RowLoop(context, *loop).stream();
    if (tasks)
      for (Statement& inside : tasks->body) stores |= stream_elements(context, inside, number_of(tasks->count));
    if (tasks && stores) tasks->body.push_back(Call{call("weft::finish_stores", {})}), stores = false;
  }
  return stores;
}

}  // namespace

void stream_rows(KernelContext& context, Statements& statements) { stream_inside(context, statements, false); }

}  // namespace weftc
