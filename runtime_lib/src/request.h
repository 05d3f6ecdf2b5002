// Requests and answers of a server as bytes (README.md, A server). All numbers are little endian:
//
//   request   "WEFT"  u32 verb  u64 bytes that follow   u32 bytes of the session's name, name, arrays
//   answer    "WEFT"  u32 code  u64 bytes that follow   arrays; the text of the error where the code is not 0 or 100
//   array     u32 bytes of its name  u64 bytes of the .npy file   name, .npy file
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/numeric.h"

namespace weft {

/// The kind of a request: an invocation, the end of a session, the end of the server, the list of sessions, the states
/// of a session, a generation whose tokens are sent one by one.
enum class Verb : uint32_t { Run = 1, Close = 2, Stop = 3, List = 4, Save = 5, Stream = 6 };

/// The code of an answer that further answers to the same request follow.
constexpr uint32_t kMoreFollow = 100;

struct NamedArray {
  std::string name;
  std::string_view npy;
};

struct Request {
  Verb verb = Verb::Run;
  std::string session;  // empty: the request is a session of its own
  std::vector<NamedArray> arrays;
};

/// The head of every message.
struct MessageHead {
  static constexpr size_t kBytes = 16;
  uint32_t word = 0;  // verb or code
  uint64_t bytes = 0;
};

/// Whether a message can begin with these bytes, which may be fewer than a head.
bool can_begin_message(std::string_view bytes);
/// The head that begins a message, of kBytes at least.
MessageHead parse_head(std::string_view bytes);
std::string head_text(const MessageHead& head);

/// Parses a request from the bytes after its head, and points into them. Throws Failure (wrong input).
Request parse_request(uint32_t verb, std::string_view bytes);

/// Adds an array to an answer.
void append_array(std::string& answer, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                  const char* data);

}  // namespace weft
