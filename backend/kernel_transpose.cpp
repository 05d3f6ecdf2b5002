// Views that change the contiguous dimension, on a device. Neighbouring threads should both read and write neighbouring
// addresses, which no assignment of elements to threads achieves. Therefore tiles of 32 x 32 go through shared memory:
//
//   tile[r][c] = x[...]     rows of the operand come in, lane by lane
//   __syncthreads();
//   y[...] = tile[c][r]     rows of the result go out, lane by lane
#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

constexpr int64_t kTile = 32;

int64_t tiles(int64_t extent) { return (extent + kTile - 1) / kTile; }

Let declare(const Expr& variable, const Expr& value) { return Let{"int64_t", variable.node().text, value}; }

// The writer of one such kernel. A tile spans dimension `row_` of the result, which is contiguous in the
// operand, and the last one, which is contiguous in the result.
class Transposer {
 public:
  Transposer(KernelContext& context, const Transposition& strategy)
      : context_(context),
        result_(context.body.outputs()[0].value),
        dims_(context.dims(result_)),
        row_(strategy.row),
        last_(dims_.size() - 1) {
    for (size_t d = 0; d <= last_; ++d) {
      variables_.push_back(context.names.unique("o" + std::to_string(d)));
      index_.push_back(d < last_ && dims_[d] == 1 ? IndexExpr(0) : index_variable(variables_[d], 0, dims_[d] - 1));
    }
  }

  Statements write() {
    const Parameter& to = context_.kernel.parameters[context_.output_parameter(0)];
    const std::string type = memory_type(to.type.dtype);
    const int64_t blocks = others() * tiles(dims_[row_]) * tiles(dims_[last_]);
    context_.cover(blocks, 256);
    Scope root, loop(&root, For{.kind = LoopKind::Blocks, .variable = block_.node().text, .bound = blocks});
    root.put(Comment{"Tiles of 32 x 32: rows of the operand come in, rows of the result go out."});
    root.put(Let{type + "* const", tile_, literal(context_.shared_array(type, "32 * 33", 0, 0)), true});
    open_tile(loop, blocks);
    const Load from = *context_.load_of(result_, index_);
    const Expr source = element(context_.parameter_name(from.parameter), from.offset), lane = name("weft::lane()");
    const Expr target = element(context_.parameter_name(context_.output_parameter(0)), context_.offset(to, index_));
    move(loop, lane, turn_, {in_tile(turn_, lane), source});
    move(loop, turn_, lane, {target, in_tile(lane, turn_)});
    loop.finish();
    return root.take_body();
  }

 private:
  Expr local(const char* wanted) { return name(context_.names.unique(wanted)); }

  /// The dimensions that are neither a tile's rows nor its columns.
  std::vector<Loop> other_dims() const {
    std::vector<Loop> loops;
    for (size_t d = 0; d < last_; ++d)
      if (d != row_ && dims_[d] != 1) loops.push_back({variables_[d], dims_[d], dims_[d], "", 1, 0});
    return loops;
  }
  int64_t others() const {
    int64_t count = 1;
    for (const Loop& loop : other_dims()) count *= loop.extent;
    return count;
  }

  /// Declares the block's tile: its first row and column, and the indices of the other dimensions.
  void open_tile(Scope& loop, int64_t blocks) {
    const int64_t across = tiles(dims_[last_]);
    const Expr tile_row = binary(binary(block_, "/", across), "%", tiles(dims_[row_]));
    loop.put(declare(first_column_, binary(binary(block_, "%", across), "*", kTile)));
    loop.put(declare(first_row_, binary(tile_row, "*", kTile)));
    if (other_dims().empty()) return;
    const Expr other = local("other");
    loop.put(declare(other, binary(block_, "/", blocks / others())));
    split_number(loop, other, other_dims());
  }

  /// One pass over the tile: the warps of a block take its rows in turn, and each lane moves one element of a
  /// row.
  void move(Scope& loop, const Expr& row_at, const Expr& column_at, Store store) {
    const Expr r = name(variables_[row_]), c = name(variables_[last_]);
    Scope inner(&loop, For{.kind = LoopKind::BlockWarps, .variable = turn_.node().text, .bound = kTile});
    inner.put(declare(r, binary(first_row_, "+", row_at)));
    inner.put(declare(c, binary(first_column_, "+", column_at)));
    const Expr inside = all_of({binary(r, "<", dims_[row_]), binary(c, "<", dims_[last_])});
    inner.put(If{inside, {std::move(store)}});
    inner.finish();
    loop.put(Barrier{LoopKind::BlockThreads});
  }
  /// An element of the tile. Rows are one element longer than the tile, so that the elements of a column are in
  /// different banks of shared memory.
  Expr in_tile(const Expr& row, const Expr& column) const {
    return element(tile_, binary(binary(row, "*", kTile + 1), "+", column));
  }

  KernelContext& context_;
  const ValueId result_;
  const Dims dims_;
  const size_t row_, last_;
  std::vector<std::string> variables_;  // for the dimensions of the result
  IndexList index_;
  const Expr first_row_ = local("row"), first_column_ = local("column"), block_ = local("block"), turn_ = local("k");
  const std::string tile_ = context_.names.unique("tile");
};

}  // namespace

Statements write_body(KernelContext& context, const Transposition& strategy, Writer<Transposition>) {
  return Transposer(context, strategy).write();
}

}  // namespace weftc
