// Prints a module in the text form of text_form.h. The text parses to an equal module, except for omitted constants.
// Ops are in the graph's order, so that a diff of two dumps shows what a pass changed.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "ir/base/text.h"
#include "ir/local_op.h"
#include "ir/op_def.h"
#include "ir/string_table.h"
#include "ir/text/generation_text.h"
#include "ir/text/text_form.h"
#include "ir/text/text_lex.h"

namespace weftc {

namespace {

// Constants with more elements are printed as `...`.
constexpr int64_t kMostShown = 16;
constexpr const char* kPhases[] = {"", " backward", " update"};

std::string name_text(std::string_view name) { return is_plain_name(name) ? std::string(name) : quote(name); }

/// Axes have no sign before them, so they are quoted unless they are words.
std::string axis_text(const std::string& name) {
  const bool word = is_plain_name(name) && name.find_first_of(":/.-") == std::string::npos;
  return word && !(name[0] >= '0' && name[0] <= '9') ? name : quote(name);
}

/// Numbers in the order of first mention.
class ValueNumbers {
 public:
  int of(uint32_t index) {
    const auto [at, fresh] = numbers_.emplace(index, static_cast<int>(order_.size()));
    if (fresh) order_.push_back(index);
    return at->second;
  }
  const std::vector<uint32_t>& order() const { return order_; }

 private:
  std::unordered_map<uint32_t, int> numbers_;
  std::vector<uint32_t> order_;
};

/// The fewest digits that read back as the same value of that type.
std::string real_text(DType dtype, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char text[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (round_to(dtype, std::strtod(text, nullptr)) == value) break;
  }
  return text;
}

/// Prints a real attribute so that it cannot be read as an integer.
std::string attr_real(double value) {
  const std::string text = real_text(DType::F64, value);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

std::string element_text(const Tensor& tensor, int64_t i) {
  if (tensor.is_real()) return real_text(tensor.dtype, tensor.real[i]);
  if (tensor.dtype == DType::String) return quote(string_of(tensor.integers[i]));
  if (tensor.dtype == DType::U64) return std::to_string(static_cast<uint64_t>(tensor.integers[i]));
  return std::to_string(tensor.integers[i]);
}

template <class Item, class Text>
std::string list_text(const std::vector<Item>& items, Text text) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    out += text(items[i]);
  }
  return out + "]";
}

std::string mesh_text(const Mesh& mesh) {
  std::string out = "{";
  for (size_t a = 0; a < mesh.size(); ++a)
    out += format("{}{}: {}", a ? ", " : "", axis_text(mesh[a].name), mesh[a].size);
  return out + "}";
}

/// The axes that are not replicated. An axis is named by its number if the mesh has its name twice, or does not have
/// it.
std::string layout_entries(const Layout& layout, const Mesh& mesh) {
  std::string out;
  for (int a = 0; a < layout.size(); ++a) {
    if (layout[a].is(AxisState::Kind::R)) continue;
    const bool known = a < static_cast<int>(mesh.size());
    const auto same = [&](const MeshAxis& axis) { return axis.name == mesh[a].name; };
    const bool unique = known && std::count_if(mesh.begin(), mesh.end(), same) == 1;
    if (!out.empty()) out += ", ";
    out += format("{}: {}", unique ? axis_text(mesh[a].name) : format("#{}", a), state_text(layout[a]));
  }
  return format(" [{}]", out);
}

/// Prints the graph first, which numbers the tables by first mention, then adds the tables around it.
class Printer {
 public:
  Printer(const Module& module, const PrintOptions& options) : module_(module), options_(options) {}
  std::string module();
  std::string op_line(const Graph& graph, const Op& op);

 private:
  void graph(const Graph& graph, const std::string& indent);
  void op(const Graph& graph, const Op& op, const std::string& indent);
  std::string value(const Graph& graph, ValueId v) const {
    return v ? std::string("%").append(name_text(graph.value(v).name)) : "_";
  }
  std::string type(const Graph& graph, ValueId v) const;
  std::string attr(const AttrValue& value);
  std::string attrs(const Attrs& attrs);
  std::string tail(const Graph& graph, const Op& op);
  std::string header();
  static std::string training(const Training& t);
  std::string pipeline() const;
  std::string constants_table() const;
  std::string footer();

