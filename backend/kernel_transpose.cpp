// Views that change which dimension is contiguous, on a device: tiles of 32 x 32 go through shared memory, so that both
// sides are moved in whole rows.
#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

constexpr int64_t kTile = 32;

int64_t tiles(int64_t extent) { return (extent + kTile - 1) / kTile; }

}  // namespace

Statements write_transposition(KernelContext& context, const Transposition& strategy) {
  const ValueId result = context.body.outputs()[0].value;
  const Dims dims = context.dims(result);
  const size_t row = strategy.row, last = dims.size() - 1;
  const Parameter& to = context.kernel.parameters[context.output_parameter(0)];
  const std::string type = memory_type(to.type.dtype);
  int64_t others = 1;
  std::vector<Loop> parts;
  std::vector<std::string> variables;  // for the dimensions of the result
  IndexList index;
  for (size_t d = 0; d <= last; ++d) {
    variables.push_back(context.names.unique("o" + std::to_string(d)));
    index.push_back(d < last && dims[d] == 1 ? IndexExpr(0) : index_variable(variables[d], 0, dims[d] - 1));
    if (d == row || d == last || dims[d] == 1) continue;
    others *= dims[d];
    parts.push_back({variables[d], dims[d], dims[d], "", 1});
  }
  const Load from = *context.load_of(result, index);
  const Expr source = element(context.parameter_name(from.parameter), from.offset);
  const Expr target = element(context.parameter_name(context.output_parameter(0)), context.offset(to, index));
  const int64_t blocks = others * tiles(dims[row]) * tiles(dims[last]);
  context.cover(blocks, 256);
  const auto local = [&](const char* wanted) { return name(context.names.unique(wanted)); };
  const auto declare = [](const Expr& variable, const Expr& value) {
    return Let{"int64_t", variable.node().text, value};
  };
  const Expr r = name(variables[row]), c = name(variables[last]);
  const Expr first_row = local("row"), first_column = local("column"), block = local("block"), turn = local("k");
  const std::string tile = context.names.unique("tile");
  Scope root, loop(&root, For{.kind = LoopKind::Blocks, .variable = block.node().text, .bound = blocks});
  root.put("// Tiles of 32 x 32: rows of the operand come in, rows of the result go out.");
  root.put(Let{type + "* const", tile, literal(context.shared_array(type, "32 * 33", 0, 0)), true});
  const Expr tile_row = binary(binary(block, "/", tiles(dims[last])), "%", tiles(dims[row]));
  loop.put(declare(first_column, binary(binary(block, "%", tiles(dims[last])), "*", kTile)));
  loop.put(declare(first_row, binary(tile_row, "*", kTile)));
  if (!parts.empty()) {
    const Expr other = local("other");
    loop.put(declare(other, binary(block, "/", blocks / others)));
    split_number(loop, other, parts);
  }
  const Expr lane = name("weft::lane()");
  const auto pass = [&](const Expr& row_at, const Expr& column_at, Store move) {
    Scope inner(&loop, For{.kind = LoopKind::BlockWarps, .variable = turn.node().text, .bound = kTile});
    inner.put(declare(r, binary(first_row, "+", row_at)));
    inner.put(declare(c, binary(first_column, "+", column_at)));
    const Expr inside = all_of({binary(r, "<", dims[row]), binary(c, "<", dims[last])});
    inner.put(If{inside, {std::move(move)}});
    inner.finish();
    loop.put(BlockBarrier{});
  };
  const auto in_tile = [&](const Expr& tile_row, const Expr& column) {
    return element(tile, binary(binary(tile_row, "*", kTile + 1), "+", column));
  };
  pass(lane, turn, {in_tile(turn, lane), source});
  pass(turn, lane, {target, in_tile(lane, turn)});
  loop.finish();
  return root.take_body();
}

}  // namespace weftc
