// Finds layers. Steps are printed with tokens instead of names. Among runs of equal texts that occur at least twice,
// the one that saves most steps is taken. The steps before and after it are then searched in the same way.
#include "backend/layers.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "backend/declarations.h"
#include "backend/number_pattern.h"
#include "backend/steps.h"
#include "ir/segments.h"

namespace weftc {

namespace {

constexpr int kFewestLayers = 3;
constexpr size_t kMostPeriod = 4096;  // steps of a layer; all lengths up to it are tried
constexpr size_t kFewestSaved = 8;    // steps; a loop that saves fewer is no easier to read

/// An object that a step names in its text.
struct Touched {
  enum class Kind : char { Buffer = 'b', Weight = 'w', Signal = 's' };
  Kind kind;
  uint32_t index;
  auto operator<=>(const Touched&) const = default;
};

/// The form of a step in which layers are compared.
struct StepShape {
  int text = 0;                    // equal for equal texts
  std::vector<Touched> touched;    // in the order of the text
  std::vector<std::string> names;  // of the step, of its transform and nodes, and of the steps inside
  std::vector<int64_t> numbers;    // in these names
};

/// Prints steps with tokens of equal length in place of names.
class ShapeWriter {
 public:
  ShapeWriter(const Plan& plan, const ProgramNames& names, const std::vector<KernelText>& kernels)
      : plan_(plan), text_(plan, with_tokens(names), kernels, ignored_) {}

  std::vector<StepShape> shapes(const Block& block) {
    std::vector<StepShape> shapes;
    for (const Step& step : block.steps) shapes.push_back(shape(step));
    return shapes;
  }

 private:
  static constexpr char kToken = '\x01';
  static constexpr size_t kDigits = 8;

  static std::string token(Touched::Kind kind, size_t index) {
    const std::string number = std::to_string(index);
    return kToken + std::string(1, static_cast<char>(kind)) + std::string(kDigits - number.size(), '0') + number;
  }
  static ProgramNames with_tokens(ProgramNames names) {
    const auto replace = [](std::vector<std::string>& list, Touched::Kind kind) {
      for (size_t i = 0; i < list.size(); ++i) list[i] = token(kind, i);
    };
    replace(names.buffers, Touched::Kind::Buffer), replace(names.weights, Touched::Kind::Weight);
    replace(names.signals, Touched::Kind::Signal);
    return names;
  }

  /// Removes the names from a step and the steps inside it; returns the types of its nodes.
  std::string take_names(Step& step, std::vector<std::string>& names) const {
    std::string types;
    names.push_back(std::move(step.name)), names.push_back(std::move(step.transform));
    for (const OriginId id : step.origins) {
      names.push_back(plan_.origins[id.index].name);
      types += plan_.origins[id.index].op_type + "\n";
    }
    step.name.clear(), step.transform.clear(), step.origins.clear();
    for (std::vector<Step>* body : bodies_of(step))
      for (Step& inner : *body) types += take_names(inner, names);
    return types;
  }

  StepShape shape(Step step) {
    StepShape shape;
    std::string key = take_names(step, shape.names);
    bool is_plain = true;
    for (const std::string& name : shape.names) {
      const NumberPattern pattern(name);
      for (const std::string& part : pattern.parts) key += std::to_string(part.size()) + " " + part;
      key += "\n";
      shape.numbers.insert(shape.numbers.end(), pattern.numbers.begin(), pattern.numbers.end());
      is_plain &= !has_braces(name);
    }
    for (const std::string& line : text_.lines(step)) {
      for (size_t at = 0; at < line.size(); ++at) {
        key += line[at];
        if (line[at] != kToken) continue;
        const auto kind = static_cast<Touched::Kind>(line[at + 1]);
        shape.touched.push_back({kind, static_cast<uint32_t>(std::stoul(line.substr(at + 2, kDigits)))});
        key += line[at + 1], at += 1 + kDigits;
      }
      key += "\n";
    }
    // A name that already looks like a layer's pattern never matches another.
    if (!is_plain) key += std::to_string(texts_.size());
    shape.text = texts_.emplace(key, static_cast<int>(texts_.size())).first->second;
    return shape;
  }