  const Module& module_;
  const PrintOptions& options_;
  ValueNumbers constants_, origins_, transforms_;
  std::string out_;
};

std::string Printer::type(const Graph& graph, ValueId v) const {
  const TensorType& type = graph.type(v);
  const auto extent = [&](const Extent& e) {
    return e.is_run_time() ? format("{}<={}", e.length->text(), e.bound) : std::to_string(e.bound);
  };
  const std::string text = dtype_name(type.dtype) + list_text(type.shape, extent);
  if (type.layout.is_replicated()) return text;
  return text + layout_entries(type.layout, module_.mesh(graph, place_of(graph, v)));
}

std::string Printer::attr(const AttrValue& value) {
  struct Visitor {
    Printer& printer;
    std::string operator()(int64_t i) { return std::to_string(i); }
    std::string operator()(double r) { return attr_real(r); }
    std::string operator()(const std::string& s) { return quote(s); }
    std::string operator()(const std::vector<int64_t>& list) {
      return list_text(list, [](int64_t i) { return std::to_string(i); });
    }
    std::string operator()(const std::vector<double>& list) {
      return list.empty() ? "real []" : list_text(list, attr_real);
    }
    std::string operator()(const std::vector<std::string>& list) {
      return list.empty() ? "text []" : list_text(list, quote);
    }
    std::string operator()(ConstantId id) { return format("#{}", printer.constants_.of(id.index)); }
  };
  return std::visit(Visitor{*this}, value);
}

std::string Printer::attrs(const Attrs& attrs) {
  std::string text;
  for (size_t i = 0; i < attrs.size(); ++i)
    text += std::string(i ? ", " : " {").append(attrs[i].name) + " = " + attr(attrs[i].value);
  return attrs.empty() ? text : text + "}";
}

/// Place, block, port, mechanism, name, origins, transform.
std::string Printer::tail(const Graph& graph, const Op& op) {
  std::string text;
  if (op.place) text += format(" @{}", name_text(module_.place(op.place).name));
  if (op.block) text += format(" block {}", *op.block);
  if (op.port) text += format(" port {}", *op.port);
  if (op.mechanism != Mechanism::Streams) text += format(" mechanism {}", mechanism_name(op.mechanism));
  if (op.outputs.empty() || op.name != graph.value(op.outputs[0]).name) text += format(" {}", quote(op.name));
  // Ascending, so that numbering by first mention is the same when the text is parsed and printed again.
  std::vector<uint32_t> numbers;
  for (OriginId origin : op.origins) numbers.push_back(static_cast<uint32_t>(origins_.of(origin.index)));
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i) text += (i ? ", " : " from ") + std::to_string(numbers[i]);
  if (op.transform) text += format(" by {}", transforms_.of(op.transform.index));
  return text;
}

std::string Printer::op_line(const Graph& graph, const Op& op) {
  std::string text;
  for (ValueId v : op.outputs) text += (text.empty() ? "" : ", ") + value(graph, v);
  if (!op.outputs.empty()) text += " = ";
  text += std::string(op_def(op).name) + "(";
  for (size_t i = 0; i < op.inputs.size(); ++i) text += (i ? ", " : "") + value(graph, op.inputs[i]);
  text += ")" + attrs(op.attrs);
  for (size_t r = 0; r < op.outputs.size(); ++r) text += (r ? ", " : " : ") + type(graph, op.outputs[r]);
  return text + tail(graph, op);
}

void Printer::op(const Graph& graph, const Op& op, const std::string& indent) {
  out_ += indent + op_line(graph, op);
  for (const Graph& region : op.regions) {
    out_ += " {\n";
    this->graph(region, indent + "  ");
    out_ += indent + "}";
  }
  out_ += "\n";
}

void Printer::graph(const Graph& graph, const std::string& indent) {
  if (!graph.time_axes.empty()) out_ += format("{}time {}\n", indent, mesh_text(graph.time_axes));
  // Parameters come first in their order, which may differ from the order of ops.
  for (ValueId v : graph.inputs()) op(graph, graph.producer_op(v), indent);
  for (OpId id = graph.first(); id; id = graph.next(id))
    if (graph.op(id).kind != OpKind::Input) op(graph, graph.op(id), indent);
  out_ += indent + "return";
  bool first = true;
  for (const Graph::Output& out : graph.outputs()) {
    out_ += (first ? " " : ", ") + value(graph, out.value);
    if (out.name != graph.value(out.value).name) out_ += format(" {}", quote(out.name));
    first = false;
  }
  out_ += "\n";
}

std::string loc_text(const Loc& loc) {
  if (loc.kind != Loc::Kind::Text) return "";
  return format(" at {}:{}:{}", quote(loc.file), loc.line, loc.column);
}

