// Names and arguments of one kernel: the Plan's names, legal and unique in the function, and the arguments in the order
// in which a launch passes them.
#include "backend/kernel_context.h"

#include <algorithm>
#include <cmath>

#include "backend/length_expression.h"
#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

const char* memory_type(DType dtype) {
  static constexpr const char* kNames[] = {"float",
                                           "double",
                                           "weft::half",
                                           "weft::bfloat16",
                                           "int8_t",
                                           "int16_t",
                                           "int32_t",
                                           "int64_t",
                                           "uint8_t",
                                           "uint16_t",
                                           "uint32_t",
                                           "uint64_t",
                                           "bool",
                                           "weft::float8e4m3fn",
                                           "weft::float8e4m3fnuz",
                                           "weft::float8e5m2",
                                           "weft::float8e5m2fnuz",
                                           "weft::float8e8m0",
                                           "weft::float4e2m1",
                                           "weft::float6e2m3",
                                           "weft::float6e3m2",
                                           "weft::signed4",
                                           "weft::unsigned4",
                                           "weft::signed2",
                                           "weft::unsigned2",
                                           "weft::String"};
  return kNames[static_cast<int>(dtype)];
}

bool is_16_bit_float(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

const char* compute_type(DType dtype) {
  if (is_small_int(dtype)) return "int8_t";
  return is_16_bit_float(dtype) || is_small_float(dtype) ? "float" : memory_type(dtype);
}

std::string real_literal(double value, DType dtype) {
  const std::string type = compute_type(dtype);
  if (std::isnan(value)) return "std::numeric_limits<" + type + ">::quiet_NaN()";
  if (std::isinf(value)) return (value < 0 ? "-" : "") + ("std::numeric_limits<" + type + ">::infinity()");
  // The shortest text that gives the same float: 0.044715f, not 0.04471500217914581f.
  const bool single = type == "float";
  std::string text = shortest(value);
  if (single)
    for (int digits = 6; digits < 10; ++digits) {
      char buffer[32];
      snprintf(buffer, sizeof buffer, "%.*g", digits, value);
      if (std::strtof(buffer, nullptr) != static_cast<float>(value)) continue;
      text = buffer;
      break;
    }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += single ? "f" : "";
  return text[0] == '-' ? "(" + text + ")" : text;
}

std::string int_literal(int64_t value, DType dtype) {
  if (dtype == DType::Bool) return value ? "true" : "false";
  if (dtype == DType::U64) return std::to_string(static_cast<uint64_t>(value)) + "u";
  if (value == INT64_MIN) return "INT64_MIN";
  const bool wide = dtype == DType::I64;
  const std::string text = wide ? "int64_t{" + std::to_string(value) + "}" : std::to_string(value);
  return value < 0 && !wide ? "(" + text + ")" : text;
}

KernelContext::KernelContext(const Plan& plan, const Kernel& kernel, Diags& diags, KernelUse use)
    : KernelBody(kernel, plan.places[kernel.place.index].mesh.size()), plan(plan), diags_(diags), use_(use) {
  using Kind = Argument::Kind;
  for (Kind kind : {Kind::Team, Kind::Peers, Kind::Invocation, Kind::Trip, Kind::Panels})
    names.reserve(argument_name({kind}));
  names.reserve(argument_parameter({Kind::Invocation}));
  if (!group().empty()) names.reserve("ranks"), names.reserve("p");  // used for the table of peers' copies
  for (const MeshAxis& axis : kernel.mesh) names.reserve(identifier(axis.name) + "_index");
  for (const Parameter& f : kernel.parameters) parameter_names_.push_back(names.unique(f.name));
  for (const RunExtent& e : kernel.extents) {
    extent_names_.push_back(names.unique(e.name));
    if (!facts().passes_values && e.is_named()) names.reserve(extent_names_.back() + "_at");
  }
  find_lengths(extent_names_);
  for (OpId id : body.order()) {
    const Op& op = body.op(id);
    if (category(op) == Category::Index)
      check_names_[static_cast<int>(id.index)] = names.unique(std::string(last_component(op.name)) + "_indices");
    if (category(op) != Category::Collective || op.kind == OpKind::ShardSlice) continue;
    need({Argument::Kind::Peers});
    if (op.ints("axes") != group())
      refuse("kernel-groups-unsupported", op, "collectives over different axes in one kernel");
  }
  // The operands' names for the peers' copies.
  for (const std::string& name : parameter_names_) {
    names.reserve(name + "_at");
    for (int64_t p = -1; !facts().has_peer_arrays && p < ranks(); ++p)
      names.reserve(name + "_at" + (p < 0 ? "_own" : std::to_string(p)));
  }
}

std::string KernelContext::peer_copy(size_t number, int64_t peer) {
  used_peer_copies_.emplace(number, peer);
  return peer_copy_name(number, peer);
}

std::string KernelContext::peer_copy_name(size_t number, int64_t peer) const {
  const std::string name = parameter_names_[number] + "_at";
  if (!facts().has_peer_arrays) return name + (peer < 0 ? "_own" : std::to_string(peer));
  return name + "[" + (peer < 0 ? "peers.index" : std::to_string(peer)) + "]";
}

std::string KernelContext::shared_array(const std::string& type, const std::string& count, int site,
                                        int64_t first) const {
  if (is_in_chunks()) return "weft::step_room<" + type + ">(" + std::to_string(first) + ")";
  return "weft::shared<" + type + ", " + count + ", " + std::to_string(site) + ">()";
}

void KernelContext::refuse(std::string id, const Op& op, const std::string& what) {
  failed_ = true;
  const std::vector<OriginId>& origins = op.origins.empty() ? kernel.origins : op.origins;
  const Loc loc = origins.empty() ? Loc::in_file(plan.name) : plan.origins[origins[0].index].loc;
  diags_.error(std::move(id), loc, "'{}' (in kernel '{}'): {}", printable(op.name), kernel.name, what);
}

std::string KernelContext::run_extent(const TensorType& type, int dim) const {
  const std::optional<size_t> number = run_extent_of(type, dim);
  return number ? extent_argument(*number) : "";
}

std::string KernelContext::extent_argument(size_t number) const {
  need_extent(number);
  return extent_names_[number];
}

IndexExpr KernelContext::coordinate(int axis) const {
  const Argument argument{is_time_axis(axis) ? Argument::Kind::Chunk : Argument::Kind::Coordinate, axis};
  if (kernel.mesh[axis].size > 1) need(argument);
  return KernelBody::coordinate(axis);
}

IndexExpr KernelContext::offset(const Parameter& parameter, const IndexList& index) const {
  const IndexExpr offset = KernelBody::offset(parameter, index);
  need_lengths(offset);
  return offset;
}

void KernelContext::need_lengths(const IndexExpr& index) const {
  for (const AtomPtr& atom : variables_of(index)) {
    if (!atom->is_length) continue;
    const auto at = std::find(extent_names_.begin(), extent_names_.end(), atom->text);
    if (at != extent_names_.end()) need_extent(static_cast<size_t>(at - extent_names_.begin()));
  }
}

/// A length that the kernel computes needs the lengths that it is computed from.
void KernelContext::need_extent(size_t number) const {
  need({Argument::Kind::Extent, static_cast<int>(number)});
  const RunExtent& extent = kernel.extents[number];
  if (!extent.length || extent.is_named()) return;
  if (extent.is_slice()) coordinate(extent.axis);
  for_each_name(*extent.length, [&](const LengthSymbolPtr& name) { need_extent(*number_of_length(name->text)); });
}

std::optional<size_t> KernelContext::number_of_length(const std::string& text) const {
  for (size_t i = 0; i < kernel.extents.size(); ++i) {
    const RunExtent& extent = kernel.extents[i];
    if (extent.length && !extent.is_slice() && extent.length->text() == text) return i;
  }
  return {};
}

std::string KernelContext::argument_name(const Argument& argument) const {
  switch (argument.kind) {
    case Argument::Kind::Team:
      return "team";
    case Argument::Kind::Peers:
      return "peers";
    case Argument::Kind::Chunk:
    case Argument::Kind::Coordinate:
      return coordinate_name(argument.number);
    case Argument::Kind::Extent:
      return extent_names_[argument.number];
    case Argument::Kind::Invocation:
      return "invocation";
    case Argument::Kind::Trip:
      return "trip";
    case Argument::Kind::Indices:
      return check_names_.at(argument.number);
    case Argument::Kind::Panels:
      return "kept_panels";
  }
  return "";
}

/// A length that the kernel computes from others.
static bool is_computed(const KernelContext& context, const Argument& argument) {
  if (argument.kind != Argument::Kind::Extent) return false;
  const RunExtent& extent = context.kernel.extents[argument.number];
  return extent.length && !extent.is_named();
}

/// True for a length whose address is passed.
static bool is_read(const KernelContext& context, const Argument& argument) {
  return !context.facts().passes_values && argument.kind == Argument::Kind::Extent &&
         context.kernel.extents[argument.number].is_named();
}

std::vector<Argument> KernelContext::passed_arguments() const {
  std::vector<Argument> list;
  for (const Argument& a : arguments_)
    if (!is_computed(*this, a)) list.push_back(a);
  return list;
}

const char* argument_type(const TargetDialect& dialect, Argument::Kind kind) {
  switch (kind) {
    case Argument::Kind::Team:
      return "weft::Team& ";
    case Argument::Kind::Peers:
      return "weft::Peers ";
    case Argument::Kind::Chunk:
    case Argument::Kind::Coordinate:
      return "int ";
    case Argument::Kind::Extent:
      return "int64_t ";
    case Argument::Kind::Invocation:
      return dialect.words.invocation;
    case Argument::Kind::Trip:
      return "uint32_t ";
    case Argument::Kind::Indices:
      return "weft::IndexCheck ";
    case Argument::Kind::Panels:
      return "weft::KeptPanels& ";
  }
  return "";
}

std::string KernelContext::argument_parameter(const Argument& argument) const {
  if (is_read(*this, argument)) return argument_name(argument) + "_at";
  return argument.kind == Argument::Kind::Invocation ? dialect().words.invocation_name : argument_name(argument);
}

std::string KernelContext::type_of(const Argument& argument) const {
  return is_read(*this, argument) ? "const int64_t* " : argument_type(dialect(), argument.kind);
}

std::string KernelContext::computed_extent(const RunExtent& extent) const {
  const auto name_of = [&](const std::string& length) { return extent_names_[*number_of_length(length)]; };
  const std::string whole = length_expression(*extent.length, name_of);
  return extent.is_slice() ? part_expression(whole, extent.block, coordinate_name(extent.axis)) : whole;
}

/// "const float* const parts[] = {a, b, c, d};" in lines of at most 120 columns; further ones begin below the first
/// name.
static Statement table_text(const std::string& head, const std::vector<std::string>& names) {
  constexpr size_t kColumns = 110;
  std::string text = head + " = {", line = text;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool is_next_line = line.size() + names[i].size() > kColumns;
    const std::string next = (i == 0 ? "" : is_next_line ? ",\n    " : ", ") + names[i];
    line = is_next_line ? "    " + names[i] : line + next;
    text += next;
  }
  return text + "};";
}

