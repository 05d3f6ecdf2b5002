// Kernels between which much memory lies run in blocks of rows; every order of the blocks computes the same.
#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Attention of 8 heads, 128 queries and 256 keys; what lies between its kernels takes 2 MiB.
std::string attention(const std::string& nodes, const std::string& y = "float[1,8,128,4]",
                      const std::string& weights = "float c = {0.5}") {
  return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,128,4] q, float[1,8,4,256] k, float[1,8,256,4] v) "
         "=> (" +
         y + " y) <" + weights + "> { " + nodes + " }";
}

const Step* find_chain(const Plan& plan) {
  const Step* found = nullptr;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      if (const auto* loop = std::get_if<LoopStep>(&step.what); loop && loop->is_chain()) found = &step;
    });
  return found;
}

/// "1 x 72 of 8 x 128: 2 inside" for the last chain, or "" without a chain. Checks that the Plan is right, and computes
/// the model's results in every order of blocks.
std::string chain_of(const std::string& model, const std::string& yaml = "") {
  const Planned made = plan_of(model, yaml);
  check_orders(made, 3);
  const Step* chain = find_chain(made.plan);
  if (!chain) return "";
  const SharedRows& rows = *std::get<LoopStep>(chain->what).rows;
  std::vector<std::string> blocks, counts;
  for (const RowAxis& axis : rows.axes)
    blocks.push_back(std::to_string(axis.block)), counts.push_back(axis.count.text());
  return join(blocks, " x ") + " of " + join(counts, " x ") + ": " + std::to_string(rows.own.size()) + " inside";
}

/// The proof's message about a Plan with a chain that `spoil` changes.
template <class Spoil>
std::string spoilt(const Spoil& spoil) {
  Planned made = plan_of(attention("s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)"), "");
  REQUIRE(prove_plan(made.plan).empty());
  LoopStep& chain = const_cast<LoopStep&>(std::get<LoopStep>(find_chain(made.plan)->what));
  spoil(made.plan, chain);
  const std::vector<std::string> wrong = prove_plan(made.plan);
  return wrong.empty() ? "" : wrong[0];
}

}  // namespace

TEST_CASE("chains: attention, head by head") {
  CHECK(chain_of(attention("s = MatMul(q, k) t = Mul(s, c) p = Softmax(t) y = MatMul(p, v)")) ==
        "1 x 72 of 8 x 128: 3 inside");
}

TEST_CASE("chains: rows of a mask that is a weight, and of one that all heads share") {
  CHECK(chain_of(attention("s = MatMul(q, k) t = Add(s, mask) p = Softmax(t) y = MatMul(p, v)", "float[1,8,128,4]",
                           "float[128,256] mask = random(3, 1.0)")) == "1 x 72 of 8 x 128: 3 inside");
  CHECK(chain_of(attention("s = MatMul(q, k) t = Add(s, bias) p = Softmax(t) y = MatMul(p, v)", "float[1,8,128,4]",
                           "float[8,1,256] bias = random(3, 1.0)")) == "1 x 72 of 8 x 128: 3 inside");
}

TEST_CASE("chains: as many queries and keys as only a run knows") {
  const std::string open =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[n,8,q,4] x, float[n,8,4,k] y, float[n,8,k,4] z) => "
      "(float[n,8,q,4] w) <float c = {0.5}> { s = MatMul(x, y) t = Mul(s, c) p = Softmax(t) w = MatMul(p, z) }";
  CHECK(chain_of(open, "weft: 1\ndims: {n: '<=2', q: '<=128', k: '<=256'}\n") == "1 x 1 x 72 of n x 8 x q: 3 inside");
  CHECK(chain_of(open, "weft: 1\ndims: {n: '<=128', q: '<=16', k: 64}\n") == "1 x 8 x 16 of n x 8 x q: 3 inside");
  // Rows and columns of an image are queries together.
  const std::string image =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[n,4,h,w] x) => (float[n,4,h,w] y) "
      "<int64[3] flat = {0, 0, -1}> { a = Reshape(x, flat) q = Transpose <perm = [0, 2, 1]> (a) g = Sigmoid(q) "
      "s = MatMul(g, a) p = Softmax(s) o = MatMul(p, g) t = Transpose <perm = [0, 2, 1]> (o) d = Shape(x) "
      "y = Reshape(t, d) }";
  CHECK(chain_of(image, "weft: 1\ndims: {n: '<=2', h: '<=16', w: '<=32'}\n") != "");
}

