// One thread polls all clients. A client that sends half a message, reads no answer or disconnects does not delay the
// others: its descriptors do not block, and unread answers wait in its own queue.
#include "channel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "failure.h"

namespace weft {

namespace {
constexpr int kLookAroundMs = 100;
/// An idle client keeps its place for at least this time.
constexpr int64_t kLeastIdleNs = 1'000'000'000;
/// The time that clients have to read answers when the server ends.
constexpr double kLastSeconds = 5;
constexpr size_t kMostClients = 256;
constexpr size_t kChunk = 1 << 16;
/// A buffer grown by a large message beyond this is not kept.
constexpr size_t kKeptBytes = 1 << 22;

bool is_would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// The inode number of the file; 0 if there is no file.
ino_t node_of(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}
}  // namespace

Connection::Connection(int in, int out, uint64_t most_bytes)
    : in_(in), out_(out), most_bytes_(most_bytes), moved_ns_(now_ns()) {}

Connection::~Connection() {
  if (in_ == out_) close(in_);
}

void Connection::answer_in_part(uint32_t code, std::string_view bytes) {
  if (is_sent()) queued_.clear(), sent_ = 0;
  if (queued_.capacity() > kKeptBytes) queued_.shrink_to_fit();
  queued_ += head_text({code, bytes.size()});
  queued_ += bytes;
  write_some();
}

void Connection::answer(uint32_t code, std::string_view bytes) {
  received_.erase(0, taken_);
  taken_ = 0;
  if (received_.empty() && received_.capacity() > kKeptBytes) received_.shrink_to_fit();
  answer_in_part(code, bytes);
}

void Connection::dismiss(uint32_t code, const std::string& why) {
  do answer(code, why);
  while (message());
  if (fault_.empty()) fault_ = why;
}

void Connection::refuse_rest(uint32_t code, const std::string& why) {
  if (in_ == out_ && !has_ended_ && !is_lost_) read_some();
  if (!received_.empty()) dismiss(code, why);
}

std::optional<IncomingMessage> Connection::refuse(const std::string& why) {
  answer(kWrongInput, why);
  return {};
}

/// Drops bytes of a refused message; true if more of them are to come.
bool Connection::skip() {
  const uint64_t here = std::min<uint64_t>(skipped_, received_.size());
  received_.erase(0, size_t(here));
  skipped_ -= here;
  if (skipped_ > 0 && has_ended_) skipped_ = 0;
  return skipped_ > 0;
}

/// Called when it is unknown where the next message begins.
std::optional<IncomingMessage> Connection::give_up(const std::string& why) {
  fault_ = why;
  return refuse(why);
}

bool Connection::has_turn() const {
  if (!is_sent() || !fault_.empty() || is_lost_ || received_.size() <= skipped_) return false;
  const std::string_view rest = std::string_view(received_).substr(size_t(skipped_));
  if (has_ended_ || !can_begin_message(rest)) return true;
  if (rest.size() < MessageHead::kBytes) return false;
  const uint64_t bytes = parse_head(rest).bytes;
  return bytes > most_bytes_ || rest.size() - MessageHead::kBytes >= bytes;
}

std::optional<IncomingMessage> Connection::message() {
  if (!is_sent() || !fault_.empty() || is_lost_ || skip() || received_.empty()) return {};
  if (!can_begin_message(received_)) return give_up("a message begins with 'WEFT'; this one does not");
  const bool has_head = received_.size() >= MessageHead::kBytes;
  const MessageHead head = has_head ? parse_head(received_) : MessageHead{};
  if (head.bytes > most_bytes_) {
    taken_ = MessageHead::kBytes;
    skipped_ = head.bytes;
    return refuse(text("the message has %lu bytes; %lu are the most that inputs of this program take",
                       static_cast<unsigned long>(head.bytes), static_cast<unsigned long>(most_bytes_)));
  }
  if (!has_head || received_.size() - MessageHead::kBytes < head.bytes) {
    if (!has_ended_) return {};
    return give_up(text("the stream ended inside a message, after %zu bytes of it", received_.size()));
  }
  taken_ = MessageHead::kBytes + size_t(head.bytes);
  has_asked_ = true;
  return IncomingMessage{head.word, std::string_view(received_).substr(MessageHead::kBytes, size_t(head.bytes))};
}

pollfd Connection::awaited() const {
  if (!is_sent()) return {out_, POLLOUT, 0};
  // It does not read on after a whole message. A socket still reports that its other end has closed.
  const bool is_read = !has_ended_ && !takes_no_more_ && !has_turn();
  return {is_read || in_ == out_ ? in_ : -1, short(is_read ? POLLIN : 0), 0};
}

void Connection::proceed() {
  if (is_sent())
    read_some();
  else
    write_some();
}

void Connection::read_some() {
  const size_t old = received_.size();
  received_.resize(old + kChunk);
  const ssize_t n = read(in_, received_.data() + old, kChunk);
  received_.resize(old + size_t(std::max<ssize_t>(n, 0)));
  if (n > 0) moved_ns_ = now_ns();
  if (n == 0) has_ended_ = true;
  if (n < 0 && !is_would_block(errno)) has_ended_ = is_lost_ = true;
}

void Connection::write_some() {
  while (!is_sent() && !is_lost_) {
    const char* from = queued_.data() + sent_;
    const size_t left = queued_.size() - sent_;
    const ssize_t n = in_ == out_ ? send(out_, from, left, MSG_NOSIGNAL) : write(out_, from, std::min(left, kChunk));
    if (n < 0 && is_would_block(errno)) return;
    if (n < 0)
      is_lost_ = true;
    else
      sent_ += size_t(n), moved_ns_ = now_ns();
  }
}

Channel::Channel(const ChannelOptions& options) : options_(options) {
  signal(SIGPIPE, SIG_IGN);  // a write to a client that has gone fails instead
  if (options.socket.empty())
    connections_.emplace_back(STDIN_FILENO, STDOUT_FILENO, options.most_bytes);
  else
    listen_at(options.socket);
}

Channel::~Channel() { stop_listening(); }

void Channel::stop_listening() {
  if (listener_ < 0) return;
  close(listener_);
  listener_ = -1;
  // Another server may have taken the path meanwhile. Its socket must stay.
  if (node_of(options_.socket) == node_) unlink(options_.socket.c_str());
  node_ = 0;
}

/// A socket without a listener is left over from a server that was killed.
void Channel::listen_at(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.c_str(), path.size());
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    if (connect(probe, name, sizeof address) == 0)
      close(probe), fail(kEnvironment, "--serve unix:%s: another server listens there", path.c_str());
    unlink(path.c_str());
  }
  close(probe);
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const mode_t mask = umask(0077);
  const bool is_bound = bind(listener_, name, sizeof address) == 0;
  const int reason = errno;
  umask(mask);
  if (is_bound && listen(listener_, SOMAXCONN) == 0) {
    node_ = node_of(path);
    return;
  }
  close(listener_);
  listener_ = -1;
  fail(kEnvironment, "--serve unix:%s: cannot listen there: %s", path.c_str(), strerror(is_bound ? errno : reason));
}

