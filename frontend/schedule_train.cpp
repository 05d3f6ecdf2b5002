// The `train:` section of a schedule: `{loss: loss, optimizer: {adamw: {rate: 6e-4}}}`. Only training_step.cpp knows
// the operands and attributes of functions, so they stay words here.
#include <algorithm>

#include "frontend/schedule_sections.h"

namespace weftc {

namespace {

class TrainReader {
 public:
  explicit TrainReader(YamlValues& values) : values_(values) {}
  TrainRequest read(const YamlNode& node);

 private:
  void loss(const YamlNode& node);
  void metrics(const YamlNode& node);
  void rate(const YamlNode& node);
  void groups(const YamlNode& node);
  void clip(const YamlNode& node);
  void average(const YamlNode& node);
  void mode(const YamlNode& node);
  void read_statistics();
  void recompute(const YamlNode& node);
  FunctionCall call(const YamlNode& node, const std::string& what);
  std::optional<FunctionCall::Argument> argument(const YamlNode& key, const YamlNode& value);
  std::vector<ParameterMatch> matches(const YamlNode& node, const std::string& what);
  void refuse_empty(const YamlNode& list, const std::string& what);

  YamlValues& values_;
  TrainRequest request_;
  const YamlNode* statistics_ = nullptr;
};

void TrainReader::refuse_empty(const YamlNode& list, const std::string& what) {
  values_.diags().error("train-empty-list", list.loc, "{} is an empty list", what);
}

/// `weight_decay: 0.1`, `betas: [0.9, 0.95]`.
std::optional<FunctionCall::Argument> TrainReader::argument(const YamlNode& key, const YamlNode& value) {
  FunctionCall::Argument made{key.text, {}, key.loc, value.loc};
  const std::string what = "'" + printable(key.text) + "'";
  const std::vector<YamlNode> single{value};
  for (const YamlNode& item : value.is(YamlNode::Kind::List) ? value.items : single) {
    const std::optional<std::string> word = values_.word(item, what);
    if (!word) return {};
    made.words.push_back(*word);
  }
  if (!made.words.empty()) return made;
  refuse_empty(value, what);
  return {};
}

/// `adamw`, or `adamw: {rate: 1e-3}`.
FunctionCall TrainReader::call(const YamlNode& node, const std::string& what) {
  FunctionCall made;
  made.loc = node.loc;
  if (node.is(YamlNode::Kind::Scalar)) {
    made.function = values_.word(node, what).value_or("");
    return made;
  }
  if (!values_.is_map(node, what)) return made;
  if (node.entries.size() != 1) {
    values_.diags().error("train-function-form", node.loc, "{} is one function, such as {name: {attribute: 1}}, not {}",
                          what, node.entries.size());
    return made;
  }
  const auto& [key, value] = node.entries.front();
  made.function = key.text, made.loc = key.loc;
  if (!value.is(YamlNode::Kind::Null))
    values_.names(value, "'" + printable(key.text) + "'",
                  [&](const std::string&, const YamlNode& name, const YamlNode& words) {
                    if (auto each = argument(name, words)) made.arguments.push_back(std::move(*each));
                  });
  return made;
}

/// `total`, `{cross_entropy: {..}}`, or a list of such, which are added up.
void TrainReader::loss(const YamlNode& node) {
  request_.loss_loc = node.loc;
  const bool is_list = node.is(YamlNode::Kind::List);
  if (is_list && node.items.empty()) values_.diags().error("train-no-loss", node.loc, "the list of losses is empty");
  const std::vector<YamlNode> single{node};
  for (const YamlNode& item : is_list ? node.items : single) {
    LossRequest& loss = request_.losses.emplace_back(LossRequest{"", {}, item.loc});
    if (item.is(YamlNode::Kind::Scalar))
      loss.value = values_.word(item, "loss").value_or("");
    else
      loss.call = call(item, "loss");
  }
}

/// `{accuracy: {accuracy: {scores: y, labels: labels}}, error: err}`.
void TrainReader::metrics(const YamlNode& node) {
  values_.names(node, "metrics", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
    MetricRequest& metric = request_.metrics.emplace_back(MetricRequest{name, "", {}, key.loc});
    if (value.is(YamlNode::Kind::Scalar))
      metric.value = values_.word(value, "the value of '" + printable(name) + "'").value_or("");
    else
      metric.call = call(value, "metric '" + printable(name) + "'");
  });
}

/// `{decay: cosine, steps: 1000}`: `decay` names the function of the step.
void TrainReader::rate(const YamlNode& node) {
  request_.rate.loc = node.loc;
  values_.names(node, "rate", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
    if (name == "decay")
      request_.rate.function = values_.word(value, "decay").value_or("");
    else if (auto each = argument(key, value))
      request_.rate.arguments.push_back(std::move(*each));
  });
}

/// `wte.weight`, `["*.bias", {ndim: 1}]`.
std::vector<ParameterMatch> TrainReader::matches(const YamlNode& node, const std::string& what) {
  std::vector<ParameterMatch> found;
  const std::vector<YamlNode> single{node};
  for (const YamlNode& item : node.is(YamlNode::Kind::List) ? node.items : single) {
    ParameterMatch match{"", {}, item.loc};
    if (item.is(YamlNode::Kind::Map))
      values_.keys(item, what,
                   {{"ndim", [&](const YamlNode& n) { match.ndim = values_.integer(n, "ndim", 0, 64); }, true}});
    else
      match.name = values_.word(item, "each entry of " + what).value_or("");
    found.push_back(std::move(match));
  }
  return found;
}

