// Which tensors of run-time length are dense, and which lie by their bounds.
#include <doctest/doctest.h>

#include "ir/plan_walk.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

namespace {
/// The names of the buffers that lie by bounds.
std::string by_bounds(const std::string& model, const std::string& yaml) {
  const Planned made = plan_of(model, yaml);
  std::vector<std::string> names;
  for (const Buffer& buffer : made.plan.buffers)
    if (buffer.storage.by_bounds) names.push_back(buffer.name);
  for (const Block& block : made.plan.blocks)
    for_each_step(block.steps, [&](const Step& step) {
      const auto* launch = std::get_if<LaunchStep>(&step.what);
      for (size_t f = 0; launch && f < launch->operands.size(); ++f)
        if (const BufferId id = launch->operands[f].buffer)
          CHECK(made.plan.kernel(launch->kernel).parameters[f].storage == made.plan.buffer(id).storage);
    });
  return join(names, " ");
}

constexpr const char* kRows = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[batch,seq,8] x) => (float[rows,4] y) <int64[2] flat = {-1, 8}, float[8,4] w = random(1, 0.5)>
{ [flatten] r = Reshape(x, flat)  [product] y = MatMul(r, w) })";
}  // namespace

TEST_CASE("lay-lengths: tensors are dense") {
  CHECK(by_bounds(kRows, "weft: 1\ndims: {batch: \"<=3\", seq: \"<=5\"}\n") == "");
}

TEST_CASE("lay-lengths: an exchange of whole tensors, or of columns, leaves rows dense") {
  const std::string head = "weft: 1\nmesh: {tp: 2}\ndims: {batch: \"<=3\", seq: \"<=5\"}\n";
  CHECK(by_bounds(kRows, head + "shard: {w: {tp: 0}}\n") == "");
  CHECK(by_bounds(kRows, head + "shard: {w: {tp: 1}, y.use: {tp: R}}\n") == "");
}

TEST_CASE("lay-lengths: an exchange of slices with run-time lengths inside of them needs bounds") {
  CHECK(by_bounds(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4,seq,8] x) => (float[seq,4,8] y) { a = Relu(x)  [turn] t = Transpose<perm = [1, 0, 2]>(a)  y = Relu(t) })",
                  "weft: 1\nmesh: {tp: 2}\ndims: {seq: \"<=5\"}\nshard: {x: {tp: 0}, a.use: {tp: R}}\n") ==
        "a a.gather");
}

TEST_CASE("lay-lengths: what a cache holds stays where it is when the cache grows") {
  CHECK(by_bounds(R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[2,past,4] cache, float[2,new,4] x) => (float[2,total,4] next, float[2,total,4] y)
{ [grow] next = Concat<axis = 1>(cache, x)  [use] y = Relu(next) })",
                  "weft: 1\ndims: {past: \"<=8\", new: \"<=2\"}\nstate: {cache: next}\n") == "cache next");
}
