#include "cli/json_reader.h"

#include <algorithm>
#include <charconv>

namespace weft {

namespace {

constexpr int kDeepest = 64;
constexpr size_t kLongestLine = 200;  // that a message shows

void append_utf8(std::string& out, unsigned code) {
  const auto byte = [&](unsigned bits) { out += static_cast<char>(bits); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

}  // namespace

void JsonReader::refuse(size_t at, const std::string& message) {
  at = std::min(at, text_.size());
  const std::string_view before = text_.substr(0, at);
  const size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const std::string_view line = text_.substr(begin, text_.find('\n', at) - begin);
  const int number = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  const std::string shown = line.size() > kLongestLine ? "" : printable(line);
  const int column =
      1 + static_cast<int>(shown.empty() ? at - begin : printable(text_.substr(begin, at - begin)).size());
  diags_.error("trace-text", Loc::text(file_, number, column, shown), "{}", message);
  throw JsonRefusal{};
}

char JsonReader::peek() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool JsonReader::take_if(char c) {
  if (at_ >= text_.size() || peek() != c) return false;
  ++at_;
  return true;
}

void JsonReader::take(char c) {
  if (take_if(c)) return;
  refuse(at_, at_ >= text_.size() ? format("the text ends where '{}' is expected", std::string(1, c))
                                  : format("'{}' is expected", std::string(1, c)));
}

void JsonReader::enter() {
  if (++depth_ > kDeepest) refuse(at_, format("nested more than {} deep", kDeepest));
}

void JsonReader::object(const std::function<void(const std::string&)>& member) {
  take('{');
  enter();
  if (peek() != '}') do {
      const std::string key = string();
      take(':');
      member(key);
    } while (take_if(','));
  take('}');
  --depth_;
}

void JsonReader::list(const std::function<void()>& item) {
  take('[');
  enter();
  if (peek() != ']') do
      item();
    while (take_if(','));
  take(']');
  --depth_;
}

unsigned JsonReader::hex4() {
  unsigned code = 0;
  const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < 4 || error != std::errc() || end != digits.data() + 4)
    refuse(at_, "four hexadecimal digits are expected");
  at_ += 4;
  return code;
}

void JsonReader::escape(std::string& out) {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  const std::string_view plain = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  if (const size_t which = plain.find(c); c != '\0' && which != std::string_view::npos)
    out += meant[which];
  else if (c == 'u')
    append_utf8(out, hex4());
  else
    refuse(at_ - 1, "there is no such escape");
}

std::string JsonReader::string() {
  take('"');
  const size_t begin = at_ - 1;
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (static_cast<unsigned char>(text_[at_]) < 0x20) refuse(at_, "a control character in a string");
    const char c = text_[at_++];
    if (c == '\\')
      escape(out);
    else
      out += c;
  }
  if (at_ >= text_.size()) refuse(begin, "a string without an end");
  ++at_;
  return out;
}

double JsonReader::number() {
  peek();
  double value = 0;
  const char* begin = text_.data() + at_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  // from_chars knows "inf" and "nan", JSON does not.
  const bool is_digit = at_ < text_.size() && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'));
  if (error != std::errc() || !is_digit || !(value > -1e300 && value < 1e300)) refuse(at_, "a number is expected");
  at_ += static_cast<size_t>(end - begin);
  return value;
}

int JsonReader::whole(int least, int most) {
  peek();
  const size_t begin = at_;
  const double value = number();
  if (value < least || value > most || value != static_cast<int>(value))
    refuse(begin, format("a whole number from {} to {} is expected", least, most));
  return static_cast<int>(value);
}

void JsonReader::skip_word() {
  for (const std::string_view word : {"true", "false", "null"})
    if (text_.substr(at_).starts_with(word)) return void(at_ += word.size());
  refuse(at_, at_ >= text_.size() ? "the text ends where a value is expected" : "a value is expected");
}

void JsonReader::skip() {
  const char c = peek();
  if (c == '{') return object([&](const std::string&) { skip(); });
  if (c == '[') return list([&] { skip(); });
  if (c == '"') return void(string());
  if (c == '-' || (c >= '0' && c <= '9')) return void(number());
  skip_word();
}

void JsonReader::end() {
  peek();
  if (at_ < text_.size()) refuse(at_, "something follows the end of the value");
}

}  // namespace weft
