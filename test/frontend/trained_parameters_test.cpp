// Which initialisers a `train:` section of a schedule takes for parameters.
#include <doctest/doctest.h>

#include <set>

#include "test/scheduled.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// The names of the states that a step of SGD on y has.
std::set<std::string> states_of(const std::string& initializers, const std::string& body) {
  const std::string model = "<ir_version: 10, opset_import: [\"\" : 18]>\nm (float[1, 2, 4, 4] x) => (float y) <" +
                            initializers + "> {" + body + " y = ReduceMean<keepdims = 0>(z) }";
  const std::string train = "weft: 1\ntrain: {loss: y, mode: eval, optimizer: {sgd: {rate: 0.1}}}";
  const auto made = prepare(model, train, "decompose");
  INFO(made->diags.text());
  REQUIRE(made->ok());
  std::set<std::string> names;
  for (const State& state : made->module->states) names.insert(state.input);
  return names;
}

/// The states of a training of y, but for its step, and what is said of it.
struct Found {
  std::set<std::string> names;
  std::string said;
};
Found found_in(const std::string& header, const std::string& initializers, const std::string& body,
               const std::string& train = "") {
  const std::string model = "<ir_version: 10, opset_import: [\"\" : 20]" + header +
                            ">\nm (float[2, 3, 4] x, int64[2, 3] ids) => (float y) <" + initializers + "> {" + body +
                            " y = ReduceMean<keepdims = 0>(z) }";
  const auto made =
      prepare(model, "weft: 1\ntrain: {loss: y, optimizer: {sgd: {rate: 0.1}}" + train + "}", "infer-types");
  Found found;
  if (made->module)
    for (const State& state : made->module->states)
      if (state.input != "train.step") found.names.insert(state.input);
  for (const Diagnostic& each : made->diags.all()) found.said += each.id + ": " + each.message + "\n";
  return found;
}

/// True if w, under the name or another, is a parameter in a file without marks. If not, that is said.
bool is_taken(const std::string& type, const std::string& body, const std::string& value = "random(1, 0.5)",
              const std::string& name = "w") {
  CAPTURE(body);
  const Found found = found_in("", "float[4, 4] sure = random(2, 0.5), " + type + " \"" + name + "\" = " + value,
                               "s = MatMul(x, sure) " + body);
  CHECK_MESSAGE(found.names.contains("sure"), found.said);
  const bool is_taken = found.names.contains(name);
  const bool is_said = found.said.find("train-constants") != std::string::npos;
  CHECK_MESSAGE(is_taken != is_said, found.said);
  return is_taken;
}

std::string signature(const std::string& lines) {
  return ", metadata_props: [\"pkg.torch.export.ExportedProgram.graph_signature\": \"\\n# inputs\\n" + lines +
         "ids: USER_INPUT\\n\\n# outputs\\nm: BUFFER_MUTATION target='a'\\n\"]";
}

}  // namespace

TEST_CASE("operands that say how, not what, are computed are no parameters") {
  CHECK(states_of("float[1, 2, 1, 1] w = {1, 2}, float[4] scales = {1, 1, 2, 2}, float[1] s = {0.5}",
                  "a = Mul(x, w) z = Resize(a, , scales)") == std::set<std::string>{"train.step", "w"});
  CHECK(states_of("float[2] w = {1, 2}, float[2] b = {0, 1}, float[2] mean = {3, 4}, float[2] variance = {1, 2}",
                  "z = BatchNormalization(x, w, b, mean, variance)") == std::set<std::string>{"b", "train.step", "w"});
}

TEST_CASE("in a file without marks, what reads an initializer says whether it is a parameter") {
  CHECK(is_taken("float[4, 5]", "z = MatMul(s, w)"));
  CHECK(is_taken("float[5, 4]", "t = Transpose(w) z = MatMul(s, t)"));
  CHECK(is_taken("float[9, 4]", "e = Gather(w, ids) z = Add(s, e)"));
  CHECK(is_taken("float[4, 4]", "e = Gather(w, ids) z = Add(s, e)", "{0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}"));
  CHECK(is_taken("float[4]", "z = Mul(s, w)"));                     // a scale
  CHECK(is_taken("float[1, 1, 4]", "z = Add(s, w)"));               // a bias
  CHECK(is_taken("float[1, 3, 4]", "z = Add(s, w)"));               // a table of positions
  CHECK(is_taken("float[2, 1, 4]", "z = Concat<axis = 1>(w, s)"));  // a token of the model's own
  CHECK(is_taken("float[3, 4]", "z = Mul(s, w)"));                  // a scale of each element
  CHECK(is_taken("float[3, 4]", "e = Exp(w) n = Neg(e) z = Mul(s, n)"));
  CHECK_FALSE(is_taken("float[1]", "z = Mul(s, w)"));  // one factor for all
  CHECK_FALSE(is_taken("float[4]", "z = Div(s, w)"));
  CHECK_FALSE(is_taken("float[4]", "z = Mul(s, \"bn.running_mean\")", "random(1, 0.5)", "bn.running_mean"));
}

