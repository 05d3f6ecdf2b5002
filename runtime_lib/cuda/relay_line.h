// Frames between two ranks over one TCP connection. Ranks on several machines say over it what ranks on one
// machine read from shared memory: that they live, in which step they are, that they have come to a barrier or
// have failed.
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
/// The next connection; not open if nobody has come.
Socket accept_at(const Socket& listener);
/// Makes one attempt at every address of the host, until `deadline` (now_ns). If the result is not open, `why`
/// says more. Throws Failure (environment) if the host has no address.
Socket dial(const Root& root, int64_t deadline, std::string& why);
/// Waits until something can be read; false if nothing comes within `ns`.
bool wait_readable(int fd, int64_t ns);

/// What a frame tells. Hello, Welcome, Refusal and Start are the handshake; Barrier says that a rank has come,
/// and Go that all have; Bye says that an end of the connection is no failure.
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

/// A frame as it has come; `data` is valid until the call that hands it on returns.
struct Frame {
  FrameKind kind;
  int rank;  // that it tells of
  const char* data;
  size_t bytes;
  /// The data as a plain struct; empty: they are none.
  template <class T>
  std::optional<T> as() const {
    T out;
    if (bytes != sizeof out) return std::nullopt;
    memcpy(&out, data, sizeof out);
    return out;
  }
};

/// One end of a connection. Any thread sends, one receives.
class Line {
 public:
  explicit Line(Socket socket);

  /// False: the other end is gone, or has taken nothing for `patience` seconds.
  bool send(FrameKind kind, int rank, const void* data, size_t bytes);
  template <class T>
  bool send(FrameKind kind, int rank, const T& plain) {
    return send(kind, rank, &plain, sizeof plain);
  }
  /// Nothing more will be sent.
  void finish();

  enum class Got { More, End, Nonsense };
  /// Hands on the frames that have come, none of more than `most` bytes.
  Got receive(size_t most, const std::function<void(const Frame&)>& take);

  int fd() const { return socket_.fd(); }
  int64_t heard_ns() const { return heard_ns_; }
  /// A large frame has come in part.
  bool is_amid() const { return filled_ > 0 && wanted_ > kBlock; }

  double patience = 60;
  std::atomic<bool> has_ended{false};  // nothing comes any more
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
