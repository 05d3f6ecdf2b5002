// Send and Recv of one model: what arrives is what was sent; what has no other end is refused.
#include <doctest/doctest.h>

#include "reading.h"

using namespace weftc;

namespace {

ReadModel read_messages(const std::string& nodes, bool per_rank = false) {
  ReadModel read;
  Schedule schedule;
  schedule.per_rank = per_rank;
  ReadOptions options;
  options.path = "m.onnxtxt";
  const std::string head =
      "<ir_version: 10, opset_import: [\"\" : 20, \"com.microsoft\" : 1]>\nm (float[4] x, bool go, int64 where) => "
      "(float[4] y)\n<int64 one = {1}, int64 zero = {0}>\n{";
  read.module = read_onnx_source(head + nodes + "}", options, read.diags, &schedule);
  return read;
}

const std::string kSend = "[send] sent = com.microsoft.Send<tag = 5, element_types = [1]>(go, one, h) ";
const std::string kRecv = "[recv] came, r = com.microsoft.Recv<tag = 5, element_types = [1]>(go, zero) ";

}  // namespace

TEST_CASE("what a Recv makes is what the Send of its tag was given") {
  const ReadModel read = read_messages("h = Relu(x) " + kSend + kRecv + "y = Exp(r)");
  INFO(read.diags.text());
  REQUIRE(read.module);
  const Graph& graph = read.module->graph;
  const OpId made = graph.producer(graph.find_value("r"));
  CHECK(graph.op(made).name == "recv");
  CHECK(graph.op(made).kind == OpKind::Identity);
  CHECK(graph.value(graph.op(made).inputs[0]).name == "h");
  CHECK(graph.op(graph.producer(graph.find_value("sent"))).name == "send");
  // Old files name an attribute without a value.
  CHECK(read_messages("h = Relu(x) [send] s = com.microsoft.Send(go, one, h) [recv] c, r = com.microsoft.Recv(go, zero)"
                      " y = Exp(r)")
            .module);
}

TEST_CASE("messages without another end") {
  CHECK(read_messages("h = Relu(x) " + kSend + "y = Exp(h)").ids() == "message-other-end");
  CHECK(read_messages(kRecv + "y = Exp(r)").ids() == "message-other-end");
  CHECK(read_messages("h = Relu(x) " + kSend + kSend + kRecv + "y = Exp(r)").ids() == "message-tag-repeated");
  CHECK(read_messages("h = Relu(x) s = com.microsoft.Send<tag = 5>(go, one, h, x) " + kRecv + "y = Exp(r)").ids() ==
        "message-count");
  CHECK(read_messages("h = Relu(x) s = com.microsoft.Send<tag = 5>(go, where, h) " + kRecv + "y = Exp(r)").ids() ==
        "message-remote-unsupported");
  CHECK(read_messages("h = Relu(x) s = com.microsoft.Send<tag = 5>(go, one) " + kRecv + "y = Exp(r)").ids() ==
        "message-arity");
  CHECK(read_messages("h = Relu(x) " + kSend + kRecv + "y = Exp(r)", true).ids() == "message-view message-view");
}
