// One statement a step, by its kind: a launch, a copy, a collective, a transfer, a loop or branch around other steps.
//
//   r.step({compute, "h.0.mlp.c_fc", "MatMul h.0.mlp.c_fc"}, [&] { h_mlp_c_fc(r.team(), r[x], r[w], r[y]); });
//
// Waits come before a step and signals after it, unless its kernel waits or signals by itself.
#include "backend/steps.h"

#include <algorithm>
#include <set>
#include <utility>

#include "backend/chunk_kernel.h"
#include "backend/dialects/target_dialect.h"
#include "backend/kernel_context.h"
#include "backend/layer_loop.h"
#include "backend/length_expression.h"
#include "backend/print.h"
#include "backend/render.h"
#include "ir/base/contains.h"
#include "ir/exchange_types.h"

namespace weftc {

/// The line without marks for breaks.
static std::string plain(std::string line) {
  std::replace(line.begin(), line.end(), kBreak, ' ');
  return line;
}

static void indent_into(std::vector<std::string>& lines, const std::vector<std::string>& body) {
  for (const std::string& line : body) lines.push_back("  " + line);
}

void StepText::begin_block() {
  times_.clear();
  if (plan_.micro_batches > 1) times_.push_back({"mb", plan_.micro_batches});
}

std::vector<std::string> StepText::lines(const Step& step) {
  begin_block();
  Lines lines = this->step(step);
  for (std::string& line : lines) line = plain(line);
  return lines;
}

std::vector<std::string> StepText::block(const Block& block, const ProgramLayers& layers) {
  begin_block();
  in_forward_ = block.phase == Phase::Forward;
  names_ = layers.names;
  Lines lines;
  const auto add_steps = [&](size_t from, size_t end) {
    for (size_t s = from; s < end; ++s) append(lines, step(block.steps[s]));
  };
  size_t next = 0;
  if (const auto loops = layers.loops.find(&block); loops != layers.loops.end())
    for (const LayerLoop& loop : loops->second) {
      add_steps(next, loop.first);
      append(lines, layer_loop(loop));
      next = loop.end();
    }
  add_steps(next, block.steps.size());
  for (std::string& line : lines) line = plain(line);
  return lines;
}

StepText::Lines StepText::layer_loop(const LayerLoop& loop) {
  const ProgramNames outside = std::exchange(names_, loop.names);
  in_layers_ = true;
  const std::string begin = std::to_string(loop.begin), end = std::to_string(loop.begin + loop.count);
  Lines lines = {"for (int layer = " + begin + "; layer < " + end + "; ++layer) {"};
  indent_into(lines, steps(loop.steps));
  lines.push_back("}");
  in_layers_ = false;
  names_ = outside;
  return lines;
}

StepText::Lines StepText::steps(const std::vector<Step>& list) {
  Lines lines;
  for (const Step& s : list) {
    const Lines made = step(s);
    lines.insert(lines.end(), made.begin(), made.end());
  }
  return lines;
}

StepText::Lines StepText::step(const Step& s) {
  if (const auto* loop = std::get_if<ForStep>(&s.what)) return for_loop(s, *loop);
  if (const auto* choice = std::get_if<IfStep>(&s.what)) return branch(s, *choice);
  if (const auto* trips = std::get_if<LoopStep>(&s.what)) return loop(s, *trips);
  const auto* moved = std::get_if<CopyStep>(&s.what);
  if (moved && moved->in_place && s.waits.empty() && s.raises.empty()) return {};
  Lines body = waits(s);
  const Lines what = leaf(s), after = raises(s);
  body.insert(body.end(), what.begin(), what.end());
  body.insert(body.end(), after.begin(), after.end());
  return wrapped(s, body);
}

StepText::Lines StepText::leaf(const Step& s) {
  const std::string mb = plan_.micro_batches > 1 ? "mb" : "0";
  if (const auto* what = std::get_if<LaunchStep>(&s.what)) return launch(s, *what);
  if (const auto* what = std::get_if<CopyStep>(&s.what)) return copy(s, *what);
  if (const auto* what = std::get_if<CollectiveStep>(&s.what)) return collective(s, *what);
  if (const auto* what = std::get_if<SendStep>(&s.what)) {
    const TransferTable& table = plan_.transfers[static_cast<size_t>(what->transfer)];
    // An evaluation omits the receiver.
    const bool trains = plan_.has_stages && plan_.training && in_forward_ && s.phase != Phase::Forward;
    return {(trains ? "if (!r.evaluates()) r.send(" : "r.send(") +
            names_.transfers[static_cast<size_t>(what->transfer)] + kComma + mb + kComma + handle(table.from) + ");"};
  }
  if (const auto* what = std::get_if<RecvStep>(&s.what)) {
    const TransferTable& table = plan_.transfers[static_cast<size_t>(what->transfer)];
    return {"r.recv(" + names_.transfers[static_cast<size_t>(what->transfer)] + kComma + mb + kComma +
            handle(table.from) + kComma + pointer(table.to) + ");"};
  }
  return {};
}

std::string StepText::head(const Step& s) const {
  std::string text = std::string("r.step(") + (in_layers_ ? "layer, {" : "{") +
                     names_.streams[static_cast<size_t>(s.stream)] + kComma + string_literal(s.name);
  const bool has_room = !in_layers_ && text.size() + s.transform.size() < 60;
  const size_t room = has_room ? 100 - text.size() - s.transform.size() : in_layers_ ? 90 : 40;
  text += kComma + string_literal(nodes_text(plan_, s.origins, room));
  if (!s.transform.empty()) text += kComma + string_literal(s.transform);
  return text + "}" + kComma + (times_.empty() ? "" : times_.back().variable + kComma) + "[&] {";
}

/// Breaks a call after an argument if it is longer than a line.
StepText::Lines StepText::broken(const std::string& line, size_t limit) {
  const size_t open = line.find('(');
  const std::string indent(open == std::string::npos || open > 60 ? 4 : open + 1, ' ');
  std::vector<std::string> lines;
  std::string rest = line;
  while (rest.size() > limit) {
    const size_t at = rest.rfind(kBreak, limit);
    if (at == std::string::npos || at <= indent.size()) break;
    lines.push_back(plain(rest.substr(0, at)));
    rest = indent + rest.substr(at + 1);
  }
  lines.push_back(plain(rest));
  return lines;
}

StepText::Lines StepText::wrapped(const Step& s, const Lines& body) const {
  const std::string first = head(s);
  if (body.size() == 1 && first.size() + body[0].size() + 5 <= 116) return {plain(first + " " + body[0] + " });")};
  Lines lines = broken(first, 116);
  for (const std::string& line : body)
    for (const std::string& part : broken(line, 114)) lines.push_back("  " + part);
  lines.push_back("});");
  return lines;
}

std::string StepText::chunk_offset(const std::vector<std::pair<int, int64_t>>& by_chunk,
                                   const CollectiveStep& step) const {
  std::string text;
  for (const auto& [axis, stride] : by_chunk)
    text +=
        (text.empty() ? "" : " + ") + time_index(step.place, step.mesh, axis).text() + " * " + std::to_string(stride);
  return text;
}

/// The call of a library; nothing if the kernel is one of the program's own.
std::optional<std::string> StepText::library_step(const Step& s, const LaunchStep& what, const KernelText& text) const {
  const Kernel& kernel = plan_.kernel(what.kernel);
  const auto* product = std::get_if<LibraryProduct>(&kernel.strategy);
  if (!product) return {};
  const CallSite site{[&](size_t parameter) { return pointer(what.operands[parameter]); },
                      [&](const Argument& a) { return argument(s, what, text, a); }};
  return library_call(KernelContext(plan_, kernel, diags_), *product, site);
}

/// The call or launch of a kernel; `waits`: for other ranks or streams.
static std::string launch_of(const TargetDialect& dialect, const KernelText& kernel, bool waits,
                             std::vector<std::string> arguments) {
  return dialect.launch({kernel.name, kernel.blocks, kernel.threads, waits, std::move(arguments)});
}

StepText::Lines StepText::launch(const Step& s, const LaunchStep& what) {
  launched_.insert(what.kernel.index);
  const KernelText& text = kernels_[what.kernel.index];
  const Kernel& kernel = plan_.kernel(what.kernel);
  std::vector<std::string> arguments;
  for (const Argument& a : text.arguments) arguments.push_back(argument(s, what, text, a));
  for (size_t f = 0; f < what.operands.size(); ++f) {
    const bool by_peers = kernel.parameters[f].window && !text.group.empty();
    arguments.push_back(by_peers ? handle(what.operands[f].buffer) : pointer(what.operands[f]));
  }
  if (const std::optional<std::string> call = library_step(s, what, text)) return {*call};
  return {launch_of(dialect_of(plan_.target), text, !text.group.empty(), std::move(arguments))};
}

/// "weft::ReduceOp::Sum".
static std::string reduction(ReduceOp op) {
  static constexpr const char* kOps[] = {"Sum", "Max", "Min", "Prod"};
  return std::string("weft::ReduceOp::") + kOps[static_cast<int>(op)];
}

StepText::Lines StepText::copy(const Step& s, const CopyStep& what) {
  if (what.in_place) return {};
  const Buffer& from = plan_.buffer(what.from);
  const bool adds = std::any_of(s.accesses.begin(), s.accesses.end(), [](const Access& a) { return a.accumulate; });
  const std::string count =
      shared_ ? "rows * " + shared_->rows->axes[0].strides.at(what.from).text() : count_text(from.dims());
  const std::string operands = pointer(what.to) + kComma + pointer(what.from) + kComma + count;
  if (!adds) return {"r.copy(" + operands + ");"};
  // The first chunk initialises the total.
  const std::string first = times_.empty() ? "true" : times_.back().variable + " == 0";
  const ReduceOp op = from.type.layout[static_cast<int>(from.mesh.size()) - 1].op;
  return {"r.accumulate(" + reduction(op) + kComma + operands + kComma + first + ");"};
}

/// A rank's part of an exchanged dimension of run-time length, in a request; nothing if only steps know it.
std::optional<std::string> StepText::held(int dim, const CollectiveStep& step) const {
  const std::optional<std::string> whole =
      length(length_of(step.from_type.shape[static_cast<size_t>(dim)]), step.place);
  const std::vector<Digit> digits = digits_of(step.from_type.layout, dim, step.mesh);
  if (!whole || digits.empty()) return whole;
  const std::string& axis = names_.axes[step.place.index][static_cast<size_t>(digits[0].axis)];
  return part_expression(*whole, digits[0].block, "r.coordinate(" + axis + ")");
}

std::string StepText::extent(const ExchangeBox::Dim& dim, const CollectiveStep& step) const {
  int64_t each = dim.extent;
  std::vector<std::string> factors;
  for (const int d : dim.lengths) {
    const std::optional<std::string> length = held(d, step);
    if (!length) return std::to_string(dim.extent);
    each /= std::max<int64_t>(buffer_dims(step.from_type, step.mesh)[static_cast<size_t>(d)], 1);
    factors.push_back(length->find(' ') == std::string::npos || length->starts_with("weft::") ? *length
                                                                                              : "(" + *length + ")");
  }
  if (each != 1 || factors.empty()) factors.push_back(std::to_string(each));
  return join(factors, " * ");
}

/// The number of elements of a box that is one run of elements.
std::string StepText::count(const ExchangeBox& box, const CollectiveStep& step) const {
  const bool is_shorter = box.dims.size() == 1 && !box.dims[0].lengths.empty();
  return is_shorter ? extent(box.dims[0], step) : count_text({box.elements()});
}

std::string StepText::exchange(const ExchangeBox& box, const CollectiveStep& step) const {
  std::vector<std::string> dims, parts;
  for (const ExchangeBox::Dim& d : box.dims)
    dims.push_back("{" + extent(d, step) + kComma + std::to_string(d.source) + kComma + std::to_string(d.target) + "}");
  parts.push_back(".dims = {" + join(dims, kComma) + "}");
  const auto list = [&](const char* name, const std::vector<int64_t>& numbers) {
    if (std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n == 0; })) return;
    std::vector<std::string> texts;
    for (int64_t n : numbers) texts.push_back(std::to_string(n));
    parts.push_back(std::string(".") + name + " = {" + join(texts, kComma) + "}");
  };
  list("src_by_me", box.source_by_me);
  list("dst_by_peer", box.target_by_peer);
  const auto clip = [&](const char* name, const ExchangeBox::Clip& c) {
    if (c.dim < 0) return;
    std::optional<std::string> whole;
    if (c.length >= 0) whole = length(length_of(step.from_type.shape[static_cast<size_t>(c.length)]), step.place);
    parts.push_back(std::string(".") + name + " = {" + std::to_string(c.dim) + kComma +
                    whole.value_or(std::to_string(c.extent)) + kComma + std::to_string(c.block) + "}");
  };
  clip("by_peer", box.by_peer);
  clip("by_me", box.by_me);
  return "weft::Exchange{" + join(parts, kComma) + "}";
}

