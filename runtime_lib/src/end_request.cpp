// What a handler of signals may touch is global: nothing else reaches it.
#include "end_request.h"

#include <signal.h>
#include <unistd.h>

namespace weft {

namespace {

std::atomic<Word*> asked;
std::atomic<bool> ends_at_once;
std::atomic<int> heard;  // by this process: others may have asked through the same word

void note_signal(int) {
  Word* word = asked.load();
  if (word == nullptr) return;
  if (heard.fetch_add(1) > 0 && ends_at_once.load()) _exit(kTerminated);
  word->store(1);
}

}  // namespace

EndRequests::EndRequests(const World& world, Second second) {
  heard.store(0);
  asked.store(&world.end_asked());
  ends_at_once.store(second == Second::EndsAtOnce);
  struct sigaction action = {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
}

EndRequests::~EndRequests() {
  signal(SIGTERM, SIG_DFL);
  asked.store(nullptr);
}

}  // namespace weft
