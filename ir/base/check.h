// Internal consistency checks. Input can never reach one: a failing check is a bug of the compiler (exit 70).
#pragma once
#include <stdexcept>
#include <string>

namespace weftc {

/// Thrown by WEFT_CHECK; caught once, in cli/main.cpp, which asks for a report and exits with 70.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] inline void check_failed(const char* file, int line, const std::string& what) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

}  // namespace weftc

/// Asserts a condition whose failure is a bug of Weft. `what` is a std::string expression, evaluated only on failure.
#define WEFT_CHECK(condition, what)                                         \
  do {                                                                      \
    if (!(condition)) ::weftc::check_failed(__FILE_NAME__, __LINE__, what); \
  } while (false)
