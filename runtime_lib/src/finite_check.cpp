#include "finite_check.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "finite_form.h"
#include "ports.h"
#include "step_text.h"
#include "wait.h"

namespace weft {

namespace {

template <class Bits>
Bits bits_at(const char* elements, int64_t i) {
  Bits bits;
  memcpy(&bits, elements + i * int64_t{sizeof(Bits)}, sizeof(Bits));
  return bits;
}

/// Blocks of which all numbers are finite, nearly all there are, are passed by in vectors.
constexpr int64_t kBlock = 64;

template <class Bits>
bool is_finite_block(Bits exponent, const char* elements) {
  Bits found = 0;
  for (int64_t i = 0; i < kBlock; ++i) found |= Bits((bits_at<Bits>(elements, i) & exponent) == exponent);
  return found == 0;
}

template <class Bits>
NotFinite find(FiniteForm<Bits> form, const char* elements, int64_t count, const char* before) {
  NotFinite first;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    if (end - begin == kBlock && is_finite_block(form.exponent, elements + begin * int64_t{sizeof(Bits)})) continue;
    for (int64_t i = begin; i < end; ++i) {
      const Bits bits = bits_at<Bits>(elements, i);
      if ((bits & form.exponent) != form.exponent) continue;
      if (before != nullptr && bits_at<Bits>(before, i) == bits) continue;
      if ((bits & form.fraction) != 0) return {i, true};
      if (first.element < 0) first.element = i;
    }
  }
  return first;
}

/// The name of a port, among those with `is_asked_for`, whose part on this rank has a non-finite number. `fetch` makes
/// a range readable for the host.
template <class Asked, class Fetch>
std::string odd_port(const RankBase& rank, std::span<const Port> ports, Asked is_asked_for, Fetch fetch) {
  for (const Port& port : ports) {
    if (!is_real(port.dtype) || !holds(rank.program, port, rank.rank) || !is_asked_for(port)) continue;
    const int64_t bytes = PortView(port, rank.rank).bytes();
    const Range range{port.in_window, port.offset, bytes};
    fetch(range);
    const char* elements = rank.at(range);
    if (find_not_finite(port.dtype, elements, bytes / element_bytes(port.dtype)).element >= 0) return port.name;
  }
  return "";
}

/// "step 7", as a log counts them.
std::string iteration_text(const RankBase& rank) {
  return rank.evaluates ? text("the evaluation after step %u", rank.invocation) : text("step %u", rank.invocation + 1);
}

/// Fails because `what` has computed NaN, after `infinity` if that is set.
[[noreturn]] void fail_of_nan(const RankBase& rank, const std::string& what, const Oddity& infinity) {
  fail(kWrongInput, "--check-nan: %s: %s%s%s", iteration_text(rank).c_str(), what.c_str(),
       infinity.ns == 0 ? "" : ("; before that, " + infinity.text).c_str(),
       rank.odd_input.empty() ? "" : ("; input '" + rank.odd_input + "' is not finite").c_str());
}

/// The rank of the smallest of these times that is not 0, or -1.
int earliest_rank(const World& world, std::atomic<int64_t> RankSlot::*time) {
  int earliest = -1;
  int64_t ns = INT64_MAX;
  for (int r = 0; r < world.shape.ranks; ++r)
    if (const int64_t at = (world.rank(r).*time).load(); at != 0 && at < ns) ns = at, earliest = r;
  return earliest;
}

}  // namespace

NotFinite find_not_finite(DType dtype, const char* elements, int64_t count, const char* before) {
  NotFinite found;
  with_form(dtype, [&](auto form) { found = find(form, elements, count, before); });
  return found;
}

void FiniteCheck::begin_invocation() { touched_.clear(), begins_.clear(), first_infinity_ = {}; }

void FiniteCheck::begin_step() { begins_.push_back(touched_.size()); }

void FiniteCheck::touch(const void* place, int64_t count, DType dtype) {
  const std::lock_guard lock(mutex_);
  if (begins_.empty() || !is_real(dtype)) return;
  const char* at = static_cast<const char*>(place);
  for (size_t i = begins_.back(); i < touched_.size(); ++i)
    if (touched_[i].at == at && touched_[i].count >= count) return;
  const int64_t bytes = count * element_bytes(dtype);
  const bool was_finite = find_not_finite(dtype, at, count).element < 0;
  touched_.push_back({at, count, dtype, was_finite ? std::vector<char>() : std::vector<char>(at, at + bytes)});
}

std::string oddity_text(const Step& step, int64_t count, const NotFinite& found) {
  return text("'%s' (%s) computes %s, as element %ld of %ld", name_of(step).c_str(), nodes_of(step).c_str(),
              found.is_nan ? "nan" : "an infinity", long(found.element), long(count));
}

void FiniteCheck::end_step(const Step& step) {
  for (size_t i = begins_.back(); i < touched_.size(); ++i) {
    const Touched& each = touched_[i];
    const char* before = each.before.empty() ? nullptr : each.before.data();
    const NotFinite found = find_not_finite(each.dtype, each.at, each.count, before);
    if (found.element < 0) continue;
    const std::string what = oddity_text(step, each.count, found);
    if (found.is_nan) fail_of_nan(rank_, what, first_infinity_);
    if (first_infinity_.ns == 0) first_infinity_ = {now_ns(), what};
  }
  touched_.resize(begins_.back());
  begins_.pop_back();
}

std::string odd_input(const RankBase& rank) {
  return odd_port(
      rank, rank.program.inputs, [&](const Port& port) { return !is_state_input(rank.executable, port.name); },
      [](const Range&) {});
}

void check_results(RankBase& rank) {
  const std::string lost = odd_port(
      rank, rank.program.outputs, [](const Port&) { return true; }, [&](const Range& range) { rank.fetch(range); });
  const Oddity nan = rank.first_nan(), infinity = rank.first_infinity();
  RankSlot& mine = rank.world.rank(rank.rank);
  mine.is_lost.store(!lost.empty());
  mine.first_nan_ns.store(nan.ns);
  mine.first_infinity_ns.store(infinity.ns);
  rank.barrier();  // the next one lies between this look and the next change
  int first_lost = -1;
  for (int r = rank.world.shape.ranks - 1; r >= 0; --r)
    if (rank.world.rank(r).is_lost.load() != 0) first_lost = r;
  const int of_nan = earliest_rank(rank.world, &RankSlot::first_nan_ns);
  if (of_nan == rank.rank) fail_of_nan(rank, nan.text, infinity.ns < nan.ns ? infinity : Oddity{});
  if (of_nan < 0 && first_lost < 0) return;
  const int of_infinity = earliest_rank(rank.world, &RankSlot::first_infinity_ns);
  if (of_nan < 0 && rank.rank == (of_infinity < 0 ? first_lost : of_infinity))
    fail(kWrongInput, "--check-nan: %s: %s, and its results are not finite", iteration_text(rank).c_str(),
         infinity.ns == 0 ? ("output '" + lost + "' is not finite").c_str() : infinity.text.c_str());
  rank.barrier();  // throws, since that rank ends
}

}  // namespace weft
