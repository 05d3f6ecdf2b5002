// The `transform:` section of a schedule, and the names of nodes and values, which `pipeline:` also uses.
#include "frontend/schedule_sections.h"

namespace weftc {

int read_dim(YamlValues& values, const YamlNode& node, const std::string& what) {
  constexpr int64_t kMostDim = 64;
  return static_cast<int>(values.integer(node, what, 0, kMostDim - 1).value_or(0));
}

static constexpr std::string_view kWeightOf = "weight_of";

/// True for a mapping with this key only.
static bool is_weight_of(const YamlNode& node) {
  return node.is(YamlNode::Kind::Map) && node.entries.size() == 1 && node.entries[0].key.text == kWeightOf;
}

std::optional<std::string> read_name(YamlValues& values, const YamlNode& node, const std::string& what) {
  if (!is_weight_of(node)) return values.word(node, what);
  const std::optional<std::string> of = values.word(node.entries[0].value, what);
  if (!of) return {};
  return format("{}({})", kWeightOf, *of);
}

Selector selector_of(const std::string& text, const Loc& loc) {
  if (!text.starts_with(format("{}(", kWeightOf)) || !text.ends_with(')')) return {Selector::Kind::Name, text, loc};
  const size_t start = kWeightOf.size() + 1;
  return {Selector::Kind::Weight, text.substr(start, text.size() - start - 1), loc};
}

static Selector read_selector(YamlValues& values, const YamlNode& node, const std::string& what) {
  if (!node.is(YamlNode::Kind::Map) || is_weight_of(node))
    return selector_of(read_name(values, node, what).value_or(""), node.loc);
  Selector to;
  to.loc = node.loc;
  to.kind = Selector::Kind::Uses;
  const auto read = [&](const YamlNode& name) { to.text = values.word(name, what).value_or(""); };
  values.keys(node, what, {{"uses", read, true}});
  return to;
}

std::vector<Selector> read_selectors(YamlValues& values, const YamlNode& node, const std::string& what) {
  std::vector<Selector> to;
  if (!node.is(YamlNode::Kind::List)) return {read_selector(values, node, what)};
  for (const YamlNode& item : node.items) to.push_back(read_selector(values, item, "each entry of " + what));
  if (to.empty()) values.diags().error("selector-list", node.loc, "{} is an empty list", what);
  return to;
}

static SplitStep read_split(YamlValues& values, const YamlNode& node) {
  SplitStep step;
  const auto into = [&](const YamlNode& list) {
    if (!values.is_list(list, "into")) return;
    for (const YamlNode& item : list.items) {
      step.into.push_back(values.word(item, "each entry of into").value_or(""));
      step.into_locs.push_back(item.loc);
    }
    if (step.into.size() != 2)
      values.diags().error("split-into", list.loc,
                           "a split makes two ops, reduce-scatter and all-gather; into lists {}", step.into.size());
  };
  values.keys(node, "split",
              {{"op", [&](const YamlNode& op) { step.op = read_selector(values, op, "op"); }, true},
               {"dim", [&](const YamlNode& d) { step.dim = read_dim(values, d, "dim"); }, true},
               {"into", into, true}});
  return step;
}

static ReorderStep read_reorder(YamlValues& values, const YamlNode& node) {
  ReorderStep step;
  bool gather = false, reduce = false;
  values.keys(node, "reorder",
              {{"gather",
                [&](const YamlNode& op) {
                  gather = true;
                  step.moved = {read_selector(values, op, "gather")};
                }},
               {"reduce",
                [&](const YamlNode& ops) {
                  reduce = true;
                  step.moved = read_selectors(values, ops, "reduce");
                }},
               {"past", [&](const YamlNode& ops) { step.past = read_selectors(values, ops, "past"); }, true}});
  step.gather = gather;
  if (node.is(YamlNode::Kind::Map) && gather == reduce)
    values.diags().error("reorder-moved", node.loc, "a reorder moves either one gather or a list of reduces");
  return step;
}

static FuseStep read_fuse(YamlValues& values, const YamlNode& node) {
  FuseStep step;
  values.keys(node, "fuse",
              {{"ops", [&](const YamlNode& ops) { step.ops = read_selectors(values, ops, "ops"); }, true},
               {"into",
                [&](const YamlNode& into) {
                  step.into = values.word(into, "into").value_or("");
                  step.into_loc = into.loc;
                },
                true},
               {"bucket", [&](const YamlNode& size) { step.bucket = values.bytes(size, "bucket").value_or(1); }}});
  return step;
}

static OverlapStep read_overlap(YamlValues& values, const YamlNode& node) {
  OverlapStep step;
  step.chunks = 0;
  const auto chunks = [&](const YamlNode& k) {
    const int64_t chunks = values.integer(k, "chunks", 1, kMostChunks).value_or(2);
    step.chunks = static_cast<int>(chunks);
    if (chunks == 1)
      values.diags().error("overlap-one-chunk", k.loc, "1 chunk is no overlap: nothing runs beside it; take 2 or more");
  };
  bool has_dim = false;
  const auto dim = [&](const YamlNode& d) { step.dim = read_dim(values, d, "dim"), has_dim = true; };
  const auto mechanism = [&](const YamlNode& word) {
    const auto index = values.choice(word, "mechanism", {"streams", "signal", "fused"});
    step.mechanism = std::vector{Mechanism::Streams, Mechanism::Signal, Mechanism::Fused}[index.value_or(0)];
  };
  values.keys(node, "overlap",
              {{"ops", [&](const YamlNode& ops) { step.ops = read_selectors(values, ops, "ops"); }, true},
               {"chunks", chunks},
               {"dim", dim},
               {"mechanism", mechanism}});
  for (const auto& [key, value] : node.entries)
    if (step.chunks == 0 && (key.text == "dim" || key.text == "mechanism"))
      values.diags().error("overlap-no-chunks", key.loc, "'{}' is about chunks, and 'chunks' is not given", key.text);
  if (step.chunks > 0 && !has_dim)
    values.diags().error("overlap-dim-missing", node.loc, "overlap in chunks needs the key 'dim'");
  return step;
}

static std::optional<TransformStep> read_transform(YamlValues& values, const YamlNode& node) {
  TransformStep step;
  step.loc = node.loc;
  const int before = values.diags().errors();
  values.keys(node, "a transform",
              {{"split", [&](const YamlNode& n) { step.what = read_split(values, n); }},
               {"reorder", [&](const YamlNode& n) { step.what = read_reorder(values, n); }},
               {"fuse", [&](const YamlNode& n) { step.what = read_fuse(values, n); }},
               {"overlap", [&](const YamlNode& n) { step.what = read_overlap(values, n); }}});
  if (values.diags().errors() != before) return {};
  if (node.entries.size() != 1)
    values.diags().error("transform-count", node.loc,
                         "each entry of transform is one of split, reorder, fuse, overlap");
  return step;
}

std::vector<TransformStep> read_transforms(YamlValues& values, const YamlNode& node) {
  std::vector<TransformStep> steps;
  if (!values.is_list(node, "transform")) return steps;
  for (const YamlNode& item : node.items)
    if (std::optional<TransformStep> step = read_transform(values, item)) steps.push_back(std::move(*step));
  return steps;
}

}  // namespace weftc
