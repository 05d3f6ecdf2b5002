// Models in ONNX text for which people know how to slice them, with the names that samples/ have for their parts.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace weftc::test {

using Filled = std::vector<std::pair<std::string, std::string>>;

/// A text with other texts for words in it.
inline std::string fill(std::string text, const Filled& words) {
  for (const auto& [word, with] : words)
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += with.size())
      text.replace(at, word.size(), with);
  return text;
}

/// The weights of a model and its nodes, layer after layer: `$L` is a layer's number, `$N` the next one's.
struct ModelText {
  std::string header;  // inputs and outputs
  std::string weights, layer_weights, first, layer, last;

  std::string of(int layers, const Filled& sizes) const {
    std::string all_weights = weights, nodes = first;
    for (int l = 0; l < layers; ++l) {
      const Filled numbers = {{"$L", std::to_string(l)}, {"$N", std::to_string(l + 1)}};
      all_weights += fill(layer_weights, numbers), nodes += fill(layer, numbers);
    }
    const Filled end = {{"$L", std::to_string(layers)}};
    const std::string text = "<ir_version: 10, opset_import: [\"\" : 20]>\n" + header + "\n<" + all_weights +
                             " float one = {1}> {\n" + nodes + fill(last, end) + "}\n";
    return fill(text, sizes);
  }
};

/// Layers of a BERT without its embeddings, as Alpa's tests have them; `text` of them is [BATCH, SEQ, WIDTH].
inline const ModelText kBertLayers = {
    .header = "m (float[BATCH, SEQ, WIDTH] \"x.0\", float[BATCH, SEQ, WIDTH] target) => (float[BATCH, SEQ, WIDTH] y)",
    .weights =
        "int64[4] by_head = {BATCH, SEQ, HEADS, EACH}, int64[3] flat = {BATCH, SEQ, WIDTH},\n"
        " int64[3] parts = {WIDTH, WIDTH, WIDTH},\n",
    .layer_weights = R"(
 float[WIDTH, FUSED] "l.$L.qkv_w" = random(1, 0.05), float[WIDTH, WIDTH] "l.$L.out_w" = random(4, 0.05),
 float[WIDTH, INNER] "l.$L.up_w" = random(5, 0.05), float[INNER, WIDTH] "l.$L.down_w" = random(6, 0.05),
 float[WIDTH] "l.$L.norm_w" = random(7, 1), float[WIDTH] "l.$L.norm_b" = random(8, 1),
 float[WIDTH] "l.$L.end_w" = random(9, 1), float[WIDTH] "l.$L.end_b" = random(10, 1),
)",
    .first = "",
    .layer = R"(
  ["l.$L.qkv"] "l.$L.qkv" = MatMul("x.$L", "l.$L.qkv_w")
  ["l.$L.cut"] "l.$L.q", "l.$L.k", "l.$L.v" = Split<axis = 2>("l.$L.qkv", parts)
  ["l.$L.q1"] "l.$L.q1" = Reshape("l.$L.q", by_head) ["l.$L.k1"] "l.$L.k1" = Reshape("l.$L.k", by_head)
  ["l.$L.v1"] "l.$L.v1" = Reshape("l.$L.v", by_head)
  ["l.$L.q2"] "l.$L.q2" = Transpose<perm = [0, 2, 1, 3]>("l.$L.q1")
  ["l.$L.k2"] "l.$L.k2" = Transpose<perm = [0, 2, 3, 1]>("l.$L.k1")
  ["l.$L.v2"] "l.$L.v2" = Transpose<perm = [0, 2, 1, 3]>("l.$L.v1")
  ["l.$L.s"] "l.$L.s" = MatMul("l.$L.q2", "l.$L.k2") ["l.$L.p"] "l.$L.p" = Softmax("l.$L.s")
  ["l.$L.o"] "l.$L.o" = MatMul("l.$L.p", "l.$L.v2")
  ["l.$L.o1"] "l.$L.o1" = Transpose<perm = [0, 2, 1, 3]>("l.$L.o") ["l.$L.o2"] "l.$L.o2" = Reshape("l.$L.o1", flat)
  ["l.$L.out"] "l.$L.out" = MatMul("l.$L.o2", "l.$L.out_w") ["l.$L.add"] "l.$L.add" = Add("x.$L", "l.$L.out")
  ["l.$L.norm"] "l.$L.norm" = LayerNormalization<axis = -1>("l.$L.add", "l.$L.norm_w", "l.$L.norm_b")
  ["l.$L.up"] "l.$L.up" = MatMul("l.$L.norm", "l.$L.up_w") ["l.$L.act"] "l.$L.act" = Gelu("l.$L.up")
  ["l.$L.down"] "l.$L.down" = MatMul("l.$L.act", "l.$L.down_w")
  ["l.$L.add2"] "l.$L.add2" = Add("l.$L.norm", "l.$L.down")
  ["x.$N"] "x.$N" = LayerNormalization<axis = -1>("l.$L.add2", "l.$L.end_w", "l.$L.end_b")
)",
    .last = "[y] y = Identity(\"x.$L\")"};

