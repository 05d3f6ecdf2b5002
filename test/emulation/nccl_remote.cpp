#include "nccl_remote.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace weft::emulation {

namespace {

bool read_all(int fd, void* to, size_t bytes) {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = recv(fd, at, bytes, 0);
    if (n <= 0) return false;
    at += n, bytes -= size_t(n);
  }
  return true;
}

bool write_all(int fd, const void* from, size_t bytes) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n, bytes -= size_t(n);
  }
  return true;
}

template <class T>
bool read_plain(int fd, T& to) {
  return read_all(fd, &to, sizeof to);
}

/// Bytes to send as one.
struct Package {
  std::vector<char> bytes;
  void add(const void* data, size_t n) {
    bytes.insert(bytes.end(), static_cast<const char*>(data), static_cast<const char*>(data) + n);
  }
  template <class T>
  void add(const T& plain) {
    add(&plain, sizeof plain);
  }
};

/// How a rank comes to the switch.
struct Joining {
  ncclUniqueId id;
  int ranks, rank, device;
  char host[64];
};

/// One call on its way; what it reads follows.
struct RemoteCall {
  Kind kind;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int peer;
};

/// The switch's answer, instead of the number of an operation, if a rank is gone.
constexpr uint64_t kBroken = 0;

/// The connections of a team.
struct Port {
  Lock lock;
  std::vector<int> fds;
  std::vector<Joining> ranks;
  int joined = 0;
};

Port& port_of(const Joining& who) {
  static auto& ports = *new std::map<std::string, Port>;
  const Guard guard(state_lock());
  Port& port = ports[std::string(who.id.internal, sizeof who.id.internal)];
  port.fds.resize(size_t(who.ranks), -1);
  port.ranks.resize(size_t(who.ranks));
  return port;
}

bool share_device(const Port& port) {
  for (size_t a = 0; a < port.ranks.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (port.ranks[a].device == port.ranks[b].device && strcmp(port.ranks[a].host, port.ranks[b].host) == 0)
        return true;
  return false;
}

/// Answers all ranks when the last has come.
void join_port(Port& port, const Joining& who, int fd) {
  const Guard guard(port.lock);
  port.fds[size_t(who.rank)] = fd;
  port.ranks[size_t(who.rank)] = who;
  if (++port.joined < who.ranks) return;
  const int answer = share_device(port) ? 1 : 0;
  for (const int each : port.fds) write_all(each, &answer, sizeof answer);
}

void send_results(Port& port, int fd, uint64_t number, const std::vector<std::vector<char>>& results) {
  Package package;
  package.add(number);
  for (const std::vector<char>& result : results) package.add(result.data(), result.size());
  const Guard guard(port.lock);
  write_all(fd, package.bytes.data(), package.bytes.size());
}

/// The memory of an operation's calls while the switch has them.
struct Held {
  std::vector<std::vector<char>> in, out;
};

bool serve_operation(Port& port, Team& team, const Joining& who, int fd) {
  uint64_t number = 0, count = 0;
  if (!read_plain(fd, number) || !read_plain(fd, count)) return false;
  const auto held = std::make_shared<Held>();
  std::vector<Call> calls;
  for (uint64_t i = 0; i < count; ++i) {
    RemoteCall remote;
    if (!read_plain(fd, remote)) return false;
    Call call{remote.kind, nullptr, nullptr, remote.count, remote.type, remote.op, remote.peer};
    const Extent extent = extent_of(call, who.rank, who.ranks);
    if (!read_all(fd, held->in.emplace_back(extent.in).data(), extent.in)) return false;
    call.from = held->in.back().data();
    call.to = held->out.emplace_back(extent.out).data();
    calls.push_back(call);
  }
  arrive(team, who.rank, calls,
         new Batch{nullptr, int(count), [&port, fd, number, held] { send_results(port, fd, number, held->out); }});
  return true;
}

void serve_rank(int fd) {
  Joining who;
  if (!read_plain(fd, who)) return;
  Port& port = port_of(who);
  const std::shared_ptr<Team> team = team_of(who.id, who.ranks);
  join_port(port, who, fd);
  while (serve_operation(port, *team, who, fd)) {
  }
  const Guard guard(port.lock);
  for (const int other : port.fds)
    if (other >= 0 && other != fd) write_all(other, &kBroken, sizeof kBroken);
}

/// As NCCL does: the first address that others can reach.
std::string own_address() {
  std::string out = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (const ifaddrs* a = all; a != nullptr; a = a->ifa_next) {
    if (a->ifa_addr == nullptr || a->ifa_addr->sa_family != AF_INET || (a->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a->ifa_addr)->sin_addr, text, sizeof text);
    out = text;
    break;
  }
  freeifaddrs(all);
  return out;
}

void serve_all(int listener) {
  for (int fd; (fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    const int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::thread(serve_rank, fd).detach();
  }
}

/// The port at which the switch listens.
int start_switch() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("the emulation of NCCL cannot listen: %s", strerror(errno));
  std::thread(serve_all, listener).detach();
  return ntohs(address.sin_port);
}

}  // namespace