TEST_CASE("in a file without marks, masks and tables of sines are constants") {
  CHECK_FALSE(is_taken("float[1, 3, 4]", "z = Add(s, w)", "{0, -1e9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}"));
  CHECK_FALSE(is_taken("float[1, 3, 4]", "z = Mul(s, w)", "{0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1}"));
  // Columns of cos(k a), sin(k a), each with an angle of its own, and a factor.
  const std::string waves =
      "{1.1, 0, 1.1, 0, 0.55, 0.55, 0, 1.1, -0.55, 0.9526279, -1.1, 0, -1.1, 1.1, 0, -1.1, -0.55, 0.9526279, 1.1, 0}";
  CHECK_FALSE(is_taken("float[5, 4]", "e = Gather(w, ids) z = Mul(s, e)", waves));
  CHECK_FALSE(is_taken("float[5, 4]", "e = Gather(w, ids) z = Add(s, e)", waves));
  CHECK_FALSE(is_taken("float[3, 4]", "z = Mul(s, w)", "{1, 1, 1, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2}"));
  const std::string angles = "p = Cast<to = 1>(ids) c = Constant<value_ints = [2]>() u = Unsqueeze(p, c) ";
  CHECK_FALSE(is_taken("float[4]", angles + "a = Mul(u, w) o = Cos(a) z = Mul(s, o)"));
  CHECK_FALSE(is_taken("float[1, 4]", angles + "a = MatMul(u, w) o = Sin(a) z = Mul(s, o)"));
}

TEST_CASE("names that exporters invent are those of constants, but for what is a layer's") {
  const auto invented = [](const std::string& type, const std::string& body) {
    return is_taken(type, body, "random(1, 0.5)", "val_7");
  };
  CHECK(invented("float[4, 5]", "z = MatMul(s, val_7)"));
  CHECK(invented("float[4]", "z = Add(s, val_7)"));  // of a product
  CHECK(invented("float[4]", "k = LayerNormalization(x, val_7) z = Add(k, s)"));
  CHECK(invented("float[4]",
                 "c = Constant<value_floats = [1.0, 1.0, 1.0, 1.0]>() n = LayerNormalization(s, c) z = Mul(n, val_7)"));
  CHECK_FALSE(invented("float[1, 3, 4]", "z = Add(s, val_7)"));
  CHECK_FALSE(invented("float[4]", "z = Mul(s, val_7)"));
  CHECK_FALSE(invented("float[2, 1, 4]", "z = Concat<axis = 1>(val_7, s)"));
}

TEST_CASE("the marks of a file alone decide, and the schedule over them") {
  const std::string header = signature("p_a: PARAMETER target='a'\\nb_b: BUFFER target='b' persistent=True\\n");
  const std::string initializers = "float[4] a = {1, 2, 3, 4}, float[4, 4] b = random(1, 1), float[1] c = {1}";
  const std::string body = "p = MatMul(x, b) q = Mul(p, a) z = Mul(q, c)";
  const auto names = [&](const std::string& train) { return found_in(header, initializers, body, train).names; };
  CHECK(found_in(header, initializers, body).said.empty());
  CHECK(names("") == std::set<std::string>{"a"});
  CHECK(names(", parameters: [default, b, \"c*\"]") == std::set<std::string>{"a", "b", "c"});
  CHECK(names(", parameters: [default, b], frozen: a") == std::set<std::string>{"b"});
  CHECK(names(", parameters: [b]") == std::set<std::string>{"b"});
  CHECK(names(", parameters: [\"b*\"]") == std::set<std::string>{"b"});
  CHECK(names(", parameters: [{ndim: 1}]") == std::set<std::string>{"a"});
  CHECK(found_in(header, initializers, body, ", parameters: [{ndim: 2}]").said.starts_with("train-parameter"));
  CHECK(found_in(header, initializers, body, ", parameters: d").said.starts_with("train-parameter"));
}