/// Products in sequence, each followed by Relu: Alpa's MLP.
inline const ModelText kProducts = {
    .header = "m (float[ROWS, WIDTH] \"x.0\", float[ROWS, WIDTH] target) => (float[ROWS, WIDTH] y)",
    .weights = "",
    .layer_weights = " float[WIDTH, WIDTH] \"l.$L.w\" = random(1, 0.05),\n",
    .first = "",
    .layer = R"(  ["l.$L.fc"] "l.$L.fc" = MatMul("x.$L", "l.$L.w") ["x.$N"] "x.$N" = Relu("l.$L.fc")
)",
    .last = "[y] y = Identity(\"x.$L\")"};

/// samples/llama: RMS norms, rotary positions, queries that share keys and values, SwiGLU. Untrained values are inputs.
inline const ModelText kLlama = {
    .header =
        "llama (int64[BATCH, SEQ] input_ids, float[1, 1, SEQ, EACH] cosines, float[1, 1, SEQ, EACH] sines, "
        "float[1, 1, SEQ, SEQ] mask) => (float[BATCH, SEQ, VOCAB] logits)",
    .weights = R"(
 float[VOCAB, WIDTH] "model.embed_tokens.weight" = random(1, 0.5), float[WIDTH, VOCAB] "lm_head.weight" = random(2, 0.1),
 float[WIDTH] "model.norm.weight" = random(3, 1),
 int64[4] by_head = {BATCH, SEQ, HEADS, EACH}, int64[4] by_group = {BATCH, SEQ, GROUPS, EACH},
 int64[5] repeats = {BATCH, GROUPS, REPEATS, SEQ, EACH}, int64[4] repeated = {BATCH, HEADS, SEQ, EACH},
 int64[3] flat = {BATCH, SEQ, WIDTH}, int64[1] zero = {0}, int64[1] half = {HALF}, int64[1] end = {EACH},
 int64[1] third = {3}, int64[1] second = {2}, int64[1] last = {-1}, float two = {2}, float tiny = {0.00001}, float scale = {0.35},
)",
    .layer_weights = R"(
 float[WIDTH, WIDTH] "model.layers.$L.self_attn.q_proj.weight" = random(11, 0.1),
 float[WIDTH, SHARED] "model.layers.$L.self_attn.k_proj.weight" = random(12, 0.1),
 float[WIDTH, SHARED] "model.layers.$L.self_attn.v_proj.weight" = random(13, 0.1),
 float[WIDTH, WIDTH] "model.layers.$L.self_attn.o_proj.weight" = random(14, 0.1),
 float[WIDTH, INNER] "model.layers.$L.mlp.gate_proj.weight" = random(15, 0.1),
 float[WIDTH, INNER] "model.layers.$L.mlp.up_proj.weight" = random(16, 0.1),
 float[INNER, WIDTH] "model.layers.$L.mlp.down_proj.weight" = random(17, 0.1),
 float[WIDTH] "model.layers.$L.norm1.weight" = random(18, 1), float[WIDTH] "model.layers.$L.norm2.weight" = random(19, 1),
)",
    .first = "  [embed_tokens] \"x.0\" = Gather(\"model.embed_tokens.weight\", input_ids)\n",
    .layer = R"(
  ["$L.sq1"] "$L.sq1" = Pow("x.$L", two) ["$L.mean1"] "$L.mean1" = ReduceMean<keepdims = 1>("$L.sq1", last)
  ["$L.safe1"] "$L.safe1" = Add("$L.mean1", tiny) ["$L.root1"] "$L.root1" = Sqrt("$L.safe1")
  ["$L.inv1"] "$L.inv1" = Div(one, "$L.root1") ["$L.unit1"] "$L.unit1" = Mul("x.$L", "$L.inv1")
  ["$L.norm1"] "$L.norm1" = Mul("model.layers.$L.norm1.weight", "$L.unit1")
  ["$L.q"] "$L.q" = MatMul("$L.norm1", "model.layers.$L.self_attn.q_proj.weight")
  ["$L.k"] "$L.k" = MatMul("$L.norm1", "model.layers.$L.self_attn.k_proj.weight")
  ["$L.v"] "$L.v" = MatMul("$L.norm1", "model.layers.$L.self_attn.v_proj.weight")
  ["$L.q1"] "$L.q1" = Reshape("$L.q", by_head) ["$L.k1"] "$L.k1" = Reshape("$L.k", by_group)
  ["$L.v1"] "$L.v1" = Reshape("$L.v", by_group)
  ["$L.q2"] "$L.q2" = Transpose<perm = [0, 2, 1, 3]>("$L.q1") ["$L.k2"] "$L.k2" = Transpose<perm = [0, 2, 1, 3]>("$L.k1")
  ["$L.v2"] "$L.v2" = Transpose<perm = [0, 2, 1, 3]>("$L.v1")
  ["$L.ql"] "$L.ql" = Slice("$L.q2", zero, half, third) ["$L.qh"] "$L.qh" = Slice("$L.q2", half, end, third)
  ["$L.qn"] "$L.qn" = Neg("$L.qh") ["$L.qt"] "$L.qt" = Concat<axis = -1>("$L.qn", "$L.ql")
  ["$L.qc"] "$L.qc" = Mul("$L.q2", cosines) ["$L.qs"] "$L.qs" = Mul("$L.qt", sines) ["$L.qr"] "$L.qr" = Add("$L.qc", "$L.qs")
  ["$L.kl"] "$L.kl" = Slice("$L.k2", zero, half, third) ["$L.kh"] "$L.kh" = Slice("$L.k2", half, end, third)
  ["$L.kn"] "$L.kn" = Neg("$L.kh") ["$L.kt"] "$L.kt" = Concat<axis = -1>("$L.kn", "$L.kl")
  ["$L.kc"] "$L.kc" = Mul("$L.k2", cosines) ["$L.ks"] "$L.ks" = Mul("$L.kt", sines) ["$L.kr"] "$L.kr" = Add("$L.kc", "$L.ks")
  ["$L.ku"] "$L.ku" = Unsqueeze("$L.kr", second) ["$L.ke"] "$L.ke" = Expand("$L.ku", repeats)
  ["$L.k3"] "$L.k3" = Reshape("$L.ke", repeated)
  ["$L.vu"] "$L.vu" = Unsqueeze("$L.v2", second) ["$L.ve"] "$L.ve" = Expand("$L.vu", repeats)
  ["$L.v3"] "$L.v3" = Reshape("$L.ve", repeated)
  ["$L.k4"] "$L.k4" = Transpose<perm = [0, 1, 3, 2]>("$L.k3")
  ["$L.s"] "$L.s" = MatMul("$L.qr", "$L.k4") ["$L.s1"] "$L.s1" = Mul("$L.s", scale) ["$L.s2"] "$L.s2" = Add("$L.s1", mask)
  ["$L.p"] "$L.p" = Softmax<axis = -1>("$L.s2") ["$L.o"] "$L.o" = MatMul("$L.p", "$L.v3")
  ["$L.o1"] "$L.o1" = Transpose<perm = [0, 2, 1, 3]>("$L.o") ["$L.o2"] "$L.o2" = Reshape("$L.o1", flat)
  ["$L.out"] "$L.out" = MatMul("$L.o2", "model.layers.$L.self_attn.o_proj.weight")
  ["$L.mid"] "$L.mid" = Add("x.$L", "$L.out")
  ["$L.sq2"] "$L.sq2" = Pow("$L.mid", two) ["$L.mean2"] "$L.mean2" = ReduceMean<keepdims = 1>("$L.sq2", last)
  ["$L.safe2"] "$L.safe2" = Add("$L.mean2", tiny) ["$L.root2"] "$L.root2" = Sqrt("$L.safe2")
  ["$L.inv2"] "$L.inv2" = Div(one, "$L.root2") ["$L.unit2"] "$L.unit2" = Mul("$L.mid", "$L.inv2")
  ["$L.norm2"] "$L.norm2" = Mul("model.layers.$L.norm2.weight", "$L.unit2")
  ["$L.gate"] "$L.gate" = MatMul("$L.norm2", "model.layers.$L.mlp.gate_proj.weight")
  ["$L.sig"] "$L.sig" = Sigmoid("$L.gate") ["$L.act"] "$L.act" = Mul("$L.gate", "$L.sig")
  ["$L.up"] "$L.up" = MatMul("$L.norm2", "model.layers.$L.mlp.up_proj.weight")
  ["$L.both"] "$L.both" = Mul("$L.act", "$L.up")
  ["$L.down"] "$L.down" = MatMul("$L.both", "model.layers.$L.mlp.down_proj.weight")
  ["x.$N"] "x.$N" = Add("$L.mid", "$L.down")
)",
    .last = R"(
  [f_sq] f_sq = Pow("x.$L", two) [f_mean] f_mean = ReduceMean<keepdims = 1>(f_sq, last)
  [f_safe] f_safe = Add(f_mean, tiny) [f_root] f_root = Sqrt(f_safe)
  [f_inv] f_inv = Div(one, f_root) [f_unit] f_unit = Mul("x.$L", f_inv)
  [f_norm] f_norm = Mul("model.norm.weight", f_unit)
  [lm_head] logits = MatMul(f_norm, "lm_head.weight")
)"};

