// Each rule of the verifier on the smallest graph that breaks it, next to one that does not.
#include "ir/verify.h"

#include <doctest/doctest.h>

#include <chrono>

#include "ir/text/text_form.h"

namespace weftc {

static Module parsed(const std::string& text) {
  Diags diags;
  std::optional<Module> module = parse_module("test.weft", "module \"m\" file \"m.onnx\" seed 0\n" + text, diags);
  INFO(diags.text());
  REQUIRE(module);
  return std::move(*module);
}

static const char* const kPlaces = "place @all [0, 1, 2, 3] {dp: 2, tp: 2}\nplace @one [1] {}\n";

/// The first finding, or "".
static std::string finding(const std::string& graph, Form form = Form::Laid, const std::string& lengths = "") {
  const std::vector<std::string> wrong = verify(parsed(kPlaces + (lengths + "graph {\n" + graph + "}\n")), form);
  return wrong.empty() ? "" : wrong[0];
}

TEST_CASE("verify: forms have names") {
  CHECK(std::string(form_name(Form::Imported)) == "imported");
  CHECK(std::string(form_name(Form::Stored)) == "laid in memory");
  CHECK(std::string(form_name(Form::Fused)) == "fused");
}

TEST_CASE("verify: arity, attributes, types") {
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Add(%x, %x) : f32[2] @all\nreturn %y") == "");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Add(%x) : f32[2] @all\nreturn %y") == "'y' (Add): has 1 operands");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Cast(%x) : f32[2] @all\nreturn %y", Form::Typed) ==
        "'y' (Cast): lacks attribute 'to'");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Neg(%x) : f32[3] @all\nreturn %y", Form::Typed) ==
        "'y' (Neg): result 0 has type f32[3], its operands give f32[2]");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Neg(%x) : f16[2] @all\nreturn %y", Form::Imported) == "");
  CHECK(finding(
            "%x = Input() : f32[2] @all\n%y = MatMul(%x, %x) {odd = 1} : f32[] @all\n%z = Input() : f32[3] @all\n%w = "
            "MatMul(%y, %z) : f32[] @all\nreturn %w",
            Form::Typed)
            .find("'w' (MatMul): is not typed") == 0);
}

TEST_CASE("verify: block, port and mechanism stand where they mean something") {
  CHECK(finding("%x = Input() : f32[2] @all port 1\n%y = Neg(%x) : f32[2] @all\nreturn %y") == "");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Neg(%x) : f32[2] @all port 0\nreturn %y") ==
        "'y' (Neg): has a port and is no input");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Neg(%x) : f32[2] @all block 0\nreturn %y") ==
        "'y' (Neg): its block does not exist");
  CHECK(finding("%x = Input() : f32[2] @all\n%y = Neg(%x) : f32[2] @all mechanism fused\nreturn %y") ==
        "'y' (Neg): has a mechanism and is no chunk");
}

TEST_CASE("verify: composite ops end with decompose") {
  const std::string graph = "%x = Input() : f32[2, 3] @all\n%y = Softmax(%x) {axis = 1} : f32[2, 3] @all\nreturn %y";
  CHECK(finding(graph, Form::Typed) == "");
  CHECK(finding(graph, Form::Decomposed) == "'y' (Softmax): is not decomposed");
  CHECK(finding(graph, Form::Laid) == "'y' (Softmax): is composite");
}