/// A broadcast, or a reduction whose result is the operand itself on all ranks but the root.
StepText::Lines StepText::rooted(const CollectiveStep& what, const std::string& source, const std::string& count) {
  const std::string group = names_.group(what.place, what.axes) + kComma + std::to_string(what.root) + kComma;
  const std::string target = pointer(what.to);
  if (what.kind == OpKind::Broadcast)
    return {"r.broadcast(" + group + source + kComma + target + kComma + count + ");"};
  return {"r.copy(" + target + kComma + pointer(what.from) + kComma + count + ");",
          "r.reduce(" + group + reduction(what.reduce) + kComma + source + kComma + target + kComma + count + ");"};
}

StepText::Lines StepText::collective(const Step& s, const CollectiveStep& what) {
  const std::optional<ExchangeBox> box =
      exchange_box(what, plan_.places[what.place.index].mesh.size(), plan_.buffer(what.from).storage.by_bounds);
  if (!box || box->dims.size() > ExchangeBox::kMostDims || what.axes.size() > 4) {
    diags_.error("reshard-unsupported",
                 s.origins.empty() ? Loc::in_file(plan_.name) : plan_.origins[s.origins[0].index].loc,
                 "'{}': slices of {} and {} do not nest", printable(s.name), type_text(what.from_type, what.mesh),
                 type_text(what.to_type, what.mesh));
    return {};
  }
  const std::string source = handle(what.from, chunk_offset(box->source_by_chunk, what));
  const std::string first = chunk_offset(box->target_by_chunk, what);
  if (what.kind == OpKind::ShardSlice)
    return {"r.take_slice(" + names_.group(what.place, what.axes) + kComma + "r[" + source + "]" + kComma +
            pointer(what.to, first) + kComma + exchange(*box, what) + ");"};
  if (has_root(what.kind)) return rooted(what, source, count(*box, what));
  const bool reduces = what.kind == OpKind::AllReduce || what.kind == OpKind::ReduceScatter;
  // With windows on both sides, large ones are reduced part by part.
  const bool split = what.kind == OpKind::AllReduce && plan_.buffer(what.to).window;
  const char* call = what.kind == OpKind::AllReduce       ? "all_reduce"
                     : what.kind == OpKind::ReduceScatter ? "reduce_scatter"
                     : what.kind == OpKind::AllGather     ? "all_gather"
                                                          : "all_to_all";
  const bool counted = what.kind == OpKind::AllReduce && box->is_identity();
  return {std::string("r.") + call + "(" + names_.group(what.place, what.axes) + kComma +
          (reduces ? reduction(what.reduce) + kComma : "") + source + kComma +
          (split ? handle(what.to, first) : pointer(what.to, first)) + kComma +
          (counted ? count(*box, what) : exchange(*box, what)) + ");"};
}