  const Plan& plan_;
  Diags ignored_;  // the text is written again later
  StepText text_;
  std::map<std::string, int> texts_;
};

/// Steps that are layers, judging by their texts.
struct Found {
  size_t first = 0, period = 0;
  int count = 0, begin = 0;
  size_t saved() const { return count < kFewestLayers ? 0 : static_cast<size_t>(count - 1) * period; }
};

/// Finds runs of steps in which layers have equal texts, and numbers that follow the layer.
class Finder {
 public:
  explicit Finder(const std::vector<StepShape>& shapes) : shapes_(shapes) {}

  std::vector<Found> all(size_t from, size_t end) const {
    const Found found = best(from, end);
    if (found.saved() < kFewestSaved) return {};
    std::vector<Found> list = all(from, found.first);
    list.push_back(found);
    const size_t after = found.first + found.period * static_cast<size_t>(found.count);
    for (const Found& more : all(after, end)) list.push_back(more);
    return list;
  }

 private:
  bool is_even(size_t step, size_t period) const {
    const std::vector<int64_t>&a = shapes_[step].numbers, &b = shapes_[step + period].numbers,
          &c = shapes_[step + 2 * period].numbers;
    for (size_t n = 0; n < a.size(); ++n)
      if (b[n] - a[n] != c[n] - b[n]) return false;
    return true;
  }

  /// The number in most names of the first layer that is one higher in the next layer, and how many names have it.
  std::pair<int, int> numbered(const Found& found) const {
    std::map<int64_t, int> votes;
    for (size_t s = found.first; s < found.first + found.period; ++s)
      for (size_t n = 0; n < shapes_[s].numbers.size(); ++n)
        if (shapes_[s + found.period].numbers[n] == shapes_[s].numbers[n] + 1) ++votes[shapes_[s].numbers[n]];
    std::pair<int, int> most{0, 0};
    for (const auto& [number, count] : votes)
      if (count > most.second) most = {static_cast<int>(number), count};
    return most;
  }

  Found best(size_t from, size_t end) const {
    Found best;
    int best_votes = 0;
    for (size_t period = 1; period <= kMostPeriod && period * kFewestLayers <= end - from; ++period) {
      size_t equal = 0, even = 0;  // steps from `s` on that the next layer also has, and the one after it in step
      for (size_t s = end - period; s-- > from;) {
        equal = shapes_[s].text == shapes_[s + period].text ? equal + 1 : 0;
        const bool has_two =
            equal > 0 && s + 2 * period < end && shapes_[s + period].text == shapes_[s + 2 * period].text;
        even = has_two && is_even(s, period) ? even + 1 : 0;
        Found found{s, period, static_cast<int>(std::min(1 + equal / period, 2 + even / period))};
        if (found.saved() < kFewestSaved || found.saved() < best.saved()) continue;
        const auto [begin, votes] = numbered(found);
        if (found.saved() == best.saved() && (found.period != best.period || votes < best_votes)) continue;
        found.begin = begin, best = found, best_votes = votes;
      }
    }
    return best;
  }

  const std::vector<StepShape>& shapes_;
};

/// The objects at one place of a loop's text, one for each layer.
using Role = std::vector<Touched>;
/// An array of objects, one for each layer.
struct Table {
  std::string type, name;
  std::vector<Touched> entries;
};

/// Gives names to the objects that the layers of one program use.
class Namer {
 public:
  Namer(Plan& plan, const ProgramNames& names, const Program& program)
      : plan_(plan), program_(program), layers_{.names = names, .loops = {}, .tables = {}} {}

