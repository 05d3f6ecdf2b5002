// Nodes of opsets 1 to 6: what they become, and which are refused by name.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

static ReadModel read_old(int opset, const std::string& inputs, const std::string& node) {
  return read_text("<ir_version: 3, opset_import: [\"\" : " + std::to_string(opset) + "]> m (" + inputs +
                   ") => (float y) { " + node + " }");
}

TEST_CASE("broadcasting of opset 6 is an operand of its own") {
  const ReadModel read = read_old(6, "float[2, 3, 4] x, float[3] b", "y = Add<axis = 1, broadcast = 1>(x, b)");
  REQUIRE_MESSAGE(read.module, read.diags.text());
  CHECK(shown(read.module->graph) ==
        "x = Input()\nb = Input()\ny/aligned_operand = AlignedOperand(x, b)\n"
        "y = Add(x, y/aligned_operand)\n");
}

TEST_CASE("attributes that opset 7 has no longer") {
  CHECK(read_old(5, "float[2] x", "y = Relu<consumed_inputs = [0]>(x)").ids().empty());
  CHECK(read_old(6, "float[2] x", "y = Relu<consumed_inputs = [0]>(x)").ids() == "unknown-attribute");
  CHECK(read_old(7, "float[2] x, float[2] z", "y = Add<broadcast = 1>(x, z)").ids() == "unknown-attribute");
  CHECK(read_old(5, "float[2] x", "y = Cast<to = \"FLOAT\">(x)").ids().empty());
  CHECK(read_old(5, "float[2] x", "y = Cast<to = \"REAL\">(x)").ids() == "attribute-value");
  CHECK(read_old(1, "float[2] x", "y = Pad<paddings = [1, 0]>(x)").ids().empty());
  CHECK(read_old(1, "float[1, 1, 2, 2] x", "y = Upsample<height_scale = 2.0, width_scale = 2.0>(x)").ids().empty());
}

TEST_CASE("old nodes that mean something else keep their meaning or are refused") {
  const std::string batch = "float[1, 2, 3] x, float[2] s, float[2] b, float[2] m, float[2] v";
  CHECK(read_old(6, batch, "y = BatchNormalization<is_test = 1>(x, s, b, m, v)").ids().empty());
  CHECK(read_old(6, batch, "y = BatchNormalization<is_test = 0>(x, s, b, m, v)").ids() ==
        "batch-normalization-mode-unsupported");
  const ReadModel drops = read_old(6, "float[2] x", "y = Dropout(x)");
  REQUIRE(drops.module);
  CHECK(drops.module->graph.producer_op(drops.module->graph.outputs()[0].value).integer("training_mode") == 1);
  CHECK(read_old(6, "float[2] x", "y = Dropout<is_test = 1>(x)").ids().empty());
  const ReadModel tile = read_old(1, "float[2] x, int64 n, int64 a", "y = Tile(x, n, a)");
  CHECK(tile.diags.all()[0].message ==
        "operator Tile is not supported in opset 1, only from 6 on; 1 node uses it: 'y'");
  CHECK(read_old(6, "float[2] x", "y = Where(x, x, x)").ids() == "op-unsupported");
}