/// Streams of all steps inside a step.
static std::set<int> streams_in(const std::vector<Step>& steps) {
  std::set<int> streams;
  for (const Step& s : steps) {
    const std::vector<const std::vector<Step>*> bodies = bodies_of(s);
    if (bodies.empty()) streams.insert(s.stream);
    for (const auto* body : bodies) streams.merge(streams_in(*body));
  }
  return streams;
}

static std::string loop_head(const std::string& v, int trips) {
  return "for (int " + v + " = 0; " + v + " < " + std::to_string(trips) + "; ++" + v + ") {";
}

/// The axes over which a step meets other ranks, as an argument; "" without such axes.
std::string StepText::group_of(const Step& s) const {
  if (const auto* what = std::get_if<CollectiveStep>(&s.what)) return names_.group(what->place, what->axes);
  const auto* launch = std::get_if<LaunchStep>(&s.what);
  if (!launch) return "";
  const std::vector<int64_t>& axes = kernels_[launch->kernel.index].group;
  return axes.empty() ? "" : names_.group(plan_.kernel(launch->kernel).place, {axes.begin(), axes.end()});
}

StepText::Lines StepText::for_loop(const Step& s, const ForStep& loop) {
  const std::string v =
      times_.empty() || times_.back().variable == "mb" ? "chunk" : "chunk" + std::to_string(times_.size());
  if (loop.mechanism != Mechanism::Streams) return one_kernel(s, loop, v);
  times_.push_back({v, loop.trips});
  Lines lines = waits(s);
  lines.push_back(loop_head(times_.back().variable, times_.back().trips));
  for (size_t i = 0; i < loop.body.size(); ++i) {
    if (i > 0 && i == loop.forward) lines.push_back("  if (r.evaluates()) continue;");
    indent_into(lines, step(loop.body[i]));
  }
  lines.push_back("}");
  times_.pop_back();
  return lines;
}