  void add(const Block& block, const std::vector<StepShape>& shapes, const Found& found) {
    std::map<Touched, Role> roles;
    for (size_t s = found.first; s < found.first + found.period; ++s)
      for (size_t t = 0; t < shapes[s].touched.size(); ++t) {
        Role role;
        for (size_t k = 0; k < static_cast<size_t>(found.count); ++k)
          role.push_back(shapes[s + k * found.period].touched[t]);
        const auto known = roles.emplace(role[0], role);
        if (known.first->second != role) return;
      }
    for (const auto& [first, role] : roles)
      if (!is_nameable(role)) return;
    LayerLoop loop{.first = found.first,
                   .period = found.period,
                   .begin = found.begin,
                   .count = found.count,
                   .steps = {},
                   .names = layers_.names};  // until all loops are known
    for (size_t s = found.first; s < found.first + found.period; ++s) {
      std::vector<std::string> names;
      for (size_t n = 0; n < shapes[s].names.size(); ++n) names.push_back(name_of_all(shapes, found, s, n));
      size_t next = 0;
      loop.steps.push_back(named(block.steps[s], names, next));
    }
    for (auto& [first, role] : roles) declare(role, found.begin);
    roles_.emplace_back(&block, std::move(roles));
    layers_.loops[&block].push_back(std::move(loop));
  }

  /// After all loops are known: each has the program's names, except for objects of its layers.
  ProgramLayers finish() {
    layers_.tables = table_lines();
    std::map<const Block*, size_t> next;
    for (const auto& [block, roles] : roles_) {
      LayerLoop& loop = layers_.loops[block][next[block]++];
      loop.names = layers_.names;
      for (const auto& [first, role] : roles)
        if (const auto own = own_.find(role); own != own_.end()) name_of(loop.names, first) = own->second(loop.begin);
    }
    return std::move(layers_);
  }

 private:
  static std::string name_of_all(const std::vector<StepShape>& shapes, const Found& found, size_t step, size_t name) {
    std::vector<std::string> names;
    for (size_t k = 0; k < static_cast<size_t>(found.count); ++k)
      names.push_back(shapes[step + k * found.period].names[name]);
    return *layer_text(names, found.begin);
  }

  /// The step with these names, in the order of ShapeWriter::take_names.
  Step named(Step step, const std::vector<std::string>& names, size_t& next) {
    step.name = names[next++], step.transform = names[next++];
    for (OriginId& id : step.origins) {
      Origin origin = plan_.origins[id.index];
      origin.name = names[next++];
      id = OriginId{static_cast<uint32_t>(plan_.origins.size())};
      plan_.origins.push_back(std::move(origin));
    }
    for (std::vector<Step>* body : bodies_of(step))
      for (Step& inner : *body) inner = named(inner, names, next);
    return step;
  }

  static bool is_one(const Role& role) {
    return std::all_of(role.begin(), role.end(), [&](const Touched& t) { return t == role[0]; });
  }

  bool is_placed(uint32_t buffer) const {
    const Position::Kind kind = program_.positions[buffer].kind;
    return kind != Position::Kind::Absent && kind != Position::Kind::OfThread;
  }
  /// Whether one declaration works for both buffers, apart from their positions.
  bool are_alike(uint32_t one, uint32_t other) const {
    const Buffer &a = plan_.buffers[one], &b = plan_.buffers[other];
    return a.window == b.window && a.type.dtype == b.type.dtype && a.dims() == b.dims() && a.bytes == b.bytes &&
           a.depth == b.depth && a.life == b.life && is_placed(one) == is_placed(other);
  }
  /// Whether the buffers of all layers share the first one's position. Programs share the declarations of windows.
  bool has_one_place(const Role& role) const {
    const auto place = [&](uint32_t buffer) { return is_placed(buffer) ? program_.positions[buffer].offset : -1; };
    if (plan_.buffers[role[0].index].window && plan_.programs.size() > 1) return false;
    return std::all_of(role.begin(), role.end(),
                       [&](const Touched& t) { return place(t.index) == place(role[0].index); });
  }
  bool is_nameable(const Role& role) const {
    if (is_one(role) || role[0].kind == Touched::Kind::Signal) return true;
    return std::all_of(role.begin(), role.end(), [&](const Touched& t) {
      if (role[0].kind == Touched::Kind::Weight)
        return plan_.weights[t.index].type.dtype == plan_.weights[role[0].index].type.dtype;
      return are_alike(role[0].index, t.index) && (is_placed(t.index) || has_one_place(role));
    });
  }