std::string Printer::header() {
  std::string text = format("module {} file {} seed {}{}\n", quote(module_.name), quote(module_.file), module_.seed,
                            module_.per_rank ? " per-rank" : "");
  for (const Place& place : module_.places)
    text += format("place @{} {} {}\n", name_text(place.name),
                   list_text(place.ranks, [](int r) { return std::to_string(r); }), mesh_text(place.mesh));
  for (const auto& [name, bound] : module_.lengths) text += format("length {} <= {}\n", name, bound);
  for (const LengthRelation& relation : module_.relations)
    text += format("relation {} {} {}{} by {}\n", quote(relation.left.text()), relation.may_be_less ? "<=" : "=",
                   quote(relation.right.text()), relation.where == 1 ? "" : " where " + quote(relation.where.text()),
                   quote(relation.what));
  for (const State& state : module_.states)
    text += format("state {} -> {}{}{}\n", quote(state.input), quote(state.output),
                   (state.initial ? format(" from #{}", constants_.of(state.initial.index)) : "") +
                       (state.of.empty() ? "" : " of " + quote(state.of)),
                   loc_text(state.loc));
  for (const auto& [derivative, primal] : module_.primals)
    text += format("primal {} {}\n", quote(derivative), quote(primal));
  for (const auto& [first, again] : module_.again) text += format("again {} {}\n", quote(again), quote(first));
  if (module_.training) text += training(*module_.training);
  if (module_.generation) text += "generate" + attrs(attrs_of(*module_.generation)) + "\n";
  return text + pipeline();
}

std::string Printer::training(const Training& t) {
  const auto names = [](const std::vector<std::string>& list) {
    return list_text(list, [](const std::string& name) { return quote(name); });
  };
  return format("train {} {} {} {} {}{}{}{}\n", quote(t.loss), quote(t.rate), quote(t.norm), quote(t.evaluates),
                names(t.figures), t.optimizer.empty() ? "" : " by " + quote(t.optimizer),
                t.updates.empty() ? "" : " updates " + names(t.updates), t.recomputes ? " recompute" : "");
}

std::string Printer::pipeline() const {
  if (!module_.pipeline) return "";
  const Pipeline& p = *module_.pipeline;
  const auto block = [&, number = 0](const Pipeline::Block& b) mutable {
    static constexpr const char* kTurns[] = {" before", "", " after"};
    const std::string stage = b.stage == number++ ? "" : format(" stage {}", b.stage);
    return quote(b.name) + stage + kPhases[static_cast<int>(b.phase)] + (b.of_weights ? " weights" : "") +
           kTurns[static_cast<int>(b.turn)];
  };
  const auto entry = [](const Pipeline::Entry& e) { return format("{} {}", e.block, e.micro_batch); };
  return format("pipeline {} micro-batches {} order {}\n", list_text(p.blocks, block), p.micro_batches,
                list_text(p.order, entry));
}

std::string Printer::constants_table() const {
  std::string text;
  int number = 0;
  for (uint32_t index : constants_.order()) {
    const Constant& constant = module_.constants[ConstantId{index}];
    text += format("constant #{} {} {}{} = ", number++, quote(constant.name), dtype_name(constant.dtype),
                   list_text(constant.dims, [](int64_t d) { return std::to_string(d); }));
    if (constant.count() > kMostShown || !options_.constants) {
      text += "...\n";
      continue;
    }
    const Tensor tensor = module_.constants.tensor(ConstantId{index});
    std::vector<int64_t> elements(tensor.size());
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    text += list_text(elements, [&](int64_t i) { return element_text(tensor, i); }) + "\n";
  }
  return text;
}

std::string Printer::footer() {
  std::string text;
  for (size_t number = 0; number < origins_.order().size(); ++number) {  // a node that is only differentiated is added
    const Origin& origin = module_.origins[origins_.order()[number]];
    text += format("origin {} {} {} {}{}{}\n", number, quote(origin.name), quote(origin.op_type), origin.index,
                   kPhases[static_cast<int>(origin.phase)],
                   origin.of ? format(" of {}", origins_.of(origin.of.index)) : std::string());
  }
  int number = 0;
  for (uint32_t index : transforms_.order()) {
    const Transform& transform = module_.transforms[index];
    text += format("transform {} {}{}\n", number++, quote(transform.text), loc_text(transform.loc));
  }
  return text;
}

std::string Printer::module() {
  out_ = "graph {\n";
  graph(module_.graph, "  ");
  out_ += "}\n";
  // The header must be built first: its mentions of constants, origins and transforms number their tables.
  const std::string head = header();
  return head + constants_table() + out_ + footer();
}

}  // namespace

std::string print_module(const Module& module, const PrintOptions& options) {
  return Printer(module, options).module();
}

std::string print_op(const Module& module, const Graph& graph, const Op& op) {
  return Printer(module, {}).op_line(graph, op);
}

}  // namespace weftc
