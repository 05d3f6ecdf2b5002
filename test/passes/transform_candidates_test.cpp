// What a tuner is offered: found by rules that do not look at legality, and kept only where the transforms accept it.
#include "passes/transform_candidates.h"

#include <set>

#include "frontend/schedule_writer.h"
#include "test/passes/planned.h"

using namespace weft;
using namespace weft::test;

namespace {

/// Two equal layers and a last one of another shape, each with an all-reduce, bias and residual.
const char* const kLayers = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[8,4] x) => (float[8,2] y) <float[4,8] v0 = random(1, 1.0), float[8,4] w0 = random(2, 1.0),
  float[4,8] v1 = random(3, 1.0), float[8,4] w1 = random(4, 1.0), float[4] b = random(5, 1.0),
  float[4,8] v2 = random(6, 1.0), float[8,2] w2 = random(7, 1.0)> {
  [h0_up] a0 = MatMul(x, v0)   [h0_down] p0 = MatMul(a0, w0)  [h0_bias] c0 = Add(p0, b)   [h0_res] r0 = Add(c0, x)
  [h1_up] a1 = MatMul(r0, v1)  [h1_down] p1 = MatMul(a1, w1)  [h1_bias] c1 = Add(p1, b)   [h1_res] r1 = Add(c1, r0)
  [last2_up] a2 = MatMul(r1, v2)  [last2_down] p2 = MatMul(a2, w2)  [last2_act] y = Relu(p2)
})";
const char* const kTp2Layers =
    "weft: 1\nmesh: {tp: 2}\nshard: {v0: {tp: 1}, w0: {tp: 0}, v1: {tp: 1}, w1: {tp: 0}, v2: {tp: 1}, w2: {tp: 0}}\n";

std::string text_with(const std::vector<TransformStep>& steps) {
  Diags diags;
  return with_transforms("s.yaml", kTp2Layers, steps, diags).value_or("");
}

bool is_legal(const std::vector<TransformStep>& steps) {
  return prepare(kLayers, text_with(steps), "apply-transforms")->ok();
}

std::vector<Candidate> candidates(const std::string& collective, const std::vector<int>& chunks, const IsLegal& legal) {
  const auto made = prepare(kLayers, kTp2Layers, "apply-transforms");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  return transform_candidates(*made->module, collective, chunks, legal);
}

std::set<std::string> names(const std::vector<Candidate>& all) {
  std::set<std::string> found;
  for (const Candidate& c : all) found.insert(c.what);
  return found;
}

}  // namespace

TEST_CASE("equal collectives of all layers are one name, another one keeps its own") {
  const auto made = prepare(kLayers, kTp2Layers, "apply-transforms");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  CHECK(tunable_collectives(*made->module) == std::vector<std::string>{"h{l}_down.sum", "last2_down.sum"});
}

TEST_CASE("an all-reduce is split, moved past what follows, fused and overlapped, in every layer") {
  const std::vector<Candidate> found = candidates("h{l}_down.sum", {2}, is_legal);
  const std::set<std::string> what = names(found);
  for (const char* wanted : {"as it is", "overlap 2 dim 0 streams", "split 0", "split 1, reorder past 2",
                             "split 0, reorder past 2, fuse", "split 0, reorder past 2, fuse, overlap 2 dim 0 streams"})
    CHECK_MESSAGE(what.contains(wanted), wanted);
  CHECK(found.front().steps.empty());
  CHECK(what.size() == found.size());
}

TEST_CASE("every candidate computes what the schedule computes") {
  for (const std::string collective : {"h{l}_down.sum", "last2_down.sum"})
    for (const Candidate& candidate : candidates(collective, {2, 4}, is_legal)) {
      CAPTURE(collective);
      CAPTURE(candidate.what);
      CHECK(error_against_one_rank(kLayers, text_with(candidate.steps), "apply-transforms") < 2e-5);
    }
}

TEST_CASE("what the transforms refuse is not offered") {
  CHECK(candidates("h{l}_down.sum", {3}, is_legal).size() < candidates("h{l}_down.sum", {2}, is_legal).size());
  const auto none = [](const std::vector<TransformStep>&) { return false; };
  CHECK(names(candidates("h{l}_down.sum", {2}, none)) == std::set<std::string>{"as it is"});
  CHECK(candidates("h{l}_down", {2}, is_legal).empty());
  CHECK(candidates("nothing", {2}, is_legal).empty());
}
