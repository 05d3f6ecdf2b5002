// Weights are identified by place, layout, storage and content, not by name: each variant has read the model anew.
#include "passes/plan/merge_variants.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "ir/layout.h"
#include "passes/plan/plan_parts.h"

namespace weftc {

namespace {

const Constant& constant_of(const Plan& plan, const Weight& weight) { return (*plan.constants)[weight.constant]; }
const Mesh& mesh_of(const Plan& plan, PlaceId place) { return plan.places[place.index].mesh; }

/// Numbers the weights of several plans by content: weights of one number hold the same elements in the same slices.
class ContentNumbers {
 public:
  int number(const Plan& plan, const Weight& weight) {
    const Constant& constant = constant_of(plan, weight);
    std::vector<std::pair<const Constant*, int>>& alike =
        known_[format("{} {} {}", weight.place.index, type_text(weight.type, mesh_of(plan, weight.place)),
                      sampled_content(constant))];
    for (const auto& [other, number] : alike)
      if (has_same_bytes(*other, constant)) return number;
    alike.emplace_back(&constant, count_);
    return count_++;
  }

 private:
  std::map<std::string, std::vector<std::pair<const Constant*, int>>> known_;
  int count_ = 0;
};

using SegmentKey = std::pair<PlaceId, std::vector<int>>;

SegmentKey key_of(const Segment& segment) { return {segment.place, segment.axes}; }

/// Concatenates the weights of all plans, segment by segment; weights of equal content and storage are stored once.
class WeightMerger {
 public:
  explicit WeightMerger(const std::vector<VariantPlan>& variants) : variants_(variants) {
    std::set<SegmentKey> keys;
    for (const VariantPlan& variant : variants_)
      for (const Segment& segment : variant.plan->segments) keys.insert(key_of(segment));
    for (const SegmentKey& key : keys) segments_.push_back({key.first, key.second, 0});
  }

  void run() {
    for (size_t s = 0; s < segments_.size(); ++s) lay_segment(s);
    for (const VariantPlan& variant : variants_) adopt(*variant.plan);
  }

 private:
  void lay_segment(size_t number) {
    end_ = round_up_to(end_, kWeightPage);
    for (const VariantPlan& variant : variants_)
      for (const Weight& weight : variant.plan->weights) {
        const Segment& own = variant.plan->segments[static_cast<size_t>(weight.segment)];
        if (key_of(own) != key_of(segments_[number])) continue;
        const auto [at, is_new] = offsets_.emplace(
            std::pair(contents_.number(*variant.plan, weight), weight.storage.text()), Offset{number, end_});
        if (!is_new) continue;
        segments_[number].end = end_ + weight.bytes;
        end_ = round_up_to(end_ + weight.bytes, kBufferAlign);
      }
  }

  /// Weights of a plan are in the order of their offsets.
  void adopt(Plan& plan) {
    std::vector<uint32_t> order, now(plan.weights.size());
    for (Weight& weight : plan.weights) {
      const Offset& offset = offsets_.at({contents_.number(plan, weight), weight.storage.text()});
      weight.segment = static_cast<int>(offset.segment), weight.offset = offset.bytes;
      order.push_back(static_cast<uint32_t>(order.size()));
    }
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return plan.weights[a].offset < plan.weights[b].offset; });
    std::vector<Weight> sorted;
    for (uint32_t i = 0; i < order.size(); ++i) now[order[i]] = i, sorted.push_back(std::move(plan.weights[order[i]]));
    plan.weights = std::move(sorted);
    plan.segments = segments_;
    renumber_weights(plan, now);
  }

  struct Offset {
    size_t segment;
    int64_t bytes;
  };
  const std::vector<VariantPlan>& variants_;
  ContentNumbers contents_;
  std::vector<Segment> segments_;
  std::map<std::pair<int, std::string>, Offset> offsets_;  // by content and storage
  int64_t end_ = 0;
};