std::string KernelContext::table_of(const std::vector<size_t>& parameters) {
  std::string& table = tables_[parameters];
  if (table.empty()) table = names.unique("parts");
  return table;
}

Statements KernelContext::prologue() const {
  Statements statements;
  for (const Argument& a : arguments_) {
    const std::string local = argument_name(a);
    if (is_read(*this, a)) {
      statements.push_back(Let{"int64_t", local, name("*" + argument_parameter(a))});
    } else if (is_computed(*this, a)) {
      statements.push_back(Let{"int64_t", local, literal(computed_extent(kernel.extents[a.number]))});
    } else if (!facts().passes_values && a.kind == Argument::Kind::Invocation) {
      statements.push_back(Let{"uint32_t", local, name("*" + argument_parameter(a))});
    }
  }
  for (const auto& [parameters, table] : tables_) {
    std::vector<std::string> addresses;
    for (const size_t number : parameters) addresses.push_back(parameter_name(number));
    const std::string type = memory_type(kernel.parameters[parameters.front()].type.dtype);
    statements.push_back(table_text("const " + type + "* const " + table + "[]", addresses));
  }
  return statements;
}

void KernelContext::cover(int64_t blocks, int64_t threads) {
  constexpr int64_t kMostBlocks = 65536;
  if (is_in_chunks()) {
    blocks = std::max(blocks, blocks * threads / plan.target.chunk_threads);
    threads = plan.target.chunk_threads;
  }
  blocks_ = std::clamp(blocks, blocks_, group().empty() && !is_in_chunks() ? kMostBlocks : plan.target.resident_blocks);
  threads_ = std::max(threads, threads_);
}

std::vector<std::string> KernelContext::parameters(bool definition) const {
  std::vector<std::string> list;
  for (const Argument& a : passed_arguments()) {
    const KernelWords& words = dialect().words;
    const bool is_table = definition && a.kind == Argument::Kind::Peers;
    const std::string type = !is_table ? type_of(a) : is_in_chunks() ? words.function_table : words.table;
    list.push_back(type + argument_parameter(a));
  }
  const size_t inputs = body.inputs().size();
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const Parameter& f = kernel.parameters[i];
    const std::string type = memory_type(f.type.dtype);
    if (f.window && reads_peers())
      list.push_back("weft::Window<" + type + "> " + parameter_names_[i]);
    else
      list.push_back((i < inputs ? "const " : "") + type + "* " + parameter_names_[i]);
  }
  return list;
}

}  // namespace weftc