void make_remote_id(ncclUniqueId* id) {
  static const int port = start_switch();
  static std::atomic<int> count{0};
  snprintf(id->internal, sizeof id->internal, "%s %d communicator %d", own_address().c_str(), port, count.fetch_add(1));
}

std::shared_ptr<RemoteTeam> join_remote(const ncclUniqueId& id, int ranks, int rank, int device, std::string& why) {
  char host[64];
  int port = 0;
  if (sscanf(id.internal, "%63s %d", host, &port) != 2) return why = "this is no unique id", nullptr;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return why = strerror(errno), close(fd), nullptr;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  Joining me = {id, ranks, rank, device, {}};
  gethostname(me.host, sizeof me.host - 1);
  int answer = 0;
  if (!write_all(fd, &me, sizeof me) || !read_plain(fd, answer)) return why = "a rank is gone", close(fd), nullptr;
  if (answer != 0)
    return why = "Duplicate GPU detected: two ranks of a communicator are on one device", close(fd), nullptr;
  auto out = std::make_shared<RemoteTeam>(fd, rank, ranks);
  std::thread([out] { out->receive(); }).detach();
  return out;
}

void RemoteTeam::arrive(const std::vector<Call>& calls, Operation& operation) {
  const QuietGuard guard(sending_);
  uint64_t number = 0;
  {
    const Guard pending(lock_);
    number = ++last_;
    pending_[number] = {&operation, calls};
  }
  Package package;
  package.add(number);
  package.add(uint64_t(calls.size()));
  for (const Call& call : calls) {
    package.add(RemoteCall{call.kind, call.count, call.type, call.op, call.peer});
    package.add(call.from, extent_of(call, rank_, size).in);
  }
  if (!write_all(fd_, package.bytes.data(), package.bytes.size())) broken_ = true;
}

std::optional<RemoteTeam::Pending> RemoteTeam::take(uint64_t number) {
  const QuietGuard guard(lock_);
  const auto found = pending_.find(number);
  if (found == pending_.end()) return std::nullopt;
  std::optional<Pending> out(std::move(found->second));
  pending_.erase(found);
  return out;
}

void RemoteTeam::leave() {
  const QuietGuard guard(lock_);
  for (const auto& [number, pending] : pending_) complete(*pending.operation);
  pending_.clear();
  broken_ = true;
}

/// Results are those of the calls in order.
void RemoteTeam::receive() {
  bool is_whole = true;
  for (uint64_t number = 0; is_whole && read_plain(fd_, number) && number != kBroken;) {
    const std::optional<Pending> pending = take(number);
    if (!pending) break;
    for (const Call& call : pending->calls)
      is_whole = is_whole && read_all(fd_, call.to, extent_of(call, rank_, size).out);
    complete(*pending->operation);
  }
  broken_ = true;
}

}  // namespace weft::emulation
