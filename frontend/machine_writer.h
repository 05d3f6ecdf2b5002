// Machines as the text of a machine file.
#pragma once
#include <string>

#include "ir/machine.h"

namespace weftc {

/// The text of a host machine, whose network follows curves; read_machine reads it to four digits. `source` is the
/// comment after measured figures: how, where and when.
std::string machine_text_of(const Machine& machine, const std::string& source);

}  // namespace weftc
