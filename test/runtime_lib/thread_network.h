// A network between ranks that are threads of the test, each with a segment of its own: what they send lies in a map
// until it is received.
#pragma once
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime_lib/src/network.h"
#include "runtime_lib/src/wait.h"

namespace weft_test {

/// The shared state of a job's ranks.
struct Post {
  using Key = std::tuple<int, int, int, int>;  // from, to, lane, tag
  std::mutex mutex;
  std::map<Key, std::deque<std::vector<char>>> parcels;
  std::vector<weft::World*> worlds;
  int arrived = 0, barriers = 0;
};

class ThreadNetwork final : public weft::Network {
 public:
  ThreadNetwork(Post& post, int rank) : post_(post), rank_(rank) {}

  std::unique_ptr<Traffic> start(int lane, int tag, std::span<const weft::Parcel> out,
                                 std::span<const weft::Parcel> in) override {
    const std::lock_guard lock(post_.mutex);
    for (const weft::Parcel& p : out) post_.parcels[{rank_, p.rank, lane, tag}].emplace_back(p.bytes, p.bytes + p.size);
    return std::make_unique<Arriving>(post_, rank_, lane, tag, std::vector<weft::Parcel>(in.begin(), in.end()));
  }
  void post(int to, const weft::Word& word, uint32_t value) override {
    const int64_t offset = reinterpret_cast<const char*>(&word) - post_.worlds[size_t(rank_)]->memory();
    const weft::World& theirs = *post_.worlds[size_t(to)];
    theirs.signal(rank_, *reinterpret_cast<weft::Word*>(theirs.memory() + offset), value);
  }
  [[noreturn]] void abort(int code) override { _exit(code); }

  bool barrier(double timeout) override {
    const int64_t deadline = weft::now_ns() + int64_t(timeout * 1e9);
    int before = 0;
    {
      const std::lock_guard lock(post_.mutex);
      before = post_.barriers;
      if (++post_.arrived == int(post_.worlds.size())) post_.arrived = 0, ++post_.barriers;
    }
    for (int turn = 0; weft::now_ns() < deadline; ++turn) {
      {
        const std::lock_guard lock(post_.mutex);
        if (post_.barriers != before) return true;
      }
      const weft::World& world = *post_.worlds[size_t(rank_)];
      if (world.has_failed()) throw weft::Failure{world.failure(), ""};
      weft::back_off(turn);
    }
    return false;
  }
  void tell_failure(int rank, int code, const std::string&) override {
    for (const weft::World* world : post_.worlds) world->note_failure(rank, code);
  }
  void tell_note(uint64_t, const char*) override {}
  void deliver(const std::vector<char>&) override {}
  std::vector<weft::Delivery> take_deliveries() override { return {}; }
  int64_t clock_offset() const override { return 0; }
  int local_rank() const override { return rank_; }
  void close() override {}

 private:
  /// Sent parcels are copied at once; received ones are taken in order.
  struct Arriving final : Traffic {
    Arriving(Post& p, int me, int l, int t, std::vector<weft::Parcel> in)
        : post(p), rank(me), lane(l), tag(t), wanted(std::move(in)) {}
    bool is_done() override {
      const std::lock_guard lock(post.mutex);
      std::erase_if(wanted, [&](const weft::Parcel& p) { return take(p); });
      return wanted.empty();
    }
    bool take(const weft::Parcel& p) const {
      std::deque<std::vector<char>>& queue = post.parcels[{p.rank, rank, lane, tag}];
      if (queue.empty()) return false;
      REQUIRE(int64_t(queue.front().size()) == p.size);
      memcpy(p.bytes, queue.front().data(), size_t(p.size));
      queue.pop_front();
      return true;
    }
    std::string awaited() const override {
      return wanted.empty() ? "none" : weft::text("rank %d on this machine", wanted.front().rank);
    }
    Post& post;
    const int rank, lane, tag;
    std::vector<weft::Parcel> wanted;
  };

  Post& post_;
  const int rank_;
};

}  // namespace weft_test