TEST_CASE("verify: a graph that was not changed through its methods") {
  const char* const text = "graph {\n%x = Input() : f32[2]\n%y = Neg(%x) : f32[2]\n%z = Exp(%y) : f32[2]\nreturn %z }";
  {
    Module m = parsed(text);
    m.graph.move_before(m.graph.find_op("z"), m.graph.find_op("y"));
    CHECK(verify(m, Form::Imported)[0] == "'z' (Exp): operand 0 ('y') is not made before it");
  }
  {
    Module m = parsed(text);
    m.graph.edit(m.graph.find_op("z")).inputs[0] = m.graph.find_value("x");
    CHECK(verify(m, Form::Imported)[0] == "'x' (Input): the use list of 'x' is wrong");
    CHECK(verify(m, Form::Imported)[1] == "'y' (Neg): the use list of 'y' is wrong");
  }
  {
    Module m = parsed(text);
    m.graph.edit(m.graph.find_op("z")).name = "y";
    CHECK(verify(m, Form::Imported)[0] == "'y' (Exp): its name is another op's");
  }
  {
    Module m = parsed(text);
    m.graph.edit(m.graph.find_op("z")).place = PlaceId{3};
    m.graph.edit(m.graph.find_op("y")).origins = {OriginId{0}};
    CHECK(verify(m, Form::Imported) ==
          std::vector<std::string>{"'y' (Neg): an origin does not exist", "'z' (Exp): its place does not exist"});
  }
}

TEST_CASE("verify: run-time lengths are the module's, and what holds one stands in front") {
  const std::string x = "%x = Input() : f32[n<=4] @all\n", c = "%c = Input() : i64[] @all\n",
                    holder = "%m = NameLength(%c) {name = \"m\"} : i64[] @all\n",
                    y = "%y = Expand(%c) {shape = [4]} : i64[m<=4] @all\n";
  const auto of = [](const std::string& text) { return finding(text, Form::Laid, "length m <= 4\nlength n <= 4\n"); };
  CHECK(of(x + "%y = Neg(%x) : f32[n<=4] @all\nreturn %y") == "");
  CHECK(of(c + holder + y + "return %y") == "");
  CHECK(of(c + y + holder + "return %y") == "'y' (Expand): a run-time length is made after the value");
  Module unknown = parsed(kPlaces + ("length n <= 4\ngraph {\n" + x + "return %x\n}"));
  unknown.lengths.clear();
  CHECK(verify(unknown, Form::Imported) == std::vector<std::string>{"'x' (Input): 'n' is no length of the module"});
}

TEST_CASE("verify: layouts") {
  const std::string x = "%x = Input() : f32[4, 6] [tp: S(0,2)] @all\n";
  CHECK(finding(x + "%y = Neg(%x) : f32[4, 6] [tp: S(0,2)] @all\nreturn %y") == "");
  CHECK(finding(x + "%y = Neg(%x) : f32[4, 6] @all\nreturn %y") ==
        "'y' (Neg): axis 'tp': result 0 is R, expected S(0,2)");
  CHECK(finding(x + "%y = Neg(%x) : f32[4, 6] [tp: S(0,3)] @all\nreturn %y").find("does not divide") !=
        std::string::npos);
  CHECK(finding(x + "%w = Input() : f32[4, 6] @all\n%y = Add(%x, %w) : f32[4, 6] [tp: S(0,2)] @all\nreturn %y") ==
        "'y' (Add): axis 'tp': operand 1 is R, another operand demands S(0,2)");
  CHECK(finding(x +
                "%p = ReduceSum(%x) {axes = [0], keepdims = 0} : f32[6] [tp: P(sum)] @all\n%y = Exp(%p) : f32[6] [tp: "
                "P(sum)] @all\nreturn %y") == "'y' (Exp): axis 'tp': partial operands are no linear group of sums");
  CHECK(finding(x + "%y = Neg(%x) : f32[4, 6] @one\nreturn %y") == "'y' (Neg): operand 'x' is in another place");
  CHECK(
      finding("%x = Input() : f32[4] [tp: V] @all\n%w = Input() : f32[4] [tp: S(0,2)] @all\n%y = Add(%x, %w) : f32[4] "
              "[tp: V] @all\nreturn %y") == "'y' (Add): axis 'tp': a varying operand meets a sliced or partial one");
  CHECK(
      finding(
          "%y = Iota() {axis = 0, dtype = 0, shape = [4], start = 0.0, step = 1.0} : f32[4] [tp: P(sum)] @all\nreturn "
          "%y") == "'y' (Iota): a source is [tp: P(sum)]");
}

static std::string collective(const std::string& from, const std::string& op, const std::string& to) {
  return finding("%x = Input() : f32[4, 8]" + from + " @all\n%y = " + op + " : f32[4, 8]" + to + " @all\nreturn %y");
}

