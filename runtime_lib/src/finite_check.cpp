#include "finite_check.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "ports.h"
#include "step_text.h"
#include "wait.h"

namespace weft {

namespace {

/// How a type of real numbers says that one is not finite: all bits of `exponent`; with any of `fraction`, NaN.
template <class Bits>
struct Form {
  Bits exponent, fraction;
};

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
NotFinite find(Form<Bits> form, const char* elements, int64_t count, const char* before) {
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

bool is_real(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 || dtype == DType::BF16;
}

/// Whether a rank's part of some port that `is_asked_for` holds a number which is not finite; its name.
template <class Asked>
std::string odd_port(const RankBase& rank, std::span<const Port> ports, Asked is_asked_for) {
  for (const Port& port : ports) {
    if (!is_real(port.dtype) || !holds(rank.program, port, rank.rank) || !is_asked_for(port)) continue;
    const int64_t bytes = PortView(port, rank.rank).bytes();
    const char* elements = rank.at({port.in_window, port.offset, bytes});
    if (find_not_finite(port.dtype, elements, bytes / element_bytes(port.dtype)).element >= 0) return port.name;
  }
  return "";
}

/// "step 7", as a log counts them.
std::string iteration_text(const RankBase& rank) {
  return rank.evaluates ? text("the evaluation behind step %u", rank.invocation) : text("step %u", rank.invocation + 1);
}

}  // namespace

NotFinite find_not_finite(DType dtype, const char* elements, int64_t count, const char* before) {
  if (dtype == DType::F32) return find<uint32_t>({0x7f800000, 0x7fffff}, elements, count, before);
  if (dtype == DType::F64) return find<uint64_t>({0x7ff0000000000000, 0xfffffffffffff}, elements, count, before);
  if (dtype == DType::F16) return find<uint16_t>({0x7c00, 0x3ff}, elements, count, before);
  if (dtype == DType::BF16) return find<uint16_t>({0x7f80, 0x7f}, elements, count, before);
  return {};
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

/// "'h1' (MatMul h1, Add h2, Relu h) computes nan, as element 3 of 128".
std::string FiniteCheck::described(const Step& step, const Touched& touched, const NotFinite& found) const {
  return text("'%s' (%s) computes %s, as element %ld of %ld", name_of(step).c_str(), nodes_of(step).c_str(),
              found.is_nan ? "nan" : "an infinity", long(found.element), long(touched.count));
}

void FiniteCheck::end_step(const Step& step) {
  for (size_t i = begins_.back(); i < touched_.size(); ++i) {
    const Touched& each = touched_[i];
    const char* before = each.before.empty() ? nullptr : each.before.data();
    const NotFinite found = find_not_finite(each.dtype, each.at, each.count, before);
    if (found.element < 0) continue;
    const std::string what = described(step, each, found);
    if (found.is_nan)
      fail(kWrongInput, "--check-nan: %s: %s%s%s", iteration_text(rank_).c_str(), what.c_str(),
           first_infinity_.ns == 0 ? "" : ("; before that, " + first_infinity_.text).c_str(),
           rank_.odd_input.empty() ? "" : ("; input '" + rank_.odd_input + "' is not finite").c_str());
    if (first_infinity_.ns == 0) first_infinity_ = {now_ns(), what};
  }
  touched_.resize(begins_.back());
  begins_.pop_back();
}

std::string odd_input(const RankBase& rank) {
  return odd_port(rank, rank.program.inputs,
                  [&](const Port& port) { return !is_state_input(rank.executable, port.name); });
}

void check_results(RankBase& rank) {
  const std::string lost = odd_port(rank, rank.program.outputs, [](const Port&) { return true; });
  const Oddity infinity = rank.first_infinity();
  RankSlot& mine = rank.world.rank(rank.rank);
  mine.is_lost.store(!lost.empty());
  mine.first_infinity_ns.store(infinity.ns);
  rank.barrier();  // the next one lies between this look and the next change
  int earliest = -1;
  int64_t ns = INT64_MAX;
  bool is_lost = false;
  for (int r = 0; r < rank.world.shape.ranks; ++r) {
    const RankSlot& slot = rank.world.rank(r);
    is_lost |= slot.is_lost.load() != 0;
    if (const int64_t at = slot.first_infinity_ns.load(); at != 0 && at < ns) ns = at, earliest = r;
    if (earliest < 0 && slot.is_lost.load() != 0) earliest = r;
  }
  if (!is_lost) return;
  if (earliest == rank.rank)
    fail(kWrongInput, "--check-nan: %s: %s, and its results are not finite", iteration_text(rank).c_str(),
         infinity.ns == 0 ? ("output '" + lost + "' is not finite").c_str() : infinity.text.c_str());
  rank.barrier();  // throws, since that rank ends
}

}  // namespace weft
