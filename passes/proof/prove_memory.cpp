// Walks the events in order and keeps, for each piece of each rank's memory, its last accesses and the value that it
// holds. Memory is cut at the boundaries of all buffers, so buffers that share memory share pieces:
//
//   buffer a  [--------]            pieces   1: a        2: a, b
//   buffer b       [--------]       a write of b makes pieces of a stale: a later read of a is an error
#include "passes/proof/prove_memory.h"

#include <algorithm>
#include <set>

#include "ir/base/contains.h"
#include "ir/kernel/in_place.h"
#include "ir/plan_walk.h"

namespace weftc {

namespace {

/// A digit of an access, with the coordinate it means.
struct PlacedDigit {
  int dim;
  int64_t block;
  int size, coordinate;
  bool same_key(const PlacedDigit& o) const { return dim == o.dim && block == o.block && size == o.size; }
  bool operator==(const PlacedDigit&) const = default;
  auto operator<=>(const PlacedDigit&) const = default;
};
/// Elements of a buffer that have these digits, in a stripe of it.
struct Part {
  std::vector<PlacedDigit> digits = {};
  std::optional<Stripe> stripe = {};

  bool is_all() const { return digits.empty() && !stripe; }
  bool operator==(const Part&) const = default;
  auto operator<=>(const Part&) const = default;
};

constexpr int kFirstTrip = -1;

/// Which of the values that a buffer has one after another.
struct Instance {
  int64_t number = 0;  // of all chunks and micro-batches
  int trip = 0;        // of a value that a Loop carries: the trip that reads it, kFirstTrip in the first; 0 outside of
                       // a loop
  bool operator==(const Instance&) const = default;
  auto operator<=>(const Instance&) const = default;
};

/// One access of one event to the memory of one rank.
struct Touch {
  int event;
  int start, end;
  uint32_t buffer;
  Instance instance;
  bool write;
  bool reads;      // a read, or a write that accumulates onto writes of earlier chunks
  bool exchanged;  // by a kernel over the peer table
  Part part;
};

bool is_apart(const Stripe& a, const Stripe& b) { return a.dim == b.dim && (a.end() <= b.start || b.end() <= a.start); }

/// True if two parts of one instance have no element in common: they differ in a digit that both have, or their stripes
/// do not meet.
bool is_apart(const Part& a, const Part& b) {
  for (const PlacedDigit& x : a.digits)
    for (const PlacedDigit& y : b.digits)
      if (x.same_key(y) && x.coordinate != y.coordinate) return true;
  return a.stripe && b.stripe && is_apart(*a.stripe, *b.stripe);
}

/// Whether stripes together cover the read.
bool covers(std::vector<Stripe> stripes, const Part& read) {
  if (stripes.empty()) return false;
  const int dim = stripes[0].dim;
  if (std::any_of(stripes.begin(), stripes.end(), [&](const Stripe& s) { return s.dim != dim; })) return false;
  if (read.stripe && read.stripe->dim != dim) return false;
  std::sort(stripes.begin(), stripes.end());
  int64_t at = read.stripe ? read.stripe->start : 0;
  for (const Stripe& stripe : stripes)
    if (stripe.start <= at) at = std::max(at, stripe.end());
  return at >= (read.stripe ? read.stripe->end() : stripes[0].extent);
}

bool is_apart(const Touch& a, const Touch& b) {
  return a.buffer == b.buffer && a.instance == b.instance && is_apart(a.part, b.part);
}

/// Bytes between two boundaries of buffers.
struct Piece {
  int64_t owner = -1;  // buffer whose value it holds
  Instance instance = {};
  int64_t before = -1;            // a buffer of the same type that the owner takes the place of, part by part
  std::vector<Part> overwritten;  // those parts

  /// Whether the value that `read` expects is still there: it is the current one, or the part of the former one that is
  /// not overwritten yet.
  bool holds(const Touch& read) const {
    if (owner == read.buffer) return instance == read.instance;
    return before == read.buffer && std::all_of(overwritten.begin(), overwritten.end(),
                                                [&](const Part& part) { return is_apart(part, read.part); });
  }
  std::vector<Touch> touches = {};
};

/// One memory (own or window) of one rank.
struct Memory {
  std::vector<int64_t> cuts;
  std::vector<Piece> pieces;
  std::map<std::pair<uint32_t, Instance>, std::set<Part>> written;  // by buffer and instance
};

/// Applies the accesses of all events in one topological order. That suffices for races too: two accesses
/// without a path between them are wrong in whatever order they come.
class Walk {
 public:
  explicit Walk(const PlanEvents& events)
      : events_(events), plan_(events.plan), memories_(static_cast<size_t>(plan_.world) * 2) {}

