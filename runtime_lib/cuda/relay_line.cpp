// Sockets, and frames over them. A frame is a head (magic, kind, rank, length) with its data; a connection from
// anything but a rank is recognised by its first bytes and closed, not waited for.
#include "relay_line.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "wait.h"

namespace weft {

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

namespace {

void set_flag(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

bool poll_for(int fd, short what, int64_t ns) {
  pollfd one{fd, what, 0};
  return poll(&one, 1, int(std::clamp<int64_t>((ns + 999'999) / 1'000'000, 0, 3'600'000))) > 0;
}

/// A socket that listens at the port. IPv6 sockets take IPv4 connections as well; a machine without IPv6 gets
/// an IPv4 socket.
Socket bind_to(int family, int port) {
  Socket out(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.is_open()) return out;
  set_flag(out.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_storage address = {};
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    set_flag(out.fd(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6, v6.sin6_port = htons(uint16_t(port)), v6.sin6_addr = in6addr_any;
    size = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET, v4.sin_port = htons(uint16_t(port)), v4.sin_addr.s_addr = INADDR_ANY;
  }
  const bool is_bound = bind(out.fd(), reinterpret_cast<sockaddr*>(&address), size) == 0;
  return is_bound && listen(out.fd(), SOMAXCONN) == 0 ? std::move(out) : Socket();
}

/// 0 if the connection came about within `ns`, else the error's number.
int connect_within(int fd, const addrinfo& to, int64_t ns) {
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!poll_for(fd, POLLOUT, ns)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Socket listen_at(const Root& root) {
  for (const int family : {AF_INET6, AF_INET})
    if (Socket out = bind_to(family, root.port); out.is_open()) return out;
  fail(kEnvironment, "rank 0 cannot listen at port %d (%s): %s", root.port, root.source.c_str(), strerror(errno));
}

Socket accept_at(const Socket& listener) {
  Socket out(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (out.is_open()) set_flag(out.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  return out;
}

Socket dial(const Root& root, int64_t deadline, std::string& why) {
  constexpr int64_t kPatience = 2'000'000'000;  // with one address
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(root.host.c_str(), std::to_string(root.port).c_str(), &hints, &found);
  if (error == EAI_AGAIN) return why = gai_strerror(error), Socket();
  if (error != 0)
    fail(kEnvironment, "the host of rank 0, '%s' (%s), has no address: %s", root.host.c_str(), root.source.c_str(),
         gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Socket out(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int failed = out.is_open() ? connect_within(out.fd(), *a, std::min(kPatience, deadline - now_ns())) : errno;
    if (failed != 0) {
      why = strerror(failed);
      continue;
    }
    set_flag(out.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
    return out;
  }
  return Socket();
}

bool wait_readable(int fd, int64_t ns) { return poll_for(fd, POLLIN, ns); }

namespace {

constexpr uint32_t kMagic = 0x54464557;  // the first bytes of every frame; a stranger's differ

struct Head {
  uint32_t magic;
  FrameKind kind;
  int64_t rank;
  uint64_t bytes;
};

}  // namespace

Line::Line(Socket socket) : socket_(std::move(socket)), heard_ns_(now_ns()) {}

// Sends all bytes; false if the other end is gone or takes nothing for too long.
bool Line::send_bytes(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::send(socket_.fd(), data, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      data += n, bytes -= size_t(n);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!poll_for(socket_.fd(), POLLOUT, int64_t(patience * 1e9))) {
      return false;
    }
  }
  return true;
}

bool Line::send(FrameKind kind, int rank, const void* data, size_t bytes) {
  const std::lock_guard guard(sending_);
  const Head head{kMagic, kind, rank, bytes};
  if (bytes > kBlock)
    return send_bytes(reinterpret_cast<const char*>(&head), sizeof head) &&
           send_bytes(static_cast<const char*>(data), bytes);
  std::vector<char> whole(sizeof head + bytes);  // one packet
  memcpy(whole.data(), &head, sizeof head);
  if (bytes > 0) memcpy(whole.data() + sizeof head, data, bytes);
  return send_bytes(whole.data(), whole.size());
}

void Line::finish() {
  const std::lock_guard guard(sending_);
  shutdown(socket_.fd(), SHUT_WR);
}

Line::Got Line::receive(size_t most, const std::function<void(const Frame&)>& take) {
  for (;;) {
    inbox_.resize(std::max(filled_ + kBlock, wanted_));
    const ssize_t n = recv(socket_.fd(), inbox_.data() + filled_, inbox_.size() - filled_, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Got::More;
    if (n <= 0) return has_ended = true, Got::End;
    filled_ += size_t(n);
    heard_ns_ = now_ns();
    if (const Got got = take_frames(most, take); got != Got::More) return has_ended = true, got;
  }
}

// Passes on complete frames, and keeps the beginning of the next one.
Line::Got Line::take_frames(size_t most, const std::function<void(const Frame&)>& take) {
  size_t at = 0;
  for (;;) {
    Head head = {kMagic, FrameKind::Beat, 0, 0};
    const size_t left = filled_ - at;
    memcpy(&head, inbox_.data() + at, std::min(left, sizeof head));
    // Bytes not yet received keep their expected values, so that a stranger is recognised from its first bytes.
    if (head.magic != kMagic || head.kind > FrameKind::Bye || head.bytes > most) return Got::Nonsense;
    wanted_ = sizeof head + head.bytes;
    if (left < wanted_) break;
    take({head.kind, int(head.rank), inbox_.data() + at + sizeof head, size_t(head.bytes)});
    at += wanted_;
  }
  std::copy(inbox_.begin() + ptrdiff_t(at), inbox_.begin() + ptrdiff_t(filled_), inbox_.begin());
  filled_ -= at;
  return Got::More;
}

}  // namespace weft
