// The socket has an abstract name, which belongs to no file and vanishes with the socket. Messages are whole packets. A
// rank sends its number and its agreement; rank 0 answers all of them once, with the memory or with an error.
//
//   rank 1   Hello{rank, agreement}  ->                       Answer{ok} + memory
//   rank 2   Hello{rank, agreement}  ->   rank 0    ->        Answer{ok} + memory
#include "meeting.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "wait.h"

namespace weft {

namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'M', 'E', 'E', 'T'};
constexpr int kLookMs = 50;

struct Hello {
  char magic[8];
  uint32_t bytes;  // of this struct: another build may have another
  int32_t rank;
  Agreement agreement;
};
struct Answer {
  int32_t code;
  char text[1020];
};

/// A descriptor that is closed by its owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor new_socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

/// The abstract name of the job's socket; one that is too long keeps its beginning and a number for all of it.
struct Address {
  explicit Address(const std::string& job) {
    std::string name = text("weft-%d-%s", int(getuid()), job.c_str());
    constexpr size_t kMost = 90;
    uint64_t hash = 14695981039346656037u;
    for (const char c : name) hash = (hash ^ uint8_t(c)) * 1099511628211u;
    if (name.size() > kMost) name = name.substr(0, kMost - 17) + text("-%016lx", static_cast<unsigned long>(hash));
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), name.size());
    bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address = {};
  socklen_t bytes = 0;
};

/// Anybody on the machine may connect to an abstract name, or take it.
bool is_ours(int fd) {
  ucred peer = {};
  socklen_t bytes = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == getuid();
}

void send_answer(int to, const Answer& answer, int memory) {
  iovec part{const_cast<Answer*>(&answer), sizeof answer};
  msghdr message = {};
  message.msg_iov = &part, message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (memory >= 0) {
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &memory, sizeof memory);
  }
  sendmsg(to, &message, MSG_NOSIGNAL);
}

/// The answer and the memory that came with it; nothing where rank 0 is gone.
std::optional<std::pair<Answer, Descriptor>> receive_answer(int from) {
  Answer answer = {};
  iovec part{&answer, sizeof answer};
  msghdr message = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != ssize_t{sizeof answer}) return {};
  int memory = -1;
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head != nullptr && head->cmsg_type == SCM_RIGHTS) memcpy(&memory, CMSG_DATA(head), sizeof memory);
  return std::pair(answer, Descriptor(memory));
}

std::string rank_text(int rank) { return text("rank %d", rank); }

/// Rank 0's part: it waits for the others and answers them.
class Host {
 public:
  Host(const WorldShape& shape, const Launched& launched, const Agreement& agreement, double timeout)
      : shape_(shape),
        agreement_(agreement),
        timeout_(timeout),
        patience_(timeout),
        guests_(size_t(shape.ranks)),
        has_come_(size_t(shape.ranks)) {
    has_come_[0] = true;
    listen_at(launched.job);
  }

  World run() {
    const Descriptor memory(make_segment(World::bytes_of(shape_)));
    while (!failure_ && !missing().empty()) {
      if (patience_.is_over())
        note({kTimedOut, text("rank 0 waited %g s for ranks that did not come: %s", timeout_, missing().c_str())});
      look();
    }
    if (failure_) fail_all();
    for (const Descriptor& guest : guests_)
      if (guest.get() >= 0) send_answer(guest.get(), {kOk, ""}, memory.get());
    return attach_world(shape_, dup(memory.get()));
  }