  std::vector<std::string> run() {
    for (const Program& program : plan_.programs)
      for (int rank : program.ranks) program_of_[rank] = &program;
    for (int rank = 0; rank < plan_.world; ++rank) cut_memories(rank);
    for (const Block& block : plan_.blocks) find_starts(block.steps);
    load_inputs();
    std::vector<std::vector<int>> starting(events_.nodes), ending(events_.nodes);
    for (int e = 0; e < static_cast<int>(events_.events.size()); ++e) {
      starting[events_.events[e].start].push_back(e);
      ending[events_.events[e].end].push_back(e);
    }
    for (int node : events_.order) {
      for (int e : starting[node]) touch_all(e, false);
      for (int e : ending[node]) touch_all(e, true);
      if (wrong_.size() > 40) break;
    }
    if (wrong_.empty()) check_ports();
    return {wrong_.begin(), wrong_.end()};
  }

 private:
  Memory& memory(int rank, bool window) { return memories_[static_cast<size_t>(rank) * 2 + window]; }
  const Position& position(int rank, uint32_t buffer) const { return program_of_.at(rank)->positions[buffer]; }

  /// Cuts a rank's memories at the boundaries of all instances of its buffers.
  void cut_memories(int rank) {
    for (int window = 0; window < 2; ++window) {
      Memory& m = memory(rank, window);
      for (uint32_t b = 0; b < plan_.buffers.size(); ++b) {
        const Buffer& buffer = plan_.buffers[b];
        if (buffer.window != bool(window) || position(rank, b).kind == Position::Kind::Absent) continue;
        for (int i = 0; i <= buffer.depth; ++i) m.cuts.push_back(position(rank, b).offset + i * buffer.bytes);
      }
      std::sort(m.cuts.begin(), m.cuts.end());
      m.cuts.erase(std::unique(m.cuts.begin(), m.cuts.end()), m.cuts.end());
      m.pieces.resize(m.cuts.size());
    }
  }

  /// The pieces of an instance of a buffer.
  std::pair<size_t, size_t> pieces_of(const Memory& m, int rank, uint32_t b, Instance instance = {}) const {
    const Buffer& buffer = plan_.buffers[b];
    const int64_t turn = buffer.depth > 1 ? instance.number % buffer.depth : 0;
    const int64_t at = position(rank, b).offset + turn * buffer.bytes;
    const auto first = std::lower_bound(m.cuts.begin(), m.cuts.end(), at);
    const auto last = std::lower_bound(first, m.cuts.end(), at + buffer.bytes);
    return {first - m.cuts.begin(), last - m.cuts.begin()};
  }

  /// A step with its chunks and rank, for messages.
  std::string name(int event) const {
    const Event& e = events_.events[event];
    std::string text = "'" + e.step->name + "'";
    for (int c : e.chunks) text += format("[{}]", c);
    return text + format(" on rank {}", e.rank);
  }

  /// Which value of a buffer an access of an event means.
  Instance instance_of(const Access& access, const Event& event) const {
    if (is_next_state(*event.step, access)) return {1, 0};
    return {number_of(plan_.buffer(access.buffer), event), trip_of(access, event)};
  }

  /// The trip of a value that a Loop carries, which differs in each trip. The last trip makes the value that is read
  /// after the Loop.
  int trip_of(const Access& access, const Event& event) const {
    for (const LoopTrip& trip : event.trips) {
      if (!contains(trip.loop->carried, access.buffer)) continue;
      const bool is_after = std::get_if<LoopStep>(&event.step->what) == trip.loop;
      if (trip.is_last && (is_after || access.write)) return 0;
      if (access.write) return trip.number + 1;
      return trip.number == 0 ? kFirstTrip : trip.number;
    }
    return access.write && starts_.contains(event.step) ? kFirstTrip : 0;
  }

  /// Finds the copies of initial values of Loops, which stand in one list with the Loop.
  void find_starts(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      for (const auto* body : bodies_of(step)) find_starts(*body);
      const auto* loop = std::get_if<LoopStep>(&step.what);
      for (const Step& other : steps)
        if (const auto* copy = std::get_if<CopyStep>(&other.what); loop && copy && contains(loop->carried, copy->to))
          starts_.insert(&other);
    }
  }

