// The text of declarations. The Plan has resolved all offsets. If an offset follows from another declaration, the text
// is `x.end()` instead of the number, so that a reader sees the packing.
#include "backend/declarations.h"

#include <algorithm>
#include <set>

#include "backend/dialects/target_dialect.h"
#include "backend/length_expression.h"
#include "ir/base/check.h"
#include "ir/segments.h"

namespace weftc {

// True for a place of all ranks in their order: axes of such a place need no list of ranks.
static bool is_everyone(const Plan& plan, const Place& place) {
  for (int i = 0; i < place.size(); ++i)
    if (place.ranks[i] != i) return false;
  return place.size() == plan.world;
}

static std::string numbers_text(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (int n : numbers) parts.push_back(std::to_string(n));
  return join(parts, ", ");
}

std::vector<std::string> Declarations::axes() const {
  std::vector<std::string> lines;
  int id = 0;
  for (size_t p = 0; p < plan_.places.size(); ++p) {
    const Place& place = plan_.places[p];
    const bool listed = !is_everyone(plan_, place) && !place.mesh.empty();
    const std::string ranks = "kRanksOf" + std::to_string(p);
    if (listed)
      lines.push_back("constexpr int " + ranks + "[] = {" + numbers_text(place.ranks) + "};  // " +
                      comment_text(place.name));
    int stride = place.size();
    for (size_t a = 0; a < place.mesh.size(); ++a) {
      stride /= place.mesh[a].size;
      lines.push_back("constexpr weft::Axis " + names_.axes[p][a] + "{.name = " + string_literal(place.mesh[a].name) +
                      ", .size = " + std::to_string(place.mesh[a].size) + ", .stride = " + std::to_string(stride) +
                      ", .id = " + std::to_string(id++) + (listed ? ", .ranks = " + ranks : "") + "};");
    }
  }
  return lines;
}

// The elements of all instances; instances are padded to the buffer's bytes, so that each begins aligned.
static int64_t buffer_elements(const Buffer& buffer) {
  if (buffer.depth > 1) return buffer.depth * (buffer.bytes / dtype_bytes(buffer.type.dtype));
  return element_count(buffer.dims());
}

// Equal to `end()` of weft::Own and weft::Window, which the text calls.
static int64_t buffer_end(const Buffer& buffer, int64_t offset) {
  return offset + round_up_to(buffer_elements(buffer) * dtype_bytes(buffer.type.dtype), kBufferAlign);
}

/// The offset in terms of another buffer, if that gives the resolved offset; else the number.
std::string Declarations::offset_text(const Program& program, size_t buffer) const {
  const Position& position = program.positions[buffer];
  if (position.offset == 0 || !position.of) return std::to_string(position.offset);
  const int64_t of = program.positions[position.of.index].offset;
  const std::string& name = names_.buffers[position.of.index];
  if (name == names_.buffers[buffer]) return std::to_string(position.offset);
  if (position.kind == Position::Kind::SameAs && of == position.offset) return name + ".offset";
  if (position.kind == Position::Kind::EndOf && buffer_end(plan_.buffer(position.of), of) == position.offset)
    return name + ".end()";
  return std::to_string(position.offset);
}

std::string buffer_type(const Buffer& buffer) {
  return std::string(buffer.window ? "weft::Window<" : "weft::Own<") + memory_type(buffer.type.dtype) + ">";
}

int64_t image_place(const Plan& plan, const Program& program, const Weight& weight) {
  const size_t s = static_cast<size_t>(weight.segment);
  return weight.offset - segment_begin(plan, s) + image_begin(plan, program, s);
}

std::string Declarations::buffer_line(const Program& program, size_t b) const {
  const Buffer& buffer = plan_.buffers[b];
  const int64_t padded = buffer.bytes / dtype_bytes(buffer.type.dtype);
  const std::string count = count_text(buffer.depth > 1 ? Dims{buffer.depth, padded} : buffer.dims());
  std::string line = "constexpr " + buffer_type(buffer) + " " + names_.buffers[b] + " {" + offset_text(program, b) +
                     ", " + count + "};";
  const std::string live = names_.lives[b].empty() ? "" : "  // " + comment_text(names_.lives[b]);
  return line.size() + live.size() <= 120 ? line + live : line;
}

std::vector<std::string> Declarations::buffers(const Program& program, bool window) const {
  std::vector<std::string> lines;
  std::set<std::string> done;
  const auto wanted = [&](size_t b) {
    const Position::Kind kind = program.positions[b].kind;
    const bool is_placed = kind != Position::Kind::Absent && kind != Position::Kind::OfThread;
    return plan_.buffers[b].window == window && is_placed && !done.contains(names_.buffers[b]);
  };
  // A buffer comes after the one that its offset names.
  const auto add = [&](auto&& self, size_t b) -> void {
    if (!wanted(b)) return;
    done.insert(names_.buffers[b]);
    const Position& position = program.positions[b];
    if (position.of) self(self, position.of.index);
    lines.push_back(buffer_line(program, b));
  };
  for (size_t b = 0; b < plan_.buffers.size(); ++b) add(add, b);
  return lines;
}

std::string Declarations::signal_count() const {
  if (!plan_.transfers.empty()) return names_.transfers.back() + ".end()";
  return plan_.signals.empty() ? "0" : names_.signals.back() + ".end()";
}

/// Finds the signals that the kernel of a loop over chunks raises or waits for. Between streams of one rank these are
/// flags in memory, while other signals between streams are events of the device.
static void find_in_kernel(const Plan& plan, const std::vector<Step>& steps, std::set<uint32_t>& found) {
  for (const Step& step : steps) {
    for (const Raise& raise : step.raises)
      if (raise.in_kernel) found.insert(raise.signal.index);
    for (const Wait& wait : step.waits)
      if (wait.in_kernel) found.insert(wait.signal.index);
    for (const std::vector<Step>* body : bodies_of(step)) find_in_kernel(plan, *body, found);
  }
}

std::vector<std::string> Declarations::signals() const {
  std::set<uint32_t> in_kernel;
  if (dialect_of(plan_.target).facts.has_stream_events)
    for (const Block& block : plan_.blocks) find_in_kernel(plan_, block.steps, in_kernel);
  std::vector<std::string> lines;
  for (size_t s = 0; s < plan_.signals.size(); ++s) {
    const Signal& signal = plan_.signals[s];
    const std::string slot = s ? names_.signals[s - 1] + ".end()" : "0", count = std::to_string(signal.count);
    const std::string group = signal.axes.empty() ? "" : ", " + names_.group(signal.place, signal.axes);
    const bool is_flag = group.empty() && in_kernel.contains(static_cast<uint32_t>(s));
    lines.push_back("constexpr weft::Signal " + names_.signals[s] +
                    (is_flag ? "{.slot = " + slot + ", .count = " + count + ", .in_kernel = true};"
                             : "{" + slot + ", " + count + group + "};"));
  }
  return lines;
}

// "{from, to, source, target, {{extent, source stride, target stride}, ...}}," as weft::Message has it: at most
// six dimensions.
std::string Declarations::message_text(const Message& message) const {
  std::string text = "{" + std::to_string(message.from) + ", " + std::to_string(message.to) + ", " +
                     std::to_string(message.source) + ", " + std::to_string(message.target) + ", {";
  // Dimensions that are contiguous on both sides become one.
  struct Box {
    int64_t extent, source, target;
  };
  std::vector<Box> boxes;
  for (size_t d = 0; d < message.extents.size(); ++d) {
    const Box box{message.extents[d], message.source_strides[d], message.target_strides[d]};
    if (box.extent == 1) continue;
    const bool joins = !boxes.empty() && boxes.back().source == box.source * box.extent &&
                       boxes.back().target == box.target * box.extent;
    if (joins)
      boxes.back() = {boxes.back().extent * box.extent, box.source, box.target};
    else
      boxes.push_back(box);
  }
  if (boxes.empty()) boxes.push_back({1, 1, 1});
  WEFT_CHECK(boxes.size() <= 6, "a message with more than six dimensions");
  for (size_t d = 0; d < boxes.size(); ++d)
    text += (d ? ", {" : "{") + std::to_string(boxes[d].extent) + ", " + std::to_string(boxes[d].source) + ", " +
            std::to_string(boxes[d].target) + "}";
  return text + "}},";
}

std::vector<std::string> Declarations::transfers() const {
  std::vector<std::string> lines;
  std::string slot = plan_.signals.empty() ? "0" : names_.signals.back() + ".end()";
  for (size_t t = 0; t < plan_.transfers.size(); ++t) {
    const std::string& name = names_.transfers[t];
    lines.push_back("constexpr weft::Message " + name + "_messages[] = {");
    for (const Message& message : plan_.transfers[t].messages) lines.push_back("    " + message_text(message));
    lines.push_back("};");
    lines.push_back("constexpr weft::Transfer " + name + "{" + slot + ", " + std::to_string(plan_.micro_batches) +
                    ", " + name + "_messages};");
    slot = name + ".end()";
  }
  return lines;
}

std::vector<std::string> Declarations::weights(const Program& program) const {
  std::vector<std::string> lines = names_.layer_lines;
  const Weight* last = nullptr;
  std::string last_name;
  bool last_has_layers = false;
  for (size_t w = 0; w < plan_.weights.size(); ++w) {
    const Weight& weight = plan_.weights[w];
    const auto layers = names_.layer_weights.find(static_cast<uint32_t>(w));
    const bool is_declared = names_.in_layers.contains(static_cast<uint32_t>(w));
    if (!holds(plan_, program, plan_.segments[static_cast<size_t>(weight.segment)].place) || is_declared) continue;
    const int64_t offset = image_place(plan_, program, weight);
    const int64_t elements = weight.bytes / dtype_bytes(weight.type.dtype);
    std::string at = std::to_string(offset);
    if (last) {
      const int64_t end = image_place(plan_, program, *last) + round_up_to(last->bytes, kBufferAlign);
      if (end == offset && last->segment == weight.segment)
        at = last_name + ".end()";
      else if (round_up_to(end, kSegmentPage) == offset && last->segment != weight.segment && !last_has_layers)
        at = "weft::next_segment(" + last_name + ")";
    }
    const Dims dims = buffer_dims(weight.type, plan_.places[weight.place.index].mesh);
    const std::string count = elements == element_count(dims) ? count_text(dims) : std::to_string(elements);
    const bool has_layers = layers != names_.layer_weights.end();
    last = &weight, last_name = has_layers ? layers->second.name : names_.weights[w], last_has_layers = has_layers;
    lines.push_back(std::string("constexpr weft::") + (has_layers ? "LayerWeights<" : "Weight<") +
                    memory_type(weight.type.dtype) + "> " + last_name + "{" + at + ", " + count +
                    (has_layers ? ", " + layers->second.layers : "") + "};");
  }
  return lines;
}

std::string Declarations::segments(const Program& program) const {
  const std::vector<int64_t> files = segment_files(plan_);
  std::vector<std::string> parts;
  int64_t expected = 0;
  for (size_t s = 0; s < plan_.segments.size(); ++s) {
    const Segment& segment = plan_.segments[s];
    if (!holds(plan_, program, segment.place)) continue;
    const int64_t end = image_begin(plan_, program, s) + segment.end - segment_begin(plan_, s);
    std::string text = "{" + std::to_string(end);
    for (size_t w = 0; w < plan_.weights.size(); ++w)
      if (plan_.weights[w].segment == static_cast<int>(s) &&
          plan_.weights[w].offset + round_up_to(plan_.weights[w].bytes, kBufferAlign) >= segment.end)
        text = "{" + names_.weights[w] + ".end()";
    if (!segment.axes.empty() || files[s] != expected) text += ", " + names_.group(segment.place, segment.axes);
    if (files[s] != expected) text += ", " + std::to_string(files[s]);
    expected = files[s + 1];
    parts.push_back(text + "}");
  }
  return join(parts, ", ");
}

std::vector<std::string> Declarations::length_names() const {
  std::set<std::string> names;
  for (const LengthBuffer& length : plan_.lengths) names.insert(length.name);
  return {names.begin(), names.end()};
}

/// A function of the values of all named lengths.
std::string Declarations::length_text(const Length& length) const {
  const std::vector<std::string> names = length_names();
  const auto number = [&](const std::string& name) {
    return std::to_string(std::find(names.begin(), names.end(), name) - names.begin());
  };
  if (const LengthSymbol* name = as_name(length)) return number(name->text);
  return "[](const int64_t* n) { return " +
         length_expression(length, [&](const std::string& name) { return "n[" + number(name) + "]"; }) + "; }";
}

std::vector<std::string> Declarations::lengths() const {
  std::vector<std::string> lines, names, limits;
  for (const std::string& name : length_names()) names.push_back(string_literal(name));
  if (!names.empty()) lines.push_back("constexpr const char* kLengths[] = {" + join(names, ", ") + "};");
  if (!plan_.limits.empty()) lines.push_back("constexpr weft::LengthLimit kLimits[] = {");
  for (const LengthLimit& limit : plan_.limits)
    lines.push_back("    {" + string_literal(limit.what) + ", " + length_text(limit.length) + ", " +
                    std::to_string(limit.least) + ", " + std::to_string(limit.most) +
                    (limit.is_made ? ", true}," : "},"));
  if (!plan_.limits.empty()) lines.push_back("};");
  for (const std::string& line : demands()) lines.push_back(line);
  return lines;
}

/// A length in one of the tables; a number there is also written as a function.
std::string Declarations::demanded_text(const Length& length) const {
  if (!length.is_constant()) return length_text(length);
  return "[](const int64_t*) { return int64_t{" + std::to_string(length.constant()) + "}; }";
}

std::vector<std::string> Declarations::demands() const {
  if (plan_.demands.empty()) return {};
  std::vector<std::string> lines{"constexpr weft::LengthDemand kDemands[] = {"};
  for (const auto& [relation, is_made] : plan_.demands)
    lines.push_back("    {" + string_literal(relation.what) + ", " + string_literal(relation.left.text()) + ", " +
                    demanded_text(relation.left) + ", weft::Relation::" + (relation.may_be_less ? "AtMost" : "Equal") +
                    ", " + string_literal(relation.right.text()) + ", " + demanded_text(relation.right) +
                    (is_made               ? ", true"
                     : relation.where == 1 ? ""
                                           : ", false") +
                    (relation.where == 1 ? "" : ", " + length_text(relation.where)) + "},");
  lines.push_back("};");
  return lines;
}

std::string Declarations::length_slots(const Program& program) const {
  const std::vector<std::string> names = length_names();
  std::vector<std::string> slots;
  for (const LengthBuffer& length : plan_.lengths)
    if (holds(plan_, program, length.place))
      slots.push_back("{" + std::to_string(std::find(names.begin(), names.end(), length.name) - names.begin()) + ", " +
                      names_.buffers[length.buffer.index] + (length.is_made ? ", true}" : "}"));
  return join(slots, ", ");
}

std::string Declarations::ports(const Program& program, const std::vector<Port>& ports, const std::string& prefix,
                                std::vector<std::string>& layouts) const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    const bool absent = program.positions[port.buffer.index].kind == Position::Kind::Absent;
    if (absent || !holds(plan_, program, port.place)) continue;  // a window has the same position in all programs
    const std::string name = "k" + prefix + std::to_string(i);
    std::vector<std::string> slices, bounds, fields, dims;
    std::vector<int> varying;
    for (int a = 0; a < port.type.layout.size(); ++a) {
      const AxisState state = port.type.layout[a];
      if (state.is(AxisState::Kind::S))
        slices.push_back("{" + std::to_string(state.dim) + ", " + std::to_string(state.block) + ", " +
                         names_.axes[port.place.index][a] + "}");
      if (state.is(AxisState::Kind::V)) varying.push_back(a);
    }
    for (size_t d = 0; d < port.type.shape.size(); ++d)
      if (const Extent& extent = port.type.shape[d]; extent.is_run_time())
        bounds.push_back("{" + std::to_string(d) + ", " + length_text(*extent.length) + "}");
    const auto field = [&](const std::string& type, const std::string& what, const std::vector<std::string>& rows) {
      if (rows.empty()) return;
      layouts.push_back("constexpr " + type + " " + name + what + "[] = {" + join(rows, ", ") + "};");
      fields.push_back((what == "Slices" ? ".slices = " : ".bounds = ") + name + what);
    };
    field("weft::Slice", "Slices", slices);
    if (!varying.empty()) fields.push_back(".per_rank = " + names_.group(port.place, varying));
    field("weft::Bound", "Bounds", bounds);
    if (plan_.buffer(port.buffer).storage.by_bounds) fields.push_back(".by_bounds = true");
    for (const StateSlot& state : plan_.states)
      if (&ports == &plan_.inputs && state.initial && state.buffer == port.buffer)
        fields.push_back(".initial = " + std::to_string(image_place(plan_, program, plan_.weight(state.initial))));
    for (int64_t d : port.type.dims()) dims.push_back(std::to_string(d));
    lines.push_back("{" + string_literal(port.name) + ", {" + join(dims, ", ") + "}, " +
                    names_.buffers[port.buffer.index] + (fields.empty() ? "" : ", {" + join(fields, ", ") + "}") +
                    "},");
  }
  return join(lines, "\n");
}

}  // namespace weftc