/// The ranks whose flags a loop's kernel raises and awaits, as an argument. If a table has its own group only, these
/// are the ranks that the kernel itself meets, since a library may run beside it. They include at least this rank, for
/// its own streams.
std::string StepText::group_of_table(const ForStep& loop, const std::vector<const Step*>& inside) const {
  if (!dialect_of(plan_.target).facts.has_group_tables) {
    for (const Step& step : loop.body)
      if (const std::string group = group_of(step); !group.empty()) return group;
    return "";
  }
  for (const Step* step : inside) {
    if (const std::string group = group_of(*step); !group.empty()) return group;
    for (const Raise& raise : step->raises)
      if (const Signal& signal = plan_.signals[raise.signal.index]; !signal.axes.empty())
        return names_.group(signal.place, signal.axes);
  }
  return "{}";
}

/// Kernels that steps launch on a grid cannot be called; loops over chunks call functions instead.
void StepText::write_called(const Step& step) {
  const auto* launch = std::get_if<LaunchStep>(&step.what);
  if (!launch || !dialect_of(plan_.target).facts.has_grid || functions_.contains(launch->kernel.index)) return;
  const Kernel& kernel = plan_.kernel(launch->kernel);
  functions_[launch->kernel.index] =
      write_kernel(plan_, kernel, kernels_[launch->kernel.index].name, diags_, KernelUse::InChunks);
}

