// Memory that all ranks of one machine share: a segment with windows, flags, and the state of every rank. Every process
// maps it; ranks that are threads use it directly.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "failure.h"
#include "manifest.h"
#include "weft/program.h"

namespace weft {

using Word = std::atomic<uint32_t>;
static_assert(Word::is_always_lock_free);

/// Numbers from which every rank derives the same positions in the segment.
struct WorldShape {
  int ranks = 1, streams = 1, signals = 0;
  int64_t window_bytes = 0, staging_bytes = 0;
  int notes = 0;  // of each rank
};

/// The kind of thing that a stream waits for: nothing, other streams of its own rank, or other ranks.
enum class Awaited : int32_t { Nothing, OwnRank, OtherRanks };

/// The step a stream is in, copied so that any rank can name it.
struct Status {
  static constexpr int kWords = (kLongestStatus + 1) / 8;
  std::atomic<uint64_t> text[kWords];
  std::atomic<int64_t> index;
  std::atomic<int32_t> layer;
  std::atomic<Awaited> awaited;
};

struct RankSlot {
  std::atomic<int32_t> pid;
  std::atomic<int64_t> peak_bytes, device_bytes, received_bytes;
  static constexpr size_t kFileSums = 16;
  std::atomic<uint64_t> file_sums[kFileSums];  // of the files that it has read
  Word sleepers;                               // threads that wait for words that this rank signals
  Word arrivals;                               // how many barriers of all ranks it has entered
  // With --check-nan: whether a result of an iteration is not finite, and when its first NaN and infinity appeared (0:
  // never).
  Word is_lost;
  std::atomic<int64_t> first_nan_ns, first_infinity_ns;
};

/// A few bytes that one rank leaves for others, found by a key.
struct Note {
  static constexpr int kBytes = 128;
  Word ready;
  uint64_t key;
  char bytes[kBytes];
};

struct Relay;

/// The segment as one rank sees it. Copies refer to the same memory.
class World {
 public:
  /// `memory` has bytes_of(shape) bytes, zero at the beginning.
  World(const WorldShape& shape, char* memory);
  static int64_t bytes_of(const WorldShape& shape);

  const WorldShape shape;
  Relay* relay = nullptr;          // connects to other ranks if this memory is a copy of this process alone
  std::string_view manifest = {};  // for messages about steps

  char* memory() const { return memory_; }
  char* window(int rank) const { return windows_ + rank * window_stride_; }
  int64_t window_stride() const { return window_stride_; }
  char* staging() const { return staging_; }
  RankSlot& rank(int rank) const { return ranks_[rank]; }
  /// Flags of signals and transfers: signalled by one rank, waited for by others.
  Word& flag(int rank, int slot) const { return flags_[rank * flag_stride_ + slot]; }
  /// Barriers that `from` has entered with `to` on a stream.
  Word& tick(int from, int stream, int to) const { return ticks_[(from * shape.streams + stream) * tick_stride_ + to]; }

  /// A rank's i-th note.
  Note& note(int rank, int i) const { return notes_[rank * shape.notes + i]; }
  /// Leaves a note of kBytes for the others; false: `rank` has left as many as it may.
  bool leave_note(int rank, uint64_t key, const char* bytes) const;
  /// The same in this memory alone.
  bool copy_note(int rank, uint64_t key, const char* bytes) const;
  /// The note that `rank` has left under this key; nullptr: none yet.
  const Note* find_note(int rank, uint64_t key) const;

  /// Records that the stream is in this step and waits for nothing.
  void set_status(int rank, int stream, const char* name, int64_t index, int layer = kNoLayer) const;
  void set_status(int rank, int stream, const Step& step, int64_t index) const {
    set_status(rank, stream, step.name, index, step.layer);
  }
  std::string status(int rank, int stream) const;
  void set_awaited(int rank, int stream, Awaited awaited) const;
  Awaited awaited(int rank, int stream) const;

  /// Stores a word that `rank` signals, and wakes who waits for it.
  void signal(int rank, Word& word, uint32_t value) const;
  /// Whether waiting time counts towards the time-out; called several times a second.
  using Counts = std::function<bool()>;
  /// Waits until the word of `rank` has reached `value`. False: the time is over. Throws when another rank has failed.
  bool wait(int rank, Word& word, uint32_t value, double timeout, const Counts& counts = {}) const;
  /// A barrier of all ranks, entered by one thread of each. False: the time is over.
  bool barrier(double timeout, const Counts& counts = {}) const;

  /// Ends all ranks. True for the first failure, which is the one to report; `text` is the message for ranks on
  /// other machines.
  bool set_failure(int rank, int code, const std::string& text = "") const;
  /// The same in this memory alone.
  bool note_failure(int rank, int code) const;
  /// The exit code of the first failure, 0 if none.
  int failure() const;
  bool has_failed() const { return failure() != 0; }
  /// A rank whose process is no longer there; -1: none.
  int gone_rank() const;

  /// In a server: the inode number of its socket's file while it exists; else 0.
  std::atomic<uint64_t>& socket_node() const;
  /// ImageFile::build of the process that started the ranks.
  std::atomic<uint64_t>& build() const;
  /// end_asked: some process was asked to end a training or a server. end_agreed: rank 0 has decided that the current
  /// step is the last.
  Word& end_asked() const;
  Word& end_agreed() const;

 private:
  struct Header;

  char* memory_;
  Header* header_;
  RankSlot* ranks_;
  Status* status_;
  Note* notes_;
  Word *flags_, *ticks_;
  char *windows_, *staging_;
  int64_t flag_stride_, tick_stride_, window_stride_;
  int spins_;
};

}  // namespace weft
