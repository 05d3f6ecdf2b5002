// printf into strings, which the messages of failures are made with.
#include "failure.h"

#include <cstdarg>
#include <cstdio>

namespace weft {

static std::string format_text(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string out(size_t(length > 0 ? length : 0), '\0');
  vsnprintf(out.data(), out.size() + 1, format, arguments);
  return out;
}

std::string text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = format_text(format, arguments);
  va_end(arguments);
  return out;
}

void fail(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string out = format_text(format, arguments);
  va_end(arguments);
  throw Failure{code, out};
}

}  // namespace weft
