// SIGTERM of a training: the ranks finish their step and leave a checkpoint, instead of losing what they have done.
#pragma once
#include "world.h"

namespace weft {

/// As long as this stands, SIGTERM asks the ranks that share `world` to end behind their step.
class EndRequests {
 public:
  /// What a second SIGTERM of this process does. A rank that another process of ours has started gets signals of a
  /// group of processes as well as that one does, and leaves it to that one to count them.
  enum class Second : uint8_t { EndsAtOnce, IsNothing };
  EndRequests(const World& world, Second second);
  ~EndRequests();
  EndRequests(const EndRequests&) = delete;
  EndRequests& operator=(const EndRequests&) = delete;
};

}  // namespace weft
