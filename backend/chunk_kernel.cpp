#include "backend/chunk_kernel.h"

#include <algorithm>

namespace weft {

ChunkKernel::ChunkKernel(const StepText& text, const std::vector<const Step*>& steps, const std::string& group)
    : text_(text), plan_(text.plan_) {
  for (const StepText::Time& time : text.times_) taken_.reserve(time.variable);
  for (const Step* step : steps) taken_.reserve(text.kernels_[std::get<LaunchStep>(step->what).kernel.index].name);
  // What kernels are given beside operands comes first.
  for (const Step* step : steps) {
    const auto& launch = std::get<LaunchStep>(step->what);
    for (const Argument& a : text.kernels_[launch.kernel.index].arguments) passed(launch, a);
  }
  peers_ = parameter("weft::Peers ", "peers", "r.peers(" + group + ")");
  for (const Step* step : steps) add(*step);
}

std::string ChunkKernel::parameter(const std::string& type, const std::string& wanted, const std::string& argument) {
  if (const auto at = parameters_.find(argument); at != parameters_.end()) return at->second.name;
  order_.push_back(argument);
  const std::string name = taken_.has(wanted) ? taken_.unique(wanted) : wanted;
  taken_.reserve(name);
  return parameters_.emplace(argument, Parameter{type, name}).first->second.name;
}

std::string ChunkKernel::with_outer(const std::string& text) {
  for (size_t t = 0; t + 1 < text_.times_.size(); ++t) {
    const std::string& variable = text_.times_[t].variable;
    if (text.find(variable) == std::string::npos || parameters_.contains(variable)) continue;
    order_.push_back(variable);
    parameters_.emplace(variable, Parameter{"int ", variable});
  }
  return text;
}

std::string ChunkKernel::passed(const LaunchStep& launch, const Argument& argument) {
  const KernelContext context(plan_, plan_.kernel(launch.kernel), text_.diags_);
  const std::string value = text_.argument(launch, text_.kernels_[launch.kernel.index], argument);
  if (argument.kind == Argument::Kind::Chunk) return with_outer(value);
  return parameter(argument_type(argument.kind), context.argument_name(argument), value);
}

std::string ChunkKernel::passed(const LaunchStep& launch, size_t number) {
  const Kernel& kernel = plan_.kernel(launch.kernel);
  const Formal& formal = kernel.formals[number];
  const Operand& operand = launch.operands[number];
  const std::string type = memory_type(formal.type.dtype), wanted = identifier(formal.name);
  if (operand.weight) return parameter("const " + type + "* ", wanted, text_.pointer(operand));
  const Buffer& buffer = plan_.buffer(operand.buffer);
  // The instance of a chunk is found inside; all else is the same for all of them.
  const bool inside = buffer.depth > 1 && buffer.life != Life::MicroBatch;
  const std::string handle = inside ? text_.names_.buffers[operand.buffer.index] : text_.handle(operand.buffer);
  const std::string first = inside ? text_.instance_offset(buffer) : "";
  if (formal.window && !text_.kernels_[launch.kernel.index].group.empty()) {
    const std::string name = parameter("weft::Window<" + type + "> ", wanted, handle);
    return inside ? name + ".part(" + first + ", " + count_text(buffer.dims()) + ")" : name;
  }
  const std::string name = parameter(type + "* ", wanted, "r[" + handle + "]");
  if (number >= kernel.body.inputs().size()) written_.insert("r[" + handle + "]");
  return inside ? name + " + " + first : name;
}

void ChunkKernel::add(const Step& step) {
  const auto& launch = std::get<LaunchStep>(step.what);
  const KernelText& kernel = text_.kernels_[launch.kernel.index];
  const auto by_peers = [&](const std::string& call) {
    return [this, call](SignalId id, const std::string& at) {
      const std::string what = identifier(last_component(plan_.signals[id.index].name));
      const std::string name = parameter("weft::Signal ", what, text_.names_.signals[id.index]);
      return peers_ + "." + call + "(" + name + (at.empty() ? "" : ", " + with_outer(at)) + ");";
    };
  };
  for (std::string& line : text_.waits(step, by_peers("wait"))) lines_.push_back(std::move(line));
  std::vector<std::string> arguments;
  for (const Argument& a : kernel.arguments) arguments.push_back(passed(launch, a));
  for (size_t f = 0; f < launch.operands.size(); ++f) arguments.push_back(passed(launch, f));
  lines_.push_back(kernel.name + "(" + join(arguments, ", ") + ");");
  for (std::string& line : text_.raises(step, by_peers("signal"))) lines_.push_back(std::move(line));
  called_.push_back(launch.kernel);
}

std::string ChunkKernel::name() const {
  std::vector<std::string> names;
  for (KernelId id : called_) names.push_back(text_.kernels_[id.index].name);
  return join(names, "_") + "_chunks";
}

std::vector<std::string> ChunkKernel::parameters() const {
  std::vector<std::string> list;
  for (const std::string& key : order_) {
    const Parameter& p = parameters_.at(key);
    const bool only_read = p.type.ends_with("* ") && !p.type.starts_with("const ") && !written_.contains(key);
    list.push_back((only_read ? "const " : "") + p.type + p.name);
  }
  return list;
}

}  // namespace weft
