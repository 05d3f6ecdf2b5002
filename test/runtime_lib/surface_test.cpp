// The surface that emitted code calls on every target: which of a target's functions each typed call reaches, and with
// what. A third target implements the same functions.
#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "weft/rank_surface.h"

namespace weft {
namespace {

/// A target that writes down what it is asked for.
class Recorder final : public RankSurface {
 public:
  Recorder(char* own, char* window, const char* image) : RankSurface(1, own, window, image) {}
  std::vector<std::string> calls = {};

  bool evaluates() const override { return false; }
  void signal(const Signal& s, int i) override { note("signal", s.slot, i); }
  void wait(const Signal& s, int i) override { note("wait", s.slot, i); }
  void barrier(const Group& g) override { note("barrier", g.size()); }

 private:
  template <class... N>
  void note(std::string text, N... numbers) {
    ((text += " " + std::to_string(int64_t(numbers))), ...);
    calls.push_back(text);
  }
  bool enter(const Step& step, int64_t index) override {
    note("enter", index);
    return step.stream == 0;
  }
  void leave() override { note("leave"); }
  void refuse_request(const Step&) override { note("refuse"); }
  void copy_bytes(void*, const void*, int64_t bytes) override { note("copy", bytes); }
  void reduce_into(ReduceOp, DType, void*, const void*, int64_t count, bool first) override {
    note("reduce_into", count, first);
  }
  void take(const Group&, int64_t element, const void*, void*, const Exchange&) override { note("take", element); }
  void read(void* to, const void* at, size_t bytes) override { memcpy(to, at, bytes); }
  void write(void* at, const void* from, size_t bytes) override { memcpy(at, from, bytes); }
  void reduce_all(const Group&, ReduceOp, DType, int64_t src, void*, const Exchange& e) override {
    note("reduce_all", src, e.dims[0].extent);
  }
  void reduce_all_in_windows(const Group&, ReduceOp, DType, int64_t src, int64_t dst, const Exchange& e) override {
    note("reduce_all_in_windows", src, dst, e.dims[0].extent);
  }
  void reduce_slices(const Group&, ReduceOp, DType, int64_t src, void*, const Exchange&) override {
    note("reduce_slices", src);
  }
  void gather(const Group&, DType, int64_t src, void*, const Exchange&) override { note("gather", src); }
  void exchange(const Group&, DType, int64_t src, void*, const Exchange&) override { note("exchange", src); }
  void broadcast_from(const Group&, int root, DType, int64_t src, void*, int64_t count) override {
    note("broadcast_from", root, src, count);
  }
  void reduce_root(const Group&, int root, ReduceOp, DType, int64_t src, void*, int64_t count) override {
    note("reduce_root", root, src, count);
  }
  void send_rows(const Transfer&, int micro_batch, DType, int64_t src) override { note("send_rows", micro_batch, src); }
  void recv_rows(const Transfer&, int micro_batch, DType, int64_t src, void*) override {
    note("recv_rows", micro_batch, src);
  }
};

struct Memory {
  alignas(256) char own[512] = {}, window[512] = {}, image[512] = {};
  Recorder rank{own, window, image};
};

constexpr Own<float> x{0, 8}, y{x.end(), 8};
constexpr Window<float> a{0, 8}, b{a.end(), 8};

TEST_CASE("surface: every collective reaches the function of its target") {
  Memory memory;
  Recorder& r = memory.rank;
  r.all_reduce({}, ReduceOp::Sum, b, r[y], 8);
  r.all_reduce({}, ReduceOp::Sum, a, b, 8);
  r.reduce_scatter({}, ReduceOp::Max, b, r[y], Exchange{});
  r.all_gather({}, b, r[y], Exchange{});
  r.all_to_all({}, b, r[y], Exchange{});
  r.broadcast({}, 3, b, r[y], 8);
  r.reduce({}, 2, ReduceOp::Sum, b, r[y], 8);
  r.send({}, 5, b);
  r.recv({}, 5, b, r[y]);
  CHECK(r.calls == std::vector<std::string>{"reduce_all 256 8", "reduce_all_in_windows 0 256 8", "reduce_slices 256",
                                            "gather 256", "exchange 256", "broadcast_from 3 256 8",
                                            "reduce_root 2 256 8", "send_rows 5 256", "recv_rows 5 256"});
}

TEST_CASE("surface: a step of another stream runs nothing, and memory is addressed by kind") {
  Memory memory;
  Recorder& r = memory.rank;
  r.step({0, "mine", "nodes"}, 4, [&] { r.copy(r[x], r[y], 8); });
  r.step({1, "another's", "nodes"}, [&] { r.copy(r[x], r[y], 8); });
  CHECK(r.calls == std::vector<std::string>{"enter 4", "copy 32", "leave", "enter 0"});
  CHECK(reinterpret_cast<char*>(r[y]) == memory.own + 256);
  CHECK(reinterpret_cast<char*>(r[b]) == memory.window + 256);
  CHECK(reinterpret_cast<const char*>(r[Weight<float>{64, 8}]) == memory.image + 64);
  r.set(r[y] + 1, 3.0f);
  CHECK(r.value(r[y] + 1) == 3.0f);
}

}  // namespace
}  // namespace weft
