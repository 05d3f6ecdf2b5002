// The report of generations: the tokens, and their number per second.
#pragma once
#include <string>

#include "run_report.h"
#include "weft/program.h"

namespace weft {

/// The tokens, one line per row, and the rates of prompt and decoding; empty if nothing was generated.
std::string generation_text(const RunReport& report);
/// The same as further fields of a JSON object.
std::string generation_json(const RunReport& report);
/// The field of --info that describes the generation; empty if the program does not generate.
std::string generation_info(const Executable& executable);

}  // namespace weft
