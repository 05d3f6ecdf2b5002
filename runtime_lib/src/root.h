// Where ranks on several machines find rank 0.
#pragma once
#include <string>

#include "launch.h"

namespace weft {

/// The address of rank 0, and what said so.
struct Root {
  std::string host;
  int port = 0;
  std::string source;
  std::string text() const;  // HOST:PORT
};

/// Reads HOST:PORT; an IPv6 address stands in brackets. Throws Failure (`code`), naming `what` said it.
Root parse_root(const char* what, const std::string& text, int code);

/// In this order: `flag` (what --root says, or empty), MASTER_ADDR and MASTER_PORT, the first node of Slurm's list with
/// a port made from the job's number. Throws Failure (environment) where nothing tells, or half of it.
Root find_root(const std::string& flag, const Launched& launched, const Environment& environment);

/// The first name of a Slurm node list, such as "a07" of "a[07-09,12],b1".
std::string first_node(const std::string& list);

}  // namespace weft
