// Signals that ask a program to end: a training finishes its step and leaves a checkpoint, a server answers the
// requests that it has.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "world.h"

namespace weft {

/// The kind of a program that has work to finish before it ends.
struct Endable {
  enum class Kind : uint8_t { Nothing, Training, Server };
  Kind kind = Kind::Nothing;
  std::string socket = {};  // of a server
};

/// While this object exists, SIGTERM asks the ranks that share `world` to end. In a server SIGINT and SIGHUP do so too.
class EndRequests {
 public:
  /// The effect of a second signal. If another process of the program started this rank, both get the signals of their
  /// process group. Only the parent counts them.
  enum class Second : uint8_t { EndsAtOnce, IsNothing };
  /// `socket`: the path of a server's socket, which is removed if the server ends at once. It is empty for a training,
  /// or for a server without a socket.
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
