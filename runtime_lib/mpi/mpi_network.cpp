// The network over MPI. MPI makes progress only inside its calls and never gives up by itself, while a program here
// must end with a message when a rank is missing. Hence every wait polls with a deadline, and calls that cannot be
// polled run under a watchdog (Bounded). A thread receives messages that nobody waits for: words, failures, deliveries.
#include "mpi_network.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <utility>

#include "failure.h"
#include "wait.h"

namespace weft {

namespace {

constexpr int64_t kMost = int64_t{1} << 30;  // bytes of one message: MPI counts in int
constexpr int64_t kNewsEvery = 300'000;      // ns
enum NewsTag : int { kWordTag, kFailureTag, kPieceTag, kLastPieceTag };

struct WordNews {
  int64_t offset;  // in the segment, the same on all ranks
  uint32_t value;
};

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return text;
}

void check_mpi(int code, const char* what) {
  if (code != MPI_SUCCESS) fail(kEnvironment, "MPI: %s: %s", what, error_text(code).c_str());
}

/// "Open MPI v4.1.4" or "MPICH Version: 4.0.2".
std::string library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string line(text, strcspn(text, ",\n"));
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

/// Ends the process if it lives for longer than `seconds`: around calls of MPI that cannot be polled.
class Bounded {
 public:
  /// With an empty message the process ends as a success.
  Bounded(std::string message, double seconds)
      : thread_([this, text = std::move(message), seconds] {
          constexpr std::chrono::milliseconds kTurn(200);
          std::unique_lock lock(mutex_);
          for (Patience patience(seconds); !patience.is_over();)
            if (over_.wait_for(lock, kTurn, [this] { return is_over_; })) return;
          if (text.empty()) _exit(kOk);
          fprintf(stderr, "%s\n", text.c_str());
          _exit(kTimedOut);
        }) {}
  ~Bounded() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }
  Bounded(const Bounded&) = delete;
  Bounded& operator=(const Bounded&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

/// srun tells MPI about the ranks only if it is asked to, and not every MPI reports that it was not told.
void check_srun(const Launched& launched) {
  if (!launched.is_bare_srun) return;
  fail(kEnvironment,
       "srun has not told %s of the ranks: start it with srun --mpi=pmix or srun --mpi=pmi2 (srun --mpi=list says what "
       "there is), or with the launcher of that MPI",
       library_name().c_str());
}

MPI_Comm duplicate() {
  MPI_Comm out = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &out), "no communicator");
  return out;
}

/// Parcels in flight, as one request for each message. A large parcel is several messages.
class MpiTraffic final : public Network::Traffic {
 public:
  explicit MpiTraffic(MpiNetwork& network) : network_(network) {}
  ~MpiTraffic() override { network_.forget(*this); }
  MpiTraffic(const MpiTraffic&) = delete;
  MpiTraffic& operator=(const MpiTraffic&) = delete;

  void send(const Parcel& parcel, int tag, MPI_Comm comm) {
    for (int64_t at = 0; at < parcel.size; at += kMost)
      check_mpi(MPI_Isend(parcel.bytes + at, int(std::min(kMost, parcel.size - at)), MPI_BYTE, parcel.rank, tag, comm,
                          add(parcel.rank)),
                "a send");
  }
  void receive(const Parcel& parcel, int tag, MPI_Comm comm) {
    for (int64_t at = 0; at < parcel.size; at += kMost)
      check_mpi(MPI_Irecv(parcel.bytes + at, int(std::min(kMost, parcel.size - at)), MPI_BYTE, parcel.rank, tag, comm,
                          add(parcel.rank)),
                "a receive");
  }

