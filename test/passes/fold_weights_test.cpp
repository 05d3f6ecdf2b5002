// Weights that are computed from constants too large for a text case.
#include <doctest/doctest.h>

#include "ir/base/text.h"
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

/// The bytes of the constants that the graph has when weights are folded.
static int64_t stored_bytes(const std::string& nodes, const std::string& weights) {
  const auto made = prepare(
      "<ir_version: 10, opset_import: [\"\" : 21, \"com.microsoft\" : 1]>\n"
      "m (float[1,256] x) => (float[1,24] y) <" +
          weights + "> { " + nodes + " }",
      "", "fold-weights");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  const Graph& graph = made->module->graph;
  int64_t bytes = 0;
  for (const OpId id : graph.order())
    if (graph.op(id).kind == OpKind::Constant) {
      const TensorType& type = graph.type(graph.op(id).outputs[0]);
      bytes += type.count() * dtype_bytes(type.dtype);
    }
  return bytes;
}

/// "{0, 1, 2, ... }": as many whole numbers, each below 100.
static std::string numbers(int64_t count) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) texts.push_back(std::to_string(i % 100));
  return "{" + join(texts, ", ") + "}";
}

TEST_CASE("fold-weights: 8-bit weights are stored as the product reads them, but not what takes many times the room") {
  const std::string bytes = "int8[256,24] q = " + numbers(256 * 24) + ", float[24] scale = random(2, 1)";
  CHECK(stored_bytes("w = DequantizeLinear<axis = 1>(q, scale) y = MatMul(x, w)", bytes) == 4 * 256 * 24);
  const std::string row = "float[1,24] row = random(1, 1), int64[2] shape = {256, 24}";
  CHECK(stored_bytes("w = Expand(row, shape) y = MatMul(x, w)", row) == 4 * 24);
}