/// Keys kept from an earlier run, before new ones.
std::string with_past(const std::string& inputs, const std::string& scores) {
  return "<ir_version: 10, opset_import: [\"\" : 20]> m (float[4,8,n,4] q, float[4,8,n,4] k, float[4,8,n,4] v, "
         "float[4,8,p,4] pk, float[4,8,p,4] pv" +
         inputs +
         ") => (float[4,8,n,4] y, float[4,8,pn,4] ck, float[4,8,pn,4] cv) { ck = Concat <axis = 2> (pk, k) "
         "cv = Concat <axis = 2> (pv, v) kt = Transpose <perm = [0,1,3,2]> (ck) s = MatMul(q, kt) " +
         scores + " p = Softmax(t) y = MatMul(p, cv) }";
}

TEST_CASE("chains: a length that has another bound than what it is made of") {
  // A cache has no room for all that could be put in; a mask allows fewer keys than both could be.
  const std::string grown =
      chain_of(with_past("", "t = Identity(s)"), "weft: 1\ndims: {n: '<=64', p: '<=150'}\nstate: {pk: ck, pv: cv}\n");
  CHECK(grown == "1 x 1 x 64 of 4 x 8 x n: 3 inside");
  CHECK(chain_of(with_past(", float[n,all] mask", "t = Add(s, mask)"),
                 "weft: 1\ndims: {n: '<=65', p: '<=151', all: '<=215'}\n") == "1 x 1 x 65 of 4 x 8 x n: 3 inside");
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[n,8] x, float[k,8] z, float[all,8] u) => "
                 "(float[all,8] y) <float[8,512] a = random(1, 0.3), float[512,8] b = random(2, 0.3)> "
                 "{ c = Concat <axis = 0> (x, z) e = Add(c, u) h = MatMul(e, a) r = Sigmoid(h) y = MatMul(r, b) }",
                 "weft: 1\ndims: {n: '<=601', k: '<=601', all: '<=1201'}\n") != "");
}

TEST_CASE("counter-cases: of dimensions as long as others at the bounds, only equal lengths are rows") {
  // Where n and q are at their bounds both are 128, and rows of one look like those of the other.
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[n,q] x, float[n,q,64] b) => (float[q,n,64] y) "
                 "<float[1,64] r = random(1, 0.3), int64[1] last = {64}, int64[1] axis = {2}> { u = Shape(x) one, two "
                 "= Split <num_outputs = 2> (u) "
                 "turned = Concat <axis = 0> (two, one, last) e = Mul(b, r) f = Sigmoid(e) g = Reshape(f, turned) "
                 "m = ReduceMax <keepdims = 1> (g, axis) y = Sub(g, m) }",
                 "weft: 1\ndims: {n: '<=128', q: '<=128'}\n") == "");
}

TEST_CASE("chains: heads that share keys are rows together") {
  const std::string model =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,256,4] q, float[1,8,4,256] k, float[1,4,256,4] v) "
      "=> (float[1,8,256,4] y) <int64[5] five = {1, 4, 1, 256, 4}, int64[5] wide = {1, 4, 2, 256, 4}, "
      "int64[4] four = {1, 8, 256, 4}> { s = MatMul(q, k) p = Softmax(s) a = Reshape(v, five) b = Expand(a, wide) "
      "w = Reshape(b, four) y = MatMul(p, w) }";
  CHECK(chain_of(model) == "1 x 72 of 4 x 256: 3 inside");
}

