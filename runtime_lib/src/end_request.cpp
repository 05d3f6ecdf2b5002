// A signal handler can access only global data.
#include "end_request.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace weft {

namespace {

constexpr int kOfTraining[] = {SIGTERM}, kOfServer[] = {SIGTERM, SIGINT, SIGHUP};

std::atomic<const World*> asked;
std::atomic<bool> ends_at_once;
std::atomic<int> heard;  // by this process: others may have asked through the same word
char socket_path[128];   // longer than a socket's path can be

/// Another server may have taken the path meanwhile.
void remove_socket(const World& world) {
  struct stat status = {};
  const uint64_t node = world.socket_node().load();
  if (node != 0 && *socket_path != '\0' && stat(socket_path, &status) == 0 && status.st_ino == node)
    unlink(socket_path);
}

void note_signal(int) {
  const World* world = asked.load();
  if (world == nullptr) return;
  if (heard.fetch_add(1) > 0 && ends_at_once.load()) {
    remove_socket(*world);
    _exit(kTerminated);
  }
  world->end_asked().store(1);
}

}  // namespace

EndRequests::EndRequests(const World& world, Second second, bool serves, const std::string& socket)
    : signals_(serves ? std::span<const int>(kOfServer) : std::span<const int>(kOfTraining)) {
  snprintf(socket_path, sizeof socket_path, "%s", socket.c_str());
  heard.store(0);
  asked.store(&world);
  ends_at_once.store(second == Second::EndsAtOnce);
  struct sigaction action = {}, before = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : signals_)  // ignored signals, as by nohup, stay ignored
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

EndRequests::~EndRequests() {
  struct sigaction now = {};
  for (const int number : signals_)
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == note_signal) signal(number, SIG_DFL);
  asked.store(nullptr);
}

std::unique_ptr<EndRequests> hear_end_requests(const Endable& endable, const World& world, EndRequests::Second second) {
  if (endable.kind == Endable::Kind::Nothing) return nullptr;
  return std::make_unique<EndRequests>(world, second, endable.kind == Endable::Kind::Server, endable.socket);
}

}  // namespace weft