  /// The number over all chunks or micro-batches.
  int64_t number_of(const Buffer& buffer, const Event& event) const {
    if (buffer.life == Life::MicroBatch) return event.micro_batch;
    if (buffer.life != Life::Chunk) return 0;
    const size_t axes = buffer.mesh.size() - plan_.places[buffer.place.index].mesh.size();
    int64_t instance = 0;
    for (size_t a = 0; a < axes && a < event.chunks.size(); ++a)
      instance = instance * buffer.mesh[buffer.mesh.size() - axes + a].size + event.chunks[a];
    return instance;
  }

  /// A copy into a state makes its next value, which no step of this iteration is to read.
  bool is_next_state(const Step& step, const Access& access) const {
    return access.write && std::holds_alternative<CopyStep>(step.what) &&
           plan_.buffer(access.buffer).life == Life::State;
  }

  /// The digits of an access with this event's coordinates.
  Part part_of(const Access& access, const Event& event, PlaceId place) const {
    Part part{{}, access.stripe};
    const int place_axes = static_cast<int>(plan_.places[place.index].mesh.size());
    for (const PartDigit& d : access.part) {
      const int coordinate = d.axis < place_axes ? events_.coordinates(place, event.rank)[d.axis]
                                                 : event.chunks[static_cast<size_t>(d.axis - place_axes)];
      part.digits.push_back({d.dim, d.block, d.size, coordinate});
    }
    std::sort(part.digits.begin(), part.digits.end());
    return part;
  }

  /// Applies the reads or the writes of an event; a kernel over the peer table touches the memory of all its
  /// peers.
  void touch_all(int e, bool write) {
    const Event& event = events_.events[e];
    const bool alone = event.start != event.end;  // start and end are apart: a kernel that reaches its peers by itself
    for (const Access& access : event.step->accesses) {
      if (access.write != write || !event.touches) continue;
      const Buffer& buffer = plan_.buffer(access.buffer);
      const bool exchanged = alone && !access.peers.empty();
      const Touch touch{e,
                        event.start,
                        event.end,
                        access.buffer.index,
                        instance_of(access, event),
                        write,
                        !write || (access.accumulate && !event.chunks.empty() && event.chunks.back() > 0),
                        exchanged,
                        part_of(access, event, buffer.place)};
      if (!exchanged) {
        touch_one(event.rank, touch);
        continue;
      }
      for (int rank : rank_group(plan_.places[buffer.place.index], access.peers, event.rank)) touch_one(rank, touch);
    }
  }

  /// Checks one access against the contents of the memory, then records it.
  void touch_one(int rank, const Touch& touch) {
    Memory& m = memory(rank, plan_.buffers[touch.buffer].window);
    if (position(rank, touch.buffer).kind == Position::Kind::Absent) {
      wrong_.insert(format("{} uses '{}', which rank {} does not hold", name(touch.event),
                           plan_.buffers[touch.buffer].name, rank));
      return;
    }
    if (touch.reads && !is_written(m, touch))
      wrong_.insert(format("{} reads '{}' before it is written", name(touch.event), plan_.buffers[touch.buffer].name));
    const auto [first, last] = pieces_of(m, rank, touch.buffer, touch.instance);
    for (size_t p = first; p < last; ++p) {
      check_races(m.pieces[p], touch, rank);
      if (touch.reads && !m.pieces[p].holds(touch))
        wrong_.insert(
            format("{} reads '{}' after it was overwritten", name(touch.event), plan_.buffers[touch.buffer].name));
      if (touch.write && touch.reads) check_sum(m.pieces[p], touch);
      if (touch.write) overwrite(m, m.pieces[p], touch);
      record(m.pieces[p], touch);
    }
    if (touch.write) m.written[{touch.buffer, touch.instance}].insert(touch.part);
  }

  /// A sum over chunks or micro-batches is complete where it is read: no part of it comes later.
  void check_sum(const Piece& piece, const Touch& touch) {
    for (const Touch& other : piece.touches)
      if (!other.write && other.buffer == touch.buffer && other.instance == touch.instance)
        wrong_.insert(format("{} adds to '{}' after {} has read it", name(touch.event),
                             plan_.buffers[touch.buffer].name, name(other.event)));
  }