  bool is_done() override {
    int done = 0, code = MPI_SUCCESS;
    {
      const std::lock_guard lock(mutex_);
      code = MPI_Testall(int(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    }
    if (code != MPI_SUCCESS)
      fail(kEnvironment, "%s cannot be reached: %s", awaited().c_str(), error_text(code).c_str());
    return done != 0;
  }

  std::string awaited() const override {
    const std::lock_guard lock(mutex_);
    std::string out;
    for (size_t i = 0; i < requests_.size(); ++i) {
      int done = 0;
      MPI_Request_get_status(requests_[i], &done, MPI_STATUS_IGNORE);
      const std::string name = network_.name_of(ranks_[i]);
      if (done == 0 && out.find(name) == std::string::npos) out += (out.empty() ? "" : ", ") + name;
    }
    return out.empty() ? "a rank" : out;
  }

 private:
  MPI_Request* add(int rank) {
    ranks_.push_back(rank);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }

  MpiNetwork& network_;
  mutable std::mutex mutex_;  // the thread that ends this process asks what is awaited
  std::vector<MPI_Request> requests_;
  std::vector<int> ranks_;
};

}  // namespace

const bool kRelayAlways = true;

std::unique_ptr<Relay> open_relay(const Job& job, const World& world, const Launched& launched, const std::string&) {
  check_srun(launched);
  return std::make_unique<MpiNetwork>(job, world, launched.rank);
}

MpiNetwork::MpiNetwork(const Job& job, const World& world, int rank)
    : program_(job.program),
      world_(world),
      rank_(rank),
      ranks_(world.shape.ranks),
      timeout_(job.timeout),
      machines_(size_t(ranks_)),
      delivered_(size_t(ranks_)),
      partial_(size_t(ranks_)),
      figures_(size_t(ranks_)) {
  sigset_t end;  // blocked in all threads, so that one of ours takes it
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  join(job);
  look_around();
  try {
    server_ = std::thread([this] { serve(); });
    signals_ = std::thread([this] { wait_for_end_signal(); });
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

MpiNetwork::~MpiNetwork() {
  if (!is_closed_) abort(world_.has_failed() ? world_.failure() : kEnvironment);
}

void MpiNetwork::stop() {
  stop_ = true;
  if (server_.joinable()) server_.join();
  if (signals_.joinable()) signals_.join();
}

std::string MpiNetwork::name_of(int rank) const { return text("rank %d on %s", rank, machines_[size_t(rank)].c_str()); }

// Initialises MPI, and checks that the launcher started the ranks through this MPI and that all run the same
// program.
void MpiNetwork::join(const Job& job) {
  const Bounded bounded(
      text("%s: rank %d: error: waited %g s for the other ranks to join over MPI", job.program, rank_, timeout_),
      timeout_);
  int provided = MPI_THREAD_SINGLE, size = 0, rank = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);  // inherited by its duplicates
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string library = library_name();
  if (provided < MPI_THREAD_MULTIPLE) fail(kEnvironment, "%s does not let several threads call it", library.c_str());
  if (size != ranks_ || rank != rank_)
    fail(kEnvironment,
         "the launcher started rank %d of %d, but %s, which this program uses, has rank %d of %d: start "
         "it with the launcher of that MPI",
         rank_, ranks_, library.c_str(), rank, size);
  // A program of another version may send less or more of it: its length goes first.
  const auto own_bytes = uint64_t{sizeof job.agreement};
  std::vector<uint64_t> bytes(static_cast<size_t>(ranks_));
  check_mpi(MPI_Allgather(&own_bytes, 1, MPI_UINT64_T, bytes.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD), "joining");
  for (int r = 1; r < ranks_; ++r)
    if (bytes[size_t(r)] != bytes[0])
      fail(kEnvironment, "rank %d runs another program than rank 0: one of another version", r);
  std::vector<Agreement> agreements(static_cast<size_t>(ranks_));
  check_mpi(MPI_Allgather(&job.agreement, sizeof(Agreement), MPI_BYTE, agreements.data(), sizeof(Agreement), MPI_BYTE,
                          MPI_COMM_WORLD),
            "joining");
  for (int r = 1; r < ranks_; ++r) {
    const Disagreement found = compare(text("rank %d", r), agreements[size_t(r)], "rank 0", agreements[0]);
    if (!found.text.empty()) throw Failure{found.code, found.text, -1, true};
  }
  for (int lane = 0; lane <= world_.shape.streams; ++lane) lanes_.push_back(duplicate());
  news_ = duplicate();
  barriers_ = duplicate();
}

/// Learns which ranks share a machine, connects to every rank, and compares clocks.
void MpiNetwork::look_around() {
  const Bounded bounded(
      text("%s: rank %d: error: waited %g s for the first messages over MPI", program_.c_str(), rank_, timeout_),
      timeout_);
  constexpr int kName = 256;
  char name[std::max(kName, MPI_MAX_PROCESSOR_NAME)] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  name[kName - 1] = '\0';
  std::vector<char> names(size_t(ranks_) * kName);
  check_mpi(MPI_Allgather(name, kName, MPI_CHAR, names.data(), kName, MPI_CHAR, barriers_), "names of machines");
  for (int r = 0; r < ranks_; ++r) machines_[size_t(r)] = names.data() + ptrdiff_t{r} * kName;
  for (int r = 0; r < rank_; ++r) local_rank_ += machines_[size_t(r)] == machines_[size_t(rank_)];
  // Connections are made now, while a failure to connect is still reported.
  for (int step = 1; step < ranks_; ++step)
    check_mpi(MPI_Sendrecv(nullptr, 0, MPI_BYTE, (rank_ + step) % ranks_, 0, nullptr, 0, MPI_BYTE,
                           (rank_ + ranks_ - step) % ranks_, 0, barriers_, MPI_STATUS_IGNORE),
              "a first message");
  constexpr int kRounds = 5;
  for (int r = 1; r < ranks_; ++r)
    if (rank_ == 0 || rank_ == r) compare_clocks(r, kRounds);
}

/// Computes the offset of this machine's clock from rank 0's, as NTP does. Rank 0 is assumed to read its clock in the
/// middle of the round trip. The shortest of several round trips gives the least uncertainty.
void MpiNetwork::compare_clocks(int other, int rounds) {
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < rounds; ++i) {
    int64_t theirs = 0;
    if (rank_ == 0) {
      check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, other, 0, barriers_, MPI_STATUS_IGNORE), "clocks");
      const int64_t now = now_ns();
      check_mpi(MPI_Send(&now, 1, MPI_INT64_T, other, 0, barriers_), "clocks");
      continue;
    }
    const int64_t begin = now_ns();
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, barriers_), "clocks");
    check_mpi(MPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, barriers_, MPI_STATUS_IGNORE), "clocks");
    const int64_t trip = now_ns() - begin;
    if (trip >= shortest) continue;
    shortest = trip;
    clock_offset_ = theirs - (begin + trip / 2);
  }
}

