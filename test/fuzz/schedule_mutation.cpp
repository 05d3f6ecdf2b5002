// Schedules that name what a model has: meshes, layouts, transforms, states, generation, pipelines, kernels.
#include <sstream>

#include "ir/strategy.h"
#include "test/fuzz/mutation.h"

namespace weftc::fuzz {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// YAML's double-quoted form.
std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// One number is another, or a line is gone.
std::string tweaked(const std::string& old, Dice& dice) {
  std::vector<std::string> lines = lines_of(old);
  if (lines.empty()) return old;
  const auto at = lines.begin() + dice.roll(static_cast<int>(lines.size()));
  const size_t digit = at->find_first_of("0123456789", static_cast<size_t>(dice.roll(static_cast<int>(at->size()))));
  if (digit != std::string::npos && dice.chance(90))
    (*at)[digit] = static_cast<char>('0' + dice.roll(5));
  else
    lines.erase(at);
  return joined(lines);
}

class ScheduleMaker {
 public:
  ScheduleMaker(const onnx::GraphProto& graph, Dice& dice) : graph_(graph), dice_(dice) {
    for (const onnx::NodeProto& node : graph.node()) {
      if (!node.name().empty())
        nodes_.push_back(node.name());
      else if (node.output_size() > 0)
        nodes_.push_back(node.output(0));
    }
  }
  std::string make();

 private:
  std::string axis() { return axes_ > 1 && dice_.chance(40) ? "dp" : "tp"; }
  std::string node() { return nodes_.empty() ? "x" : dice_.pick(nodes_); }
  /// A collective is named after the node that makes it.
  std::string op() {
    static const std::vector<std::string> kEndings = {"", "", "", ".sum", ".gather"};
    return quoted(node() + dice_.pick(kEndings));
  }
  std::string ops(int most);
  void add_shards();
  void add_transform();
  void add_transforms();
  void add_state();
  void add_generate();
  void add_pipeline();
  void add_kernels();

