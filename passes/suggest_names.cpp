// A pattern is compared with names in which numbers are replaced by the pattern's variables:
//
//   h.{l}.attn.c_atn.weight     h.0.attn.c_attn.weight -> h.{l}.attn.c_attn.weight          one letter differs
//   h.{l}.attn.c_attn.weight    /h.0/attn/c_attn/MatMul -> /h.{l}/attn/c_attn/MatMul        the same components
#include "passes/suggest_names.h"

#include <algorithm>
#include <set>

namespace weftc {

namespace {

bool is_separator(char c) { return c == '.' || c == '/'; }
bool is_variable(const std::string& component) { return component.starts_with('{') && component.ends_with('}'); }

/// Calls `found` with each component of a name and each separator between them, in order.
template <class Found>
void for_each_component(const std::string& name, const Found& found) {
  for (size_t at = 0; at <= name.size();) {
    size_t end = at;
    while (end < name.size() && !is_separator(name[end])) ++end;
    found(name.substr(at, end - at), end < name.size() ? name.substr(end, 1) : "");
    at = end + 1;
  }
}

std::vector<std::string> components_of(const std::string& name) {
  std::vector<std::string> components;
  for_each_component(name, [&](const std::string& component, const std::string&) {
    if (!component.empty()) components.push_back(component);
  });
  return components;
}

/// The name with its numbers replaced by the variables, first to first.
std::string as_pattern(const std::string& name, const std::vector<std::string>& variables) {
  std::string pattern;
  size_t used = 0;
  for_each_component(name, [&](const std::string& component, const std::string& separator) {
    const bool number = !component.empty() && std::all_of(component.begin(), component.end(), ::isdigit);
    pattern += (number && used < variables.size() ? variables[used++] : component) + separator;
  });
  return pattern;
}

/// True if the components occur in the name in this order; a variable or star matches any.
bool holds_in_order(const std::vector<std::string>& name, const std::vector<std::string>& components) {
  size_t next = 0;
  for (const std::string& component : name)
    if (next < components.size() && (component == components[next] || is_variable(components[next]))) ++next;
  return next == components.size();
}

}  // namespace

std::string suggest_name(const Selector& selector, const std::vector<std::string>& names,
                         const std::function<bool(const std::string& name)>& has_weight) {
  const auto suggested = [](const std::string& text) { return ", did you mean '" + printable(text) + "'?"; };
  const auto shown = [&](const std::string& text) { return shown_selector({selector.kind, text, selector.loc}); };
  std::vector<std::string> components = components_of(selector.text), variables;
  if (components.empty()) return "";
  for (const std::string& component : components)
    if (is_variable(component)) variables.push_back(component);
  const std::string last = components.back();
  std::set<std::string> patterns, alike;  // those with the same last component are nearer
  for (const std::string& name : names) {
    const std::string pattern = as_pattern(name, variables);
    patterns.insert(pattern);
    if (pattern.ends_with(last)) alike.insert(pattern);
  }
  if (const std::string near = nearest(selector.text, {alike.begin(), alike.end()}); !near.empty())
    return suggested(shown(near));
  const bool of_weight = components.size() > 1 && (last == "weight" || last == "bias");
  if (of_weight) components.pop_back();
  std::string best;
  for (const std::string& name : names) {
    if (!best.empty() && name.size() >= best.size()) continue;
    if (holds_in_order(components_of(name), components) && (!of_weight || has_weight(name))) best = name;
  }
  if (!best.empty()) {
    const Selector::Kind kind = of_weight ? Selector::Kind::Weight : selector.kind;
    return suggested(shown_selector({kind, as_pattern(best, variables), selector.loc}));
  }
  const std::string near = nearest(selector.text, {patterns.begin(), patterns.end()});
  return near.empty() ? "; 'weft explain --names' lists what there is" : suggested(shown(near));
}

}  // namespace weftc