/// samples/gpt2, of a fixed length and with a mask that is given.
inline const ModelText kGpt2 = {
    .header = "gpt2 (int64[BATCH, SEQ] input_ids, float[1, 1, SEQ, SEQ] mask) => (float[BATCH, SEQ, VOCAB] logits)",
    .weights = R"(
 float[VOCAB, WIDTH] "wte.weight" = random(1, 0.1), float[SEQ, WIDTH] "wpe.weight" = random(2, 0.1),
 float[WIDTH] "ln_f.weight" = random(3, 1), float[WIDTH] "ln_f.bias" = random(4, 0.1),
 int64[1, SEQ] places = {PLACES}, int64[3] parts = {WIDTH, WIDTH, WIDTH}, int64[4] by_head = {BATCH, SEQ, HEADS, EACH},
 int64[3] flat = {BATCH, SEQ, WIDTH}, float scale = {0.35},
)",
    .layer_weights = R"(
 float[WIDTH] "h.$L.ln_1.weight" = random(11, 1), float[WIDTH] "h.$L.ln_1.bias" = random(12, 0.1),
 float[WIDTH] "h.$L.ln_2.weight" = random(13, 1), float[WIDTH] "h.$L.ln_2.bias" = random(14, 0.1),
 float[WIDTH, FUSED] "h.$L.attn.c_attn.weight" = random(15, 0.1), float[FUSED] "h.$L.attn.c_attn.bias" = random(16, 0.1),
 float[WIDTH, WIDTH] "h.$L.attn.c_proj.weight" = random(17, 0.1), float[WIDTH] "h.$L.attn.c_proj.bias" = random(18, 0.1),
 float[WIDTH, INNER] "h.$L.mlp.c_fc.weight" = random(19, 0.1), float[INNER] "h.$L.mlp.c_fc.bias" = random(20, 0.1),
 float[INNER, WIDTH] "h.$L.mlp.c_proj.weight" = random(21, 0.1), float[WIDTH] "h.$L.mlp.c_proj.bias" = random(22, 0.1),
)",
    .first = R"(
  [wte] tokens = Gather("wte.weight", input_ids) [wpe] positions = Gather("wpe.weight", places)
  [embedding] "x.0" = Add(tokens, positions)
)",
    .layer = R"(
  ["h.$L.ln_1"] "h.$L.ln_1" = LayerNormalization<axis = -1>("x.$L", "h.$L.ln_1.weight", "h.$L.ln_1.bias")
  ["h.$L.attn.c_attn"] "h.$L.attn.c_attn" = MatMul("h.$L.ln_1", "h.$L.attn.c_attn.weight")
  ["h.$L.attn.qkv"] "h.$L.attn.qkv" = Add("h.$L.attn.c_attn", "h.$L.attn.c_attn.bias")
  ["h.$L.attn.split"] "h.$L.q", "h.$L.k", "h.$L.v" = Split<axis = 2>("h.$L.attn.qkv", parts)
  ["h.$L.q1"] "h.$L.q1" = Reshape("h.$L.q", by_head) ["h.$L.k1"] "h.$L.k1" = Reshape("h.$L.k", by_head)
  ["h.$L.v1"] "h.$L.v1" = Reshape("h.$L.v", by_head)
  ["h.$L.q2"] "h.$L.q2" = Transpose<perm = [0, 2, 1, 3]>("h.$L.q1")
  ["h.$L.k2"] "h.$L.k2" = Transpose<perm = [0, 2, 3, 1]>("h.$L.k1")
  ["h.$L.v2"] "h.$L.v2" = Transpose<perm = [0, 2, 1, 3]>("h.$L.v1")
  ["h.$L.s"] "h.$L.s" = MatMul("h.$L.q2", "h.$L.k2") ["h.$L.s1"] "h.$L.s1" = Mul("h.$L.s", scale)
  ["h.$L.s2"] "h.$L.s2" = Add("h.$L.s1", mask) ["h.$L.p"] "h.$L.p" = Softmax<axis = -1>("h.$L.s2")
  ["h.$L.o"] "h.$L.o" = MatMul("h.$L.p", "h.$L.v2")
  ["h.$L.o1"] "h.$L.o1" = Transpose<perm = [0, 2, 1, 3]>("h.$L.o") ["h.$L.o2"] "h.$L.o2" = Reshape("h.$L.o1", flat)
  ["h.$L.attn.c_proj"] "h.$L.attn.c_proj" = MatMul("h.$L.o2", "h.$L.attn.c_proj.weight")
  ["h.$L.attn.bias"] "h.$L.attn.out" = Add("h.$L.attn.c_proj", "h.$L.attn.c_proj.bias")
  ["h.$L.attn.residual"] "h.$L.mid" = Add("x.$L", "h.$L.attn.out")
  ["h.$L.ln_2"] "h.$L.ln_2" = LayerNormalization<axis = -1>("h.$L.mid", "h.$L.ln_2.weight", "h.$L.ln_2.bias")
  ["h.$L.mlp.c_fc"] "h.$L.mlp.c_fc" = MatMul("h.$L.ln_2", "h.$L.mlp.c_fc.weight")
  ["h.$L.mlp.fc_bias"] "h.$L.mlp.hidden" = Add("h.$L.mlp.c_fc", "h.$L.mlp.c_fc.bias")
  ["h.$L.mlp.act"] "h.$L.mlp.act" = Gelu("h.$L.mlp.hidden")
  ["h.$L.mlp.c_proj"] "h.$L.mlp.c_proj" = MatMul("h.$L.mlp.act", "h.$L.mlp.c_proj.weight")
  ["h.$L.mlp.bias"] "h.$L.mlp.out" = Add("h.$L.mlp.c_proj", "h.$L.mlp.c_proj.bias")
  ["h.$L.mlp.residual"] "x.$N" = Add("h.$L.mid", "h.$L.mlp.out")
)",
    .last = R"(
  [ln_f] ln_f = LayerNormalization<axis = -1>("x.$L", "ln_f.weight", "ln_f.bias")
  [head] head = Transpose<perm = [1, 0]>("wte.weight") [logits] logits = MatMul(ln_f, head)
)"};

