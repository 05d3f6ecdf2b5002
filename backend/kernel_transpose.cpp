// Views that change which dimension is contiguous, on a device: tiles of 32 x 32 go through shared memory, so that both
// sides are moved in whole rows.
#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weftc {

namespace {

constexpr int64_t kTile = 32;

/// Variables named o0, o1, ... for the dimensions of the result.
IndexList result_index(const Dims& dims) {
  IndexList index;
  for (size_t d = 0; d < dims.size(); ++d) index.push_back(index_variable("o" + std::to_string(d), 0, dims[d] - 1));
  return index;
}

std::string tiles(int64_t extent) { return std::to_string((extent + kTile - 1) / kTile); }

}  // namespace

std::vector<std::string> write_transposition(KernelContext& context, const Transposition& strategy) {
  const ValueId result = context.body.outputs()[0].value;
  const Dims dims = context.dims(result);
  const size_t row = strategy.row, last = dims.size() - 1;
  const Parameter& to = context.kernel.parameters[context.output_parameter(0)];
  const std::string type = memory_type(to.type.dtype), rows = std::to_string(dims[row]);
  const std::string columns = std::to_string(dims[last]);
  int64_t others = 1;
  std::vector<Loop> parts;
  for (size_t d = 0; d < last; ++d) {
    if (d == row || dims[d] == 1) continue;
    others *= dims[d];
    parts.push_back({"o" + std::to_string(d), dims[d], std::to_string(dims[d]), "", 1});
  }
  IndexList index = result_index(dims);
  for (size_t d = 0; d < last; ++d)
    if (dims[d] == 1) index[d] = 0;
  const Load from = *context.load_of(result, index);
  const std::string source = context.parameter_name(from.parameter) + "[" + from.offset.text() + "]";
  const std::string target =
      context.parameter_name(context.output_parameter(0)) + "[" + context.offset(to, index).text() + "]";
  const int64_t blocks = others * ((dims[row] + kTile - 1) / kTile) * ((dims[last] + kTile - 1) / kTile);
  context.cover(blocks, 256);
  const std::string r = "o" + std::to_string(row), c = "o" + std::to_string(last);
  const std::string row_name = context.names.unique("row"), k = context.names.unique("k");
  Scope root,
      loop(&root, "for (int64_t block = blockIdx.x; block < " + std::to_string(blocks) + "; block += gridDim.x) {");
  root.put("// Tiles of 32 x 32: rows of the operand come in, rows of the result go out.");
  root.put(type + "* const tile = " + context.shared_array(type, "32 * 33", 0, 0) + ";");
  loop.put("const int64_t column = block % " + tiles(dims[last]) + " * 32, " + row_name + " = block / " +
           tiles(dims[last]) + " % " + tiles(dims[row]) + " * 32;");
  if (!parts.empty()) {
    loop.put("const int64_t other = block / " + std::to_string(blocks / others) + ";");
    split_number(loop, "other", parts);
  }
  const auto pass = [&](const std::string& row_at, const std::string& column_at, const std::string& statement) {
    Scope inner(&loop, "for (int64_t " + k + " = threadIdx.x / 32; " + k + " < 32; " + k + " += blockDim.x / 32) {");
    inner.put("const int64_t " + r + " = " + row_name + " + " + row_at + ", " + c + " = column + " + column_at + ";");
    inner.put("if (" + r + " < " + rows + " && " + c + " < " + columns + ") " + statement);
    inner.finish();
    loop.put("__syncthreads();");
  };
  pass("weft::lane()", k, "tile[" + k + " * 33 + weft::lane()] = " + source + ";");
  pass(k, "weft::lane()", target + " = tile[weft::lane() * 33 + " + k + "];");
  loop.finish();
  return root.lines;
}

}  // namespace weftc