TEST_CASE("a scalar is a parameter where the file says so") {
  const std::string body = "z = Mul(x, a)";
  CHECK(found_in(signature("p_a: PARAMETER target='a'\\n"), "float a = {2}", body).names.contains("a"));
}

TEST_CASE("in a file without marks, a scalar is a parameter if it is named, or an op's own") {
  const std::string initializers =
                        "float[4, 4] a = random(1, 1), float logit_scale = {2}, float half = {0.5}, "
                        "float \"gelu/mul/x:0\" = {0.5}, float val_3 = {3}, float[4] c = {1, 2, 3, 4}",
                    body =
                        "e = Exp(logit_scale) p = MatMul(x, a) q = Mul(p, e) r = Mul(q, \"gelu/mul/x:0\") "
                        "t = Pow(r, half) u = Add(t, val_3) z = Add(u, c)";
  const Found found = found_in("", initializers, body);
  CHECK(found.names == std::set<std::string>{"a", "c"});
  CHECK_MESSAGE(found.said.find("constants, which stay as they are: 'logit_scale' [scalar];") != std::string::npos,
                found.said);
  CHECK(found_in("", initializers, body, ", frozen: logit_scale").said.empty());
  const auto trained = [&](const std::string& parameters) {
    const Found made = found_in("", initializers, body, ", parameters: [" + parameters + "]");
    CHECK_MESSAGE(made.said.find("train-parameter") == std::string::npos, made.said);
    return made.names;
  };
  CHECK(trained("a, logit_scale") == std::set<std::string>{"a", "logit_scale"});
  CHECK(trained("default, logit_scale") == std::set<std::string>{"a", "c", "logit_scale"});
  CHECK(trained("val_3") == std::set<std::string>{"val_3"});
  CHECK(trained("\"*\"") == std::set<std::string>{"a", "c", "logit_scale"});  // no numbers of formulas
  CHECK(found_in("", "float slope = {0.1}", "z = PRelu(x, slope)").names == std::set<std::string>{"slope"});
}

TEST_CASE("what the schedule freezes or names as a parameter is not warned of") {
  const std::string initializers = "float[4, 4] a = random(1, 1), float[1] c = {1}",
                    body = "p = MatMul(x, a) z = Mul(p, c)";
  CHECK(found_in("", initializers, body).said.find("'c' [1]") != std::string::npos);
  CHECK(found_in("", initializers, body, ", frozen: c").said.empty());
  CHECK(found_in("", initializers, body, ", parameters: a").said.empty());
  const Found trained = found_in("", initializers, body, ", parameters: [default, c]");
  CHECK(trained.said.empty());
  CHECK(trained.names == std::set<std::string>{"a", "c"});
}

TEST_CASE("the transpose of a weight is computed from it, layers that begin alike are not") {
  const std::string a = "{1, 2, 3, 4, 5, 6, 7, 8}", turned = "{1, 5, 2, 6, 3, 7, 4, 8}";
  const auto names = [](const std::string& initializers, const std::string& body, const std::string& train = "") {
    return found_in("", initializers, body, train).names;
  };
  CHECK(names("float[2, 4] a = " + a + ", float[4, 2] b = " + turned, "p = MatMul(x, b) z = MatMul(p, a)") ==
        std::set<std::string>{"a"});
  CHECK(names("float[2, 4] a = " + a + ", float[4, 2] b = " + turned, "p = MatMul(x, b) z = MatMul(p, a)",
              ", parameters: [default, b]") == std::set<std::string>{"a", "b"});
  CHECK(names("float[2, 4] a = " + a + ", float[2, 4] val_3 = " + a,
              "e = Gather(a, ids) f = Gather(val_3, ids) z = Add(e, f)") == std::set<std::string>{"a"});
  CHECK(names("float[2, 4] a = " + a + ", float[2, 4] b = " + a,
              "e = Gather(a, ids) f = Gather(b, ids) z = Add(e, f)") == std::set<std::string>{"a", "b"});
  CHECK(names("float[4, 4] a = {0,0,0,0, 0,0,0,0, 0,0,0,0, 0,0,0,0}, float[4, 4] val_3 = {0,0,0,0, 0,0,0,0, 0,0,0,0, "
              "0,0,0,0}",
              "p = MatMul(x, a) z = MatMul(p, val_3)") == std::set<std::string>{"a", "val_3"});
  CHECK(found_in("", "float[2, 4] a = " + a + ", float[4, 2] b = " + turned, "p = MatMul(x, b) z = MatMul(p, a)",
                 ", frozen: b")
            .said.find("is a copy of 'a'") != std::string::npos);
}
