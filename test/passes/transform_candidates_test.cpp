// A tuner's candidates: found by rules that ignore legality, and kept only if the transforms accept them.
#include "passes/transform/transform_candidates.h"

#include <set>

#include "frontend/schedule_writer.h"
#include "test/passes/planned.h"

using namespace weftc;
using namespace weftc::test;

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

/// The gradient of each rank's rows is reduced to slices, which are updated and gathered.
const char* const kUpdate = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[2,8] grads, float[8] old) => (float[8] y) <int64[1] axis = {0}, float rate = {0.1}> {
  [grad] g = ReduceSum<keepdims = 0>(grads, axis)  [step] s = Mul(g, rate)  [new] n = Sub(old, s)  [out] y = Relu(n)
})";
const char* const kSlicedUpdate =
    "weft: 1\nmesh: {dp: 2}\nshard: {grads: {dp: 0}, grad: {dp: 0}, old: {dp: 0}, y: {dp: R}}\n";

/// Three products of slices, whose sums are added up.
const char* const kSums = R"(<ir_version: 10, opset_import: ["" : 20]>
m (float[4,8] x) => (float[4,4] y) <float[8,4] v0 = random(1, 1.0), float[8,4] v1 = random(2, 1.0),
  float[8,4] v2 = random(3, 1.0)> {
  [q] a = MatMul(x, v0)  [k] b = MatMul(x, v1)  [v] c = MatMul(x, v2)  [qk] d = Add(a, b)  [qkv] e = Add(c, d)
  [out] y = Relu(e)
})";
const char* const kSlicedSums = "weft: 1\nmesh: {tp: 2}\nshard: {v0: {tp: 0}, v1: {tp: 0}, v2: {tp: 0}}\n";

/// A model and the schedule that candidates are added to.
struct Tuned {
  const char *model = kLayers, *schedule = kTp2Layers;

  std::string text_with(const std::vector<TransformStep>& steps) const {
    Diags diags;
    return with_transforms("s.yaml", schedule, steps, diags).value_or("");
  }
  IsLegal rules() const {
    return [this](const auto& steps) { return prepare(model, text_with(steps), "apply-transforms")->ok(); };
  }
  std::vector<Candidate> candidates(const std::string& collective, const std::vector<int>& chunks,
                                    const IsLegal& legal) const {
    const auto made = prepare(model, schedule, "apply-transforms");
    REQUIRE_MESSAGE(made->ok(), made->diags.text());
    return transform_candidates(*made->module, collective, chunks, legal);
  }
  std::vector<Candidate> candidates(const std::string& collective, const std::vector<int>& chunks) const {
    return candidates(collective, chunks, rules());
  }
};
const Tuned kLayered, kUpdated{kUpdate, kSlicedUpdate}, kSummed{kSums, kSlicedSums};

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
  const std::vector<Candidate> found = kLayered.candidates("h{l}_down.sum", {2});
  const std::set<std::string> what = names(found);
  for (const char* wanted : {"as it is", "overlap 2 dim 0 streams", "split 0", "split 1, reorder past 2",
                             "split 0, reorder past 2, fuse", "split 0, reorder past 2, fuse, overlap 2 dim 0 streams",
                             "split 0, reorder past 2, fuse, overlap from h{l}_up 2 dim 0 streams"})
    CHECK_MESSAGE(what.contains(wanted), std::string(wanted));
  CHECK(found.front().steps.empty());
  CHECK(what.size() == found.size());
}

TEST_CASE("a reduce-scatter is fused with what becomes of the slices and overlapped with what feeds it") {
  const std::vector<Candidate> found = kUpdated.candidates("grad.scatter", {2});
  const std::set<std::string> what = names(found);
  for (const char* wanted : {"fuse 5", "fuse 5, overlap 2 dim 0 streams", "fuse 5, overlap 2 dim 0 fused",
                             "overlap 5 ops from grad, 2 dim 0 streams"})
    CHECK_MESSAGE(what.contains(wanted), std::string(wanted));
  CHECK(what.size() == found.size());
}

TEST_CASE("an all-gather is fused and overlapped with what computes its slices") {
  const std::set<std::string> what = names(kUpdated.candidates("out.gather", {2}));
  for (const char* wanted : {"fuse 4", "overlap 4 ops from out.gather, 2 dim 0 streams"})
    CHECK_MESSAGE(what.contains(wanted), std::string(wanted));
}

TEST_CASE("all-reduces whose results are added up are one of their sum") {
  const std::vector<Candidate> found = kSummed.candidates("q.sum", {});
  const auto joint = std::ranges::find(found, "reduce 3 sums as one", &Candidate::what);
  REQUIRE(joint != found.end());
  const auto made = prepare(kSums, kSummed.text_with(joint->steps), "apply-transforms");
  REQUIRE_MESSAGE(made->ok(), made->diags.text());
  int all_reduces = 0;
  for (const OpId id : made->module->graph.order())
    all_reduces += made->module->graph.op(id).kind == OpKind::AllReduce ? 1 : 0;
  CHECK(all_reduces == 1);
}

TEST_CASE("every candidate computes what the schedule computes") {
  using Case = std::pair<const Tuned*, std::string>;
  for (const auto& [tuned, collective] :
       {Case{&kLayered, "h{l}_down.sum"}, Case{&kLayered, "last2_down.sum"}, Case{&kUpdated, "grad.scatter"},
        Case{&kUpdated, "out.gather"}, Case{&kSummed, "q.sum"}})
    for (const Candidate& candidate : tuned->candidates(collective, {2, 4})) {
      CAPTURE(collective);
      CAPTURE(candidate.what);
      CHECK(error_against_one_rank(tuned->model, tuned->text_with(candidate.steps), "apply-transforms") < 2e-5);
    }
}

TEST_CASE("what the transforms refuse is not offered") {
  CHECK(kLayered.candidates("h{l}_down.sum", {3}).size() < kLayered.candidates("h{l}_down.sum", {2}).size());
  const auto none = [](const std::vector<TransformStep>&) { return false; };
  CHECK(names(kLayered.candidates("h{l}_down.sum", {2}, none)) == std::set<std::string>{"as it is"});
  CHECK(kLayered.candidates("h{l}_down", {2}).empty());
  CHECK(kLayered.candidates("nothing", {2}).empty());
}
