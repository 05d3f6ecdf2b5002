// Builds the function of a loop over chunks. Each expression that the loop's steps would pass to their kernels becomes
// a parameter of the function, once. Expressions that depend on the chunk are computed inside.
#include "backend/chunk_kernel.h"

#include <algorithm>

#include "backend/print.h"

namespace weftc {

ChunkKernel::ChunkKernel(const StepTerms& terms, const std::vector<const Step*>& steps, const std::string& group)
    : terms_(terms), plan_(terms.plan()), dialect_(dialect_of(terms.plan().target)) {
  for (const TimeLoop& time : terms.times()) taken_.reserve(time.variable);
  for (const Step* step : steps)
    if (const auto* launch = std::get_if<LaunchStep>(&step->what)) taken_.reserve(terms.called(launch->kernel).name);
  // Arguments that are not operands come first, as in the kernels' own functions.
  for (const Step* step : steps)
    if (const auto* launch = std::get_if<LaunchStep>(&step->what))
      for (const Argument& a : terms.called(launch->kernel).arguments) passed(*step, *launch, a);
  peers_ = parameter("weft::Peers ", "peers", "r.peers(" + group + ")", Role::Peers);
  for (const Step* step : steps) add(*step);
}

std::string ChunkKernel::parameter(const std::string& type, const std::string& wanted, const std::string& argument,
                                   Role role) {
  if (const auto at = parameters_.find(argument); at != parameters_.end()) return at->second.name;
  order_.push_back(argument);
  const std::string name = taken_.has(wanted) ? taken_.unique(wanted) : wanted;
  taken_.reserve(name);
  return parameters_.emplace(argument, ChunkParameter{type, name, role}).first->second.name;
}

IndexExpr ChunkKernel::with_outer(const IndexExpr& index) {
  for (const AtomPtr& atom : variables_of(index)) {
    if (atom->text == terms_.times().back().variable || parameters_.contains(atom->text)) continue;
    order_.push_back(atom->text);
    parameters_.emplace(atom->text, ChunkParameter{"int ", atom->text});
  }
  return index;
}

std::string ChunkKernel::passed(const Step& step, const LaunchStep& launch, const Argument& argument) {
  const Kernel& kernel = plan_.kernel(launch.kernel);
  if (argument.kind == Argument::Kind::Chunk)
    return with_outer(terms_.time_index(kernel.place, kernel.mesh, argument.number)).text();
  const std::string value = terms_.argument(step, launch, terms_.called(launch.kernel), argument);
  const KernelContext context(plan_, kernel, terms_.diags());
  const Role role = argument.kind == Argument::Kind::Peers ? Role::Peers : Role::Value;
  return parameter(context.type_of(argument), context.argument_parameter(argument), value, role);
}

Expr ChunkKernel::pointer(BufferId id, const std::string& wanted, bool written) {
  const Buffer& buffer = plan_.buffer(id);
  const std::string passed = "r[" + whole(id) + "]", first = instance(buffer);
  const Expr base =
      weftc::name(parameter(std::string(memory_type(buffer.type.dtype)) + "* ", wanted, passed, Role::Buffer));
  if (written) written_.insert(passed);
  return first.empty() ? base : binary(base, "+", weftc::name(first));
}

std::string ChunkKernel::whole(BufferId id) const {
  return instance(plan_.buffer(id)).empty() ? terms_.handle(id) : terms_.names().buffers[id.index];
}

/// The instance for a chunk is computed inside; the instance for a micro-batch is the same for all chunks.
std::string ChunkKernel::instance(const Buffer& buffer) const {
  return buffer.life == Life::MicroBatch ? "" : terms_.instance_offset(buffer);
}

std::string ChunkKernel::passed(const LaunchStep& launch, size_t number) {
  const Kernel& kernel = plan_.kernel(launch.kernel);
  const Parameter& of_callee = kernel.parameters[number];
  const Operand& operand = launch.operands[number];
  const std::string type = memory_type(of_callee.type.dtype), wanted = identifier(of_callee.name);
  if (operand.weight) return parameter("const " + type + "* ", wanted, terms_.pointer(operand));
  const bool by_peers = of_callee.window && !terms_.called(launch.kernel).group.empty();
  if (!by_peers) return text_of(pointer(operand.buffer, wanted, number >= kernel.body.inputs().size()));
  const Buffer& buffer = plan_.buffer(operand.buffer);
  const std::string window = parameter("weft::Window<" + type + "> ", wanted, whole(operand.buffer));
  const std::string first = instance(buffer);
  return first.empty() ? window : window + ".part(" + first + ", " + count_text(buffer.dims()) + ")";
}

void ChunkKernel::launch(const Step& step, const LaunchStep& launch) {
  const KernelText& kernel = terms_.called(launch.kernel);
  std::vector<std::string> arguments;
  for (const Argument& a : kernel.arguments) arguments.push_back(passed(step, launch, a));
  for (size_t f = 0; f < launch.operands.size(); ++f) arguments.push_back(passed(launch, f));
  const std::string call = kernel.name + "(" + join(arguments, ", ") + ")";
  body_.push_back(dialect_.facts.waits_may_fail && !kernel.group.empty() ? "if (!" + call + ") return;" : call + ";");
  blocks_ = std::max(blocks_, kernel.blocks);
  called_.push_back(launch.kernel);
}

/// Adds a chunk's part to the total; the first chunk initialises it.
void ChunkKernel::accumulate(const CopyStep& copy) {
  const Buffer& from = plan_.buffer(copy.from);
  const ReduceOp op = from.type.layout[static_cast<int>(from.mesh.size()) - 1].op;
  const auto element = [](const Expr& pointer) {
    return pattern("$0[$1]", {pointer, weftc::name("i")}, Binding::Primary);
  };
  const Expr part = element(pointer(copy.from, "part", false)), total = element(pointer(copy.to, "total", true));
  const std::string compute = compute_type(from.type.dtype), memory = memory_type(from.type.dtype);
  const bool converts = compute != memory;
  const Expr a = converts ? call(compute, {total}) : total, b = converts ? call(compute, {part}) : part;
  const Expr sum = op == ReduceOp::Sum    ? binary(a, "+", b)
                   : op == ReduceOp::Prod ? binary(a, "*", b)
                   : op == ReduceOp::Max  ? call("weft::maximum", {a, b})
                                          : call("weft::minimum", {a, b});
  const Expr is_first = binary(weftc::name(terms_.times().back().variable), "==", 0);
  For loop{.kind = dialect_.words.shared_loop, .variable = "i", .bound = weftc::name(count_text(from.dims()))};
  loop.body = {Store{total, choice(is_first, part, converts ? call(memory, {sum}) : sum)}};
  body_.push_back(std::move(loop));
}

/// Flags of ranks outside the kernel's own table have a table of their own.
std::string ChunkKernel::of_peers(const std::string& call, SignalId id, const std::optional<IndexExpr>& at) {
  const Signal& signal = plan_.signals[id.index];
  std::string table = peers_;
  if (dialect_.facts.has_group_tables && !signal.axes.empty())
    table = parameter("weft::Peers ", "peers", "r.peers(" + terms_.names().group(signal.place, signal.axes) + ")",
                      Role::Peers);
  const std::string name =
      parameter("weft::Signal ", identifier(last_component(signal.name)), terms_.names().signals[id.index]);
  return table + "." + call + "(" + name + (at ? ", " + with_outer(*at).text() : "") + ")";
}

std::string ChunkKernel::wait(SignalId id, const std::optional<IndexExpr>& at, const std::string& condition) {
  const std::string call = of_peers("wait", id, at);
  if (dialect_.facts.waits_may_fail)
    return "if (" + (condition.empty() ? "" : condition + " && ") + "!" + call + ") return;";
  return (condition.empty() ? "" : "if (" + condition + ") ") + call + ";";
}

std::string ChunkKernel::raise(SignalId id, const std::optional<IndexExpr>& at) {
  return dialect_.words.one_block + of_peers("signal", id, at) + ";";
}

void ChunkKernel::add(const Step& step) {
  const auto wait_for = [&](SignalId id, const std::optional<IndexExpr>& at, const std::string& late) {
    return wait(id, at, late);
  };
  const auto raise_it = [&](SignalId id, const std::optional<IndexExpr>& at, const std::string&) {
    return raise(id, at);
  };
  for (std::string& line : terms_.waits(step, wait_for)) body_.push_back(std::move(line));
  if (const auto* copy = std::get_if<CopyStep>(&step.what))
    accumulate(*copy);
  else
    launch(step, std::get<LaunchStep>(step.what));
  if (dialect_.facts.has_grid) body_.push_back("if (!" + peers_ + ".block_barrier()) return;");
  for (std::string& line : terms_.raises(step, raise_it)) body_.push_back(std::move(line));
}

std::string ChunkKernel::name() const {
  const std::string &first = terms_.called(called_.front()).name, &last = terms_.called(called_.back()).name;
  return (called_.size() == 1 ? first : first + "_to_" + last) + "_chunks";
}

std::vector<std::string> ChunkKernel::parameters(bool definition) const {
  std::vector<std::string> list;
  for (const std::string& key : order_) {
    const ChunkParameter& p = parameters_.at(key);
    const bool only_read = p.role == Role::Buffer && !written_.contains(key);
    const bool is_table = definition && p.role == Role::Peers;
    list.push_back((only_read ? "const " : "") + (is_table ? dialect_.words.table : p.type) + p.name);
  }
  return list;
}

}  // namespace weftc
