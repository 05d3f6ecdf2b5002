// Frames between two ranks over one TCP connection. Ranks on several machines send over it what ranks on one machine
// read from shared memory: that they are alive, their step, their arrival at a barrier, their failure.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "root.h"

namespace weft {

/// A file descriptor that is closed by its owner.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Listens on all addresses of this machine. Throws Failure (environment).
Socket listen_at(const Root& root);
/// The next connection; not open if nobody has connected.
Socket accept_at(const Socket& listener);
/// Makes one attempt at every address of the host, until `deadline` (now_ns). If the result is not open, `why`
/// says more. Throws Failure (environment) if the host has no address.
Socket dial(const Root& root, int64_t deadline, std::string& why);
/// Waits until there is data to read; false if none arrives within `ns`.
bool wait_readable(int fd, int64_t ns);

/// The kind of a frame. Hello, Welcome, Refusal and Start are the handshake. Barrier says that a rank has arrived, Go
/// that all have. Bye says that the end of the connection is not a failure.
enum class FrameKind : uint32_t {
  Hello,
  Welcome,
  Refusal,
  Start,
  Beat,
  Status,
  Note,
  Barrier,
  Go,
  Delivery,
  Failure,
  Bye
};

/// A received frame. `data` is valid until the callback that takes it returns.
struct Frame {
  FrameKind kind;
  int rank;  // the rank that it is about
  const char* data;
  size_t bytes;
  /// The data as a plain struct; nullopt if the size differs.
  template <class T>
  std::optional<T> as() const {
    T out;
    if (bytes != sizeof out) return std::nullopt;
    memcpy(&out, data, sizeof out);
    return out;
  }
};

/// One end of a connection. Any thread may send, one thread receives.
class Line {
 public:
  explicit Line(Socket socket);

  /// False: the other end is gone, or has received nothing for `patience` seconds.
  bool send(FrameKind kind, int rank, const void* data, size_t bytes);
  template <class T>
  bool send(FrameKind kind, int rank, const T& plain) {
    return send(kind, rank, &plain, sizeof plain);
  }
  /// Nothing more will be sent.
  void finish();

  enum class Got { More, End, Nonsense };
  /// Passes received frames to `take`; a frame of more than `most` bytes is Nonsense.
  Got receive(size_t most, const std::function<void(const Frame&)>& take);

  int fd() const { return socket_.fd(); }
  int64_t heard_ns() const { return heard_ns_; }
  /// Whether a large frame has been received partly.
  bool is_amid() const { return filled_ > 0 && wanted_ > kBlock; }

  double patience = 60;
  std::atomic<bool> has_ended{false};  // nothing more will be received
  bool said_bye = false;

 private:
  static constexpr size_t kBlock = 65536;

  bool send_bytes(const char* data, size_t bytes);
  Got take_frames(size_t most, const std::function<void(const Frame&)>& take);

  Socket socket_;
  std::mutex sending_;
  std::vector<char> inbox_;
  size_t filled_ = 0, wanted_ = 0;
  int64_t heard_ns_;
};

}  // namespace weft
