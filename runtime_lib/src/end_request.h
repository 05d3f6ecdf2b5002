// Signals that ask a program to end: a training finishes its step and leaves a checkpoint, a server answers the
// requests that it has.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "world.h"

namespace weft {

/// What a program does that has something to finish.
struct Endable {
  enum class Kind : uint8_t { Nothing, Training, Server };
  Kind kind = Kind::Nothing;
  std::string socket = {};  // of a server
};

/// As long as this stands, SIGTERM asks the ranks that share `world` to end; of a server SIGINT and SIGHUP do too.
class EndRequests {
 public:
  /// What a second signal of this process does. A rank that another process of ours has started gets signals of a
  /// group of processes as well as that one does, and leaves it to that one to count them.
  enum class Second : uint8_t { EndsAtOnce, IsNothing };
  /// `socket`: that of a server, whose file goes too where it ends at once; empty: a training's signals, or a server's
  /// without a socket.
  EndRequests(const World& world, Second second, bool serves, const std::string& socket);
  ~EndRequests();
  EndRequests(const EndRequests&) = delete;
  EndRequests& operator=(const EndRequests&) = delete;

 private:
  const std::span<const int> signals_;
};

std::unique_ptr<EndRequests> hear_end_requests(const Endable& endable, const World& world,
                                               EndRequests::Second second = EndRequests::Second::EndsAtOnce);

}  // namespace weft
