// JSON text, read from front to back without keeping it: traces are long.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ir/base/diag.h"

namespace weft {

/// Thrown at the first thing that is refused, after reporting it.
struct JsonRefusal {};

class JsonReader {
 public:
  /// `text` and `diags` must outlive it; `file` stands in messages.
  JsonReader(std::string file, std::string_view text, Diags& diags)
      : file_(std::move(file)), text_(text), diags_(diags) {}

  /// The next value is an object: calls member(key) for each member, which must read its value or skip it.
  void object(const std::function<void(const std::string& key)>& member);
  /// The next value is a list: calls item() for each, which must read or skip it.
  void list(const std::function<void()>& item);
  std::string string();
  double number();
  /// A whole number within these bounds.
  int whole(int least, int most);
  void skip();
  /// Nothing may follow the value.
  void end();

  /// Where the next value begins.
  size_t next() {
    peek();
    return at_;
  }
  /// Reports at an offset of the text, and throws.
  [[noreturn]] void refuse(size_t at, const std::string& message);

 private:
  char peek();
  void take(char c);
  bool take_if(char c);
  void enter();
  void escape(std::string& out);
  unsigned hex4();
  void skip_word();

  const std::string file_;
  const std::string_view text_;
  Diags& diags_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace weft