inline Filled gpt2_sizes(int batch, int rows, int vocab) {
  std::string places;
  for (int i = 0; i < rows; ++i) places += (i ? ", " : "") + std::to_string(i);
  return {{"BATCH", std::to_string(batch)},
          {"SEQ", std::to_string(rows)},
          {"WIDTH", "128"},
          {"HEADS", "4"},
          {"EACH", "32"},
          {"FUSED", "384"},
          {"INNER", "512"},
          {"VOCAB", std::to_string(vocab)},
          {"PLACES", places}};
}

/// Each token is the label of the one before it.
inline const char* const kNextWord =
    "train:\n  loss: {cross_entropy: {scores: logits, labels: input_ids, shift: 1}}\n"
    "  optimizer: {adamw: {rate: 1e-3}}\n";

/// samples/moe, between products that make of tokens what experts get, and of what they return what goes on.
inline const ModelText kMixture = {
    .header = "moe (float[GROUPS, TOKENS, WIDTH] given) => (float[GROUPS, TOKENS, WIDTH] made)",
    .weights = R"(
 float[WIDTH, EXPERTS] gate_weight = random(1, 0.1), float[EXPERTS, WIDTH, INNER] up_weight = random(2, 0.1),
 float[EXPERTS, INNER, WIDTH] down_weight = random(3, 0.1), int64 experts = {EXPERTS}, int64 capacity = {CAPACITY},
 float[WIDTH, WIDTH] before_weight = random(4, 0.1), float[WIDTH, WIDTH] after_weight = random(5, 0.1),
 float[2] off_on = {0, 1}, int64 token_axis = {1}, int64[1] expert_axis = {2},
)",
    .layer_weights = "",
    .first = R"(
  [before] x = MatMul(given, before_weight)
  [gate] gate = MatMul(x, gate_weight) [gate_softmax] probability = Softmax<axis = -1>(gate)
  [gate_best] best = ReduceMax<keepdims = 0>(probability, expert_axis)
  [gate_expert] expert = ArgMax<axis = -1, keepdims = 0>(gate)
  [gate_one_hot] chosen = OneHot<axis = -1>(expert, experts, off_on)
  [gate_earlier] earlier = CumSum<exclusive = 1>(chosen, token_axis)
  [gate_own] own = Mul(earlier, chosen) [gate_place] place = ReduceSum<keepdims = 0>(own, expert_axis)
  [gate_slot] slot = Cast<to = 7>(place) [gate_slot_one_hot] placed = OneHot<axis = -1>(slot, capacity, off_on)
  [gate_mask] mask = Einsum<equation = "gte,gtc->gtec">(chosen, placed)
  [gate_scale] scale = Einsum<equation = "gtec,gt->gtec">(mask, best)
  [dispatch] dispatched = Einsum<equation = "gtec,gtw->egcw">(mask, x)
  [up] up = Einsum<equation = "egcw,ewi->egci">(dispatched, up_weight) [act] act = Relu(up)
  [down] returned = Einsum<equation = "egci,eiw->egcw">(act, down_weight)
  [combine] y = Einsum<equation = "gtec,egcw->gtw">(scale, returned)
  [after] made = MatMul(y, after_weight)
)",
    .layer = "",
    .last = ""};

}  // namespace weftc::test
