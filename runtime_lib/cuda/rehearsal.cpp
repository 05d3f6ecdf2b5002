// A walk over the program that issues nothing. It finds the program's coming needs: products of the library (from
// Rank::contract), memory of sums.
#include "cuda_state.h"

namespace weft {

namespace {

/// Thrown through a rehearsal if the program depends on a value that the device has not computed yet.
struct ValueUnknown {};

/// A rank whose calls do nothing on the device.
class Rehearsal final : public Rank {
 public:
  explicit Rehearsal(CudaState& state) : Rank(state) { watch_ = nullptr; }

  /// All steps of a training: an evaluation has no others.
  bool evaluates() const override { return false; }
  void signal(const Signal&, int) override {}
  void wait(const Signal&, int) override {}
  void barrier(const Group&) override {}

 private:
  bool enter(const Step& step, int64_t index) override {
    state_.enter_step(step, index, block_);
    return true;
  }
  void leave() override { state_.leave_step(); }
  void start(const KernelEntry&, Grid, void**) override {}
  void start_resident(const KernelEntry&, Grid, void**) override {}
  void copy_bytes(void*, const void*, int64_t) override {}
  void reduce_into(ReduceOp, DType, void*, const void*, int64_t, bool) override {}
  void take(const Group&, int64_t, const void*, void*, const Exchange&) override {}
  void read(void*, const void*, size_t) override { throw ValueUnknown{}; }
  void write(void*, const void*, size_t) override {}

  void reduce_all(const Group&, ReduceOp, DType dtype, int64_t, void*, const Exchange& e) override {
    state_.transport().prepare_sum(dtype, e);
  }
  void reduce_all_in_windows(const Group&, ReduceOp, DType dtype, int64_t, int64_t, const Exchange& e) override {
    state_.transport().prepare_sum(dtype, e);
  }
  void reduce_slices(const Group&, ReduceOp, DType, int64_t, void*, const Exchange&) override {}
  void gather(const Group&, DType, int64_t, void*, const Exchange&) override {}
  void exchange(const Group&, DType, int64_t, void*, const Exchange&) override {}
  void broadcast_from(const Group&, int, DType, int64_t, void*, int64_t) override {}
  void reduce_root(const Group&, int, ReduceOp, DType, int64_t, void*, int64_t) override {}
  void send_rows(const Transfer&, int, DType, int64_t) override {}
  void recv_rows(const Transfer&, int, DType, int64_t, void*) override {}
};

}  // namespace

void CudaState::rehearse() {
  begin_walk();
  is_rehearsing_ = true;
  Rehearsal view(*this);
  try {
    program.run(view);
  } catch (const ValueUnknown&) {
    open_.clear();
  }
  is_rehearsing_ = false;
  walks().is_rehearsed = true;
}

}  // namespace weft
