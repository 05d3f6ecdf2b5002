// Reads machine files: a machine's capabilities as YAML (samples/machines/README.md has the grammar).
#pragma once
#include <optional>
#include <string>

#include "ir/base/diag.h"
#include "ir/machine.h"

namespace weftc {

/// The machine of a file. Nothing after reporting every error of the file.
std::optional<Machine> read_machine(const std::string& path, Diags& diags);
/// The same from text; `name` is the file in messages.
std::optional<Machine> read_machine_text(const std::string& name, const std::string& text, Diags& diags);

/// The word of a machine file for a kind of collective, "" for other ops.
std::string curve_word(OpKind kind);

}  // namespace weftc
