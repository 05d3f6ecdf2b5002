// The relay over TCP, as a star: every rank has a connection to rank 0, which forwards the others' frames to each rank.
// A thread of every process receives frames and reports that its rank is alive. After a failure it ends the process if
// the main thread does not.
#pragma once
#include <condition_variable>
#include <thread>

#include "open_relay.h"
#include "relay_line.h"

namespace weft {

/// How a rank introduces itself.
struct Hello {
  uint32_t version;
  int32_t ranks;
  Agreement agreement;
  char host[64];      // its name in messages
  char machine[128];  // identifies the machine
};

class TcpRelay : public Relay {
 public:
  TcpRelay(const Job& job, const World& world, int rank);
  ~TcpRelay() override;

  bool barrier(double timeout) override;
  void tell_failure(int rank, int code, const std::string& text) override;
  void tell_note(uint64_t key, const char* bytes) override;
  int64_t clock_offset() const override { return clock_offset_; }
  int local_rank() const override;
  void close() override;

 protected:
  /// Every rank's host and machine, by rank.
  using Names = std::vector<Hello>;

  /// Called when this rank has entered a barrier.
  virtual void arrive(uint32_t number) = 0;
  /// One turn of the service: waits for at most `ns` for something to read, and reads it.
  virtual void serve(int64_t ns) = 0;
  /// Sends a frame to every rank that this one has a connection to, except the rank that the frame is about.
  virtual void send_all(FrameKind kind, int rank, const void* data, size_t bytes) = 0;
  /// True if all ranks that this one has a connection to have ended theirs.
  virtual bool all_ended() const = 0;
  /// Says on all connections that nothing more will be sent.
  virtual void finish_all() = 0;

  void start_service();
  void stop_service();
  /// Copies another rank's frame about itself into this segment.
  void take_status(const Frame& frame) const;
  void take_note(const Frame& frame) const;
  void take_failure(const Frame& frame);
  void end_barrier(uint32_t number);
  /// The data that this rank sends at a barrier.
  struct Arrival {
    uint32_t number;
    int64_t peak_bytes, device_bytes, received_bytes;
    uint64_t file_sums[RankSlot::kFileSums];
  };
  Arrival arrival(uint32_t number) const;
  /// Ends all ranks, and prints why.
  void fail_all(int code, const std::string& text);
  std::string name_of(int rank) const;
  /// The time since which this process has run without interruption: it may have been stopped for a while, with all
  /// others. Called at every turn.
  int64_t awake_ns();
  size_t most_bytes() const;

  const Job job_;
  const World& world_;
  const int rank_;
  Names names_;
  int64_t clock_offset_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t ended_ = 0;                   // barriers that all have entered
  std::atomic<int64_t> busy_ns_{0};      // when any rank last received bytes of a delivery
  std::atomic<bool> is_closing_{false};  // all is done

 private:
  void run_service();
  void say_alive();
  void tell_status(int stream);
  void end_late_process();

  std::thread service_;
  std::atomic<bool> stops_{false};
  uint32_t barriers_ = 0;          // that this rank has entered
  std::vector<std::string> told_;  // by stream
  int64_t said_ns_ = 0, failed_ns_ = 0;
  int64_t awake_ns_ = 0, looked_ns_ = 0;
};

/// The introduction of this process. It never fails: a machine without a name is called "?".
Hello own_hello(const Job& job, const World& world);
/// Rank 0 waits for the others to connect; the others connect to rank 0. Throws Failure if that does not
/// succeed in time.
std::unique_ptr<Relay> join_as_hub(const Job& job, const World& world, const Root& root);
std::unique_ptr<Relay> join_as_spoke(const Job& job, const World& world, int rank, const Root& root);

/// The interval at which a rank reports that it is alive, and the silence after which it counts as gone.
inline int64_t beat_ns(const Job& job) { return int64_t(std::min(1.0, job.timeout / 5) * 1e9); }
inline int64_t silence_ns(const Job& job) { return int64_t((job.timeout + 2) * 1e9); }
constexpr size_t kSmallFrame = 4096;

}  // namespace weft
