#include "passes/sharding/layer_classes.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "ir/layout.h"

namespace weftc {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool separates(char c) { return c == '.' || c == '/' || c == '_' || c == ':'; }

/// A key that is equal for all ops of one class.
std::string signature(const Graph& graph, const Op& op, const KeptLayouts* kept) {
  std::string text = std::to_string(static_cast<int>(op.kind));
  const auto text_of = [&](ValueId v) { return type_text(graph.type(v), {}) + (kept ? kept->mark(v) : ""); };
  for (const ValueId v : op.inputs) text += v ? " " + text_of(v) : " -";
  for (const ValueId v : op.outputs) text += " > " + text_of(v);
  return text;
}

/// Numbers that count: 0 1 2 3, or 4 5 6, or 1 3 5 where every second layer has the op.
bool count_up(const std::vector<std::pair<int64_t, OpId>>& numbered) {
  if (numbered.size() < 2) return false;
  const int64_t step = numbered[1].first - numbered[0].first;
  if (step != 1 && numbered.size() == 2) return false;
  for (size_t i = 1; i < numbered.size(); ++i)
    if (step == 0 || numbered[i].first != numbered[i - 1].first + step) return false;
  return true;
}

}  // namespace

std::vector<std::pair<std::string, int64_t>> layer_readings(const std::string& name) {
  std::vector<std::pair<std::string, int64_t>> readings;
  for (size_t begin = 0; begin < name.size();) {
    size_t end = begin;
    while (end < name.size() && is_digit(name[end])) ++end;
    const bool stands_alone =
        (begin == 0 || separates(name[begin - 1])) && (end == name.size() || separates(name[end]));
    if (end > begin && end - begin < 7 && stands_alone)
      readings.emplace_back(name.substr(0, begin) + "{l}" + name.substr(end),
                            std::stoll(name.substr(begin, end - begin)));
    begin = std::max(end, begin + 1);
  }
  return readings;
}

LayerClasses::LayerClasses(const Graph& graph, const KeptLayouts* kept) : class_of_(graph.op_capacity(), -1) {
  const std::vector<OpId> order = graph.order();
  // The first number of a name is tried first: in h.3.ln_1 it is the layer's.
  for (size_t place = 0; place < 3; ++place) {
    std::map<std::pair<std::string, std::string>, std::vector<std::pair<int64_t, OpId>>> groups;
    for (const OpId id : order) {
      if (class_of_[id.index] >= 0) continue;
      const auto readings = layer_readings(graph.op(id).name);
      if (place >= readings.size()) continue;
      const auto& [pattern, number] = readings[place];
      groups[{pattern, signature(graph, graph.op(id), kept)}].emplace_back(number, id);
    }
    for (auto& [alike, numbered] : groups) {
      std::sort(numbered.begin(), numbered.end());
      if (!count_up(numbered)) continue;
      for (const auto& [number, id] : numbered) class_of_[id.index] = static_cast<int>(classes_.size());
      classes_.push_back({{}, alike.first});
    }
  }
  add_others(graph);
}

LayerClasses LayerClasses::of_one(const Graph& graph) {
  LayerClasses classes;
  classes.class_of_.assign(graph.op_capacity(), -1);
  classes.add_others(graph);
  return classes;
}

LayerClasses LayerClasses::of_part(const Graph& part, const LayerClasses& of_whole, const std::vector<OpId>& whole) {
  LayerClasses classes;
  classes.class_of_.assign(part.op_capacity(), -1);
  for (const Class& one : of_whole.classes_) classes.classes_.push_back({{}, one.pattern});
  for (const OpId id : part.order()) classes.class_of_[id.index] = of_whole.of(whole[id.index]);
  classes.add_others(part);
  return classes;
}

std::optional<int64_t> LayerClasses::layer_of(const Graph& graph, OpId id) const {
  const std::string& pattern = class_of(id).pattern;
  if (pattern.empty()) return {};
  for (const auto& [reading, number] : layer_readings(graph.op(id).name))
    if (reading == pattern) return number;
  return {};
}

void LayerClasses::add_others(const Graph& graph) {
  for (const OpId id : graph.order()) {
    int& number = class_of_[id.index];
    if (number < 0) number = static_cast<int>(classes_.size()), classes_.emplace_back();
    classes_[static_cast<size_t>(number)].ops.push_back(id);
  }
}

}  // namespace weftc
