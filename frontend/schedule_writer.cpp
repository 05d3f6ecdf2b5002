// Inserts lines into a schedule's text instead of printing the schedule anew, so that comments and the user's style are
// kept. The result is read again as a check, since some styles cannot take a further line.
#include "frontend/schedule_writer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "frontend/yaml_reader.h"
#include "ir/base/quantity.h"

namespace weftc {

namespace {

/// A double-quoted scalar: the only style that can hold every name.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    out += c == '"' || c == '\\' ? std::string("\\") + c : control ? std::string(escaped) : std::string(1, c);
  }
  return out + "\"";
}

std::string selector_text(const Selector& selector) {
  switch (selector.kind) {
    case Selector::Kind::Name:
      return quoted(selector.text);
    case Selector::Kind::Uses:
      return "{uses: " + quoted(selector.text) + "}";
    case Selector::Kind::Weight:
      return quoted(shown_selector(selector));
  }
  return "";
}

std::string list_text(const std::vector<std::string>& items) { return "[" + join(items, ", ") + "]"; }

/// A list of selectors in flow style.
std::string selectors_text(const std::vector<Selector>& selectors) {
  std::vector<std::string> items;
  for (const Selector& selector : selectors) items.push_back(selector_text(selector));
  return list_text(items);
}

std::string text_of(const SplitStep& step) {
  std::vector<std::string> into;
  for (const std::string& name : step.into) into.push_back(quoted(name));
  return format("split: {op: {}, dim: {}, into: {}}", selector_text(step.op), step.dim, list_text(into));
}

std::string text_of(const ReorderStep& step) {
  const std::string moved =
      step.gather ? "gather: " + selector_text(step.moved.front()) : "reduce: " + selectors_text(step.moved);
  return format("reorder: {{}, past: {}}", moved, selectors_text(step.past));
}

/// A size as people write it: in MiB if that is an integer.
std::string size_text(int64_t bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  return bytes % kMiB == 0 ? format("{}MiB", bytes / kMiB) : std::to_string(bytes);
}

std::string text_of(const FuseStep& step) {
  const std::string bucket = step.bucket ? ", bucket: " + size_text(step.bucket) : "";
  return format("fuse: {ops: {}, into: {}{}}", selectors_text(step.ops), quoted(step.into), bucket);
}

std::string text_of(const OverlapStep& step) {
  if (step.chunks == 0) return "overlap: {ops: " + selectors_text(step.ops) + "}";
  return format("overlap: {ops: {}, chunks: {}, dim: {}, mechanism: {}}", selectors_text(step.ops), step.chunks,
                step.dim, mechanism_name(step.mechanism));
}

/// The lines of a file, without its byte order mark.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  if (text.starts_with(kByteOrderMark)) lines.front().erase(0, kByteOrderMark.size());
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// True for a blank line or a comment.
bool says_nothing(const std::string& line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos || line[first] == '#';
}

/// The number of lines before "...", which ends a document.
size_t end_of_document(const std::vector<std::string>& lines) {
  const auto ends = [](const std::string& line) {
    return line.starts_with("...") && (line.size() == 3 || std::strchr(" \t\r", line[3]));
  };
  return static_cast<size_t>(std::find_if(lines.begin(), lines.end(), ends) - lines.begin());
}

/// Position of new items: the number of lines before them, and their indentation.
struct Slot {
  size_t line;
  std::string indent;
};

/// The line after the section of `entry`. It is before the next key and the blank lines and comments that belong to
/// that key.
size_t end_of_section(const YamlNode& root, const YamlEntry& entry, const std::vector<std::string>& lines) {
  size_t end = end_of_document(lines);
  for (const YamlEntry& other : root.entries)
    if (other.key.loc.line > entry.key.loc.line) end = std::min(end, static_cast<size_t>(other.key.loc.line) - 1);
  while (end > static_cast<size_t>(entry.key.loc.line) && says_nothing(lines[end - 1])) --end;
  return end;
}

