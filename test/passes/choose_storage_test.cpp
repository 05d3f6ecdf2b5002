// Where images lie: channels innermost where convolutions and products make or read runs of them.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// "x 0 2 3 1; y row-major": how the named buffers lie. The Plan computes what its model does.
std::string storages(const std::string& model, const std::vector<std::string>& names) {
  const Planned made = plan_of(model);
  check_orders(made, 2);
  std::vector<std::string> found;
  for (const std::string& name : names)
    for (const Buffer& buffer : made.plan.buffers)
      if (buffer.name == name) found.push_back(name + " " + buffer.storage.text());
  return join(found, "; ");
}

/// Whether the kernel that the node begins copies its image first.
bool copies(const std::string& model, const std::string& kernel) {
  const Planned made = plan_of(model);
  for (const Kernel& each : made.plan.kernels)
    if (each.name == kernel) return copies_image(each.strategy).value();
  FAIL("no kernel " << kernel);
  return false;
}

/// A block as ConvNeXt has it: one filter a channel, then rows of channels, then the image again.
constexpr const char* kBlock = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,3,24,24] x) => (float[1,3,24,24] y)
<float[32,3,1,1] a = random(1, 0.5), float[32,1,7,7] d = random(2, 0.2), float[32,96] up = random(3, 0.2),
 float[96,32] down = random(4, 0.2), float[32] scale = random(5, 1.0), float[3,32,1,1] b = random(6, 0.2)>
{ image = Conv(x, a)  deep = Conv <group = 32, pads = [3, 3, 3, 3]> (image, d)
  turned = Transpose <perm = [0, 2, 3, 1]> (deep)  [norm] rows = LayerNormalization(turned, scale)
  wide = MatMul(rows, up)  gate = Sigmoid(wide)  narrow = MatMul(gate, down)
  back = Transpose <perm = [0, 3, 1, 2]> (narrow)  sum = Add(back, image)  [last] y = Conv(sum, b) })";

}  // namespace

TEST_CASE("storage: what a view makes of channels decides where they lie") {
  CHECK(storages(kBlock, {"image", "turned", "back", "sum"}) ==
        "image 0 2 3 1; turned row-major; back 0 2 3 1; sum 0 2 3 1");
}

TEST_CASE("storage: images side by side, and with a border, keep their channels innermost") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,3,12,12] x) => (float[1,3,7,7] y)
<float[32,3,1,1] a = random(1, 0.5), float[16,3,1,1] c = random(2, 0.5), float[3,48,1,1] b = random(3, 0.2),
 int64[8] border = {0, 0, 1, 1, 0, 0, 1, 1}>
{ one = Conv(x, a)  other = Conv(x, c)  both = Concat <axis = 1> (one, other)  g = Sigmoid(both)
  wide = Pad(g, border)  small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (wide)  y = Conv(small, b) })";
  CHECK(storages(model, {"one", "other", "wide", "small"}) ==
        "one 0 2 3 1; other 0 2 3 1; wide 0 2 3 1; small 0 2 3 1");
}

TEST_CASE("storage: an image that a view turns lies with its channels innermost already") {
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[1,12,12,32] x) => (float[1,16,12,12] y)
<float[32] scale = random(1, 1.0), float[16,32,1,1] f = random(2, 0.2)>
{ rows = LayerNormalization(x, scale)  image = Transpose <perm = [0, 3, 1, 2]> (rows)  [conv] y = Conv(image, f) })";
  CHECK_FALSE(copies(model, "conv"));
  CHECK(storages(model, {"rows"}) == "rows row-major");
}

TEST_CASE("storage: an image made of a vector, and of a value that is used over and over") {
  std::string nodes;
  for (int i = 0; i < 40; ++i)
    nodes += "g" + std::to_string(i + 1) + " = Add(g" + std::to_string(i) + ", g" + std::to_string(i) + ") ";
  const std::string model = R"(<ir_version: 8, opset_import: ["" : 20]>
m (float[2304] x) => (float[1,3,12,12] y)
<float[32,16,1,1] a = random(1, 0.1), float[3,32,1,1] b = random(2, 0.2), int64[4] shape = {1, 16, 12, 12}>
{ image = Reshape(x, shape)  g0 = Conv(image, a) )" +
                            nodes + "y = Conv(g40, b) }";
  CHECK(storages(model, {"g40"}) == "g40 0 2 3 1");
}

TEST_CASE("counter-cases: a pool of floats of 16 bits, which is computed in 32") {
  const Planned made = plan_of(R"(<ir_version: 8, opset_import: ["" : 20]>
m (float16[1,1,6,6] x) => (float16[1,1,3,3] y) { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x) })");
  CHECK_FALSE(std::get<WindowReduction>(made.plan.kernels[0].strategy).channels_last);
}

TEST_CASE("counter-cases: columns of a product that are no channels, or that rows are taken of") {
  const auto product = [](const std::string& nodes, const std::string& y) {
    return "<ir_version: 8, opset_import: [\"\" : 20]> m (float[2,20,16] x) => (" + y +
           " y) <float[16,32] w = random(1, 0.3), int64[4] heads = {2, 20, 4, 8}> { p = MatMul(x, w) " + nodes + " }";
  };
  // Two dimensions together are the columns; rows of a softmax run along another one.
  CHECK(storages(product("h = Reshape(p, heads) t = Transpose <perm = [0, 2, 1, 3]> (h) a, b = Split <axis = 1, "
                         "num_outputs = 2> (t) y = Mul(a, b)",
                         "float[2,2,20,8]"),
                 {"t"}) == "t row-major");
  CHECK(storages(product("t = Transpose <perm = [0, 2, 1]> (p) y = Softmax(t)", "float[2,32,20]"), {"t"}) ==
        "t row-major");
}