TEST_CASE("chains: queries, keys and values are slices of one product") {
  const std::string model =
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float[192,16] x) => (float[1,192,128] y) "
      "<float[16,384] w = random(1, 0.3), int64[3] three = {1, 192, 384}, int64[4] heads = {1, 192, 8, 16}, "
      "int64[3] flat = {1, 192, 128}, int64[3] parts = {128, 128, 128}> { a = MatMul(x, w) b = Reshape(a, three) "
      "q, k, v = Split <axis = 2> (b, parts) r = Reshape(q, heads) l = Reshape(k, heads) u = Reshape(v, heads) "
      "qh = Transpose <perm = [0, 2, 1, 3]> (r) kh = Transpose <perm = [0, 2, 3, 1]> (l) "
      "vh = Transpose <perm = [0, 2, 1, 3]> (u) g = Sigmoid(qh) h = Sigmoid(kh) s = MatMul(g, h) p = Softmax(s) "
      "o = MatMul(p, vh) "
      "t = Transpose <perm = [0, 2, 1, 3]> (o) y = Reshape(t, flat) }";
  CHECK(chain_of(model) == "1 x 96 of 8 x 192: 3 inside");
}

TEST_CASE("chains: two products of many rows, and small matrices together") {
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[2048,8] x) => (float[2048,8] y) "
                 "<float[8,160] a = random(1, 0.3), float[160,8] b = random(2, 0.3)> "
                 "{ h = MatMul(x, a) r = Relu(h) y = MatMul(r, b) }") == "120 of 2048: 1 inside");
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[128,4,16,4] q, float[128,4,4,16] k, "
                 "float[128,4,16,4] v) => (float[128,4,16,4] y) "
                 "{ s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }") == "7 x 4 x 16 of 128 x 4 x 16: 3 inside");
}

/// "p/Exp in s: 4096 0 2048": which of the blocks of the last chain lie in the memory of another one, and the panels
/// that kernels keep, in bytes.
std::string memory_of(const std::string& model) {
  const Planned made = plan_of(model);
  check_orders(made, 3);
  std::string shared, kept;
  for (const Step& step : std::get<LoopStep>(find_chain(made.plan)->what).body) {
    const LaunchStep& launch = std::get<LaunchStep>(step.what);
    kept += " " + std::to_string(kept_bytes_of(made.plan.kernel(launch.kernel).strategy));
    for (const Access& access : step.accesses)
      if (const Position& position = made.plan.programs[0].positions[access.buffer.index];
          access.write && position.kind == Position::Kind::OfThread && position.of)
        shared += made.plan.buffer(access.buffer).name + " in " + made.plan.buffer(position.of).name + ":";
  }
  return shared + kept;
}

TEST_CASE("chains: exponentials lie where scores do, and panels of keys and values are kept") {
  CHECK(memory_of(attention("s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v)")) == "p/Exp in s: 4096 0 16384");
  // The halves change places: they do not lie in the scores, whose memory is free for the exponentials then.
  CHECK(
      memory_of(attention("s = MatMul(q, k) a, b = Split <axis = 3, num_outputs = 2> (s) r = Concat <axis = 3> (b, a) "
                          "p = Softmax(r) y = MatMul(p, v)")) == "p/Exp in s: 4096 0 0 16384");
}

TEST_CASE("counter-cases: panels that another block of rows does not need, and of what the chain makes") {
  // Whole matrices are a block.
  CHECK(memory_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[128,4,16,4] q, float[128,4,4,16] k, "
                  "float[128,4,16,4] v) => (float[128,4,16,4] y) "
                  "{ s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }") == "p/Exp in s: 0 0 0");
}

