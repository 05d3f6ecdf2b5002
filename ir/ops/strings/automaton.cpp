// Converts a pattern to states by the subset construction. A *place* is a node of the automaton that follows the
// pattern's structure (Thompson's construction). It consumes a byte of a range, or leads on without one, perhaps only
// if an assertion holds. A *state* is the set of places that are possible after some bytes, with the properties of the
// last byte that assertions need.
//
//   a|b\b    places   0 -> 1, 2    1: a -> 4    2: b -> 3    3: \b -> 4    4: end
//   states   {0}, at the beginning     a leads to {4}      b leads to {3}, where the string may end: an edge of a word
#include "ir/ops/strings/automaton.h"

#include <algorithm>
#include <array>
#include <map>

#include "ir/base/utf8.h"

namespace weftc {

namespace {

constexpr size_t kMostPlaces = 100000, kMostStates = 2048;
constexpr size_t kMostVisits = 20'000'000;  // of places, while states are built: less than a second

struct PatternPlace {
  enum class Kind : uint8_t { Bytes, Free, Assert, End };
  Kind kind = Kind::Free;
  uint8_t first = 0, last = 0;  // Bytes
  Assertion assertion{};        // Assert
  std::vector<int> next = {};
};

/// Writes the places of a pattern from its end to its beginning: each part is given its successor.
class PlaceWriter {
 public:
  int end() { return add({.kind = PatternPlace::Kind::End}); }
  /// The first place of a pattern that is followed by `next`; -1 if there are too many.
  int write(const Regex& pattern, int next);
  std::vector<PatternPlace>& places() { return places_; }

 private:
  int add(PatternPlace place) {
    if (places_.size() >= kMostPlaces) return -1;
    places_.push_back(std::move(place));
    return static_cast<int>(places_.size()) - 1;
  }
  int fork(std::vector<int> next) {
    if (std::find(next.begin(), next.end(), -1) != next.end()) return -1;
    return add({.kind = PatternPlace::Kind::Free, .next = std::move(next)});
  }
  int repeat(const Regex& pattern, int next);
  int set(const std::vector<PointRange>& ranges, int next);
  void points(char32_t first, char32_t last, int next, std::vector<int>& starts);