TEST_CASE("verify: collectives take axes from state to state") {
  CHECK(collective(" [tp: P(sum)]", "AllReduce(%x) {axes = [1], reduce = \"sum\"}", "") == "");
  CHECK(collective(" [tp: V]", "AllReduce(%x) {axes = [1], reduce = \"max\"}", "") == "");
  CHECK(collective(" [tp: P(max)]", "AllReduce(%x) {axes = [1], reduce = \"sum\"}", "") ==
        "'y' (AllReduce): axis 'tp' cannot go from P(max) to R");
  CHECK(collective(" [dp: P(max), tp: P(sum)]", "AllReduce(%x) {axes = [1], reduce = \"sum\"}", " [dp: P(max)]") ==
        "'y' (AllReduce): axis 'dp' stays P(max) in another reduction");
  CHECK(collective(" [tp: P(sum)]", "ReduceScatter(%x) {axes = [1], reduce = \"sum\"}", " [tp: S(0,2)]") == "");
  CHECK(collective(" [tp: S(0,2)]", "AllGather(%x) {axes = [1]}", "") == "");
  CHECK(collective(" [tp: S(0,2)]", "AllToAll(%x) {axes = [1]}", " [tp: S(1,4)]") == "");
  CHECK(collective(" [tp: S(0,2)]", "AllToAll(%x) {axes = [1]}", " [tp: S(0,2)]") ==
        "'y' (AllToAll): axis 'tp' cannot go from S(0,2) to S(0,2)");
  CHECK(collective("", "ShardSlice(%x) {axes = [1]}", " [tp: S(1,4)]") == "");
  CHECK(collective(" [dp: S(0,2)]", "ShardSlice(%x) {axes = [1]}", " [tp: S(1,4)]") ==
        "'y' (ShardSlice): axis 'dp' goes from S(0,2) to R but is not listed");
  CHECK(collective("", "ShardSlice(%x) {axes = [2]}", "") == "'y' (ShardSlice): axis 2 is not the place's");
  CHECK(finding("%x = Input() : f32[4] [tp: S(0,2)] @all\n%y = Transfer(%x) : f32[4] @one\nreturn %y") == "");
  CHECK(finding("%x = Input() : f32[4] [tp: P(sum)] @all\n%y = Transfer(%x) : f32[4] @one\nreturn %y") ==
        "'y' (Transfer): a partial or varying value is sent");
}

static std::string chunk(const std::string& inside, const std::string& result, const std::string& outside,
                         const std::string& chunks = "2") {
  return finding("%x = Input() : f32[8] @all\n%y = Chunk(%x) {chunks = " + chunks + "} : " + outside +
                     " @all {\n time {t: 2}\n %c = Input() : f32[8]" + inside + " @all\n %r = " + result +
                     " @all\n return %r\n}\nreturn %y",
                 Form::Scheduled);
}

TEST_CASE("verify: Chunk bodies are typed in time") {
  CHECK(chunk(" [t: S(0,4)]", "Neg(%c) : f32[8] [t: S(0,4)]", "f32[8]") == "");
  const std::string sum = "ReduceSum(%c) {axes = [0], keepdims = 0} : f32[] ";
  CHECK(chunk(" [t: S(0,4)]", sum + "[t: P(sum)]", "f32[]") == "");
  CHECK(chunk("", "Neg(%c) : f32[8]", "f32[8]") == "'y' (Chunk): 'y' is R over the chunks");
  CHECK(chunk(" [t: P(sum)]", "Neg(%c) : f32[8] [t: P(sum)]", "f32[8]") ==
        "'y' (Chunk): 'x' is P(sum) over the chunks");
  CHECK(chunk(" [t: S(0,4)]", "Neg(%c) : f32[8]", "f32[8]").find("'r' (Neg): axis 't'") == 0);
  CHECK(chunk(" [tp: S(0,4), t: S(0,2)]", "Neg(%c) : f32[8] [tp: S(0,4), t: S(0,2)]", "f32[8]") ==
        "'y' (Chunk): operand 'x' is R, inside S(0,4) (axis 1)");
  CHECK(chunk(" [t: S(0,4)]", "Neg(%c) : f32[8] [t: S(0,4)]", "f32[8]", "3") ==
        "'y' (Chunk): its axis of time does not have 3 chunks");
  CHECK(chunk(" [t: S(0,4)]", "AllGather(%c) {axes = [2]} : f32[8]", "f32[8]") ==
        "'r' (AllGather): axis 2 is not the place's");
}