  std::string& name_of(ProgramNames& names, const Touched& touched) const {
    std::vector<std::string>& list = touched.kind == Touched::Kind::Buffer   ? names.buffers
                                     : touched.kind == Touched::Kind::Weight ? names.weights
                                                                             : names.signals;
    return list[touched.index];
  }
  const std::string& given_name(const Touched& touched) const {
    return touched.kind == Touched::Kind::Buffer   ? plan_.buffers[touched.index].name
           : touched.kind == Touched::Kind::Weight ? plan_.weights[touched.index].name
                                                   : plan_.signals[touched.index].name;
  }
  /// "h_ln_1", or "h_layer_ln_1" if a kernel has that name.
  std::string new_name(const Role& role) {
    const std::string &first = given_name(role[1]), &second = given_name(role[2]);
    const std::string plain = without_layer(first, second, "");
    const bool is_taken = layers_.names.taken.has(identifier(plain));
    return layers_.names.taken.unique(is_taken ? without_layer(first, second, "layer") : plain);
  }

  void declare(const Role& role, int begin) {
    if (is_one(role) || own_.contains(role)) return;
    if (role[0].kind == Touched::Kind::Buffer && has_one_place(role)) return join(role, begin);
    if (role[0].kind == Touched::Kind::Weight && declare_weights(role, begin)) return;
    declare_table(role);
  }

  /// Gives buffers of one position one name, also in sets that already share a name with one of them.
  void share_name(const Role& buffers, const std::string& name) {
    std::set<std::string> old;
    for (const Touched& t : buffers) {
      old.insert(layers_.names.buffers[t.index]);
      shared_.insert(t.index);
    }
    for (std::string& each : layers_.names.buffers)
      if (old.contains(each)) each = name;
  }

  /// Joins buffers that have one position in all layers.
  void join(const Role& role, int begin) {
    const auto named =
        std::find_if(role.begin(), role.end(), [&](const Touched& t) { return shared_.contains(t.index); });
    share_name(role, named != role.end() ? layers_.names.buffers[named->index] : new_name(role));
    std::vector<std::string> lives;
    for (const Touched& t : role) lives.push_back(layers_.names.lives[t.index]);
    std::optional<std::string> live = layer_text(lives, begin);
    if (!live) live = layer_text({lives.begin() + 1, lives.end()}, begin + 1);
    for (const Touched& t : role) layers_.names.lives[t.index] = live.value_or("");
  }

  /// Layers may take turns at a few positions: then there is one buffer for each position, not for each layer.
  void join_turns(const Role& role) {
    std::map<int64_t, Role> by_place;
    for (const Touched& t : role)
      if (is_placed(t.index)) by_place[program_.positions[t.index].offset].push_back(t);
    for (const auto& [place, buffers] : by_place) {
      if (is_one(buffers) || !has_one_place(buffers)) continue;
      share_name(buffers, layers_.names.buffers[buffers[0].index]);
      for (const Touched& t : buffers) layers_.names.lives[t.index].clear();
    }
  }

  /// "name[layer]", "name[layer - 20]": the entry at an offset from the layer's number.
  static std::string in_layer_text(const std::string& name, int after) {
    const std::string sign = after < 0 ? " - " : " + ";
    return name + "[layer" + (after ? sign + std::to_string(std::abs(after)) : "") + "]";
  }

