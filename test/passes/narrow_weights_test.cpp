// Products that read weights of few bits as the model stores them: which do, what is stored, and that the Plan computes
// it.
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// A weight [128, 160] of integers of ONNX type `type`, dequantised to w.
std::string model(int type, const std::string& scales, const std::string& attributes, const std::string& nodes) {
  return "<ir_version: 10, opset_import: [\"\" : 21]> m (float[3,128] x, float[3,160] u) => (float[3,160] y) "
         "<float[128,160] f = random(1, 7.0), float" +
         scales + " s = random(2, 0.1)> { q = Cast <to = " + std::to_string(type) + "> (f) w = DequantizeLinear <" +
         attributes + "> (q, s) " + nodes + " }";
}

const std::string kProduct = "[fc] y = MatMul(x, w)";
constexpr int kInt8 = 3, kInt4 = 22, kUint2 = 25;

int64_t weight_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Weight& weight : plan.weights) bytes += element_count(weight.type.dims()) * dtype_bytes(weight.type.dtype);
  return bytes;
}

/// The bytes of the Plan's weights, which computes in any order of its steps what the graph says.
int64_t bytes_of(const std::string& source, const std::string& yaml = "") {
  const Planned made = plan_of(source, yaml);
  check_orders(made, 3);
  return weight_bytes(made.plan);
}

constexpr int64_t kNumbers = 128 * 160;

}  // namespace

TEST_CASE("narrow weights: a number takes its bits, a block of a column two floats") {
  CHECK(bytes_of(model(kInt4, "[4,160]", "axis = 0, block_size = 32", kProduct)) == kNumbers / 2 + 4 * 160 * 8);
  CHECK(bytes_of(model(kUint2, "[8,160]", "axis = 0, block_size = 16", kProduct)) == kNumbers / 4 + 8 * 160 * 8);
  CHECK(bytes_of(model(kInt8, "[160]", "axis = 1", kProduct)) == kNumbers + 160 * 8);
  CHECK(bytes_of(model(kInt8, "", "axis = 0", kProduct)) == kNumbers + 160 * 8);
}

TEST_CASE("narrow weights: through a transposition, by Gemm, and two products of one weight that is stored once") {
  const std::string scales = "[128]", axis = "axis = 0", turned = "t = Transpose(w) h = MatMul(u, t) y = MatMul(h, v) ";
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  // v is a small weight of floats, so that the result has the right shape.
  const std::string wide = with(model(kInt8, scales, axis, turned), "> {", ", float[128,160] v = random(3, 0.1)> {");
  CHECK(bytes_of(wide) == kNumbers + 5 * 128 * 8 + 4 * kNumbers);
  CHECK(bytes_of(with(wide, "t = Transpose(w) h = MatMul(u, t)", "h = Gemm <transB = 1> (u, w)")) ==
        kNumbers + 5 * 128 * 8 + 4 * kNumbers);
  CHECK(bytes_of(model(kInt8, "[160]", "axis = 1", "a = MatMul(x, w) r = Relu(x) b = MatMul(r, w) y = Add(a, b)")) ==
        kNumbers + 160 * 8);
}

TEST_CASE("narrow weights: what does not fit stays floats") {
  // A scale for each step of k; a factor; a block that is no whole number of words.
  CHECK(bytes_of(model(kInt8, "[128]", "axis = 0", kProduct)) == 4 * kNumbers);
  CHECK(bytes_of(model(kInt8, "[160]", "axis = 1", "y = Gemm <alpha = 0.5> (x, w)")) == 4 * kNumbers);
  CHECK(bytes_of(model(kInt4, "[32,160]", "axis = 0, block_size = 4", kProduct)) == 4 * kNumbers);
}

TEST_CASE("narrow weights: sliced by columns and by blocks, and placed by name") {
  const std::string product = model(kInt4, "[4,160]", "axis = 0, block_size = 32", kProduct);
  const int64_t bytes = kNumbers / 2 + 4 * 160 * 8;
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 2}\nshard: {y: {tp: 1}}\n") == bytes);
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 3}\nshard: {y: {tp: 1}}\n") == bytes);
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 2}\nshard: {q/words: {tp: 1}}\n") == bytes);
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 3}\nshard: {q/words: {tp: 1}}\n") == bytes);
  // Its dimensions are those of the tensor that the schedule names.
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 2}\nshard: {w: {tp: 1}}\n") == 4 * kNumbers);
  CHECK(bytes_of(product, "weft: 1\nmesh: {tp: 2}\nshard: {weight_of(fc): {tp: 1}}\n") == 4 * kNumbers);
}

TEST_CASE("narrow weights: on a device they are floats") {
  const auto made = prepare(model(kInt8, "[160]", "axis = 1", kProduct), "", "narrow-weights", cuda_target({"sm_90"}));
  REQUIRE(made->ok());
  for (const OpId id : made->module->graph.order()) CHECK(made->module->graph.op(id).kind != OpKind::BlockMatMul);
}
