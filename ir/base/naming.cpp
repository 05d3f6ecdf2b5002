// Turns names of a model, which may have any bytes, into identifiers, comments and literals of emitted code.
#include "ir/base/naming.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace weftc {

/// Reserved identifiers, sorted: C++ keywords, names of the C library that a header could define, names in emitted
/// code.
static constexpr std::string_view kWords[] = {
    "alignas",      "alignof",       "alloca",      "and",       "and_eq",    "asm",
    "assert",       "auto",          "begin",       "bitand",    "bitor",     "bool",
    "break",        "case",          "catch",       "char",      "char16_t",  "char32_t",
    "char8_t",      "class",         "co_await",    "co_return", "co_yield",  "compl",
    "concept",      "const",         "const_cast",  "consteval", "constexpr", "constinit",
    "continue",     "decltype",      "default",     "delete",    "do",        "double",
    "dynamic_cast", "else",          "end",         "enum",      "errno",     "explicit",
    "export",       "extern",        "false",       "final",     "first",     "float",
    "for",          "friend",        "goto",        "if",        "import",    "inline",
    "int",          "int16_t",       "int32_t",     "int64_t",   "int8_t",    "invocation",
    "linux",        "long",          "main",        "mb",        "module",    "mutable",
    "namespace",    "new",           "next",        "noexcept",  "not",       "not_eq",
    "nullptr",      "offsetof",      "operator",    "or",        "or_eq",     "override",
    "private",      "protected",     "public",      "r",         "register",  "reinterpret_cast",
    "requires",     "return",        "run",         "short",     "signed",    "sizeof",
    "static",       "static_assert", "static_cast", "std",       "stderr",    "stdin",
    "stdout",       "struct",        "switch",      "task",      "team",      "template",
    "this",         "thread_local",  "throw",       "true",      "try",       "typedef",
    "typeid",       "typename",      "uint16_t",    "uint32_t",  "uint64_t",  "uint8_t",
    "union",        "unix",          "unsigned",    "using",     "virtual",   "void",
    "volatile",     "wchar_t",       "weft",        "while",     "xor",       "xor_eq",
};

/// Names that device code reserves.
static constexpr std::string_view kDeviceWords[] = {"blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize"};

static bool is_word(const std::string& name) {
  const auto has = [&](const auto& words) {
    return std::find(std::begin(words), std::end(words), name) != std::end(words);
  };
  return has(kWords) || has(kDeviceWords);
}

/// M_PI, EINTR, SYS_read: system headers define so many macros that a list would be incomplete.
static bool may_be_macro(const std::string& name) {
  if (name.starts_with("M_") || name.starts_with("SYS_") || name.starts_with("SNANF")) return true;
  return name.size() > 2 && std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

static bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

std::string identifier(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (is_plain(c))
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';  // two in a row are reserved
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.empty()) return "value";
  if (name[0] >= '0' && name[0] <= '9') name = "n" + name;
  // kNames are emitted constants.
  if (is_word(name) || may_be_macro(name) || (name.size() > 1 && name[0] == 'k' && name[1] >= 'A' && name[1] <= 'Z'))
    name += "_value";
  return name;
}

std::string_view last_component(std::string_view name) {
  while (!name.empty() && (name.back() == '.' || name.back() == '/')) name.remove_suffix(1);
  const size_t at = name.find_last_of("./");
  return at == std::string_view::npos ? name : name.substr(at + 1);
}

std::string comment_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '?' && !out.empty() && out.back() == '?') out += ' ';
    out += c == '\\' ? '/' : c < 32 || c > 126 ? '_' : c;
  }
  return out;
}

static std::string octal(char c) {
  const unsigned byte = static_cast<unsigned char>(c);
  return {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + (byte >> 3 & 7)),
          static_cast<char>('0' + (byte & 7))};
}

std::string string_literal(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (c == '?' && out.back() == '?')
      out += "\\?";
    else if (c < 32 || c > 126)
      out += octal(c);
    else
      out += c;
  }
  return out + '"';
}

std::string json_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (byte < 32)
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    else
      out += c;
  }
  return out + '"';
}

std::string Names::unique(std::string_view text) {
  const std::string name = identifier(text);
  std::string tried = name;
  for (int n = 2; !taken_.insert(tried).second; ++n) tried = name + "_" + std::to_string(n);
  return tried;
}

}  // namespace weftc
