// Parses the flags that describe the model; a wrong one is reported with the expected form.
#include "frontend/onnx_options.h"

#include <algorithm>
#include <charconv>

namespace weftc {

// As many inputs of the executable, at most.
static constexpr int64_t kMostElementsOfSequence = 4096;

/// Parses the whole text as an integer.
static std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::string values_problem(const DimRequest& request) {
  std::vector<int64_t> sorted = request.values;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return "lists a length twice";
  return request.bounded && sorted != request.values ? "has bounds that do not ascend" : "";
}

std::optional<DimRequest> parse_dim_option(const std::string& text, Diags& diags) {
  const size_t equals = text.find('=');
  DimRequest request;
  request.loc = Loc::in_file("--dim " + text);
  if (equals != std::string::npos && equals > 0) {
    request.bounded = text[equals - 1] == '<';
    request.name = text.substr(0, equals - (request.bounded ? 1 : 0));
    for (const std::string& part : split(std::string_view(text).substr(equals + 1), ',')) {
      const std::optional<int64_t> value = parse_int(part);
      if (!value || *value < 0) {
        request.values.clear();
        break;
      }
      request.values.push_back(*value);
    }
  }
  if (!request.name.empty() && !request.values.empty() && values_problem(request).empty()) return request;
  diags.error("dim-option", {},
              "--dim takes NAME=128, NAME=1,128 (different lengths), NAME<=1024 or NAME<=64,1024 (bounds in ascending "
              "order), not '{}'",
              printable(text));
  return {};
}

std::string ShapeRequest::text() const {
  std::vector<std::string> parts;
  for (size_t d = 0; d < dims.size(); ++d) parts.push_back((is_bounded(d) ? "<=" : "") + std::to_string(dims[d]));
  return parts.empty() ? dims_text(dims) : join(parts, "x");
}

/// The last "=" that begins a shape; the "=" of "<=" is inside one.
static size_t equals_before_shape(const std::string& text) {
  size_t at = text.rfind('=');
  while (at != std::string::npos && at > 0 && text[at - 1] == '<') at = text.rfind('=', at - 1);
  return at;
}

/// Parses the extents "1x3x<=64"; false for any other text.
static bool parse_extents(std::string_view text, ShapeRequest& request) {
  if (text == "scalar") return true;
  for (const std::string& part : split(text, 'x')) {
    const bool is_bounded = part.starts_with("<=");
    const std::optional<int64_t> value = parse_int(std::string_view(part).substr(is_bounded ? 2 : 0));
    if (!value || *value < 0) return false;
    if (is_bounded) request.bounded.push_back(request.dims.size());
    request.dims.push_back(*value);
  }
  return true;
}

std::optional<ShapeRequest> parse_shape_option(const std::string& text, Diags& diags) {
  const size_t equals = equals_before_shape(text);
  ShapeRequest request;
  if (equals != std::string::npos && equals > 0 && parse_extents(std::string_view(text).substr(equals + 1), request)) {
    request.input = text.substr(0, equals);
    return request;
  }
  diags.error("shape-option", {}, "--shape takes INPUT=1x3x224x224 or INPUT=1x3x<=224x<=224 (bounds), not '{}'",
              printable(text));
  return {};
}

std::optional<ElementsRequest> parse_sequence_option(const std::string& text, Diags& diags) {
  const size_t equals = text.rfind('=');
  const bool named = equals != std::string::npos && equals > 0;
  const std::optional<int64_t> elements = named ? parse_int(std::string_view(text).substr(equals + 1)) : std::nullopt;
  if (elements && *elements >= 0 && *elements <= kMostElementsOfSequence)
    return ElementsRequest{text.substr(0, equals), elements};
  diags.error("sequence-option", {}, "--sequence takes INPUT=3 (0 to {} elements), not '{}'", kMostElementsOfSequence,
              printable(text));
  return {};
}

std::optional<ElementsRequest> parse_optional_option(const std::string& text, Diags& diags) {
  const size_t equals = text.rfind('=');
  const std::string state = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (equals > 0 && (state == "present" || state == "absent"))
    return ElementsRequest{text.substr(0, equals), {}, state == "absent"};
  diags.error("optional-option", {}, "--optional takes INPUT=present or INPUT=absent, not '{}'", printable(text));
  return {};
}

std::optional<BindRequest> parse_bind_option(const std::string& text, Diags& diags) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && equals + 1 < text.size())
    return BindRequest{text.substr(0, equals), text.substr(equals + 1)};
  diags.error("bind-option", {}, "--bind takes INPUT=FILE.npy, not '{}'", printable(text));
  return {};
}

}  // namespace weftc