  const onnx::GraphProto& graph_;
  Dice& dice_;
  std::vector<std::string> nodes_;
  int axes_ = 1;
  std::string text_;
};

std::string ScheduleMaker::ops(int most) {
  std::string list;
  if (nodes_.empty()) return list;
  const int first = dice_.roll(static_cast<int>(nodes_.size()));
  for (int k = 0; k <= dice_.roll(most); ++k) {
    const size_t at = static_cast<size_t>(first + k) % nodes_.size();
    const bool is_collective = dice_.chance(25);
    list += (list.empty() ? "" : ", ") + quoted(nodes_[at] + (is_collective ? ".sum" : ""));
  }
  return list;
}

void ScheduleMaker::add_shards() {
  std::vector<std::string> names = value_names(graph_);
  if (names.empty()) return;
  text_ += "shard:\n";
  for (int k = 0; k <= dice_.roll(4); ++k) {
    const std::string name = dice_.pick(names) + (dice_.chance(10) ? ".use" : "");
    const std::string dim = std::to_string(dice_.roll(4));
    const std::string parts = "{dim: " + dim + ", parts: " + std::to_string(1 + dice_.roll(3)) + "}";
    text_ += "  " + quoted(name) + ": {" + axis() + ": ";
    text_ += (dice_.chance(80) ? dim : dice_.chance(50) ? parts : "R") + "}\n";
  }
}

void ScheduleMaker::add_transform() {
  static const std::vector<std::string> kMechanisms = {"streams", "signal", "fused"};
  const std::string dim = std::to_string(dice_.roll(3));
  switch (dice_.roll(4)) {
    case 0:
      text_ += "  - split: {op: " + op() + ", dim: " + dim + ", into: [rs, ag]}\n";
      return;
    case 1:
      text_ += dice_.chance(50) ? "  - reorder: {gather: ag, past: [" + ops(3) + "]}\n"
                                : "  - reorder: {reduce: [" + op() + "], past: [" + ops(3) + "]}\n";
      return;
    case 2:
      text_ += "  - fuse: {ops: [" + ops(4) + "], into: far}\n";
      return;
    default:
      text_ += "  - overlap: {ops: [" + ops(4) + "], chunks: " + std::to_string(2 + dice_.roll(3)) + ", dim: " + dim +
               ", mechanism: " + dice_.pick(kMechanisms) + "}\n";
  }
}

void ScheduleMaker::add_transforms() {
  text_ += "transform:\n";
  for (int k = 0; k <= dice_.roll(3); ++k) add_transform();
}

void ScheduleMaker::add_state() {
  if (graph_.input_size() == 0 || graph_.output_size() == 0) return;
  text_ += "state: {" + quoted(graph_.input(dice_.roll(graph_.input_size())).name()) + ": " +
           quoted(graph_.output(dice_.roll(graph_.output_size())).name()) + "}\n";
}

void ScheduleMaker::add_generate() {
  if (graph_.input_size() == 0 || graph_.output_size() == 0) return;
  const auto any_input = [&] { return quoted(graph_.input(dice_.roll(graph_.input_size())).name()); };
  text_ += "generate: {tokens: " + any_input();
  text_ += ", logits: " + quoted(graph_.output(dice_.roll(graph_.output_size())).name());
  if (dice_.chance(40)) text_ += ", mask: " + any_input();
  if (dice_.chance(40)) text_ += ", positions: " + any_input();
  if (dice_.chance(40)) text_ += ", end: " + std::to_string(dice_.roll(5));
  if (dice_.chance(40)) text_ += ", top_k: " + std::to_string(dice_.roll(5)) + ", top_p: 0.5, temperature: 0.8";
  text_ += ", max_new: " + std::to_string(1 + dice_.roll(5)) + "}\n";
}

/// Two stages, the nodes cut at a random place.
void ScheduleMaker::add_pipeline() {
  if (nodes_.size() < 2) return;
  const size_t cut = 1 + static_cast<size_t>(dice_.roll(static_cast<int>(nodes_.size()) - 1));
  std::string stages[2];
  for (size_t k = 0; k < nodes_.size(); ++k) stages[k >= cut] += (k == 0 || k == cut ? "" : ", ") + quoted(nodes_[k]);
  text_ += "pipeline:\n  stages: {one: {place: a, nodes: [" + stages[0] + "]}, two: {place: b, nodes: [" + stages[1] +
           "]}}\n  micro_batches: " + std::to_string(1 + dice_.roll(4)) +
           "\n  order: " + (dice_.chance(50) ? "1f1b" : "gpipe") + "\n";
}

void ScheduleMaker::add_kernels() {
  static const std::vector<std::string> kStrategies = strategy_names();
  text_ += "kernels: {" + quoted(node()) + ": {strategy: " + dice_.pick(kStrategies) + "}}\n";
}

std::string ScheduleMaker::make() {
  text_ = "weft: 1\n";
  const bool has_places = dice_.chance(15);
  axes_ = 1 + dice_.roll(2);
  if (has_places)
    text_ += "places: {a: {ranks: [0], mesh: {tp: 1}}, b: {ranks: [1, 2], mesh: {tp: 2}}}\n", axes_ = 1;
  else
    text_ += "mesh: {tp: " + std::to_string(1 + dice_.roll(4)) + (axes_ > 1 ? ", dp: 2" : "") + "}\n";
  if (dice_.chance(90)) add_shards();
  if (dice_.chance(35)) add_transforms();
  if (dice_.chance(15)) add_state();
  if (dice_.chance(8)) add_generate();
  if (has_places) add_pipeline();
  if (dice_.chance(10)) add_kernels();
  if (dice_.chance(3)) text_ += "view: per-rank\n";
  return text_;
}

}  // namespace

std::string changed_schedule(const onnx::GraphProto& graph, const std::string& old, Dice& dice) {
  if (!old.empty() && dice.chance(45)) return tweaked(old, dice);
  if (dice.chance(5)) return "";
  return ScheduleMaker(graph, dice).make();
}

}  // namespace weftc::fuzz