/// Prepares a library's resources that it must not create while a kernel waits for its collectives.
StepText::Lines StepText::preparations(const std::vector<Step>& steps) const {
  Lines lines;
  for (const Step& step : steps) {
    const auto* what = std::get_if<CollectiveStep>(&step.what);
    if (!what || what->kind == OpKind::ShardSlice) continue;
    const std::string line = "r.prepare(" + names_.group(what->place, what->axes) + ");";
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  return lines;
}

/// A step that runs the loop as a kernel, and a loop over the steps on other streams.
StepText::Lines StepText::one_kernel(const Step& s, const ForStep& loop, const std::string& variable) {
  std::vector<const Step*> inside;
  std::vector<Step> beside;
  for (const Step& step : loop.body) {
    if (step.stream == s.stream)
      inside.push_back(&step);
    else
      beside.push_back(step);
  }
  times_.push_back({variable, loop.trips});
  for (const Step* step : inside) write_called(*step);
  const std::string call = chunk_kernel_call(s, ChunkKernel(*this, inside, group_of_table(loop, inside)));
  Lines lines = {loop_head(times_.back().variable, times_.back().trips)};
  indent_into(lines, steps(beside));
  lines.push_back("}");
  times_.pop_back();
  Lines launch = dialect_of(plan_.target).facts.has_group_tables ? preparations(beside) : Lines();
  launch.push_back(call);
  const Lines kernel = wrapped(s, launch);
  if (beside.empty()) return kernel;
  lines.insert(lines.begin(), kernel.begin(), kernel.end());
  return lines;
}

/// The call of the function for the innermost loop, which is written at the first call.
std::string StepText::chunk_kernel_call(const Step& s, const ChunkKernel& kernel) {
  const TargetDialect& dialect = dialect_of(plan_.target);
  const For loop{
      .variable = times_.back().variable, .bound = times_.back().trips, .type = "int", .body = kernel.body()};
  const std::string body = joined_lines(lines_of({loop}, dialect.loops()));
  const std::string declared = join(kernel.parameters(), ", ");
  std::string& name = chunk_kernel_names_[declared + body];
  const bool is_new = name.empty();
  if (is_new) name = free_names_.unique(kernel.name());
  KernelText text;
  text.name = name;
  text.blocks = kernel.blocks(), text.threads = plan_.target.chunk_threads;
  for (KernelId id : kernel.called()) text.headers.insert(called(id).headers.begin(), called(id).headers.end());
  if (is_new) {
    text.parameters = wrapped_head("void " + name, kernel.parameters());
    const std::string comment = nodes_text(plan_, s.origins, 100) + (s.transform.empty() ? "" : "; " + s.transform);
    const std::string head = wrapped_head(dialect.words.kernel + ("void " + name), kernel.parameters(true));
    Params params;
    params.set("nodes", comment_text(comment)).set("head", head).set("body", body);
    text.text = render_file("kernel.cpp", params);
    chunk_kernels_.push_back(text);
    for (KernelId id : kernel.called())
      called_by_chunks_.insert(dialect.facts.has_grid ? called(id).text : called(id).parameters + ";");
  }
  return launch_of(dialect, text, true, kernel.arguments());
}

/// If the body belongs to one stream: one step, whose body holds the inner steps. Otherwise every stream runs the
/// branch, and all wait for its condition.
StepText::Lines StepText::branch(const Step& s, const IfStep& choice) {
  std::set<int> streams = streams_in(choice.then_body);
  streams.merge(streams_in(choice.else_body));
  Lines lines = waits(s);
  lines.push_back("if (r.value(" + pointer(choice.condition) + ")) {");
  indent_into(lines, steps(choice.then_body));
  if (!choice.else_body.empty()) {
    lines.push_back("} else {");
    indent_into(lines, steps(choice.else_body));
  }
  lines.push_back("}");
  streams.insert(s.stream);
  append(lines, raises(s));
  return streams.size() == 1 ? wrapped(s, lines) : lines;
}

/// "for (int64_t trip = 0; trip < 50; ++trip) {"
std::string StepText::trip_head(const LoopStep& trips) const {
  const std::string v = trip_variable(loops_);
  std::vector<std::string> goes_on;
  if (trips.trip_count)
    goes_on.push_back(v + " < r.value(" + pointer(trips.trip_count) + ")");
  else if (trips.max_trips)
    goes_on.push_back(v + " < " + std::to_string(trips.max_trips));
  if (trips.condition) goes_on.push_back("r.value(" + pointer(trips.condition) + ")");
  return "for (int64_t " + v + " = 0; " + join(goes_on, " && ") + "; ++" + v + ") {";
}

StepText::Lines StepText::loop(const Step& s, const LoopStep& trips) {
  if (trips.rows) return trips.is_chain() ? chain(s, trips) : shared_loop(s, trips);
  std::set<int> streams = streams_in(trips.body);
  streams.insert(s.stream);
  ++loops_;
  Lines lines = waits(s);
  lines.push_back(trip_head(trips));
  if (trips.iteration) {
    const std::string write = "r.set(" + pointer(trips.iteration) + kComma + trip_variable(loops_) + ");";
    if (streams.size() == 1)
      lines.push_back("  " + write);
    else
      indent_into(lines, wrapped(s, {write}));
  }
  indent_into(lines, steps(trips.body));
  lines.push_back("}");
  --loops_;
  append(lines, raises(s));
  return streams.size() == 1 ? wrapped(s, lines) : lines;
}

}  // namespace weftc
