// The collectives that layouts make necessary for models of the usual kinds.
#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

struct Pattern {
  const char* name;
  const char* yaml;
  const char* collectives;
  const char* model;
};

const Pattern kPatterns[] = {
    {"Megatron MLP", "mesh: {tp: 4}\nshard: {w1: {tp: 1}, w2: {tp: 0}}", "AllReduce 1",
     R"(mlp (float[2,4,8] x) => (float[2,4,8] y) <float[8,16] w1 = random(1, 0.5), float[16,8] w2 = random(2, 0.5)> {
       h = MatMul(x, w1)
       a = Relu(h)
       p = MatMul(a, w2)
       y = Add(p, x)
     })"},
    {"SwiGLU", "mesh: {tp: 4}\nshard: {wg: {tp: 1}, wu: {tp: 1}, wd: {tp: 0}}", "AllReduce 1",
     R"(mlp (float[2,4,8] x) => (float[2,4,8] y)
       <float[8,16] wg = random(1, 0.5), float[8,16] wu = random(2, 0.5), float[16,8] wd = random(3, 0.5)> {
       g = MatMul(x, wg)
       u = MatMul(x, wu)
       s = Sigmoid(g)
       gs = Mul(g, s)
       a = Mul(gs, u)
       p = MatMul(a, wd)
       y = Add(p, x)
     })"},
    {"attention, separate qkv", "mesh: {tp: 2}\nshard: {wq: {tp: 1}, wk: {tp: 1}, wv: {tp: 1}, wo: {tp: 0}}",
     "AllReduce 1",
     R"(attention (float[1,4,8] x) => (float[1,4,8] y)
       <float[8,8] wq = random(1, 0.5), float[8,8] wk = random(2, 0.5), float[8,8] wv = random(3, 0.5),
        float[8,8] wo = random(4, 0.5), int64[4] heads = {1, 4, 4, 2}, int64[3] merged = {1, 4, 8}> {
       q = MatMul(x, wq)
       k = MatMul(x, wk)
       v = MatMul(x, wv)
       q4 = Reshape(q, heads)
       k4 = Reshape(k, heads)
       v4 = Reshape(v, heads)
       qt = Transpose<perm = [0, 2, 1, 3]>(q4)
       kt = Transpose<perm = [0, 2, 3, 1]>(k4)
       vt = Transpose<perm = [0, 2, 1, 3]>(v4)
       s = MatMul(qt, kt)
       p = Softmax<axis = -1>(s)
       c = MatMul(p, vt)
       ct = Transpose<perm = [0, 2, 1, 3]>(c)
       cm = Reshape(ct, merged)
       o = MatMul(cm, wo)
       y = Add(o, x)
     })"},
    {"attention, fused qkv", "mesh: {tp: 2}\nshard: {w: {tp: {dim: 1, parts: 3}}, wo: {tp: 0}}", "AllReduce 1",
     R"(attention (float[1,4,8] x) => (float[1,4,8] y)
       <float[8,24] w = random(1, 0.5), float[24] b = random(5, 0.5), float[8,8] wo = random(4, 0.5),
        int64[4] heads = {1, 4, 4, 2}, int64[3] merged = {1, 4, 8}> {
       qkv0 = MatMul(x, w)
       qkv = Add(qkv0, b)
       q, k, v = Split<axis = 2, num_outputs = 3>(qkv)
       q4 = Reshape(q, heads)
       k4 = Reshape(k, heads)
       v4 = Reshape(v, heads)
       qt = Transpose<perm = [0, 2, 1, 3]>(q4)
       kt = Transpose<perm = [0, 2, 3, 1]>(k4)
       vt = Transpose<perm = [0, 2, 1, 3]>(v4)
       s = MatMul(qt, kt)
       p = Softmax<axis = -1>(s)
       c = MatMul(p, vt)
       ct = Transpose<perm = [0, 2, 1, 3]>(c)
       cm = Reshape(ct, merged)
       y = MatMul(cm, wo)
     })"},
    {"grouped-query attention", "mesh: {tp: 2}\nshard: {wq: {tp: 1}, wk: {tp: 1}, wv: {tp: 1}, wo: {tp: 0}}",
     "AllReduce 1",
     R"(attention (float[1,4,8] x) => (float[1,4,8] y)
       <float[8,8] wq = random(1, 0.5), float[8,4] wk = random(2, 0.5), float[8,4] wv = random(3, 0.5),
        float[8,8] wo = random(4, 0.5), int64[4] qheads = {1, 4, 4, 2}, int64[4] kheads = {1, 4, 2, 2},
        int64[3] merged = {1, 4, 8}, int64[5] spread = {1, 2, 2, 4, 2}, int64[4] all = {1, 4, 4, 2}, int64[1] two = {2}> {
       q = MatMul(x, wq)
       k = MatMul(x, wk)
       v = MatMul(x, wv)
       q4 = Reshape(q, qheads)
       k4 = Reshape(k, kheads)
       v4 = Reshape(v, kheads)
       qt = Transpose<perm = [0, 2, 1, 3]>(q4)
       kt = Transpose<perm = [0, 2, 1, 3]>(k4)
       vt = Transpose<perm = [0, 2, 1, 3]>(v4)
       ku = Unsqueeze(kt, two)
       vu = Unsqueeze(vt, two)
       ke = Expand(ku, spread)
       ve = Expand(vu, spread)
       kr = Reshape(ke, all)
       vr = Reshape(ve, all)
       kx = Transpose<perm = [0, 1, 3, 2]>(kr)
       s = MatMul(qt, kx)
       p = Softmax<axis = -1>(s)
       c = MatMul(p, vr)
       ct = Transpose<perm = [0, 2, 1, 3]>(c)
       cm = Reshape(ct, merged)
       y = MatMul(cm, wo)
     })"},
    {"a part of the channels of each group", "mesh: {tp: 2}\nshard: {x: {tp: {dim: 1, parts: 2}}}", "AllReduce 1",
     R"(groups (float[2,8,5,5] x) => (float[2,6,3,3] y) <float[6,4,3,3] w = random(1, 0.5)> {
       y = Conv<group = 2, kernel_shape = [3, 3]>(x, w)
     })"},
    {"channels across groups", "mesh: {tp: 2}\nshard: {x: {tp: 1}}", "AllGather 1",
     R"(groups (float[2,8,5,5] x) => (float[2,6,3,3] y) <float[6,4,3,3] w = random(1, 0.5)> {
       y = Conv<group = 2, kernel_shape = [3, 3]>(x, w)
     })"},
    {"embedding and tied ragged head", "mesh: {tp: 4}\nshard: {wte: {tp: 0}}", "AllReduce 1",
     R"(head (int64[1,3] ids) => (float[1,3,11] logits) <float[11,4] wte = random(1, 0.5)> {
       e = Gather<axis = 0>(wte, ids)
       t = Transpose<perm = [1, 0]>(wte)
       logits = MatMul(e, t)
     })"},
    {"sequence parallel layer",
     "mesh: {tp: 2}\nshard: {x: {tp: 0}, wq: {tp: 1}, wo: {tp: 0}, w1: {tp: 1}, w2: {tp: 0}, ln1: {tp: R}, ln2: {tp: "
     "R}, "
     "o: {tp: 0}, p: {tp: 0}}",
     "AllGather 2, ReduceScatter 2",
     R"(layer (float[8,4] x) => (float[8,4] y)
       <float[4,8] wq = random(1, 0.5), float[8,4] wo = random(2, 0.5), float[4,8] w1 = random(3, 0.5),
        float[8,4] w2 = random(4, 0.5), float[4] g = random(5, 0.5)> {
       [ln1] ln1 = LayerNormalization(x, g)
       q = MatMul(ln1, wq)
       [o] o = MatMul(q, wo)
       r1 = Add(o, x)
       [ln2] ln2 = LayerNormalization(r1, g)
       h = MatMul(ln2, w1)
       a = Relu(h)
       [p] p = MatMul(a, w2)
       y = Add(p, r1)
     })"},
    {"data-parallel step", "mesh: {dp: 4}\nshard: {x: {dp: 0}, t: {dp: 0}}", "AllReduce 1",
     R"(step (float[8,4] x, float[8,2] t, float[4,2] w) => (float[4,2] new_w) <float rate = {0.1}> {
       o = MatMul(x, w)
       e = Sub(o, t)
       xt = Transpose<perm = [1, 0]>(x)
       grad = MatMul(xt, e)
       d = Mul(grad, rate)
       new_w = Sub(w, d)
     })"},
    {"ZeRO-1", "mesh: {dp: 4}\nshard: {x: {dp: 0}, t: {dp: 0}, grad: {dp: 0}}\nstate: {w: new_w}",
     "AllGather 1, ReduceScatter 1",
     R"(step (float[8,4] x, float[8,2] t, float[4,2] w) => (float[4,2] new_w) <float rate = {0.1}> {
       o = MatMul(x, w)
       e = Sub(o, t)
       xt = Transpose<perm = [1, 0]>(x)
       grad = MatMul(xt, e)
       d = Mul(grad, rate)
       new_w = Sub(w, d)
     })"},
    {"a state that is whole by request", "mesh: {dp: 4}\nshard: {g: {dp: 0}, s: {dp: 0}, m: {dp: R}}\nstate: {m: n}",
     "AllGather 1, ReduceScatter 1",
     R"(momentum (float[4,8] g, float[8] m) => (float[8] n) <int64[1] axis = {0}> {
       s = ReduceSum<keepdims = 0>(g, axis)
       n = Add(s, m)
     })"},
    {"a state that is sliced as it is read", "mesh: {dp: 4}\nshard: {g: {dp: 0}, s: {dp: 0}}\nstate: {m: n}",
     "ReduceScatter 1",
     R"(momentum (float[4,8] g, float[8] m) => (float[8] n) <int64[1] axis = {0}> {
       s = ReduceSum<keepdims = 0>(g, axis)
       n = Add(s, m)
     })"},
    {"FSDP layer",
     "mesh: {dp: 2}\nshard: {x: {dp: 0}, wq: {dp: 0}, wk: {dp: 0}, wv: {dp: 0}, wo: {dp: 0}, w1: {dp: 0}, w2: {dp: 0}, "
     "wq.use: {dp: R}, wk.use: {dp: R}, wv.use: {dp: R}, wo.use: {dp: R}, w1.use: {dp: R}, w2.use: {dp: R}}",
     "AllGather 6",
     R"(layer (float[4,3,8] x) => (float[4,3,8] y)
       <float[8,8] wq = random(1, 0.5), float[8,8] wk = random(2, 0.5), float[8,8] wv = random(3, 0.5),
        float[8,8] wo = random(4, 0.5), float[8,16] w1 = random(5, 0.5), float[16,8] w2 = random(6, 0.5)> {
       q = MatMul(x, wq)
       k = MatMul(x, wk)
       v = MatMul(x, wv)
       kt = Transpose<perm = [0, 2, 1]>(k)
       s = MatMul(q, kt)
       p = Softmax<axis = -1>(s)
       c = MatMul(p, v)
       o = MatMul(c, wo)
       r = Add(o, x)
       h = MatMul(r, w1)
       a = Relu(h)
       m = MatMul(a, w2)
       y = Add(m, r)
     })"},
    {"experts", "mesh: {ep: 2}\nshard: {x: {ep: 1}, w1: {ep: 0}, w2: {ep: 0}, disp: {ep: 0}, out: {ep: 1}}",
     "AllToAll 2",
     R"(experts (float[4,8,4] x) => (float[4,8,4] y) <float[4,4,8] w1 = random(1, 0.5), float[4,8,4] w2 = random(2, 0.5)> {
       [disp] disp = Neg(x)
       h = MatMul(disp, w1)
       a = Relu(h)
       [out] out = MatMul(a, w2)
       y = Neg(out)
     })"},
    {"context-parallel attention", "mesh: {cp: 2}\nshard: {x: {cp: 1}, k: {cp: R}, v: {cp: R}}", "AllGather 2",
     R"(attention (float[1,8,4] x) => (float[1,8,4] y)
       <float[4,4] wq = random(1, 0.5), float[4,4] wk = random(2, 0.5), float[4,4] wv = random(3, 0.5)> {
       q = MatMul(x, wq)
       k = MatMul(x, wk)
       v = MatMul(x, wv)
       kt = Transpose<perm = [0, 2, 1]>(k)
       s = MatMul(q, kt)
       p = Softmax<axis = -1>(s)
       y = MatMul(p, v)
     })"},
    {"Ulysses", "mesh: {sp: 2}\nshard: {x: {sp: 1}, qt: {sp: 1}, kt: {sp: 1}, vt: {sp: 1}, c: {sp: 2}}", "AllToAll 4",
     R"(attention (float[1,4,8] x) => (float[1,4,8] y)
       <float[8,8] wq = random(1, 0.5), float[8,8] wk = random(2, 0.5), float[8,8] wv = random(3, 0.5),
        float[8,8] wo = random(4, 0.5), int64[4] heads = {1, 4, 4, 2}, int64[3] merged = {1, 4, 8}> {
       q = MatMul(x, wq)
       k = MatMul(x, wk)
       v = MatMul(x, wv)
       q4 = Reshape(q, heads)
       k4 = Reshape(k, heads)
       v4 = Reshape(v, heads)
       qt = Transpose<perm = [0, 2, 1, 3]>(q4)
       kt = Transpose<perm = [0, 2, 1, 3]>(k4)
       vt = Transpose<perm = [0, 2, 1, 3]>(v4)
       kx = Transpose<perm = [0, 1, 3, 2]>(kt)
       s = MatMul(qt, kx)
       p = Softmax<axis = -1>(s)
       c = MatMul(p, vt)
       ct = Transpose<perm = [0, 2, 1, 3]>(c)
       cm = Reshape(ct, merged)
       y = MatMul(cm, wo)
     })"},
    {"convolutions by output then input channels", "mesh: {tp: 2}\nshard: {w1: {tp: 0}, w2: {tp: 1}}", "AllReduce 1",
     R"(convolutions (float[1,3,5,5] x) => (float[1,2,5,5] y)
       <float[4,3,3,3] w1 = random(1, 0.5), float[2,4,1,1] w2 = random(2, 0.5)> {
       h = Conv<pads = [1, 1, 1, 1]>(x, w1)
       a = Relu(h)
       y = Conv(a, w2)
     })"},
};

const std::string kHeader = "<ir_version: 10, opset_import: [\"\" : 20]>\n";

}  // namespace

TEST_CASE("apply-layouts: patterns and their collectives") {
  for (const Pattern& pattern : kPatterns) {
    CAPTURE(pattern.name);
    const std::string yaml = std::string("weft: 1\n") + pattern.yaml + "\n";
    const auto made = prepare(kHeader + pattern.model, yaml, "apply-layouts");
    INFO(made->diags.text());
    REQUIRE(made->ok());
    CHECK(collectives_text(*made->module) == pattern.collectives);
    CHECK(error_against_one_rank(kHeader + pattern.model, yaml, "apply-layouts") < 2e-5);
  }
}