/// Where a state lies on each rank, as a text that two variants can be compared by.
std::string place_of_state(const Plan& plan, const StateSlot& state) {
  if (!state.buffer) return "nowhere";
  const Buffer& buffer = plan.buffer(state.buffer);
  std::string text = format("{}, {}, {}", type_text(buffer.type, buffer.mesh), buffer.storage.text(),
                            buffer.window ? "window" : "own");
  for (const Program& program : plan.programs) {
    const Position& position = program.positions[state.buffer.index];
    text += position.kind == Position::Kind::Absent ? ", absent" : format(", byte {}", position.offset);
  }
  return text;
}

void check_states(const std::vector<VariantPlan>& variants, Diags& diags) {
  const VariantPlan& first = variants.front();
  for (const VariantPlan& other : variants)
    for (size_t s = 0; s < first.plan->states.size(); ++s) {
      const std::string here = place_of_state(*first.plan, first.plan->states[s]);
      const std::string there = place_of_state(*other.plan, other.plan->states[s]);
      if (here == there) continue;
      diags.error("variant-state-unsupported", Loc::in_file(first.plan->name),
                  "state '{}' is one buffer for all variants, but {} has it as {}, and {} as {}",
                  printable(first.plan->states[s].input), first.name, here, other.name, there);
    }
}

/// The names of a program's inputs or outputs.
std::set<std::string> port_names(const Plan& plan, const Program& program, const std::vector<Port>& ports) {
  std::set<std::string> names;
  for (const Port& port : ports)
    if (holds(plan, program, port.place) && program.positions[port.buffer.index].kind != Position::Kind::Absent)
      names.insert(port.name);
  return names;
}

/// A request has the same inputs and outputs whichever variant runs it, and the same ranks hold them.
void check_ports(const std::vector<VariantPlan>& variants, Diags& diags) {
  const VariantPlan& first = variants.front();
  for (const VariantPlan& other : variants)
    for (const auto ports : {&Plan::inputs, &Plan::outputs})
      for (size_t p = 0; p < first.plan->programs.size(); ++p) {
        const std::set<std::string> here = port_names(*first.plan, first.plan->programs[p], first.plan->*ports);
        const std::set<std::string> there = port_names(*other.plan, other.plan->programs[p], other.plan->*ports);
        if (here == there) continue;
        std::vector<std::string> differing;
        std::set_symmetric_difference(here.begin(), here.end(), there.begin(), there.end(),
                                      std::back_inserter(differing));
        return void(diags.error("variant-ports-unsupported", Loc::in_file(first.plan->name),
                                "{} and {} do not have the same {}: '{}' is in one of them only", first.name,
                                other.name, ports == &Plan::inputs ? "inputs" : "outputs",
                                printable(differing.front())));
      }
}

/// Each of them has one element type and one number of dimensions: a Squeeze or a branch may decide by a length.
void check_port_types(const std::vector<VariantPlan>& variants, Diags& diags) {
  const VariantPlan& first = variants.front();
  for (const VariantPlan& other : variants)
    for (const auto ports : {&Plan::inputs, &Plan::outputs})
      for (const Port& port : first.plan->*ports) {
        const TensorType &here = port.type, &there = find_port(other.plan->*ports, port.name)->type;
        if (here.dtype == there.dtype && here.ndim() == there.ndim()) continue;
        return void(diags.error(
            "variant-ports-unsupported", Loc::in_file(first.plan->name),
            "'{}' is {} for {} and {} for {}: all variants must have it in one number of dimensions",
            printable(port.name), type_text(here, port.mesh), first.name, type_text(there, port.mesh), other.name));
      }
}

const Port& port_named(const Plan& plan, const std::string& name) { return *find_port(plan.inputs, name); }