TEST_CASE("counter-cases: chains without rows") {
  // The sums go over the rows; rows of the second product are others; scores are an output.
  CHECK(chain_of(attention("s = MatMul(q, k) p = Softmax <axis = 1> (s) y = ReduceSum <keepdims = 1> (p, all)",
                           "float[1,1,1,256]", "int64[2] all = {1, 2}")) == "");
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[512,4] q, float[4,512] k) => (float[512,4] y) "
                 "{ s = MatMul(q, k) p = Softmax <axis = 0> (s) y = MatMul(p, q) }") == "");
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[8,128,4] q, float[8,4,256] k, float[8,256,4] v) "
                 "=> (float[8,128,4] y, float[8,128,256] p) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }") ==
        "1 x 72 of 8 x 128: 1 inside");
}

TEST_CASE("counter-case: the result lies where the keys do, which the next block reads") {
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[1,8,256,4] q, float[1,8,256,4] v, "
                 "float[1,8,256,4] past) => (float[1,8,256,4] y) { k = Transpose <perm = [0, 1, 3, 2]> (past) "
                 "s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }",
                 "weft: 1\nstate: {past: y}\n") == "1 x 96 of 8 x 256: 1 inside");
}

TEST_CASE("counter-cases: chains that are not worth it") {
  // Little between the kernels; operands in 16 bits, which a product first brings into another array as a whole.
  CHECK(chain_of("<ir_version: 10, opset_import: [\"\" : 20]> m (float[8,32,4] q, float[8,4,64] k, float[8,64,4] v) => "
                 "(float[8,32,4] y) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }") == "");
  const Planned half = plan_of(
      "<ir_version: 10, opset_import: [\"\" : 20]> m (float16[8,256,4] q, float16[8,4,256] k, "
      "float16[8,256,4] v) => (float16[8,256,4] y) { s = MatMul(q, k) p = Softmax(s) y = MatMul(p, v) }");
  CHECK(!find_chain(half.plan));
}

TEST_CASE("the proof refuses chains whose blocks would meet or do not fit") {
  const auto move_rows = [](Plan&, LoopStep& chain) {
    Length& stride = chain.rows->axes[1].strides.begin()->second;
    stride = stride + 1;
  };
  CHECK(spoilt(move_rows).find("needs more") != std::string::npos);
  CHECK(spoilt([](Plan&, LoopStep& chain) { chain.rows->axes.erase(chain.rows->axes.begin()); }) != "");
  CHECK(spoilt([](Plan&, LoopStep& chain) { chain.rows->axes[1].block = 0; }).find("in no way") != std::string::npos);
  CHECK(spoilt([](Plan&, LoopStep& chain) { chain.rows->axes[1].block += 12; }).find("no room") != std::string::npos);
  CHECK(spoilt([](Plan&, LoopStep& chain) { chain.max_trips = 2; }).find("in no way") != std::string::npos);
  CHECK(spoilt([](Plan&, LoopStep& chain) { chain.rows->own.clear(); }) != "");
  CHECK(spoilt([](Plan& plan, LoopStep& chain) {
          for (const BufferId own : chain.rows->own) plan.buffers[own.index].life = Life::Run;
        }) != "");
  CHECK(spoilt([](Plan& plan, LoopStep& chain) {
          for (Program& program : plan.programs)
            for (const BufferId own : chain.rows->own) program.positions[own.index].offset = 0;
        }) != "");
  // Sums lie where the scores do, which the softmax still reads.
  CHECK(spoilt([](Plan& plan, LoopStep& chain) {
          const BufferId scores = chain.body[0].accesses.back().buffer;
          for (const Access& access : chain.body[1].accesses)
            if (access.write)
              plan.programs[0].positions[access.buffer.index] = plan.programs[0].positions[scores.index];
        }).find("in no order") != std::string::npos);
  CHECK(spoilt([](Plan& plan, LoopStep& chain) {
          LaunchStep& last = std::get<LaunchStep>(chain.body.back().what);
          std::get<StridedProduct>(plan.kernels[last.kernel.index].strategy).kept = 0;
        }).find("keeps panels of") != std::string::npos);
}
