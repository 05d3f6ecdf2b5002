#include "backend/next_rows.h"

#include <algorithm>

#include "backend/sums_in_parts.h"

namespace weftc {

namespace {

/// Rows up to a page or two come in time without being asked for, and so do operands that stay in a cache (of 4 MiB
/// each, requests cost a LayerNormalization 10 %; of 8 MiB each, they gain 5 %, and of 16 MiB a third).
constexpr int64_t kLeastRowBytes = 8192, kLeastBytes = int64_t{8} << 20;

/// A loop over all of a row, or a call that has one.
struct Pass {
  Statement* statement;
  For* loop;  // null in a call
  bool stores;
};
/// Elements of an operand, which the passes read or store in order.
struct Stream {
  std::string base;
  IndexExpr index;
  bool is_stored;
};

bool has_store(const Statements& statements) {
  return std::any_of(statements.begin(), statements.end(), [](const Statement& s) {
    return std::holds_alternative<Store>(s.what) || (s.body() && has_store(*s.body()));
  });
}

std::vector<Pass> passes_of(Statements& row) {
  std::vector<Pass> passes;
  for (Statement& statement : row) {
    For* loop = std::get_if<For>(&statement.what);
    if (loop || std::holds_alternative<Callback>(statement.what))
      passes.push_back({&statement, loop, has_store(*statement.body())});
  }
  return passes;
}

/// The loop over elements of a pass, which may be in parts.
const For& elements_of(const For& pass) {
  const For* inner = pass.body.empty() ? nullptr : std::get_if<For>(&pass.body.back().what);
  return number_of(pass.step) > 1 && inner ? *inner : pass;
}

class RowLoop {
 public:
  RowLoop(const KernelContext& context, For& loop) : context_(context), loop_(loop), passes_(passes_of(loop.body)) {}

  void ask() {
    if (passes_.size() < 2 || !passes_.back().loop) return;
    const For& last = *passes_.back().loop;
    count_ = number_of(last.bound), variable_ = elements_of(last).variable;
    find_streams();
    Pass* const reading = reading_pass();
    Pass& first = passes_.front();
    for (const Stream& stream : streams_) {
      if (stream.is_stored && !first.stores && &first != reading) put(first, stream);
      if (!stream.is_stored && reading) put(*reading, stream);
    }
  }

 private:
  /// The pass that asks for the next row: the one that computes most, which keeps what it computes; else the second,
  /// since the first asks for what the last one stores. Halves of a row in two passes are no faster.
  Pass* reading_pass() {
    for (Pass& pass : passes_)
      if (pass.stores && &pass != &passes_.back() && part_in(pass)) return &pass;
    return part_in(passes_[1]) ? &passes_[1] : nullptr;
  }

  /// Elements between two requests: those of a part; 0 where the pass has none and cannot be cut.
  int64_t part_in(const Pass& pass) const {
    const For* loop = pass.loop;
    if (!loop || number_of(loop->bound) != count_ || elements_of(*loop).variable != variable_) return 0;
    if (number_of(loop->step) > 1) return number_of(loop->step);
    return loop->kind == LoopKind::Vector && !loop->accumulator && !has_loop(loop->body) ? equal_part(count_, 256) : 0;
  }

  void find_streams() {
    for_each_expression(loop_.body, [&](const Expr& expr) { add_stream(expr, false); });
    find_stores(loop_.body);
  }
  void find_stores(const Statements& statements) {
    for (const Statement& statement : statements) {
      if (const Store* store = std::get_if<Store>(&statement.what)) add_stream(store->to, true);
      if (const Statements* body = statement.body()) find_stores(*body);
    }
  }
  /// Takes note of an element of a row of an operand whose rows lie one behind the other.
  void add_stream(const Expr& expr, bool is_stored) {
    const Expr::Node& node = expr.node();
    if (node.kind != Expr::Node::Kind::Element || node.operands[0].expr.node().kind != Expr::Node::Kind::Index) return;
    const IndexExpr& index = node.operands[0].expr.node().index;
    const Stride along = stride_of(index, variable_), down = stride_of(index, loop_.variable);
    if (!along.affine || !(along.coefficient == 1) || !down.affine || !(down.coefficient == count_)) return;
    const int64_t bytes = bytes_of(node.text);
    if (count_ * bytes < kLeastRowBytes || (index.high() + 1) * bytes < kLeastBytes) return;
    const auto same = std::find_if(streams_.begin(), streams_.end(), [&](const Stream& stream) {
      return stream.base == node.text && stream.index == index;
    });
    if (same == streams_.end())
      streams_.push_back({node.text, index, is_stored});
    else
      same->is_stored |= is_stored;
  }
  /// The bytes of an operand's element; 0 for an array of the kernel's own.
  int64_t bytes_of(const std::string& base) const {
    for (size_t i = 0; i < context_.kernel.parameters.size(); ++i)
      if (context_.parameter_name(i) == base) return dtype_bytes(context_.kernel.parameters[i].type.dtype);
    return 0;
  }

  /// Begins each part of the pass with a request for elements of the stream: of this row where they are stored, else of
  /// the next one.
  void put(Pass& pass, const Stream& stream) {
    const int64_t part = part_in(pass);
    if (!part) return;
    if (number_of(pass.loop->step) == 1) {
      *pass.statement = in_parts(std::move(*pass.loop), part);
      pass.loop = std::get_if<For>(&pass.statement->what);
    }
    const IndexExpr here = index_variable(pass.loop->variable, 0, count_ - part);
    const IndexExpr first = substitute(stream.index, variable_, here) + (stream.is_stored ? 0 : count_);
    const char* function = stream.is_stored ? "weft::ask_to_store" : "weft::ask_to_read";
    pass.loop->body.insert(pass.loop->body.begin(), Call{call(function, {address(stream.base, first), part})});
  }

  const KernelContext& context_;
  For& loop_;
  std::vector<Pass> passes_;
  std::vector<Stream> streams_;
  int64_t count_ = 0;
  std::string variable_;
};

}  // namespace

void ask_for_next_rows(const KernelContext& context, Statements& statements) {
  for (Statement& statement : statements) {
    if (Statements* body = statement.body()) ask_for_next_rows(context, *body);
    if (For* loop = std::get_if<For>(&statement.what)) RowLoop(context, *loop).ask();
  }
}

}  // namespace weftc