/// A section to which items are added: a list with a dash for each, or a mapping.
struct Section {
  const char* name;
  bool is_list;
};

std::optional<Slot> find_slot(const YamlNode& root, const YamlEntry& entry, const std::vector<std::string>& lines,
                              const Section& section, Diags& diags) {
  const size_t end = end_of_section(root, entry, lines);
  if (entry.value.is(YamlNode::Kind::Null)) return Slot{end, "  "};
  // After a dash there may be only a comment: the item can begin on a later line.
  const auto first = std::find_if_not(lines.begin() + entry.key.loc.line, lines.end(), says_nothing);
  const size_t start = first == lines.end() ? 0 : first->find_first_not_of(' ');
  const bool is_block = first != lines.end() && first - lines.begin() < static_cast<std::ptrdiff_t>(end) &&
                        (section.is_list ? (*first)[start] == '-' : (*first)[start] != '{');
  if (is_block) return Slot{end, std::string(start, ' ')};
  diags.error("schedule-style", entry.key.loc,
              section.is_list ? "steps can be added only to a list with a line and a dash for each step"
                              : "entries can be added only to a mapping with a line for each entry");
  return {};
}

size_t count_items(const YamlNode& root, const Section& section) {
  for (const YamlEntry& entry : root.entries)
    if (entry.key.text == section.name) return entry.value.items.size() + entry.value.entries.size();
  return 0;
}

/// Whether the text is a schedule with this number of items: in some styles a further line breaks it.
bool has_items(const std::string& file, const std::string& text, const Section& section, size_t count) {
  Diags ignored;
  const std::optional<YamlNode> root = read_yaml(file, text, ignored);
  return root && count_items(*root, section) == count;
}

std::optional<std::string> with_items(const std::string& file, const std::string& text, const Section& section,
                                      const std::vector<std::string>& items, Diags& diags) {
  const std::optional<YamlNode> root = read_yaml(file, text, diags);
  if (!root) return {};
  std::vector<std::string> lines = lines_of(text);
  std::optional<Slot> slot = Slot{end_of_document(lines), "  "};
  bool has_section = false;
  for (const YamlEntry& entry : root->entries) {
    if (entry.key.loc.column != 1) {
      diags.error("schedule-style", entry.key.loc, "lines can be added only to a schedule with a line for each key");
      return {};
    }
    if (entry.key.text != section.name) continue;
    has_section = true;
    slot = find_slot(*root, entry, lines, section, diags);
  }
  if (!slot) return {};
  std::vector<std::string> added;
  if (!has_section && !items.empty()) added.push_back(std::string(section.name) + ":");
  for (const std::string& item : items) added.push_back(slot->indent + (section.is_list ? "- " : "") + item);
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(slot->line), added.begin(), added.end());
  const std::string made = join(lines, "\n") + "\n";
  if (has_items(file, made, section, count_items(*root, section) + items.size())) return made;
  diags.error("schedule-style", Loc::in_file(file), "with a line added to '{}' the schedule cannot be read",
              section.name);
  return {};
}

}  // namespace

std::string transform_text(const TransformStep& step) {
  return std::visit([](const auto& what) { return text_of(what); }, step.what);
}

std::string pin_text(const KernelPin& pin) {
  const std::string tile = pin.tile.empty() ? "" : format(", tile: [{}, {}]", pin.tile[0], pin.tile[1]);
  const std::string panels = pin.panels ? format(", panels: {}", pin.panels) : "";
  return format("{}: {strategy: {}{}{}{}}", quoted(pin.name), pin.strategy, tile, panels,
                pin.one_thread ? ", threads: 1" : "");
}

std::optional<std::string> with_transforms(const std::string& file, const std::string& text,
                                           const std::vector<TransformStep>& steps, Diags& diags,
                                           const std::vector<std::string>& comments) {
  std::vector<std::string> items;
  for (const TransformStep& step : steps) items.push_back(transform_text(step));
  for (size_t i = 0; i < items.size() && i < comments.size(); ++i)
    if (!comments[i].empty()) items[i] += "  # " + comments[i];
  return with_items(file, text, {"transform", true}, items, diags);
}

