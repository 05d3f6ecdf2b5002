// Joins Send and Recv of com.microsoft, the two ends of a message, into one value:
//
//   s = Send(signal, 1, x) <tag: 7>      r, y = Recv(signal2, 0) <tag: 7>      ->    y = Identity(x)
//
// The schedule's places determine the ranks of x and y; if they differ, a Transfer is inserted later.
#include "frontend/join_messages.h"

#include <algorithm>

namespace weftc {

namespace {

constexpr size_t kSignal = 0, kRemote = 1, kData = 2;  // operands of Send; Recv has no data, and results from 1 on

/// True if the node is one end of a message.
bool is_message(const OnnxNode& node, const char* type) {
  return node.domain == "com.microsoft" && node.op_type == type;
}

int64_t tag_of(const OnnxNode& node) {
  const OnnxAttr* tag = node.find("tag");
  return tag ? tag->integer : 0;  // old files have the attribute without a value
}

/// Finds the pairs by their tags, checks them, then replaces both ends.
class MessageJoin {
 public:
  MessageJoin(OnnxModel& model, bool per_rank, Diags& diags) : model_(model), per_rank_(per_rank), diags_(diags) {}

  bool run() {
    const int errors = diags_.errors();
    std::vector<OnnxNode>& nodes = model_.graph.nodes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (is_message(nodes[n], "Send")) check(n, ends_[tag_of(nodes[n])].sends);
      if (is_message(nodes[n], "Recv")) check(n, ends_[tag_of(nodes[n])].recvs);
    }
    if (ends_.empty()) return true;
    if (diags_.errors() != errors) return false;
    for (const auto& [tag, ends] : ends_) check_pair(tag, ends);
    if (diags_.errors() != errors) return false;
    replace();
    return true;
  }

 private:
  struct Ends {
    std::vector<size_t> sends, recvs;
  };

  template <class... Arguments>
  void fail(const char* id, size_t node, std::string_view pattern, const Arguments&... arguments) {
    diags_.error(id, model_.loc(model_.graph.nodes[node], static_cast<int>(node)), pattern, arguments...);
  }

  /// Records one end under its tag and checks it. The remote rank must be a constant: no program could be compiled to
  /// receive from a rank computed at run time.
  void check(size_t n, std::vector<size_t>& ends) {
    const OnnxNode& node = model_.graph.nodes[n];
    ends.push_back(n);
    const bool send = is_message(node, "Send");
    if (per_rank_)
      return fail("message-view", n,
                  "with `view: per-rank` every rank runs this {}, and none is the other end: take `view: global` with "
                  "places and a pipeline, or a collective",
                  node.op_type);
    if (node.inputs.size() < (send ? kData + 1 : kData) || node.outputs.size() < (send ? 1 : 2))
      return fail("message-arity", n, "{} takes a signal, a rank{} and makes a signal{}", node.op_type,
                  send ? ", and what is sent," : "", send ? "" : " and what arrives");
    const std::string& remote = node.inputs[kRemote];
    const auto named = [&](const OnnxTensor& tensor) { return tensor.name == remote; };
    const auto makes = [&](const OnnxNode& other) {
      return other.op_type == "Constant" && other.domain.empty() && other.outputs == std::vector{remote};
    };
    const bool fixed = std::any_of(model_.graph.initialisers.begin(), model_.graph.initialisers.end(), named) ||
                       std::any_of(model_.graph.nodes.begin(), model_.graph.nodes.end(), makes);
    if (!fixed)
      fail("message-remote-unsupported", n,
           "the rank that this {} names, '{}', is no constant: who sends to whom is fixed when the program is made",
           node.op_type, printable(remote));
  }

  /// Each tag must have one Send and one Recv with equally many tensors.
  void check_pair(int64_t tag, const Ends& ends) {
    const std::vector<OnnxNode>& nodes = model_.graph.nodes;
    const bool sends = !ends.sends.empty(), recvs = !ends.recvs.empty();
    if (!sends || !recvs)
      return fail(
          "message-other-end", sends ? ends.sends[0] : ends.recvs[0],
          "no {} has tag {}: a model is that of all ranks; put the parts of the ranks into one, where both ends "
          "stand, and give them places by `pipeline: {stages: ...}`",
          sends ? "Recv" : "Send", tag);
    if (ends.sends.size() > 1 || ends.recvs.size() > 1)
      return fail("message-tag-repeated", ends.sends.size() > 1 ? ends.sends[1] : ends.recvs[1],
                  "tag {} has {} Sends and {} Recvs: give each pair a tag of its own", tag, ends.sends.size(),
                  ends.recvs.size());
    const size_t sent = nodes[ends.sends[0]].inputs.size() - kData, received = nodes[ends.recvs[0]].outputs.size() - 1;
    if (sent != received)
      fail("message-count", ends.recvs[0], "this Recv makes {} tensors, but the Send of tag {} has {}", received, tag,
           sent);
  }

  /// "NAME", "NAME.1" ...: passes `from` on as `to`.
  static OnnxNode identity(const OnnxNode& like, size_t number, const std::string& from, const std::string& to) {
    OnnxNode node;
    node.name = shown_name(like) + (number ? "." + std::to_string(number) : "");
    node.op_type = "Identity";
    node.inputs = {from};
    node.outputs = {to};
    node.devices = like.devices;
    node.line = like.line, node.column = like.column;
    return node;
  }

  /// Replaces each Recv's tensor by an Identity; a Send disappears except for its signal.
  void replace() {
    std::vector<OnnxNode> made;
    for (const OnnxNode& node : model_.graph.nodes) {
      const bool send = is_message(node, "Send"), recv = is_message(node, "Recv");
      if (!send && !recv) {
        made.push_back(node);
        continue;
      }
      // The signals express an order that data already determines: they are passed on.
      size_t number = 0;
      const OnnxNode& other = model_.graph.nodes[ends_[tag_of(node)].sends[0]];
      for (size_t i = 1; recv && i < node.outputs.size(); ++i)
        if (!node.outputs[i].empty())
          made.push_back(identity(node, number++, other.inputs[kData + i - 1], node.outputs[i]));
      if (!node.outputs[0].empty()) made.push_back(identity(node, number++, node.inputs[kSignal], node.outputs[0]));
    }
    model_.graph.nodes = std::move(made);
  }

  OnnxModel& model_;
  const bool per_rank_;
  Diags& diags_;
  std::map<int64_t, Ends> ends_;  // by tag
};

}  // namespace

bool join_messages(OnnxModel& model, bool per_rank, Diags& diags) { return MessageJoin(model, per_rank, diags).run(); }

}  // namespace weftc
