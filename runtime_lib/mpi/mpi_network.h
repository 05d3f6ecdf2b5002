// The network over MPI: a communicator for each lane, so that several streams may call MPI at the same time, one for
// unexpected words and pieces, and one for barriers.
#pragma once
#define OMPI_SKIP_MPICXX  // the C++ bindings that the standard has dropped
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <atomic>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "network.h"
#include "open_relay.h"

namespace weft {

/// The messages of a rank that MPI carries.
class MpiNetwork final : public Network {
 public:
  MpiNetwork(const Job& job, const World& world, int rank);
  ~MpiNetwork() override;

  std::unique_ptr<Traffic> start(int lane, int tag, std::span<const Parcel> out, std::span<const Parcel> in) override;
  void post(int to, const Word& word, uint32_t value) override;
  std::string awaited() override;
  [[noreturn]] void abort(int code) override;

  bool barrier(double timeout) override;
  void tell_failure(int rank, int code, const std::string& text) override;
  void tell_note(uint64_t, const char*) override {}  // of device programs
  void deliver(const std::vector<char>& bytes) override;
  std::vector<Delivery> take_deliveries() override;
  int64_t clock_offset() const override { return clock_offset_; }
  int local_rank() const override { return local_rank_; }
  void close() override;

  /// "rank 2 on HOST".
  std::string name_of(int rank) const;
  /// Called when a traffic ends, so that awaited() does not name it any more.
  void forget(const Traffic& traffic);

 private:
  /// A message of news (a word, a failure, a piece of a delivery) that is under way.
  struct PendingSend {
    std::vector<char> bytes;
    MPI_Request request;
  };
  /// The data that a rank sends at a barrier.
  struct Figures {
    int64_t peak_bytes, device_bytes, deliveries;
    uint64_t file_sums[RankSlot::kFileSums];
  };

  void join(const Job& job);
  void look_around();
  void compare_clocks(int other, int rounds);
  std::unique_ptr<Traffic> begin(MPI_Comm comm, int tag, std::span<const Parcel> out, std::span<const Parcel> in);
  void stop();
  bool has_deliveries();
  void send_news(int to, int tag, const void* data, size_t size);
  bool forget_sent();
  bool take_news();
  void take_one(int from, int tag, const std::vector<char>& bytes);
  void serve();
  void wait_for_end_signal();

  const std::string program_;
  const World world_;
  const int rank_, ranks_;
  const double timeout_;
  std::vector<MPI_Comm> lanes_;
  MPI_Comm news_ = MPI_COMM_NULL, barriers_ = MPI_COMM_NULL;
  std::vector<std::string> machines_;  // by rank
  int64_t clock_offset_ = 0;
  int local_rank_ = 0;

  std::mutex sending_mutex_, deliveries_mutex_, traffic_mutex_;
  std::set<const Traffic*> under_way_;
  std::list<PendingSend> sendings_;
  std::vector<Delivery> deliveries_;
  std::vector<int64_t> delivered_;          // of each rank, as far as they have come
  std::vector<std::vector<char>> partial_;  // the beginnings of deliveries, by rank
  std::vector<Figures> figures_;            // of the last barrier, by rank
  std::atomic<int64_t> deliveries_made_{0};
  std::atomic<bool> stop_{false};
  bool is_closed_ = false;
  std::thread server_, signals_;
};

}  // namespace weft
