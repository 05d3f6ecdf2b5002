// Machines as the text of a machine file.
#pragma once
#include <string>

#include "ir/machine.h"

namespace weftc {

/// What read_machine reads back, to four digits: a host, whose network follows curves. `source` is the comment behind
/// what was measured: how, where and when.
std::string machine_text_of(const Machine& machine, const std::string& source);

}  // namespace weftc
