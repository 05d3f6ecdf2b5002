// One table has the attributes of a generation; printing and parsing both use it.
#include "ir/text/generation_text.h"

#include <algorithm>

namespace weftc {

namespace {

/// Calls visit(name, member) for each attribute, sorted by name.
template <class AnyGeneration, class Visit>
void for_each_attr(AnyGeneration& g, Visit&& visit) {
  visit("end", g.end);
  visit("logits", g.logits);
  visit("mask", g.mask);
  visit("max_new", g.sampling.max_new);
  visit("past", g.past);
  visit("past_dim", g.past_dim);
  visit("positions", g.positions);
  visit("room", g.room);
  visit("seed", g.sampling.seed);
  visit("temperature", g.sampling.temperature);
  visit("tokens", g.tokens);
  visit("top_k", g.sampling.top_k);
  visit("top_p", g.sampling.top_p);
}

}  // namespace

Attrs attrs_of(const Generation& generation) {
  std::map<std::string, AttrValue> defaults;
  const Generation plain;
  for_each_attr(plain, [&](const char* name, const auto& value) { defaults[name] = value; });
  Attrs attrs;
  for_each_attr(generation, [&](const char* name, const auto& value) {
    if (AttrValue(value) != defaults[name]) attrs.push_back({name, value});
  });
  return attrs;
}

std::optional<Generation> generation_of(const Attrs& attrs, std::string& wrong) {
  Generation made;
  size_t taken = 0;
  for (const Attr& attr : attrs) {
    wrong = attr.name;
    for_each_attr(made, [&](const char* name, auto& member) {
      const auto* value = std::get_if<std::remove_reference_t<decltype(member)>>(&attr.value);
      if (attr.name == name && value != nullptr) member = *value, ++taken;
    });
    if (taken == 0) return {};
    taken = 0;
  }
  return made;
}

}  // namespace weftc
