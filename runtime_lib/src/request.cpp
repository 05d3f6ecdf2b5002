// Reading requests strictly: every length lies within the received bytes, and no bytes are left over.
#include "request.h"

#include "failure.h"
#include "npy.h"

namespace weft {

namespace {

constexpr std::string_view kMagic = "WEFT";
constexpr uint32_t kLongestName = 4096;

template <class Number>
Number number_at(std::string_view bytes) {
  Number value = 0;
  for (size_t i = sizeof(Number); i-- > 0;) value = Number(value << 8) | Number(uint8_t(bytes[i]));
  return value;
}

template <class Number>
void append_number(std::string& to, Number value) {
  for (size_t i = 0; i < sizeof(Number); ++i) to += char(uint8_t(value >> (8 * i)));
}

/// Takes a request's bytes one piece after the other.
class RequestReader {
 public:
  explicit RequestReader(std::string_view bytes) : bytes_(bytes) {}

  bool is_at_end() const { return at_ == bytes_.size(); }

  template <class Number>
  Number number(const char* what) {
    return number_at<Number>(piece(sizeof(Number), what));
  }

  std::string name(uint32_t bytes, const char* what) {
    if (bytes > kLongestName) fail(kWrongInput, "%s of %u bytes; %u are the most", what, bytes, kLongestName);
    return std::string(piece(bytes, what));
  }

  std::string_view piece(uint64_t length, const char* what) {
    if (length > bytes_.size() - at_)
      fail(kWrongInput, "the message ends inside %s, which has %lu bytes from byte %zu on", what,
           static_cast<unsigned long>(length), MessageHead::kBytes + at_);
    const std::string_view out = bytes_.substr(at_, size_t(length));
    at_ += size_t(length);
    return out;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace

bool can_begin_message(std::string_view bytes) {
  return bytes.substr(0, kMagic.size()) == kMagic.substr(0, bytes.size());
}

MessageHead parse_head(std::string_view bytes) {
  return {number_at<uint32_t>(bytes.substr(4)), number_at<uint64_t>(bytes.substr(8))};
}

std::string head_text(const MessageHead& head) {
  std::string out(kMagic);
  append_number(out, head.word);
  append_number(out, head.bytes);
  return out;
}

Request parse_request(uint32_t verb, std::string_view bytes) {
  if (verb < uint32_t(Verb::Run) || verb > uint32_t(Verb::Stream))
    fail(kWrongInput,
         "verb %u is unknown; there are 1 (run), 2 (close), 3 (stop), 4 (list), 5 (save) and 6 (run and stream)", verb);
  RequestReader reader(bytes);
  Request out{Verb(verb), "", {}};
  out.session = reader.name(reader.number<uint32_t>("the length of the session's name"), "the session's name");
  while (!reader.is_at_end()) {
    const auto name_bytes = reader.number<uint32_t>("the length of an array's name");
    const auto array_bytes = reader.number<uint64_t>("the length of an array");
    const std::string name = reader.name(name_bytes, "an array's name");
    out.arrays.push_back({name, reader.piece(array_bytes, "an array")});
  }
  return out;
}

void append_array(std::string& answer, std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                  const char* data) {
  const NpyParts parts(dtype, shape, data);
  append_number(answer, uint32_t(name.size()));
  append_number(answer, uint64_t(parts.head().size() + parts.elements().size()));
  answer += name;
  answer += parts.head();
  answer += parts.elements();
}

}  // namespace weft