  /// Puts another value into a piece; the value that was there is not complete any more. A kernel that updates in place
  /// a part at a time, however, leaves the other parts as they are.
  void overwrite(Memory& m, Piece& piece, const Touch& touch) {
    const bool is_new = piece.owner != touch.buffer || piece.instance != touch.instance;
    if (is_new) {
      const bool by_parts =
          piece.owner >= 0 && !touch.part.is_all() &&
          is_in_place(*events_.events[touch.event].step, static_cast<uint32_t>(piece.owner), touch.buffer);
      piece.before = by_parts ? piece.owner : -1;
      piece.overwritten.clear();
      if (piece.owner >= 0 && !by_parts) m.written.erase({static_cast<uint32_t>(piece.owner), piece.instance});
    }
    if (piece.before >= 0) piece.overwritten.push_back(touch.part);
    piece.owner = touch.buffer;
    piece.instance = touch.instance;
  }

  bool is_excused(const Touch& a, const Touch& b) const {
    const bool same_kernel = a.exchanged && b.exchanged && a.end == b.end;  // its ranks touch their own slices
    if (a.event != b.event)
      return (same_kernel && a.buffer == b.buffer) || (a.start == b.start && a.end == b.end && a.start == a.end);
    return a.buffer == b.buffer || is_in_place(*events_.events[a.event].step, a.buffer, b.buffer);
  }

  /// One step may read a buffer and write another one in the same memory only if it reads each element before it writes
  /// it.
  bool is_in_place(const Step& step, uint32_t a, uint32_t b) const {
    if (const auto* what = std::get_if<CollectiveStep>(&step.what)) return what->kind == OpKind::AllReduce;
    if (const auto* copy = std::get_if<CopyStep>(&step.what)) return copy->in_place;
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    if (!launch) return false;
    const Kernel& kernel = plan_.kernel(launch->kernel);
    const KernelBody body(kernel, plan_.places[kernel.place.index].mesh.size());
    const size_t inputs = kernel.body.inputs().size();
    bool meets = false;
    for (size_t i = 0; i < inputs; ++i)
      for (size_t o = inputs; o < launch->operands.size(); ++o) {
        const BufferId from = launch->operands[i].buffer, to = launch->operands[o].buffer;
        if (!from || !to || std::minmax(from.index, to.index) != std::minmax(a, b)) continue;
        meets = true;
        if (!updates_in_place(body, i, o - inputs)) return false;
      }
    return meets;
  }

  void check_races(const Piece& piece, const Touch& touch, int rank) {
    for (const Touch& other : piece.touches) {
      if (!other.write && !touch.write) continue;
      if (is_apart(other, touch) || events_.before(other.end, touch.start) || is_excused(other, touch)) continue;
      const bool same = other.buffer == touch.buffer;
      wrong_.insert(format("{} and {} touch {} of rank {} in no order", name(other.event), name(touch.event),
                           same ? "'" + plan_.buffers[touch.buffer].name + "'"
                                : "the memory of '" + plan_.buffers[other.buffer].name + "' and '" +
                                      plan_.buffers[touch.buffer].name + "'",
                           rank));
    }
  }

  /// A later access that comes after this one also comes after the accesses that this one covers.
  void record(Piece& piece, const Touch& touch) {
    std::erase_if(piece.touches, [&](const Touch& other) {
      if (other.write && !touch.write) return false;
      if (!touch.part.is_all() &&
          !(touch.buffer == other.buffer && touch.instance == other.instance && touch.part == other.part))
        return false;
      return events_.before(other.end, touch.start);
    });
    piece.touches.push_back(touch);
  }

  /// All that is read was written before: as a whole, or by parts or stripes that together cover it.
  bool is_written(const Memory& m, const Touch& read) const {
    const auto at = m.written.find({read.buffer, read.instance});
    if (at == m.written.end()) return false;
    std::map<std::vector<std::tuple<int, int64_t, int>>, std::set<std::vector<int>>> families;
    std::vector<Stripe> stripes;
    for (const Part& part : at->second) {
      if (part.is_all()) return true;
      if (part.stripe) {
        if (part.digits.empty()) stripes.push_back(*part.stripe);
        continue;
      }
      std::vector<std::tuple<int, int64_t, int>> keys;
      std::vector<int> coordinates;
      bool fits = true;
      const std::vector<PlacedDigit>& asked = read.part.digits;
      for (const PlacedDigit& d : part.digits) {
        const auto same = std::find_if(asked.begin(), asked.end(), [&](const PlacedDigit& r) { return r.same_key(d); });
        if (same != asked.end()) {
          fits = fits && same->coordinate == d.coordinate;
          continue;
        }
        keys.push_back({d.dim, d.block, d.size});
        coordinates.push_back(d.coordinate);
      }
      if (fits) families[keys].insert(coordinates);
    }
    for (const auto& [keys, found] : families) {
      size_t needed = 1;
      for (const auto& key : keys) needed *= static_cast<size_t>(std::get<2>(key));
      if (found.size() == needed) return true;
    }
    return covers(std::move(stripes), read.part);
  }

