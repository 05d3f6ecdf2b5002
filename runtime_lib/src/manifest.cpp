// Finding a step in manifest.json, for messages about it.
#include "manifest.h"

#include <algorithm>
#include <vector>

#include "failure.h"

namespace weft {

std::string json_string(std::string_view in) {
  std::string out = "\"";
  for (const char c : in) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += text("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

namespace {

/// Walks the objects of a JSON array without building a tree: the manifest is large, and one string of it is wanted.
struct Scanner {
  std::string_view json;
  size_t at = 0;

  /// The next token: a bracket, comma or colon as itself, a string with its opening quote, else a word. Empty at the
  /// end.
  std::string_view next() {
    at = json.find_first_not_of(" \t\r\n", at);
    if (at >= json.size()) return at = json.size(), std::string_view();
    const size_t begin = at;
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at)
        if (json[at] == '\\') ++at;
      const size_t end = at < json.size() ? at : json.size();
      at = end + 1;
      return json.substr(begin, end - begin);
    }
    if (std::string_view("{}[],:").find(json[at]) != std::string_view::npos) return json.substr(at++, 1);
    at = std::min(json.find_first_of("{}[],: \t\r\n\"", at), json.size());
    return json.substr(begin, at - begin);
  }
};

/// Strings as Scanner gives them, without the opening quote.
struct StepFields {
  std::string_view name, schedule, block, turn;
  std::vector<std::string> nodes;  // "MatMul h"
};

/// Collects the strings of the manifest's steps, in the program and in its variants.
template <class Take>
void for_each_step(std::string_view manifest, const Take& take) {
  Scanner scanner{manifest};
  int depth = 0, steps_depth = -9;
  StepFields step;
  std::string_view key, op;
  const auto put = [&](std::string_view value) {
    if (depth == steps_depth + 1) {
      if (key == "\"name") step.name = value;
      if (key == "\"schedule") step.schedule = value;
      if (key == "\"block") step.block = value;
      if (key == "\"turn") step.turn = value;
    } else if (depth == steps_depth + 3) {
      if (key == "\"op") op = value;
      if (key == "\"name") step.nodes.push_back(std::string(op) + " " + std::string(value));
    }
  };
  for (std::string_view token = scanner.next(); !token.empty(); token = scanner.next()) {
    if (token == "{" || token == "[") {
      ++depth;
      if (token == "[" && key == "\"steps") steps_depth = depth;  // of the program, or of a variant
      if (token == "{" && depth == steps_depth + 1) step = {};
      key = {};
    } else if (token == "}" || token == "]") {
      if (token == "}" && depth == steps_depth + 1) take(step);
      if (depth == steps_depth) steps_depth = -9;
      --depth;
    } else if (token == ",") {
      key = {};
    } else if (token[0] == '"') {
      if (key.empty())
        key = token;
      else
        put(token.substr(1));
    }
  }
}

/// The text as in JSON, without quotes.
std::string escaped(std::string_view name) {
  const std::string literal = json_string(name);
  return literal.substr(1, literal.size() - 2);
}

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (!item.empty() && std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

std::string joined(const std::vector<std::string>& items, const char* between) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : between) + item;
  return out;
}

}  // namespace

std::string schedule_line(std::string_view manifest, std::string_view step) {
  const std::string wanted = escaped(step);
  std::string found;
  for_each_step(manifest, [&](const StepFields& fields) {
    if (found.empty() && fields.name == wanted) found = fields.schedule;
  });
  return found;
}

/// Whether a status means this step: long names are cut in it.
static bool means(const std::string& status, std::string_view step) {
  return step == status || (status.size() + kAfter.size() >= kLongestStatus && step.starts_with(status));
}

std::string with_facts(std::string_view manifest, const std::string& status) {
  std::string name = status, index = "0";
  if (const size_t open = status.rfind(" ["); open != std::string::npos && status.ends_with("]"))
    name = status.substr(0, open), index = status.substr(open + 2, status.size() - open - 3);
  if (name.starts_with(kAfter)) name.erase(0, kAfter.size());
  const std::string wanted = escaped(name);
  std::vector<std::string> nodes, once, repeated;  // blocks: those that run once, and those of micro-batches
  for_each_step(manifest, [&](const StepFields& fields) {
    if (!means(wanted, fields.name)) return;
    for (const std::string& node : fields.nodes) add_once(nodes, node);
    if (fields.block.empty()) return;
    if (fields.turn == "micro_batch")
      add_once(repeated, "block " + std::string(fields.block) + ", micro-batch " + index);
    else
      add_once(once, "block " + std::string(fields.block));
  });
  // Once blocks run before the first micro-batch or after the last.
  std::vector<std::string> blocks = repeated.empty() || index == "0" ? once : std::vector<std::string>();
  blocks.insert(blocks.end(), repeated.begin(), repeated.end());
  std::vector<std::string> facts;
  add_once(facts, joined(nodes, ", "));
  add_once(facts, joined(blocks, " or "));
  return facts.empty() ? status : status + " (" + joined(facts, "; ") + ")";
}

}  // namespace weft