/// The loop over tokens feeds pieces of any length: to variants of a fixed length as long as a piece fills them, the
/// rest token by token.
void check_tokens(const std::vector<VariantPlan>& variants, Diags& diags) {
  const Generation& generation = *variants.front().plan->generation;
  bool is_fixed = false, takes_one = false;
  for (const VariantPlan& variant : variants) {
    const Extent& length = port_named(*variant.plan, generation.tokens).type.shape[1];
    is_fixed |= !length.is_run_time();
    takes_one |= length.is_run_time() || length.bound == 1;
  }
  if (!is_fixed || (takes_one && !generation.past.empty())) return;
  diags.error("variant-tokens", Loc::in_file(variants.front().plan->name),
              generation.past.empty()
                  ? "'{}' has fixed lengths, but without states the whole text is fed for each token: give bounds (<=)"
                  : "'{}' has fixed lengths, and none of them is 1: the end of a prompt is fed token by token",
              printable(generation.tokens));
}

/// Checks that inputs that are given once for a whole generation have the same type in all variants.
void check_given_inputs(const std::vector<VariantPlan>& variants, Diags& diags) {
  const Plan& first = *variants.front().plan;
  const Generation& generation = *first.generation;
  for (const Port& port : first.inputs) {
    const bool is_fed =
        port.name == generation.tokens || port.name == generation.positions || port.name == generation.mask;
    const bool differs = std::any_of(variants.begin(), variants.end(), [&](const VariantPlan& variant) {
      return type_text(port_named(*variant.plan, port.name).type, port.mesh) != type_text(port.type, port.mesh);
    });
    if (!is_fed && differs)
      diags.error("variant-input-unsupported", Loc::in_file(first.name),
                  "input '{}' is given once for a whole text, but variants have it in several shapes",
                  printable(port.name));
  }
}

/// All variants have the memory of the largest one; offsets of the threads' own memory count from its end.
void level_memory(const std::vector<VariantPlan>& variants) {
  const Plan& first = *variants.front().plan;
  for (size_t p = 0; p < first.programs.size(); ++p) {
    int64_t own = 0, window = 0, thread = 0;
    for (const VariantPlan& variant : variants) {
      const Program& program = variant.plan->programs[p];
      own = std::max(own, program.own_bytes), window = std::max(window, program.window_bytes);
      thread = std::max(thread, program.thread_bytes);
    }
    for (const VariantPlan& variant : variants) {
      Program& program = variant.plan->programs[p];
      for (Position& position : program.positions)
        if (position.kind == Position::Kind::OfThread) position.offset += own - program.own_bytes;
      program.own_bytes = own, program.window_bytes = window, program.thread_bytes = thread;
    }
  }
}

}  // namespace

void merge_variants(const std::vector<VariantPlan>& variants, Diags& diags) {
  check_ports(variants, diags);
  if (diags.ok()) check_port_types(variants, diags);
  if (!diags.ok()) return;
  WeightMerger(variants).run();
  level_memory(variants);
  check_states(variants, diags);
  if (!variants.front().plan->generation) return;
  check_tokens(variants, diags);
  check_given_inputs(variants, diags);
}

int64_t doubled_weight_bytes(const std::vector<VariantPlan>& variants) {
  struct Stored {
    std::map<int64_t, int64_t> all;  // by offset: the bytes of each way in which it is stored
    std::vector<int64_t> by_variant;
  };
  std::map<int, Stored> contents;
  ContentNumbers numbers;
  for (size_t v = 0; v < variants.size(); ++v)
    for (const Weight& weight : variants[v].plan->weights) {
      const Plan& plan = *variants[v].plan;
      const Segment& segment = plan.segments[static_cast<size_t>(weight.segment)];
      int64_t bytes = weight.bytes;
      for (const int axis : segment.axes) bytes *= mesh_of(plan, segment.place)[static_cast<size_t>(axis)].size;
      Stored& stored = contents[numbers.number(plan, weight)];
      stored.all[weight.offset] = bytes;
      stored.by_variant.resize(variants.size());
      stored.by_variant[v] += bytes;
    }
  int64_t doubled = 0;
  for (const auto& [number, stored] : contents) {
    for (const auto& [offset, bytes] : stored.all) doubled += bytes;
    doubled -= *std::max_element(stored.by_variant.begin(), stored.by_variant.end());
  }
  return doubled;
}

}  // namespace weftc