  void load(int rank, BufferId id) {
    Memory& m = memory(rank, plan_.buffer(id).window);
    const auto [first, last] = pieces_of(m, rank, id.index);
    for (size_t p = first; p < last; ++p) m.pieces[p].owner = id.index;
    m.written[{id.index, {}}].insert(Part{});
  }

  template <class F>
  void for_each_holder(PlaceId place, F&& f) {
    for (int rank : plan_.places[place.index].ranks) f(rank);
  }

  void load_inputs() {
    for (const Port& port : plan_.inputs) for_each_holder(port.place, [&](int rank) { load(rank, port.buffer); });
    for (const LengthBuffer& length : plan_.lengths)
      if (!length.is_made) for_each_holder(length.place, [&](int rank) { load(rank, length.buffer); });
  }

  /// Outputs are valid at the end; inputs, which the next iteration reads again, are still valid.
  void check_ports() {
    const auto holds = [&](int rank, BufferId id) {
      Memory& m = memory(rank, plan_.buffer(id).window);
      const auto [first, last] = pieces_of(m, rank, id.index);
      for (size_t p = first; p < last; ++p)
        if (m.pieces[p].owner != id.index) return false;
      const Touch read{0, 0, 0, id.index, {}, false, true, false, {}};
      return is_written(m, read);
    };
    for (const Port& port : plan_.outputs)
      for_each_holder(port.place, [&](int rank) {
        if (!holds(rank, port.buffer))
          wrong_.insert(format("output '{}' is not whole on rank {} at the end", port.name, rank));
      });
    for (const LengthBuffer& length : plan_.lengths)
      for_each_holder(length.place, [&](int rank) {
        if (!holds(rank, length.buffer))
          wrong_.insert(format("the length '{}' is not there on rank {} at the end", length.name, rank));
      });
    for (const Port& port : plan_.inputs) {
      const bool is_state = std::any_of(plan_.states.begin(), plan_.states.end(),
                                        [&](const StateSlot& s) { return s.input == port.name; });
      for_each_holder(port.place, [&](int rank) {
        if (!is_state && !holds(rank, port.buffer))
          wrong_.insert(format("input '{}' is overwritten on rank {}", port.name, rank));
      });
    }
    check_states();
  }

  /// Checks that the next value of a state lies where the state is read next: in place, or copied there by the last
  /// write.
  void check_states() {
    std::map<uint32_t, std::set<uint32_t>> next;  // buffers by the one whose next value they are
    for (const StateSlot& state : plan_.states) {
      if (!state.buffer) continue;
      next[state.buffer.index].insert(state.next.index);
    }
    for (const auto& state : next)
      for_each_holder(plan_.buffers[state.first].place,
                      [&](int rank) { check_state(state.first, state.second, rank); });
  }

  void check_state(uint32_t state, const std::set<uint32_t>& next, int rank) {
    Memory& m = memory(rank, plan_.buffers[state].window);
    const auto is_copy = [&](const Touch& touch) {
      const auto* copy = std::get_if<CopyStep>(&events_.events[touch.event].step->what);
      return touch.write && copy && copy->to.index == state && next.contains(copy->from.index);
    };
    const auto [first, last] = pieces_of(m, rank, state);
    for (size_t p = first; p < last; ++p) {
      const Piece& piece = m.pieces[p];
      const bool is_copied = piece.owner == state && piece.instance == Instance{1, 0} &&
                             std::any_of(piece.touches.begin(), piece.touches.end(), is_copy);
      if (!is_copied && !next.contains(static_cast<uint32_t>(piece.owner)))
        wrong_.insert(
            format("'{}' is not what the next iteration is to read on rank {}", plan_.buffers[state].name, rank));
    }
  }

  const PlanEvents& events_;
  const Plan& plan_;
  std::vector<Memory> memories_;
  std::map<int, const Program*> program_of_;
  std::set<const Step*> starts_;
  std::set<std::string> wrong_;
};

}  // namespace

std::vector<std::string> prove_memory(const PlanEvents& events) { return Walk(events).run(); }

}  // namespace weftc