 private:
  /// Another job of this name may be ending.
  void listen_at(const std::string& job) {
    const Address address(job);
    listener_ = new_socket();
    while (bind(listener_.get(), address.get(), address.bytes) != 0) {
      const int reason = errno;
      if (reason == EADDRINUSE && !patience_.is_over()) {
        usleep(10'000);
        continue;
      }
      fail(kEnvironment, "rank 0 cannot wait for the other ranks as job %s: %s", job.c_str(), strerror(reason));
    }
    if (listen(listener_.get(), shape_.ranks) != 0)
      fail(kEnvironment, "rank 0 cannot wait for the other ranks: %s", strerror(errno));
  }

  /// The numbers of the ranks that have not come; empty: none.
  std::string missing() const {
    std::string out;
    for (size_t r = 1; r < guests_.size(); ++r)
      if (!has_come_[r]) out += (out.empty() ? "" : ", ") + std::to_string(r);
    return out;
  }

  void note(Failure failure) {
    if (!failure_) failure_ = std::move(failure);
  }

  /// Accepts ranks that have connected, and notices those that have gone.
  void look() {
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const auto* list : {&strangers_, &guests_})
      for (const Descriptor& one : *list) polled.push_back({one.get(), POLLIN, 0});
    poll(polled.data(), polled.size(), kLookMs);
    Descriptor come(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (come.get() >= 0 && is_ours(come.get())) strangers_.push_back(std::move(come));
    for (Descriptor& stranger : strangers_) hear(stranger);
    std::erase_if(strangers_, [](const Descriptor& one) { return one.get() < 0; });
    for (size_t r = 1; r < guests_.size(); ++r) {
      char byte = 0;  // a rank that waits says nothing more
      if (guests_[r].get() < 0 || recv(guests_[r].get(), &byte, 1, MSG_PEEK) != 0) continue;
      note({kEnvironment, text("rank %zu ended before all ranks had come", r)});
    }
  }

  /// Closes a connection that sends anything else than a rank would.
  void hear(Descriptor& stranger) {
    Hello hello = {};
    const ssize_t bytes = recv(stranger.get(), &hello, sizeof hello, 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    Descriptor guest(std::exchange(stranger, Descriptor()));
    if (bytes < ssize_t{offsetof(Hello, agreement)} || memcmp(hello.magic, kMagic, sizeof kMagic) != 0) return;
    const int rank = hello.rank;
    const bool is_new = rank > 0 && rank < shape_.ranks && !has_come_[size_t(rank)];
    if (is_new) has_come_[size_t(rank)] = true;
    Disagreement found;
    if (bytes != ssize_t{sizeof hello} || hello.bytes != sizeof hello)
      found = {kEnvironment, text("rank %d runs another program than rank 0: one of another version", rank)};
    else
      found = compare(rank_text(rank), hello.agreement, rank_text(0), agreement_);
    if (found.text.empty() && !is_new)
      found = {kEnvironment, text("rank %d has come twice, or is no rank of this job", rank)};
    if (found.text.empty()) {
      guests_[size_t(rank)] = std::move(guest);
      return;
    }
    note({found.code, found.text});
    others_.push_back(std::move(guest));
  }

  /// Tells all, those too that come within a moment.
  [[noreturn]] void fail_all() {
    Answer answer = {failure_->code, ""};
    snprintf(answer.text, sizeof answer.text, "%s", failure_->text.c_str());
    for (Patience moment(1); !missing().empty() && failure_->code != kTimedOut && !moment.is_over();) look();
    for (const auto* list : {&others_, &guests_})
      for (const Descriptor& one : *list)
        if (one.get() >= 0) send_answer(one.get(), answer, -1);
    throw Failure{failure_->code, failure_->text, -1, true};
  }

  const WorldShape& shape_;
  const Agreement& agreement_;
  const double timeout_;
  Patience patience_;
  Descriptor listener_;
  std::vector<Descriptor> strangers_;  // connections that have not introduced themselves
  std::vector<Descriptor> guests_;     // by rank; none for rank 0
  std::vector<Descriptor> others_;     // connections that will get the reason for their refusal
  std::vector<bool> has_come_;         // by rank
  std::optional<Failure> failure_;
};

/// A connection to rank 0; nothing while it is not there.
std::optional<Descriptor> call_host(const Address& address) {
  Descriptor socket = new_socket();
  if (connect(socket.get(), address.get(), address.bytes) != 0 || !is_ours(socket.get())) return {};
  return socket;
}

/// Any other rank's part.
World visit(const WorldShape& shape, const Launched& launched, const Agreement& agreement, double timeout) {
  const Address address(launched.job);
  Patience patience(timeout);
  std::optional<Descriptor> host;
  while (!(host = call_host(address))) {
    if (patience.is_over())
      fail(kTimedOut, "rank %d waited %g s for rank 0 of job %s, which did not come", launched.rank, timeout,
           launched.job.c_str());
    usleep(10'000);
  }
  Hello hello = {{}, sizeof hello, launched.rank, agreement};
  memcpy(hello.magic, kMagic, sizeof kMagic);
  if (send(host->get(), &hello, sizeof hello, MSG_NOSIGNAL) < 0)
    fail(kEnvironment, "rank 0 ended before all ranks had come");
  constexpr double kGrace = 2;  // rank 0 knows better who is missing: let it speak first
  pollfd polled = {host->get(), POLLIN, 0};
  for (Patience whole(timeout + kGrace); poll(&polled, 1, kLookMs) <= 0;)
    if (whole.is_over())
      fail(kTimedOut, "rank %d waited %g s for rank 0, which has not heard of all ranks", launched.rank, timeout);
  const auto answer = receive_answer(host->get());
  if (!answer) fail(kEnvironment, "rank 0 ended before all ranks had come");
  if (answer->first.code != kOk) throw Failure{answer->first.code, answer->first.text, -1, true};
  return attach_world(shape, dup(answer->second.get()));
}

}  // namespace

int make_segment(int64_t bytes) {
  const int fd = memfd_create("weft", MFD_CLOEXEC);
  // Memory that is missing shows here and not as a signal later.
  const int error = fd < 0 ? errno : posix_fallocate(fd, 0, bytes);
  if (error != 0) fail(kEnvironment, "cannot get %ld bytes of shared memory: %s", long(bytes), strerror(error));
  return fd;
}

World meet(const WorldShape& shape, const Launched& launched, const Agreement& agreement, double timeout) {
  if (launched.job.empty())
    fail(kEnvironment, "RANK and WORLD_SIZE are set, but MASTER_PORT is not: ranks cannot find each other");
  if (launched.rank == 0) return Host(shape, launched, agreement, timeout).run();
  return visit(shape, launched, agreement, timeout);
}

}  // namespace weft
