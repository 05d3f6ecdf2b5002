// Products of floats inside the kernel of a loop over chunks, through shared memory (weft/device_product.h): their
// operands are functions of row, column and k, so that views and computations in front of them are done as elements
// come in.
#include "backend/device_tile.h"
#include "backend/kernel_text.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The lambda that gives an element of an operand.
std::vector<std::string> operand_lines(KernelContext& context, ValueId value, const IndexList& index,
                                       const std::string& name, const char* row, const char* column) {
  Attempt attempt;
  Elements elements(context, attempt);
  LoopScopes& scopes = elements.scopes;
  Scope body(&scopes.root, "const auto " + name + " = [&]([[maybe_unused]] int64_t batch, [[maybe_unused]] int64_t " +
                               row + ", [[maybe_unused]] int64_t " + column + ") -> " +
                               memory_type(context.body.type(value).dtype) + " {");
  body.close = "};";
  body.uniform = false;
  scopes.lanes = Lanes::Thread;
  scopes.floor = scopes.current = &body;
  for (const char* variable : {"batch", row, column}) scopes.own(variable, &body);
  const Element element = elements.at(value, index);
  body.put("return " + (element.loaded.empty() ? element.text : element.loaded) + ";");
  body.finish();
  return scopes.root.lines;
}

/// The index of an operand's element, whose leading dimensions may be fewer than the product's, or of extent 1.
IndexList operand_index(const Dims& dims, const IndexList& lead, const IndexExpr& row, const IndexExpr& column) {
  IndexList index(dims.size());
  for (size_t d = 0; d + 2 < dims.size(); ++d)
    index[d] = dims[d] == 1 ? IndexExpr(0) : lead[lead.size() - (dims.size() - 2) + d];
  index[dims.size() - 2] = row, index[dims.size() - 1] = column;
  return index;
}

}  // namespace

std::vector<std::string> write_tiled_product(KernelContext& context, const TiledProduct& strategy) {
  const ValueId root = contraction_of(context.body);
  const Op& op = context.body.producer_op(root);
  const DType dtype = context.body.type(root).dtype;
  const Dims dims = context.dims(root), a = context.dims(op.inputs[0]), b = context.dims(op.inputs[1]);
  const Dims batch(dims.begin(), dims.end() - 2);
  const int64_t matrices = element_count(batch), rows = dims[dims.size() - 2], columns = dims.back();
  const IndexExpr m = index_variable("m", 0, rows - 1), n = index_variable("n", 0, columns - 1);
  const IndexExpr k = index_variable("k", 0, a.back() - 1);
  const IndexList lead = unravel(index_variable("batch", 0, matrices - 1), batch);
  IndexList result = lead;
  result.push_back(m), result.push_back(n);
  Epilogue behind(context, root);
  behind.reach(result);
  const std::string shape = context.names.unique("product"), tile_name = context.names.unique("Tile");
  const std::string left = context.names.unique("left"), right = context.names.unique("right");
  std::vector<std::string> lines = {
      "constexpr weft::Product " + shape + "{.batch = " + std::to_string(matrices) +
          ", .rows = " + std::to_string(rows) + ", .columns = " + std::to_string(columns) +
          ", .depth = " + std::to_string(a.back()) + "};",
      "using " + tile_name + " = " +
          tile_text(context, strategy.tile, tiles_of(strategy.tile, matrices, rows, columns), dtype) + ";"};
  const auto append = [&](const std::vector<std::string>& more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  append(operand_lines(context, op.inputs[0], operand_index(a, lead, m, k), left, "m", "k"));
  append(operand_lines(context, op.inputs[1], operand_index(b, lead, k, n), right, "k", "n"));
  append(
      put_sums(context, root, behind,
               "weft::multiply<" + tile_name + ", " + compute_type(dtype) + ">(" + shape + ", " + left + ", " + right));
  return lines;
}

}  // namespace weftc
