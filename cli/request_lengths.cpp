// Lengths are chosen one by one, then moved until the demands of the model hold:
//
//   past = 4, seq = 2, total = 4 with past + seq = total     ->     past = 2
#include "cli/request_lengths.h"

#include <algorithm>
#include <optional>

#include "ir/length_relation.h"

namespace weftc {

namespace {

using Numbers = std::map<std::string, int64_t>;

/// How far the left side of a relation lies above the right one; nothing where data decides one of them.
std::optional<int64_t> gap(const LengthRelation& relation, const Numbers& numbers) {
  return number_of(relation.left - relation.right, numbers);
}

bool holds(const LengthRelation& relation, const Numbers& numbers) {
  const std::optional<int64_t> above = gap(relation, numbers), where = number_of(relation.where, numbers);
  return !above || where == 0 || *above == 0 || (relation.may_be_less && *above < 0);
}

int64_t broken_count(const Module& module, const Numbers& numbers) {
  return std::count_if(module.relations.begin(), module.relations.end(),
                       [&](const LengthRelation& relation) { return !holds(relation, numbers); });
}

/// Calls `f` with each named run-time length of the inputs and its bound.
template <class F>
void for_each_given(const Module& module, F f) {
  for (const ValueId input : module.graph.inputs())
    for (const Extent& extent : module.graph.type(input).shape)
      if (extent.is_run_time()) f(extent.length->text(), extent.bound);
}

class LengthChooser {
 public:
  explicit LengthChooser(const Module& module) : module_(module) {
    for_each_given(module, [&](const std::string& name, int64_t bound) {
      const auto known = bounds_.emplace(name, bound).first;
      known->second = std::min(known->second, bound);
    });
    // A state that grows needs room besides.
    for (const auto& [name, bound] : bounds_) numbers_[name] = module.states.empty() ? (2 * bound + 1) / 3 : bound / 2;
  }

  Numbers choose() {
    for (size_t left = 2 * module_.relations.size(); left > 0 && broken_count(module_, numbers_) > 0; --left)
      if (!improve()) break;
    return numbers_;
  }

 private:
  bool improve();
  std::optional<int64_t> solution(const LengthRelation& relation, const std::string& name) const;

  const Module& module_;
  Numbers bounds_, numbers_;
};

/// The value of the named length at which the relation, which is linear in it, holds with the other lengths unchanged.
/// If even 1 is too much, it is 1, so that other lengths need to change less.
std::optional<int64_t> LengthChooser::solution(const LengthRelation& relation, const std::string& name) const {
  Numbers moved = numbers_;
  ++moved[name];
  const std::optional<int64_t> now = gap(relation, numbers_), then = gap(relation, moved);
  if (!now || !then || *now == *then || *now % (*then - *now) != 0) return {};
  const int64_t wanted = numbers_.at(name) - *now / (*then - *now);
  const bool is_too_much = wanted < 1 && relation.may_be_less && numbers_.at(name) > 1;
  const int64_t number = is_too_much ? 1 : wanted;
  moved[name] = number;
  const bool is_legal = number >= 1 && number <= bounds_.at(name) && (is_too_much || holds(relation, moved));
  return is_legal ? std::optional(number) : std::nullopt;
}

/// Moves one length so that fewer demands are broken, or others; false where none can be moved.
bool LengthChooser::improve() {
  std::optional<Numbers> best;
  for (const LengthRelation& relation : module_.relations) {
    if (holds(relation, numbers_)) continue;
    for (const auto& [name, bound] : bounds_) {
      const std::optional<int64_t> number = solution(relation, name);
      if (!number) continue;
      Numbers moved = numbers_;
      moved[name] = *number;
      if (!best || broken_count(module_, moved) < broken_count(module_, *best)) best = std::move(moved);
    }
  }
  if (!best) return false;
  numbers_ = *std::move(best);
  return true;
}

/// The lengths that the states of the next request have; false where data decides one.
bool grow_states(const Module& module, Numbers& numbers) {
  Numbers next = numbers;
  for (const State& state : module.states) {
    const Shape& now = module.graph.type(module.graph.find_value(state.input)).shape;
    const auto& outputs = module.graph.outputs();
    const auto output = std::find_if(outputs.begin(), outputs.end(),
                                     [&](const Graph::Output& out) { return out.name == state.output; });
    if (output == outputs.end()) continue;
    const Shape& then = module.graph.type(output->value).shape;
    for (size_t d = 0; d < now.size(); ++d) {
      if (!now[d].is_run_time()) continue;
      const std::optional<int64_t> number = number_of(length_of(then[d]), numbers);
      if (!number) return false;
      next[now[d].length->text()] = *number;
    }
  }
  numbers = std::move(next);
  return true;
}

}  // namespace

std::map<std::string, int64_t> request_lengths(const Module& module) { return LengthChooser(module).choose(); }

size_t request_count(const Module& module, std::map<std::string, int64_t> lengths, size_t most) {
  if (module.relations.empty()) return most;
  for (size_t count = 1; count < most; ++count)
    if (!grow_states(module, lengths) || broken_count(module, lengths) > 0) return count;
  return most;
}

}  // namespace weftc