/// The orderly end. All work is done when the ranks have passed the last barrier. MPI_Finalize of MPICH may
/// still wait forever if a rank has left it before its answers to another one were on their way; then this
/// process ends without it.
void MpiNetwork::close() {
  stop();
  {
    const Bounded bounded(
        text("%s: rank %d: error: waited %g s for its last messages to go", program_.c_str(), rank_, timeout_),
        timeout_);
    while (!forget_sent()) sleep_ns(kNewsEvery);
  }
  is_closed_ = true;
  constexpr double kPatience = 10;
  const Bounded bounded("", kPatience);
  MPI_Finalize();
}

// Ends all ranks after a short delay. Meanwhile the news of the failure is sent, and the launcher reads the ranks'
// messages, since it forwards no more lines after an abort.
void MpiNetwork::abort(int code) {
  constexpr int64_t kMoment = 100'000'000;
  for (const int64_t end = now_ns() + kMoment; now_ns() < end; sleep_ns(kNewsEvery)) forget_sent();
  std::thread([code] {  // in case not even this ends the process
    sleep(2);
    _exit(code);
  })
      .detach();
  MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

std::unique_ptr<Network::Traffic> MpiNetwork::start(int lane, int tag, std::span<const Parcel> out,
                                                    std::span<const Parcel> in) {
  return begin(lanes_[size_t(lane)], tag, out, in);
}

std::unique_ptr<Network::Traffic> MpiNetwork::begin(MPI_Comm comm, int tag, std::span<const Parcel> out,
                                                    std::span<const Parcel> in) {
  auto traffic = std::make_unique<MpiTraffic>(*this);
  for (const Parcel& parcel : in) traffic->receive(parcel, tag, comm);
  for (const Parcel& parcel : out) traffic->send(parcel, tag, comm);
  const std::lock_guard lock(traffic_mutex_);
  under_way_.insert(traffic.get());
  return traffic;
}

std::string MpiNetwork::awaited() {
  const std::lock_guard lock(traffic_mutex_);
  std::string out;
  for (const Traffic* traffic : under_way_) out += (out.empty() ? "" : "; ") + traffic->awaited();
  return out;
}

void MpiNetwork::forget(const Traffic& traffic) {
  const std::lock_guard lock(traffic_mutex_);
  under_way_.erase(&traffic);
}

bool MpiNetwork::has_deliveries() {
  const std::lock_guard lock(deliveries_mutex_);
  for (int r = 0; r < ranks_; ++r)
    if (delivered_[size_t(r)] < figures_[size_t(r)].deliveries) return false;
  return true;
}

/// Each rank sends a message to each other rank, so that it is known which one is missing; a message carries
/// the rank's figures for the report.
bool MpiNetwork::barrier(double timeout) {
  const RankSlot& slot = world_.rank(rank_);
  const auto bytes_of = [this](int r) { return reinterpret_cast<char*>(&figures_[size_t(r)]); };
  Figures& mine = figures_[size_t(rank_)];
  mine = {slot.peak_bytes.load(), slot.device_bytes.load(), deliveries_made_, {}};
  for (size_t i = 0; i < RankSlot::kFileSums; ++i) mine.file_sums[i] = slot.file_sums[i].load();
  std::vector<Parcel> out, in;
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    out.push_back({r, bytes_of(rank_), sizeof(Figures)});
    in.push_back({r, bytes_of(r), sizeof(Figures)});
  }
  const std::unique_ptr<Traffic> traffic = begin(barriers_, 0, out, in);
  Patience patience(timeout);
  for (int turn = 0; !traffic->is_done() || (rank_ == 0 && !has_deliveries()); ++turn) {
    if (world_.has_failed()) throw Failure{world_.failure(), ""};
    if (patience.is_over())
      fail(kTimedOut, "outside of steps: waited %g s for %s to come to the barrier of all ranks", timeout,
           traffic->awaited().c_str());
    back_off(turn);
  }
  for (int r = 0; r < ranks_; ++r) {
    world_.rank(r).peak_bytes.store(figures_[size_t(r)].peak_bytes);
    world_.rank(r).device_bytes.store(figures_[size_t(r)].device_bytes);
    for (size_t i = 0; i < RankSlot::kFileSums; ++i)
      world_.rank(r).file_sums[i].store(figures_[size_t(r)].file_sums[i]);
  }
  return true;
}

