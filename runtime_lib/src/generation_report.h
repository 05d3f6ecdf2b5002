// What is printed of generations: the tokens, and how many a second.
#pragma once
#include <string>

#include "run_report.h"
#include "weft/program.h"

namespace weft {

/// The tokens, a line a row, and the rates of prompt and decoding; empty where nothing was generated.
std::string generation_text(const RunReport& report);
/// The same as further fields of a JSON object.
std::string generation_json(const RunReport& report);
/// For --info: the field that says what is generated and how; empty where the program does not generate.
std::string generation_info(const Executable& executable);

}  // namespace weft