TEST_CASE("verify: Chunk and Fused only come with the schedule") {
  const std::string fused =
      "%x = Input() : f32[8] @all\n%y = Fused(%x) : f32[8] @all {\n%a = Input() : f32[8] @all\n%b = Neg(%a) : f32[8] "
      "@all\nreturn %b }\nreturn %y";
  CHECK(finding(fused, Form::Laid) == "'y' (Fused): stands in a graph that is not scheduled");
  CHECK(finding(fused, Form::Scheduled) == "");
  CHECK(finding(fused, Form::Fused) == "");
  CHECK(finding("%x = Input() : f32[8] @all\n%y = Neg(%x) : f32[8] @all\nreturn %y", Form::Fused) ==
        "'y' (Neg): stands in no kernel");
  CHECK(finding(
            "%x = Input() : f32[8] @all\n%y = Reshape(%x) {allowzero = 1, shape = [2, 4]} : f32[2, 4] @all\nreturn %y",
            Form::Fused) == "");
}

static std::string branch(const std::string& condition, const std::string& body) {
  return finding("%c = Input() : bool[]" + condition +
                 " @all\n%x = Input() : f32[4] [tp: S(0,2)] @all\n%y = If(%c, %x) : f32[4] " +
                 "[tp: S(0,2)] @all {\n%a = Input() : f32[4] [tp: S(0,2)] @all\nreturn %a\n} {\n" + body +
                 "\n}\nreturn %y");
}

TEST_CASE("verify: branches match what is around them, and all ranks take the same") {
  const std::string same = "%a = Input() : f32[4] [tp: S(0,2)] @all\nreturn %a";
  CHECK(branch("", same) == "");
  CHECK(branch(" [tp: V]", same) == "'y' (If): operand 0 decides the way and is not the same on all ranks");
  CHECK(branch("", "%a = Input() : f32[4] @all\nreturn %a") == "'y' (If): operand 'x' is S(0,2), inside R (axis 1)");
  CHECK(branch("", "%a = Input() : f32[5] [tp: S(0,3)] @all\nreturn %a") ==
        "'y' (If): operand 'x' has another type in the region");
  CHECK(branch("", same + ", %a \"b\"") == "'y' (If): a region has 2 outputs for 1");
}

TEST_CASE("verify: twenty thousand nodes take a moment") {
  std::string text = "place @all [0, 1, 2, 3] {dp: 2, tp: 2}\ngraph {\n%x = Input() : f32[64, 64] [dp: S(0,32)] @all\n";
  std::string last = "%x";
  for (int i = 0; i < 6700; ++i) {
    const std::string n = std::to_string(i);
    text += "%m" + n + " = MatMul(" + last + ", %x.w) : f32[64, 64] [dp: S(0,32)] @all\n%r" + n + " = Reshape(%m" + n +
            ") {allowzero = 1, shape = [64, 64]} : f32[64, 64] [dp: S(0,32)] @all\n%y" + n + " = Add(%r" + n +
            ", %x) : f32[64, 64] [dp: S(0,32)] @all\n";
    last = "%y" + n;
  }
  text.insert(text.find("%m0"), "%x.w = Input() : f32[64, 64] @all\n");
  const Module m = parsed(text + "return " + last + " }");
  const auto start = std::chrono::steady_clock::now();
  CHECK(verify(m, Form::Laid).empty());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  MESSAGE("20,101 ops verified in " << seconds << " s");
  CHECK(seconds < 1);
}

}  // namespace weftc
