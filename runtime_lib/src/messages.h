// The collectives and transfers of ranks that share no memory: every rank packs and sends the elements that its peers
// need, and reduces or unpacks what it receives. No barriers are needed, since nobody reads another rank's window: a
// source may be overwritten as soon as its messages are sent.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "geometry.h"
#include "network.h"
#include "rank_base.h"
#include "weft/host.h"

namespace weft {

/// The collectives of one stream of a rank.
class Messages {
 public:
  /// `time_out` is called with a description of the awaited data if it does not arrive in time; it throws.
  Messages(const RankBase& rank, Network& network, int stream, Team& team,
           std::function<void(const std::string&)> time_out)
      : rank_(rank), network_(network), stream_(stream), team_(team), time_out_(std::move(time_out)) {}

  /// dst = reduction over the peers of this rank's slice of src; dst may be src if the slice is all of it.
  void reduce_all(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e);
  /// The same for one member of the group alone: only `root` gets the result.
  void reduce_root(const Group& g, int root, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e);
  /// dst = every peer's slice for this rank, each at its place.
  void pull(const Group& g, int64_t element, int64_t src, char* dst, const Exchange& e);
  /// dst = the source of member `root`, on every rank.
  void pull_root(const Group& g, int root, int64_t element, int64_t src, char* dst, const Exchange& e);
  /// The two ends of a transfer between places: messages of the table that this rank sends, and those that it
  /// receives.
  void send_rows(const Transfer& t, int micro_batch, int64_t element, int64_t src);
  void recv_rows(const Transfer& t, int micro_batch, int64_t element, char* dst);

 private:
  /// A box of received bytes, and its destination.
  struct Arrival {
    const char* bytes;
    char* to;
    Exchange e;
  };

  char* room(int64_t bytes);
  char* packed_part(const char* from, const Exchange& e, int64_t element);
  void add_out(int rank, char* bytes, int64_t size);
  void add_in(int rank, char* bytes, int64_t size);
  void take_in(int rank, char* to, const Exchange& e, int64_t element);
  void copy(const Exchange& e, int64_t element, const char* from, char* to) const;
  void deliver(int lane, int tag);
  void wait_for(Network::Traffic& traffic) const;
  void unpack(int64_t element);
  int transfer_lane() const;

  void send_slices(const Group& g, int64_t element, int64_t src, const Exchange& e);
  void reduce_slices(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e);
  void reduce_parts(const Group& g, ReduceOp op, DType dtype, int64_t src, char* dst, const Exchange& e);
  void reduce(int n, ReduceOp op, DType dtype, const char* const* sources, char* dst, const Exchange& e) const;

  const RankBase& rank_;
  Network& network_;
  const int stream_;
  Team& team_;
  const std::function<void(const std::string&)> time_out_;
  std::vector<Parcel> out_, in_;
  std::vector<Arrival> arrivals_;
  std::vector<std::vector<char>> rooms_;  // kept, since fresh memory costs page faults
  size_t rooms_taken_ = 0;
};

}  // namespace weft
