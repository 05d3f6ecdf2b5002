// The graph's methods keep order, names and use lists right under any sequence of changes.
#include "ir/graph.h"

#include <doctest/doctest.h>

#include "ir/base/text.h"
#include "ir/verify.h"
#include "test/ir/random_layout.h"

namespace weftc {

static ValueId add(Graph& graph, OpKind kind, std::vector<ValueId> inputs, const std::string& name, OpId before = {}) {
  return graph.result(graph.add({kind, std::move(inputs), {TensorType{}}, {}, {}, {}, name, {}, {}, {}}, before));
}

TEST_CASE("graph: names are made unique") {
  Graph graph;
  const ValueId a = add(graph, OpKind::Input, {}, "x"), b = add(graph, OpKind::Input, {}, "x");
  CHECK(graph.value(b).name == "x_2");
  CHECK(graph.producer_op(b).name == "x_2");
  CHECK(graph.find_value("x") == a);
  graph.rename(b, "y");
  CHECK(graph.find_value("y") == b);
  CHECK_FALSE(bool(graph.find_value("x_2")));
}

TEST_CASE("graph: several results are numbered") {
  Graph graph;
  const OpId id = graph.add({OpKind::Input, {}, {TensorType{}, TensorType{}}, {}, {}, {}, "s", {}, {}, {}});
  CHECK(graph.value(graph.op(id).outputs[1]).name == "s.1");
}

TEST_CASE("graph: replacing uses moves outputs too") {
  Graph graph;
  const ValueId x = add(graph, OpKind::Input, {}, "x"), y = add(graph, OpKind::Neg, {x}, "y");
  graph.add_output(x, "out");
  graph.replace_uses(x, y);
  CHECK(graph.outputs()[0].value == y);
  CHECK(graph.op(graph.producer(y)).inputs[0] == y);  // also its own: the caller decides what is replaced
  CHECK(graph.value(x).uses.empty());
}

TEST_CASE("graph: attributes are sorted and found") {
  Op op;
  op.set("b", int64_t{1});
  op.set("a", std::string("text"));
  op.set("b", int64_t{2});
  CHECK(op.attrs.size() == 2);
  CHECK(op.attrs[0].name == "a");
  CHECK(op.integer("b") == 2);
  CHECK(op.integer_or("c", 3) == 3);
  op.remove("b");
  CHECK_FALSE(op.has("b"));
}

TEST_CASE("graph: removing an operand closes the gap") {
  Graph graph;
  const ValueId x = add(graph, OpKind::Input, {}, "x"), y = add(graph, OpKind::Input, {}, "y");
  const OpId sum = graph.producer(add(graph, OpKind::Sum, {x, y, x}, "s"));
  graph.remove_input(sum, 0);
  CHECK(graph.op(sum).inputs == std::vector<ValueId>{y, x});
  CHECK(graph.value(x).uses == std::vector<Use>{{sum, 1}});
}

TEST_CASE("graph: random changes leave it well formed") {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Module m;
    Graph& graph = m.graph;
    std::vector<ValueId> values{add(graph, OpKind::Input, {}, "x")};
    for (int step = 0; step < 60; ++step) {
      std::vector<ValueId> live;
      for (OpId id = graph.first(); id; id = graph.next(id)) live.push_back(graph.result(id));
      const ValueId a = random.pick(live), b = random.pick(live);
      switch (random.between(0, 4)) {
        case 0:
          add(graph, OpKind::Add, {a, b}, "n");
          break;
        case 1:
          add(graph, OpKind::Neg, {live[0]}, "n", graph.next(graph.producer(live[0])));
          break;
        case 2:
          if (graph.op(graph.producer(a)).kind == OpKind::Add) graph.set_input(graph.producer(a), 1, live[0]);
          break;
        case 3:
          graph.add_output(a, "o");
          break;
        default:
          if (graph.value(a).uses.empty() && graph.op_count() > 1 && graph.producer_op(a).kind != OpKind::Input)
            graph.erase(graph.producer(a));
      }
      const std::vector<std::string> wrong = verify(m, Form::Imported);
      CAPTURE(join(wrong, "; "));
      REQUIRE(wrong.empty());
    }
  }
}

}  // namespace weftc
