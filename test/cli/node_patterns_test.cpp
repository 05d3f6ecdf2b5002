// Names of nodes as few patterns: they match what they shall and nothing else, as a schedule reads them.
#include "cli/plan/node_patterns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "ir/name_pattern.h"

using namespace weftc;

using Names = std::vector<std::string>;

TEST_CASE("node patterns: the shortest that match nothing else, and layers together") {
  CHECK(patterns_of({"text.word", "text.position", "layer0.fc", "layer1.fc"}, {"layer2.fc", "scores"}) ==
        Names{"text.*", "layer{0..1}.*"});
  CHECK(patterns_of({"h.0.mlp.fc", "h.0.mlp.act", "h.0.attn.q"}, {"h.0.ln"}) == Names{"h.0.mlp.*", "h.0.attn.*"});
  CHECK(patterns_of({"/model/layers.9/q", "/model/layers.10/q"}, {"/model/head"}) == Names{"/model/layers.*"});
  CHECK(patterns_of({"/model/layers.9/q", "/model/layers.10/q"}, {"/model/layers.11/q"}) ==
        Names{"/model/layers.{9..10}/*"});
  CHECK(patterns_of({"MatMul_1", "MatMul_2", "Add_7"}, {"MatMul_3"}) == Names{"MatMul_{1..2}", "Add_7"});
  CHECK(patterns_of({"h.1.a", "h.3.a"}, {"h.2.a"}) == Names{"h.1.*", "h.3.*"});
  CHECK(patterns_of({"a"}, {}) == Names{"a"});
}

TEST_CASE("node patterns: names that no pattern tells from others, or that cannot be written") {
  CHECK(!patterns_of({"a.b"}, {"a/b"}));
  CHECK(!patterns_of({"/a"}, {"a"}));
  CHECK(!patterns_of({"a*"}, {"ab"}));
  CHECK(!patterns_of({"a{l}"}, {"a7"}));
  CHECK(!patterns_of({"a{0..3}"}, {}));
  CHECK(patterns_of({"a*", "b{l}", "h.0.c*"}, {"c"}) == Names{"a*", "b{l}", "h.*"});
}

TEST_CASE("node patterns: random names") {
  std::mt19937 random(3);
  const auto roll = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int written = 0;
  for (int round = 0; round < 500; ++round) {
    Names wanted;
    std::set<std::string> others;
    for (int name = 0; name < 12; ++name) {
      std::string text = roll(4) == 0 ? "/" : "";
      for (int part = 0, parts = 1 + roll(3); part < parts; ++part)
        text += std::string(part > 0 ? (roll(3) == 0 ? "/" : ".") : "") + std::string(1, "hx_"[roll(3)]) +
                (roll(2) == 0 ? "" : std::to_string(roll(13)));
      if (std::ranges::count(wanted, text) > 0 || others.contains(text)) continue;
      if (roll(2) == 0)
        wanted.push_back(text);
      else
        others.insert(text);
    }
    const std::optional<Names> patterns = patterns_of(wanted, others);
    if (!patterns) continue;
    written += patterns->size() < wanted.size() ? 1 : 0;
    const auto is_meant = [&](const std::string& name) {
      return std::ranges::any_of(*patterns,
                                 [&](const auto& text) { return NamePattern(text).match(name).has_value(); });
    };
    for (const std::string& name : wanted) CHECK_MESSAGE(is_meant(name), name);
    for (const std::string& name : others) CHECK_MESSAGE(!is_meant(name), name);
  }
  CHECK(written > 40);
}
