// Products of floats inside the kernel of a loop over chunks, through shared memory (weft/device_product.h). Operands
// are functions of row, column and k, so that views and computations before the product are done while elements are
// loaded.
#include "backend/device_tile.h"
#include "backend/kernel_text.h"
#include "backend/print.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

/// The lambda that returns an element of an operand.
Statements operand_lines(KernelContext& context, ValueId value, const IndexList& index, const std::string& name,
                         const std::string& batch, const std::string& row, const std::string& column) {
  Cuts cuts;
  Elements elements(context, cuts);
  LoopScopes& scopes = elements.scopes;
  Scope body(&scopes.root, Callback{"const auto " + name + " = [&]([[maybe_unused]] int64_t " + batch +
                                        ", [[maybe_unused]] int64_t " + row + ", [[maybe_unused]] int64_t " + column +
                                        ") -> " + memory_type(context.body.type(value).dtype) + " {",
                                    {},
                                    "};"});
  body.uniform = false;
  scopes.lanes = Lanes::Thread;
  scopes.floor = scopes.current = &body;
  for (const std::string& variable : {batch, row, column}) scopes.own(variable, &body);
  const Element element = elements.at(value, index);
  body.put(Return{element.loaded.empty() ? element.expr : element.loaded});
  body.finish();
  return scopes.root.take_body();
}

/// The index of an operand's element. Its leading dimensions may be fewer than the product's, or of extent 1.
IndexList operand_index(const Dims& dims, const IndexList& lead, const IndexExpr& row, const IndexExpr& column) {
  IndexList index(dims.size());
  for (size_t d = 0; d + 2 < dims.size(); ++d)
    index[d] = dims[d] == 1 ? IndexExpr(0) : lead[lead.size() - (dims.size() - 2) + d];
  index[dims.size() - 2] = row, index[dims.size() - 1] = column;
  return index;
}

std::string run_or_static(KernelContext& context, const TensorType& type, int dim, int64_t extent) {
  const std::string length = context.run_extent(type, dim);
  return length.empty() ? std::to_string(extent) : length;
}

}  // namespace

Statements write_body(KernelContext& context, const TiledProduct& strategy, Writer<TiledProduct>) {
  const ValueId root = contraction_of(context.body);
  const Op& op = context.body.producer_op(root);
  const DType dtype = context.body.type(root).dtype;
  const Dims dims = context.dims(root), a = context.dims(op.inputs[0]), b = context.dims(op.inputs[1]);
  const Dims batch(dims.begin(), dims.end() - 2);
  const int64_t matrices = element_count(batch), rows = dims[dims.size() - 2], columns = dims.back();
  const TileIndex at(context.names);
  const IndexDims extents = context.extents(root), outer(extents.begin(), extents.end() - 2);
  const IndexExpr m = index_variable(at.m, extents[dims.size() - 2]), n = index_variable(at.n, extents.back());
  const IndexExpr k = index_variable(at.k, context.extents(op.inputs[0]).back());
  const IndexList lead = unravel(index_variable(at.batch, outer.count()), outer);
  IndexList result = lead;
  result.push_back(m), result.push_back(n);
  Epilogue after(context, root);
  after.reach(result);
  const std::string shape = context.names.unique("product"), tile_name = context.names.unique("Tile");
  const std::string left = context.names.unique("left"), right = context.names.unique("right");
  const TensorType &type = context.body.type(root), &left_type = context.body.type(op.inputs[0]);
  const int nd = type.ndim();
  const std::string depth = run_or_static(context, left_type, left_type.ndim() - 1, a.back());
  const std::string row_count = run_or_static(context, type, nd - 2, rows);
  const std::string column_count = run_or_static(context, type, nd - 1, columns);
  const bool is_static = context.kernel.extents.empty();
  Statements lines = {
      std::string(is_static ? "constexpr" : "const") + " weft::Product " + shape + "{.batch = " +
          count_text(context, type, 0, nd - 2) + ", .rows = " + row_count + ", .columns = " + column_count +
          ", .depth = " + (is_static ? depth : "static_cast<int>(" + depth + ")") + "};",
      "using " + tile_name + " = " +
          tile_text(context, strategy.tile, tiles_of(strategy.tile, matrices, rows, columns), dtype) + ";"};
  append(lines, operand_lines(context, op.inputs[0], operand_index(a, lead, m, k), left, at.batch, at.m, at.k));
  append(lines, operand_lines(context, op.inputs[1], operand_index(b, lead, k, n), right, at.batch, at.k, at.n));
  append(lines, put_sums(context, root, after,
                         "weft::multiply<" + tile_name + ", " + compute_type(dtype) + ">(" + shape + ", " + left +
                             ", " + right,
                         at));
  return lines;
}

}  // namespace weftc
