// A session that ended without a request of its client must not silently restart: the next request with its name gets
// an error.
#include "session_names.h"

#include <algorithm>

#include "failure.h"
#include "request.h"
#include "wait.h"

namespace weft {

SessionNames::SessionNames(int most, double timeout) : most_(most), timeout_(timeout) {
  for (int i = 0; i < most; ++i) free_.push_back(most - 1 - i);
}

std::optional<int> SessionNames::number_of(const std::string& session) const {
  const auto known = open_.find(session);
  return known == open_.end() ? std::nullopt : std::optional(known->second.number);
}

const std::string& SessionNames::name_of(int number) const {
  return std::find_if(open_.begin(), open_.end(), [&](const auto& entry) { return entry.second.number == number; })
      ->first;
}

int SessionNames::open(const std::string& session) {
  if (const std::optional<int> known = number_of(session)) return *known;
  if (free_.empty())
    fail(kWrongInput,
         "session '%s': %d sessions are open, the most of this server (--sessions); close one (verb 4 lists them), or "
         "let them end by themselves (--session-timeout)",
         session.c_str(), most_);
  const int number = free_.back();
  free_.pop_back();
  open_[session] = {number, 0, now_ns()};
  return number;
}

void SessionNames::note_use(const std::string& session) {
  const auto known = open_.find(session);
  if (known != open_.end()) ++known->second.requests, known->second.used_ns = now_ns();
}

void SessionNames::forget(const std::string& session) {
  const auto known = open_.find(session);
  if (known == open_.end()) return;
  free_.push_back(known->second.number);
  open_.erase(known);
}

std::optional<int> SessionNames::next_late() {
  if (timeout_ <= 0) return {};
  const int64_t oldest = now_ns() - int64_t(timeout_ * 1e9);
  const auto late =
      std::find_if(open_.begin(), open_.end(), [&](const auto& entry) { return entry.second.used_ns < oldest; });
  if (late == open_.end()) return {};
  constexpr size_t kRemembered = 4096;
  late_.push_back(late->first);
  if (late_.size() > kRemembered) late_.pop_front();
  return late->second.number;
}

void SessionNames::check_late(const std::string& session) {
  const auto late = std::find(late_.begin(), late_.end(), session);
  if (late == late_.end()) return;
  late_.erase(late);
  fail(kWrongInput,
       "session '%s' has ended: it was not used for %g s (--session-timeout); the next request of this name begins it "
       "anew",
       session.c_str(), timeout_);
}

std::string SessionNames::list() const {
  std::string out;
  for (const auto& [name, open] : open_) {
    const double figures[] = {double(open.requests), double(now_ns() - open.used_ns) / 1e9};
    append_array(out, name, DType::F64, {2}, reinterpret_cast<const char*>(figures));
  }
  return out;
}

}  // namespace weft