void MpiNetwork::send_news(int to, int tag, const void* data, size_t size) {
  const std::lock_guard lock(sending_mutex_);
  const char* bytes = static_cast<const char*>(data);
  PendingSend& sending = sendings_.emplace_back(PendingSend{std::vector<char>(bytes, bytes + size), MPI_REQUEST_NULL});
  check_mpi(MPI_Isend(sending.bytes.data(), int(size), MPI_BYTE, to, tag, news_, &sending.request), "news");
}

/// Frees messages that have been sent; true if none is left.
bool MpiNetwork::forget_sent() {
  const std::lock_guard lock(sending_mutex_);
  std::erase_if(sendings_, [](PendingSend& sending) {
    int done = 0;
    return MPI_Test(&sending.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
  return sendings_.empty();
}

void MpiNetwork::post(int to, const Word& word, uint32_t value) {
  const WordNews news{reinterpret_cast<const char*>(&word) - world_.memory(), value};
  send_news(to, kWordTag, &news, sizeof news);
}

void MpiNetwork::tell_failure(int, int code, const std::string&) {
  for (int r = 0; r < ranks_; ++r)
    if (r != rank_) send_news(r, kFailureTag, &code, sizeof code);
}

void MpiNetwork::deliver(const std::vector<char>& bytes) {
  ++deliveries_made_;
  size_t at = 0;
  for (; bytes.size() - at > size_t(kMost); at += size_t(kMost))
    send_news(0, kPieceTag, bytes.data() + at, size_t(kMost));
  send_news(0, kLastPieceTag, bytes.data() + at, bytes.size() - at);
}

std::vector<Delivery> MpiNetwork::take_deliveries() {
  const std::lock_guard lock(deliveries_mutex_);
  return std::exchange(deliveries_, {});
}

void MpiNetwork::take_one(int from, int tag, const std::vector<char>& bytes) {
  if (tag == kFailureTag) {
    int code = 0;
    memcpy(&code, bytes.data(), sizeof code);
    world_.note_failure(from, code);
  } else if (tag == kWordTag) {
    WordNews news = {};
    memcpy(&news, bytes.data(), sizeof news);
    world_.signal(from, *reinterpret_cast<Word*>(world_.memory() + news.offset), news.value);
  } else {
    const std::lock_guard lock(deliveries_mutex_);
    std::vector<char>& whole = partial_[size_t(from)];
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    if (tag != kLastPieceTag) return;
    deliveries_.push_back({from, std::exchange(whole, {})});
    ++delivered_[size_t(from)];
  }
}

/// Receives one message of the news communicator; false if no message has arrived.
bool MpiNetwork::take_news() {
  int found = 0, size = 0;
  MPI_Message message;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, news_, &found, &message, &status) != MPI_SUCCESS || found == 0)
    return false;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::vector<char> bytes(size_t(std::max(size, 1)));
  if (MPI_Mrecv(bytes.data(), size, MPI_BYTE, &message, &status) != MPI_SUCCESS) return false;
  bytes.resize(size_t(size));
  take_one(status.MPI_SOURCE, status.MPI_TAG, bytes);
  return true;
}

void MpiNetwork::serve() {
  while (!stop_) {
    while (take_news()) {
    }
    forget_sent();
    sleep_ns(kNewsEvery);
  }
}

/// A launcher that loses a machine sends SIGTERM to the ranks on the others; each then says in which step it
/// was.
void MpiNetwork::wait_for_end_signal() {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  constexpr timespec kSlice{0, 200'000'000};
  while (sigtimedwait(&end, nullptr, &kSlice) != SIGTERM)
    if (stop_) return;
  if (world_.has_failed()) _exit(world_.failure());
  std::string where;
  for (int s = 0; s < world_.shape.streams; ++s)
    if (const std::string step = world_.status(rank_, s); !step.empty()) where += (where.empty() ? "" : "; ") + step;
  const std::string missing = awaited();
  fprintf(stderr,
          "%s: %s: error: the launcher ended this rank, as it does where another rank or machine is gone; it was in %s "
          "and waited for %s\n",
          program_.c_str(), name_of(rank_).c_str(), where.empty() ? "its start" : where.c_str(),
          missing.empty() ? "no messages" : missing.c_str());
  _exit(kEnvironment);
}

}  // namespace weft