void TrainReader::groups(const YamlNode& node) {
  if (!values_.is_list(node, "groups")) return;
  for (const YamlNode& item : node.items) {
    ParameterGroup& group = request_.groups.emplace_back();
    values_.names(item, "each entry of groups",
                  [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
                    if (name == "match")
                      group.match = matches(value, "match");
                    else if (auto each = argument(key, value))
                      group.arguments.push_back(std::move(*each));
                  });
    if (group.match.empty())
      values_.diags().error("train-group", item.loc,
                            "each entry of groups needs 'match', the parameters that it is for");
  }
}

void TrainReader::clip(const YamlNode& node) {
  values_.keys(node, "clip",
               {{"norm", [&](const YamlNode& n) { request_.clip_norm = values_.number(n, "norm", 0, 1e30); }, true}});
}

void TrainReader::average(const YamlNode& node) {
  const auto decay = [&](const YamlNode& n) { request_.average_decay = values_.number(n, "decay", 0, 1); };
  values_.keys(node, "average", {{"decay", decay, true}});
}

void TrainReader::mode(const YamlNode& node) {
  const std::optional<size_t> chosen = values_.choice(node, "mode", {"train", "eval"});
  if (chosen) request_.mode = *chosen == 0 ? TrainMode::Train : TrainMode::Eval;
}

/// `batch`, `micro-batch`.
void TrainReader::read_statistics() {
  if (!statistics_ || values_.choice(*statistics_, "statistics", {"batch", "micro-batch"}) != 1) return;
  if (request_.accumulate < 2 || request_.mode == TrainMode::Eval)
    values_.diags().error(
        "train-statistics", statistics_->loc,
        "'statistics: micro-batch' is about trainings that 'accumulate' over micro-batches, not those "
        "with 'mode: eval'");
  request_.mode = TrainMode::TrainByMicroBatch;
}

/// `none`, `all`, `{keep: ["h.{l}.res"]}`, `{limit: 12GiB}`.
void TrainReader::recompute(const YamlNode& node) {
  RecomputeRequest request;
  request.loc = node.loc;
  if (node.is(YamlNode::Kind::Scalar)) {
    if (values_.choice(node, "recompute", {"none", "all"}) == 1) request_.recompute = request;
    return;
  }
  const auto keep = [&](const YamlNode& n) { request.keep = read_selectors(values_, n, "keep"); };
  const auto limit = [&](const YamlNode& n) { request.limit = values_.bytes(n, "limit"); };
  const bool has_limit = std::ranges::any_of(node.entries, [](const YamlEntry& e) { return e.key.text == "limit"; });
  values_.keys(node, "recompute", {{"keep", keep, !has_limit}, {"limit", limit}});
  if (has_limit && !request.keep.empty())
    values_.diags().error("recompute-keep-and-limit", node.loc,
                          "what is kept is either named by 'keep' or chosen within a 'limit'");
  request_.recompute = std::move(request);
}

TrainRequest TrainReader::read(const YamlNode& node) {
  request_.loc = node.loc;
  const auto inputs = [&](const YamlNode& n) {
    values_.names(n, "inputs", [&](const std::string& name, const YamlNode& key, const YamlNode& value) {
      request_.inputs.push_back(
          {name, values_.word(value, "the type of '" + printable(name) + "'").value_or(""), key.loc});
    });
  };
  const auto parameters = [&](const YamlNode& n) {
    if (n.is(YamlNode::Kind::Scalar) && n.text == "all") return;
    request_.parameters = matches(n, "parameters");
    if (n.is(YamlNode::Kind::List) && n.items.empty()) refuse_empty(n, "'parameters'");
  };
  const auto accumulate = [&](const YamlNode& n) {
    request_.accumulate_loc = n.loc;
    request_.accumulate = static_cast<int>(values_.integer(n, "accumulate", 1, 1 << 20).value_or(1));
  };
  values_.keys(node, "train",
               {{"loss", [&](const YamlNode& n) { loss(n); }, true},
                {"optimizer", [&](const YamlNode& n) { request_.optimizer = call(n, "optimizer"); }, true},
                {"inputs", inputs},
                {"mode", [&](const YamlNode& n) { mode(n); }},
                {"parameters", parameters},
                {"frozen", [&](const YamlNode& n) { request_.frozen = matches(n, "frozen"); }},
                {"rate", [&](const YamlNode& n) { rate(n); }},
                {"groups", [&](const YamlNode& n) { groups(n); }},
                {"clip", [&](const YamlNode& n) { clip(n); }},
                {"average", [&](const YamlNode& n) { average(n); }},
                {"metrics", [&](const YamlNode& n) { metrics(n); }},
                {"accumulate", accumulate},
                {"statistics", [&](const YamlNode& n) { statistics_ = &n; }},
                {"recompute", [&](const YamlNode& n) { recompute(n); }}});
  read_statistics();  // in any order of the keys
  return request_;
}

}  // namespace

TrainRequest read_train(YamlValues& values, const YamlNode& node) { return TrainReader(values).read(node); }

}  // namespace weftc