  std::vector<PatternPlace> places_;
};

int PlaceWriter::write(const Regex& pattern, int next) {
  if (next < 0) return -1;
  switch (pattern.kind) {
    case Regex::Kind::Empty:
      return next;
    case Regex::Kind::Set:
      return set(pattern.set, next);
    case Regex::Kind::Assert:
      return add({.kind = PatternPlace::Kind::Assert, .assertion = pattern.assertion, .next = {next}});
    case Regex::Kind::Sequence:
      for (auto part = pattern.parts.rbegin(); part != pattern.parts.rend(); ++part) next = write(*part, next);
      return next;
    case Regex::Kind::Choice: {
      std::vector<int> starts;
      for (const Regex& part : pattern.parts) starts.push_back(write(part, next));
      return fork(std::move(starts));
    }
    case Regex::Kind::Repeat:
      return repeat(pattern, next);
  }
  return -1;
}

/// x{2,3} is x x (x|), and x{2,} is x x and a place that leads to one more x or on.
int PlaceWriter::repeat(const Regex& pattern, int next) {
  const Regex& part = pattern.parts[0];
  if (pattern.most < 0) {
    const int loop = add({});
    const int inside = loop < 0 ? -1 : write(part, loop);
    if (inside < 0) return -1;
    places_[static_cast<size_t>(loop)].next = {inside, next};
    next = loop;
  }
  for (int i = pattern.least; i < pattern.most && next >= 0; ++i) {
    const int after = next;
    next = fork({write(part, next), after});
  }
  for (int i = 0; i < pattern.least && next >= 0; ++i) next = write(part, next);
  return next;
}

int PlaceWriter::set(const std::vector<PointRange>& ranges, int next) {
  std::vector<int> starts;
  for (const PointRange& range : ranges) points(range.first, range.last, next, starts);
  return fork(std::move(starts));
}

/// Splits ranges of code points until each has independent ranges of bytes: [first byte] [second byte] ...
void PlaceWriter::points(char32_t first, char32_t last, int next, std::vector<int>& starts) {
  for (const char32_t most : {0x7fu, 0x7ffu, 0xd7ffu, 0xdfffu, 0xffffu})
    if (first <= most && last > most) {
      points(first, most, next, starts);
      return points(most + 1, last, next, starts);
    }
  if (first >= 0xd800 && last <= 0xdfff) return;  // UTF-8 has no surrogates
  const std::string low = *utf8_of(std::u32string(1, first)), high = *utf8_of(std::u32string(1, last));
  for (size_t after = 1; after < low.size(); ++after) {
    const char32_t mask = (char32_t{1} << 6 * after) - 1;
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      points(first, first | mask, next, starts);
      return points((first | mask) + 1, last, next, starts);
    }
    if ((last & mask) != mask) {
      points(first, (last & ~mask) - 1, next, starts);
      return points(last & ~mask, last, next, starts);
    }
  }
  for (size_t i = low.size(); i-- > 0 && next >= 0;)
    next = add({.kind = PatternPlace::Kind::Bytes,
                .first = static_cast<uint8_t>(low[i]),
                .last = static_cast<uint8_t>(high[i]),
                .next = {next}});
  starts.push_back(next);
}

/// The character class next to a place in the string.
enum class Beside : uint8_t { Edge, Newline, Word, Other };

Beside kind_of(int byte) {
  const bool is_word =
      (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_';
  return byte == '\n' ? Beside::Newline : is_word ? Beside::Word : Beside::Other;
}

bool holds(Assertion assertion, Beside before, Beside after) {
  const bool is_edge_of_word = (before == Beside::Word) != (after == Beside::Word);
  switch (assertion) {
    case Assertion::TextBegin:
      return before == Beside::Edge;
    case Assertion::TextEnd:
      return after == Beside::Edge;
    case Assertion::LineBegin:
      return before == Beside::Edge || before == Beside::Newline;
    case Assertion::LineEnd:
      return after == Beside::Edge || after == Beside::Newline;
    case Assertion::WordEdge:
      return is_edge_of_word;
    case Assertion::NoWordEdge:
      return !is_edge_of_word;
  }
  return false;
}

struct State {
  std::vector<int> places;  // in ascending order
  Beside before = Beside::Edge;
  auto operator<=>(const State&) const = default;
};

class StateWriter {
 public:
  explicit StateWriter(std::vector<PatternPlace> places) : places_(std::move(places)) {
    has_assertions_ = std::any_of(places_.begin(), places_.end(),
                                  [](const PatternPlace& place) { return place.kind == PatternPlace::Kind::Assert; });
    find_alike();
  }

  std::optional<std::vector<int32_t>> write(int start) {
    number_of({{start}, Beside::Edge});
    for (size_t s = 0; s < states_.size(); ++s) {
      if (states_.size() > kMostStates || visits_ > kMostVisits) return {};
      write_row(State(*states_[s]));
    }
    return table_;
  }

 private:
  int32_t number_of(State state) {
    // One state for all that cannot match any more. Without assertions, the byte before does not matter.
    if (state.places.empty() || !has_assertions_) state.before = Beside::Other;
    const auto [at, is_new] = numbers_.emplace(std::move(state), static_cast<int32_t>(states_.size()));
    if (is_new) states_.push_back(&at->first);
    return at->second;
  }

  /// Finds bytes that may lead elsewhere than their predecessors.
  void find_alike() {
    for (int byte = 0; byte < 256; ++byte) differs_[byte] = byte == 0 || kind_of(byte) != kind_of(byte - 1);
    for (const PatternPlace& place : places_) {
      if (place.kind != PatternPlace::Kind::Bytes) continue;
      differs_[place.first] = true;
      if (place.last < 255) differs_[place.last + 1] = true;
    }
  }

  void write_row(const State& state) {
    std::map<Beside, std::vector<int>> reached;
    for (const Beside after : {Beside::Edge, Beside::Newline, Beside::Word, Beside::Other})
      reached[after] = closure(state, after);
    for (int byte = 0; byte < 256; ++byte)
      table_.push_back(differs_[byte] ? next_of(reached[kind_of(byte)], byte) : table_.back());
    const std::vector<int>& at_end = reached[Beside::Edge];
    table_.push_back(std::any_of(at_end.begin(), at_end.end(), [&](int p) {
      return places_[static_cast<size_t>(p)].kind == PatternPlace::Kind::End;
    }));
  }

  int32_t next_of(const std::vector<int>& reached, int byte) {
    State next{{}, kind_of(byte)};
    visits_ += reached.size();
    for (const int p : reached) {
      const PatternPlace& place = places_[static_cast<size_t>(p)];
      if (place.kind == PatternPlace::Kind::Bytes && place.first <= byte && byte <= place.last)
        next.places.push_back(place.next[0]);
    }
    std::sort(next.places.begin(), next.places.end());
    next.places.erase(std::unique(next.places.begin(), next.places.end()), next.places.end());
    return number_of(std::move(next));
  }

  /// The places reached without a byte, given the class of the next byte.
  std::vector<int> closure(const State& state, Beside after) {
    std::vector<int> found, open = state.places;
    std::vector<bool> is_found(places_.size());
    while (!open.empty()) {
      const int at = open.back();
      open.pop_back();
      if (is_found[static_cast<size_t>(at)]) continue;
      is_found[static_cast<size_t>(at)] = true;
      found.push_back(at);
      ++visits_;
      const PatternPlace& place = places_[static_cast<size_t>(at)];
      const bool leads_on = place.kind == PatternPlace::Kind::Free ||
                            (place.kind == PatternPlace::Kind::Assert && holds(place.assertion, state.before, after));
      if (leads_on) open.insert(open.end(), place.next.begin(), place.next.end());
    }
    return found;
  }

  std::vector<PatternPlace> places_;
  bool has_assertions_ = false;
  std::array<bool, 256> differs_{};
  size_t visits_ = 0;
  std::map<State, int32_t> numbers_;
  std::vector<const State*> states_;  // by number
  std::vector<int32_t> table_;
};

}  // namespace

std::optional<std::vector<int32_t>> automaton_of(const Regex& pattern) {
  PlaceWriter writer;
  const int start = writer.write(pattern, writer.end());
  if (start < 0) return {};
  return StateWriter(std::move(writer.places())).write(start);
}

}  // namespace weftc