/// A client for which no descriptor is left stays in the queue. It is accepted at the earliest after another wait.
void Channel::accept_one() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  has_room_ = client >= 0 || is_would_block(errno) || errno == ECONNABORTED;
  if (client >= 0) connections_.emplace_back(client, client, options_.most_bytes);
  if (!has_room_) dismiss_idlest();
}

/// Dismisses clients that have neither sent nor received anything for too long.
void Channel::dismiss_silent() {
  if (options_.client_timeout <= 0 || options_.socket.empty()) return;
  const int64_t oldest = now_ns() - int64_t(options_.client_timeout * 1e9);
  for (Connection& c : connections_)
    if (c.moved_ns() < oldest && !c.has_turn())
      c.dismiss(kEnvironment, text("the client was silent for %g s (--client-timeout)", options_.client_timeout));
  connections_.remove_if([&](const Connection& c) { return c.moved_ns() < oldest && c.is_sending(); });
}

/// If all places are taken, dismisses the client that has been silent for longest, preferably one that has never sent a
/// request. False: all of them were active recently.
bool Channel::dismiss_idlest() {
  Connection* idlest = nullptr;
  const auto is_idler = [&](const Connection& c) {
    return idlest == nullptr ||
           std::pair(c.has_asked(), c.moved_ns()) < std::pair(idlest->has_asked(), idlest->moved_ns());
  };
  for (Connection& c : connections_)
    if (&c != current_ && !c.has_turn() && now_ns() - c.moved_ns() >= kLeastIdleNs && is_idler(c)) idlest = &c;
  if (idlest == nullptr) return false;
  idlest->dismiss(kEnvironment, "another client needs the place of this one, which was silent");
  const auto is_idlest = [&](const Connection& c) { return &c == idlest; };
  connections_.remove_if(is_idlest);
  return true;
}