/// Entries of a mapping, followed by their comments in one column.
static std::vector<std::string> with_comments(std::vector<std::string> items,
                                              const std::vector<std::string>& comments) {
  size_t width = 0;
  for (const std::string& item : items) width = std::max(width, item.size());
  for (size_t i = 0; i < items.size() && i < comments.size(); ++i)
    if (!comments[i].empty()) items[i] += std::string(width - items[i].size() + 2, ' ') + "# " + comments[i];
  return items;
}

std::optional<std::string> with_pins(const std::string& file, const std::string& text,
                                     const std::vector<KernelPin>& pins, Diags& diags,
                                     const std::vector<std::string>& comments) {
  std::vector<std::string> items;
  for (const KernelPin& pin : pins) items.push_back(pin_text(pin));
  return with_items(file, text, {"kernels", false}, with_comments(std::move(items), comments), diags);
}

/// An axis of an entry, or a product of axes, with its layout.
static std::string axis_text(const AxisRequest& request) {
  const std::string axes = request.axes.size() == 1 ? request.axes.front() : list_text(request.axes);
  if (request.replicated) return axes + ": R";
  if (request.parts == 1) return format("{}: {}", axes, request.dim);
  return format("{}: {dim: {}, parts: {}}", axes, request.dim, request.parts);
}

std::string shard_text(const ShardEntry& entry) {
  std::vector<std::string> axes;
  for (const AxisRequest& request : entry.axes) axes.push_back(axis_text(request));
  const std::string name = entry.use ? quoted(shown_selector(entry.target) + ".use") : selector_text(entry.target);
  return format("{}: {{}}", name, join(axes, ", "));
}

std::optional<std::string> with_shard(const std::string& file, const std::string& text,
                                      const std::vector<ShardEntry>& entries, Diags& diags,
                                      const std::vector<std::string>& comments) {
  std::vector<std::string> items;
  for (const ShardEntry& entry : entries) items.push_back(shard_text(entry));
  return with_items(file, text, {"shard", false}, with_comments(std::move(items), comments), diags);
}

std::optional<std::string> with_recompute_limit(const std::string& file, const std::string& text, int64_t bytes,
                                                const std::string& comment, Diags& diags) {
  const std::string limit = quantity_text(static_cast<double>(bytes), Quantity::Bytes);
  return with_items(file, text, {"train", false}, {format("recompute: {limit: {}}  # {}", limit, comment)}, diags);
}

std::string with_line(const std::string& text, const std::string& line) {
  std::vector<std::string> lines = lines_of(text);
  const auto first =
      std::find_if(lines.begin(), lines.end(), [](const auto& known) { return known.starts_with("weft:"); });
  lines.insert(first == lines.end() ? first : first + 1, line);
  return join(lines, "\n") + "\n";
}

/// "{dp: 2, tp: 4}"
static std::string mesh_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : mesh) axes.push_back(format("{}: {}", axis.name, axis.size));
  return "{" + join(axes, ", ") + "}";
}

std::string with_mesh(const std::string& text, const Mesh& mesh) { return with_line(text, "mesh: " + mesh_text(mesh)); }

std::string place_text(const PlaceRequest& place) {
  std::vector<std::string> ranks;
  for (const int rank : place.ranks) ranks.push_back(std::to_string(rank));
  return format("{}: {ranks: {}, mesh: {}}", place.name, list_text(ranks), mesh_text(place.mesh));
}

std::string stage_text(const StageRequest& stage) {
  if (stage.has_rest) return stage.name + ": rest";
  return stage.name + ": " +
         (stage.nodes.size() == 1 ? selector_text(stage.nodes.front()) : selectors_text(stage.nodes));
}

}  // namespace weftc
