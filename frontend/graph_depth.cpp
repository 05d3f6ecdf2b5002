// Walks over the fields of protobuf messages; enters only fields that may hold graphs.
#include "frontend/graph_depth.h"

#include <algorithm>
#include <optional>

namespace weftc {

namespace {

enum class Message : uint8_t { Model, Graph, Function, Node, Attribute };

/// The message type of a field; nothing for fields without graphs.
std::optional<Message> message_of(Message in, uint64_t field) {
  switch (in) {
    case Message::Model:
      return field == 7 ? std::optional(Message::Graph) : field == 25 ? std::optional(Message::Function) : std::nullopt;
    case Message::Graph:
      return field == 1 ? std::optional(Message::Node) : std::nullopt;
    case Message::Function:
      return field == 7 ? std::optional(Message::Node) : std::nullopt;
    case Message::Node:
      return field == 5 ? std::optional(Message::Attribute) : std::nullopt;
    case Message::Attribute:
      return field == 6 || field == 11 ? std::optional(Message::Graph) : std::nullopt;
  }
  return {};
}

/// A message that is being visited, up to `end`.
struct Level {
  Message message;
  size_t end;
};

class DepthCounter {
 public:
  explicit DepthCounter(std::span<const std::byte> bytes) : bytes_(bytes), open_{{Message::Model, bytes.size()}} {}

  int run() {
    while (!open_.empty()) {
      if (at_ >= open_.back().end)
        close();
      else if (!field())
        return deepest_;
    }
    return deepest_;
  }

 private:
  void close() {
    depth_ -= open_.back().message == Message::Graph;
    open_.pop_back();
  }

  /// Reads one field; false if the bytes are not a message.
  bool field() {
    constexpr size_t kLongBytes = 8, kShortBytes = 4;
    const std::optional<uint64_t> tag = number();
    if (!tag) return false;
    switch (*tag & 7) {
      case 0:
        return number().has_value();
      case 1:
        return skip(kLongBytes);
      case 2:
        return enter(*tag >> 3);
      case 5:
        return skip(kShortBytes);
      default:
        return false;
    }
  }

  bool enter(uint64_t field) {
    const std::optional<uint64_t> length = number();
    if (!length || *length > open_.back().end - at_) return false;
    const std::optional<Message> message = message_of(open_.back().message, field);
    if (!message) return skip(*length);
    open_.push_back({*message, at_ + *length});
    depth_ += *message == Message::Graph;
    deepest_ = std::max(deepest_, depth_);
    return true;
  }

  bool skip(size_t count) {
    if (count > open_.back().end - at_) return false;
    at_ += count;
    return true;
  }

  std::optional<uint64_t> number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ < open_.back().end; shift += 7) {
      const auto byte = static_cast<uint64_t>(bytes_[at_++]);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::vector<Level> open_;
  size_t at_ = 0;
  int depth_ = 0, deepest_ = 0;
};

int depth_of(const std::vector<OnnxNode>& nodes) {
  int deepest = 0;
  for (const OnnxNode& node : nodes)
    for (const OnnxAttr& attr : node.attrs)
      for (const OnnxGraph& graph : attr.graphs) deepest = std::max(deepest, 1 + depth_of(graph.nodes));
  return deepest;
}

bool check_depth(int depth, const std::string& file, Diags& diags) {
  if (depth > kDeepestGraph)
    diags.error("graph-depth", Loc::in_file(file), "graphs are nested more than {} deep", kDeepestGraph);
  return depth <= kDeepestGraph;
}

}  // namespace

bool check_graph_depth(std::span<const std::byte> bytes, const std::string& file, Diags& diags) {
  return check_depth(DepthCounter(bytes).run(), file, diags);
}

bool check_graph_depth(const OnnxModel& model, Diags& diags) {
  return check_depth(1 + depth_of(model.graph.nodes), model.file, diags);
}

}  // namespace weftc