/// Waits until data can be read or written, at most for this time.
void Channel::wait(int milliseconds) {
  if (connections_.size() >= kMostClients && listener_ >= 0) {
    pollfd more = {listener_, POLLIN, 0};
    if (poll(&more, 1, 0) > 0) dismiss_idlest();
  }
  // One entry per client: the system accepts no more entries than a process may have descriptors.
  std::vector<pollfd> polled;
  for (const Connection& c : connections_) polled.push_back(c.awaited());
  const bool takes_more = listener_ >= 0 && has_room_ && connections_.size() < kMostClients;
  has_room_ |= milliseconds > 0;
  polled.push_back({takes_more ? listener_ : -1, POLLIN, 0});
  if (const int found = poll(polled.data(), polled.size(), milliseconds); found < 0) {
    if (errno == EINTR) return;
    fail(kEnvironment, "cannot wait for clients: %s", strerror(errno));
  }
  size_t at = 0;
  for (Connection& c : connections_) {
    const short events = polled[at++].revents;
    if ((events & (POLLHUP | POLLERR)) != 0) c.hang_up();
    if (events != 0) c.proceed();
  }
  if (polled[at].revents != 0) accept_one();
}

/// Without a socket there is one client, and no other will come.
void Channel::check_standard_streams() const {
  const Connection& only = connections_.front();
  if (only.is_lost())
    fail(kEnvironment, "cannot read requests from standard input, or write answers to standard output");
  if (only.is_over() && !only.fault().empty()) fail(kWrongInput, "standard input: %s", only.fault().c_str());
}

bool Channel::has_turn() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const Connection& c) { return c.has_turn(); });
}

std::optional<IncomingMessage> Channel::take_turn() {
  for (auto c = connections_.begin(); c != connections_.end(); ++c) {
    std::optional<IncomingMessage> message = c->message();
    if (!message) continue;
    current_ = &*c;
    connections_.splice(connections_.end(), connections_, c);  // the others come first next time
    return message;
  }
  return {};
}

bool Channel::is_sending() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const Connection& c) { return c.is_sending(); });
}

std::optional<IncomingMessage> Channel::next() {
  current_ = nullptr;
  if (!draining_ || is_sending()) wait(has_turn() ? 0 : kLookAroundMs);
  std::optional<IncomingMessage> message = take_turn();
  if (message) {
    if (draining_) draining_.emplace(kLastSeconds);
    return message;
  }
  if (options_.socket.empty() && !connections_.empty()) check_standard_streams();
  dismiss_silent();
  connections_.remove_if([](const Connection& c) { return c.is_over(); });
  return {};
}

bool Channel::is_over() {
  if (draining_) return !has_turn() && (!is_sending() || draining_->is_over());
  return options_.socket.empty() && connections_.empty();
}

void Channel::answer(uint32_t code, std::string_view bytes) { current_->answer(code, bytes); }

bool Channel::answer_in_part(uint32_t code, std::string_view bytes) {
  current_->answer_in_part(code, bytes);
  return !current_->has_hung_up();
}

bool Channel::look() {
  if (!draining_) wait(0);
  return !current_->has_hung_up();
}

void Channel::drain() {
  if (draining_) return;
  wait(0);
  for (Connection& c : connections_) c.take_no_more();
  stop_listening();
  draining_.emplace(kLastSeconds);
}

void Channel::finish() {
  for (Connection& c : connections_) c.refuse_rest(kEnvironment, "the server ends, and takes no more requests");
  for (Patience patience(kLastSeconds); is_sending() && !patience.is_over();) wait(kLookAroundMs);
}

}  // namespace weft