  /// Declares weights at equal distances.
  bool declare_weights(const Role& role, int begin) {
    std::vector<int64_t> places;
    for (const Touched& t : role) {
      const Weight& weight = plan_.weights[t.index];
      if (weight.bytes != plan_.weights[role[0].index].bytes || layered_.contains(t.index)) return false;
      places.push_back(image_place(plan_, program_, weight));
    }
    const int64_t apart = places[1] - places[0];
    for (size_t k = 1; k < places.size(); ++k)
      if (places[k] - places[k - 1] != apart || apart <= 0) return false;
    const std::string name = new_name(role), layers = distance(begin, apart);
    layers_.names.layer_weights[role[0].index] = {name, layers};
    for (size_t k = 0; k < role.size(); ++k) {
      layered_.insert(role[k].index);
      if (k > 0) layers_.names.in_layers.insert(role[k].index);
      layers_.names.weights[role[k].index] = name + "[" + std::to_string(begin + static_cast<int>(k)) + "]";
    }
    own_[role] = [name, begin](int of_loop) { return in_layer_text(name, begin - of_loop); };
    return true;
  }

  /// The constant for the distance between the layers' weights.
  std::string distance(int begin, int64_t apart) {
    std::string& name = distances_[{begin, apart}];
    if (!name.empty()) return name;
    name = layers_.names.taken.unique("layers");
    layers_.names.layer_lines.push_back("constexpr weft::Layers " + name + "{" + std::to_string(begin) + ", " +
                                        std::to_string(apart) + "};  // the first, bytes from one to the next");
    return name;
  }

  /// Adds objects to a table. An object of a layer and the previous layer's object share one table.
  void declare_table(const Role& role) {
    for (Table& table : tables_)
      if (table.entries.size() + 1 >= role.size() &&
          std::equal(role.begin(), role.end() - 1, table.entries.end() - static_cast<int64_t>(role.size()) + 1,
                     table.entries.end())) {
        table.entries.push_back(role.back());
        return use_table(role, table);
      }
    if (role[0].kind == Touched::Kind::Buffer) join_turns(role);
    std::string type = "weft::Signal";
    if (role[0].kind == Touched::Kind::Weight)
      type = std::string("weft::Weight<") + memory_type(plan_.weights[role[0].index].type.dtype) + ">";
    if (role[0].kind == Touched::Kind::Buffer) type = buffer_type(plan_.buffers[role[0].index]);
    tables_.push_back({type, new_name(role), role});
    use_table(role, tables_.back());
  }

  void use_table(const Role& role, const Table& table) {
    const int first = static_cast<int>(table.entries.size() - role.size());
    own_[role] = [name = table.name, first](int begin) { return in_layer_text(name, first - begin); };
  }

  std::vector<std::string> table_lines() {
    constexpr size_t kWidth = 116;
    std::vector<std::string> lines;
    for (const auto& [type, name, entries] : tables_) {
      std::string line = "constexpr " + type + " " + name + "[] = {";
      for (size_t k = 0; k < entries.size(); ++k) {
        const std::string entry = name_of(layers_.names, entries[k]) + (k + 1 < entries.size() ? "," : "};");
        if (line.size() + 1 + entry.size() > kWidth) lines.push_back(std::move(line)), line = "   ";
        line += (line.back() == '{' ? "" : " ") + entry;
      }
      lines.push_back(std::move(line));
    }
    return lines;
  }

  Plan& plan_;
  const Program& program_;
  ProgramLayers layers_;
  std::vector<std::pair<const Block*, std::map<Touched, Role>>> roles_;  // of each loop
  std::map<Role, std::function<std::string(int begin)>> own_;  // name in a loop whose first layer has that number
  std::set<uint32_t> shared_;                                  // buffers that share a name
  std::set<uint32_t> layered_;                                 // weights that are declared together with others
  std::map<std::pair<int, int64_t>, std::string> distances_;
  std::vector<Table> tables_;
};

}  // namespace

ProgramLayers find_layers(Plan& plan, const ProgramNames& names, const Program& program,
                          const std::vector<KernelText>& kernels) {
  Namer namer(plan, names, program);
  ShapeWriter writer(plan, names, kernels);
  for (const Block& block : plan.blocks) {
    if (plan.unrolls_layers || !holds(plan, program, block.place)) continue;
    const std::vector<StepShape> shapes = writer.shapes(block);
    for (const Found& found : Finder(shapes).all(0, shapes.size())) namer.add(block, shapes, found);
  }
  return namer.finish();
}

}  // namespace weftc
