// The address of rank 0 for ranks on several machines.
#pragma once
#include <string>

#include "launch.h"

namespace weft {

/// The address of rank 0, and its source.
struct Root {
  std::string host;
  int port = 0;
  std::string source;
  std::string text() const;  // HOST:PORT
};

/// Reads HOST:PORT, with an IPv6 address in brackets. Throws Failure (`code`), which names the source `what`.
Root parse_root(const char* what, const std::string& text, int code);

/// The sources in order: `flag` (the value of --root, or empty), MASTER_ADDR and MASTER_PORT, the first node of Slurm's
/// list with a port derived from the job's number. Throws Failure (environment) if there is no source, or only half of
/// one.
Root find_root(const std::string& flag, const Launched& launched, const Environment& environment);

/// The first name of a Slurm node list, such as "a07" of "a[07-09,12],b1".
std::string first_node(const std::string& list);

}  // namespace weft
