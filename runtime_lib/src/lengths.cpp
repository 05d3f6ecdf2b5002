// Lengths by number, in the order of Executable::lengths. All ranks compute the same numbers from the same request.
#include "lengths.h"

#include <algorithm>

#include "ports.h"

namespace weft {

void LengthClaims::add(const Bound& bound, int64_t length, const std::string& source) {
  if (length < 0) return;
  std::optional<Claim>& known = claims_[size_t(bound.length.name)];
  if (!known) known = Claim{source, bound.dim, length};
  if (known->length != length)
    fail(kWrongInput,
         "%s: dimension %d has length %ld, but %s: dimension %d has length %ld; they are one dim of the model",
         source.c_str(), bound.dim, long(length), known->source.c_str(), known->dim, long(known->length));
}

std::span<const Bound> bounds_of_next(const Executable& executable, const char* state) {
  for (const State& each : executable.states) {
    if (std::string_view(each.input) != state) continue;
    for (const Program& program : executable.programs)
      if (const Port* port = find_port(program.outputs, each.output)) return port->layout.bounds;
  }
  return {};
}

std::vector<int64_t> lengths_at_start(const Executable& executable, const Port& state) {
  std::vector<int64_t> out;
  const std::span<const Bound> next = bounds_of_next(executable, state.name);
  for (const Bound& bound : state.layout.bounds) {
    const bool is_kept = std::any_of(next.begin(), next.end(), [&](const Bound& b) {
      return b.dim == bound.dim && b.length.name == bound.length.name;
    });
    out.push_back(is_kept ? -1 : 0);
  }
  return out;
}

/// "node 'scale' (Mul): seq is 3, but must be total, which is 4".
static std::string demand_text(const char* what, const char* name, int64_t length, const char* relation,
                               const char* other, int64_t wanted) {
  std::string told = text("%s: %s is %ld, but must be %s%s", what, name, long(length), relation, other);
  return other == std::to_string(wanted) ? told : told + text(", which is %ld", long(wanted));
}

/// Which two lengths are not as the model demands; "": none.
static std::string broken_demand(const Executable& executable, const std::vector<int64_t>& lengths, bool is_made) {
  for (const LengthDemand& demand : executable.demands) {
    if (demand.is_made != is_made || demand.where(lengths.data()) == 0) continue;
    const int64_t left = demand.left(lengths.data()), right = demand.right(lengths.data());
    if (left == right || (demand.relation == Relation::AtMost && left < right)) continue;
    const bool starts_at_number = demand.left_text == std::to_string(left);
    const char* const are = demand.relation == Relation::Equal ? "" : starts_at_number ? "at least " : "at most ";
    return starts_at_number ? demand_text(demand.what, demand.right_text, right, are, demand.left_text, left)
                            : demand_text(demand.what, demand.left_text, left, are, demand.right_text, right);
  }
  return "";
}

/// The error in the lengths that steps compute (`is_made`), or in the request's lengths; "": no error.
static std::string wrong_lengths(const Executable& executable, const std::vector<int64_t>& lengths, bool is_made) {
  for (const LengthLimit& limit : executable.limits) {
    if (limit.is_made != is_made) continue;
    const int64_t length = limit.length(lengths.data());
    if (length > limit.most)
      return text("%s would have %ld elements, more than its bound of %ld", limit.what, long(length), long(limit.most));
    if (length < limit.least)
      return text("%s: a dimension has %ld elements, but at least %ld are needed", limit.what, long(length),
                  long(limit.least));
  }
  return broken_demand(executable, lengths, is_made);
}

static Range range_of(const LengthSlot& slot) { return {false, slot.at.offset, int64_t{sizeof(int64_t)}}; }

void store_lengths(RankBase& rank, const LengthClaims& claims) {
  std::vector<int64_t> lengths;
  for (size_t name = 0; name < rank.variant->lengths.size(); ++name) lengths.push_back(claims.of(int(name)));
  const std::string wrong = wrong_lengths(*rank.variant, lengths, false);
  if (!wrong.empty()) fail(kWrongInput, "%s", wrong.c_str());
  for (const LengthSlot& slot : rank.program.lengths) {
    const int64_t length = lengths[size_t(slot.name)];
    const bool is_there = !rank.options.poison && !rank.lengths.empty() && rank.lengths[size_t(slot.name)] == length;
    if (slot.is_made || is_there) continue;
    *reinterpret_cast<int64_t*>(rank.at(range_of(slot))) = length;
    rank.flush(range_of(slot));
  }
  rank.lengths = std::move(lengths);
}

void fetch_lengths(RankBase& rank) {
  for (const LengthSlot& slot : rank.program.lengths) {
    if (!slot.is_made) continue;
    rank.fetch(range_of(slot));
    rank.lengths[size_t(slot.name)] = *reinterpret_cast<const int64_t*>(rank.at(range_of(slot)));
  }
  const std::string wrong = wrong_lengths(*rank.variant, rank.lengths, true);
  if (!wrong.empty()) rank.complain(wrong);
}

}  // namespace weft
