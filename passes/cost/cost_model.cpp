// Counts operations and bytes of each step from factor rules and types, and divides them by the table of machines
// below. A step takes the longest of computing, reading and writing memory, and sending, plus the time to start it.
#include "passes/cost/cost_model.h"

#include <algorithm>

#include "ir/base/contains.h"
#include "ir/exchange_types.h"
#include "ir/op_def.h"
#include "passes/cost/scalar_cycles.h"
#include "passes/cost/strategy_rate.h"
#include "passes/strategy/convolution_price.h"

namespace weftc {

namespace {

/// A machine: the level of the target that it represents, and its rates.
struct Row {
  bool is_device;
  int level;  // host: operations of a vector instruction on floats; cuda: the arch's number
  Ceilings ceilings;
};

// Host rows are one core and were measured: f32 and memory of x86-64-v3 on a Zen 3 core (peak of its two FMA units,
// reading from DRAM), of v4 on a core with AVX-512 and AMX (peak, copying). The oldest has half of v3's width and no
// FMA. The row of Arm is not measured: it is computed for the two units of 128 bits of a Neoverse N1 at 2.5 GHz, with
// the rest from the Zen 3 core.
//
// link and latency are those of an all-reduce of 2 ranks through shared memory: 4 MiB in 159 us, 4 bytes in 0.4 us. The
// shortest step of a trace, a product of 512 operations, takes 70 ns. A polynomial for exp takes 0.25 ns an element at
// 211 GFLOP/s: 50 operations.
//
// Other rows are from NVIDIA's data sheets of the named product: dense rates, f32 and f64 without tensor cores, NVLink
// (PCIe for L40S) in one direction. Their `step` and `latency` are guesses: a launch in a replayed graph, a small NCCL
// call. A kernel of a loop over chunks has 32 blocks, out of the product's 108, 142, 132 or 148 multiprocessors. Each
// of their lanes does a multiplication with its addition a clock.
//
//  machine, f32, f64, f16, memory, link, latency, step, function, chunked, scalar
const Row kTable[] = {
    {false, 4, {"one core with SSE2", 25e9, 12.5e9, 25e9, 19.5e9, 26e9, 0.4e-6, 0.05e-6, 50, 1, 3e9}},
    {false, 8, {"one core with NEON", 40e9, 20e9, 40e9, 19.5e9, 26e9, 0.4e-6, 0.05e-6, 50, 1, 2.5e9}},
    {false, 16, {"one core with AVX2", 101e9, 50e9, 101e9, 19.5e9, 26e9, 0.4e-6, 0.05e-6, 50, 1, 3e9}},
    {false, 32, {"one core with AVX-512", 211e9, 105e9, 211e9, 22e9, 26e9, 0.4e-6, 0.05e-6, 50, 1, 3e9}},
    {true, 80, {"A100 SXM 80 GB", 19.5e12, 9.7e12, 312e12, 2039e9, 300e9, 10e-6, 2e-6, 16, 32. / 108, 9.7e12}},
    {true, 89, {"L40S", 91.6e12, 1.4e12, 362e12, 864e9, 32e9, 10e-6, 2e-6, 16, 32. / 142, 45.8e12}},
    {true, 90, {"H100 SXM", 67e12, 34e12, 989e12, 3350e9, 450e9, 10e-6, 2e-6, 16, 32. / 132, 33.5e12}},
    {true, 100, {"B200 SXM", 80e12, 40e12, 2250e12, 8000e9, 900e9, 10e-6, 2e-6, 16, 32. / 148, 40e12}},
};

/// The newest of the target's archs: an executable for several archs runs best there.
int level_of(const Target& target) {
  if (!target.has_grid()) return target.vector_floats * (target.has_fma ? 2 : 1);
  int level = 0;
  for (const std::string& arch : target.archs) level = std::max(level, std::atoi(arch.c_str() + 3));
  return level;
}

/// The name of a ceiling on the command line.
struct Named {
  const char* name;
  double Ceilings::*ceiling;
};
constexpr Named kNamed[] = {
    {"f32", &Ceilings::f32},       {"f64", &Ceilings::f64},           {"f16", &Ceilings::f16},
    {"memory", &Ceilings::memory}, {"link", &Ceilings::link},         {"latency", &Ceilings::latency},
    {"step", &Ceilings::step},     {"function", &Ceilings::function}, {"chunked", &Ceilings::chunked},
    {"scalar", &Ceilings::scalar},
};

/// The extent of one loop on a rank: where operands and results are sliced differently, the smallest of theirs.
int64_t local_loop(const OpView& op, const FactorRule& rule, int factor, const Mesh& mesh) {
  int64_t extent = rule.factors[static_cast<size_t>(factor)].extent;
  const auto visit = [&](const TensorType& type, const std::vector<int>& factors) {
    for (size_t d = 0; d < factors.size(); ++d)
      if (factors[d] == factor)
        extent =
            std::min(extent, buffer_extent(type.shape[d].bound, digits_of(type.layout, static_cast<int>(d), mesh)));
  };
  for (size_t i = 0; i < rule.inputs.size(); ++i)
    if (op.has(static_cast<int>(i))) visit(op.type(static_cast<int>(i)), rule.inputs[i]);
  for (size_t i = 0; i < rule.outputs.size(); ++i) visit(op.result_type(static_cast<int>(i)), rule.outputs[i]);
  return extent;
}

/// True if a dim of the operands or results from number `from` on runs over the factor.
bool has_factor(const std::vector<std::vector<int>>& sides, size_t from, int factor) {
  for (size_t i = from; i < sides.size(); ++i)
    if (contains(sides[i], factor)) return true;
  return false;
}

/// How often the innermost statement of an op runs on a rank. The spatial loops of a windowed operand are those of its
/// result and of the window, which pooling has as an attribute.
double points_of(const OpView& op, const Mesh& mesh) {
  const FactorRule rule = factor_rule(op);
  const bool contracts = category(op.op()) == Category::Contraction;
  double points = 1;
  for (int f = 0; f < static_cast<int>(rule.factors.size()); ++f) {
    const bool in_window = contracts && rule.factors[static_cast<size_t>(f)].role == Factor::Role::Whole &&
                           !has_factor(rule.outputs, 0, f) && !has_factor(rule.inputs, 1, f);
    if (!in_window) points *= static_cast<double>(local_loop(op, rule, f, mesh));
  }
  if (op.op().kind == OpKind::BlockMatMul) points *= 32.0 / static_cast<double>(op.op().integer("bits"));  // of a word
  if (contracts && op.inputs() == 1)
    for (const int64_t extent : op.op().ints("kernel_shape")) points *= static_cast<double>(extent);
  return points;
}

/// The dtype in which an op's operations are counted.
DType dtype_of(const OpView& op) { return op.inputs() > 0 ? op.type(0).dtype : op.result_type(0).dtype; }

void count_operations(const OpView& op, const Mesh& mesh, double function, Work& work) {
  const Category kind = category(op.op());
  const DType dtype = dtype_of(op);
  const double cycles = scalar_cycles(op, mesh);
  work.scalar += cycles;
  if (cycles > 0) return;
  double& total = dtype == DType::F64                                                           ? work.f64
                  : kind == Category::Contraction && dtype_bytes(dtype) == 2 && is_float(dtype) ? work.f16
                                                                                                : work.f32;
  switch (kind) {
    case Category::Contraction:
      total += 2 * points_of(op, mesh);
      break;
    case Category::Pointwise:
      total += points_of(op, mesh) * (op_def(op.op()).cost == ScalarCost::Function ? function : 1);
      break;
    case Category::Reduction:
    case Category::Scan:
      total += points_of(op, mesh);
      break;
    case Category::View:
    case Category::Index:
    case Category::Region:
    case Category::Collective:
    case Category::Source:
    case Category::Composite:
      break;
  }
}

bool is_contraction(const Op& op) {
  return op.kind == OpKind::MatMul || op.kind == OpKind::Conv || op.kind == OpKind::MatMulInteger ||
         op.kind == OpKind::ConvInteger || op.kind == OpKind::BlockMatMul;
}

/// The exchange of a group of ranks: `before` and `after` are the bytes of one rank's operand and result.
struct Exchange {
  OpKind kind;
  int64_t before, after;
  RankGroup group;
};

/// Exchanges of one step meet at once, and move one after the other.
void count_exchange(const Machine& machine, const Exchange& exchange, Work& work) {
  const auto& [kind, before, after, group] = exchange;
  work.link_bytes += bytes_sent(kind, before, after, group.ranks);
  work.meetings = 1;
  if (machine.levels.empty()) return;
  if (!work.network) work.network.emplace();
  const double latency = collective_seconds(machine, kind, 0, 0, group);
  work.network->latency = std::max(work.network->latency, latency);
  work.network->transfer += collective_seconds(machine, kind, before, after, group) - latency;
}

void count_exchange_in(const Plan& plan, const Kernel& kernel, const Op& op, const Machine& machine, Work& work) {
  if (category(op) != Category::Collective || op.kind == OpKind::ShardSlice) return;
  const Place& place = plan.places[kernel.place.index];
  count_exchange(machine,
                 {op.kind, local_bytes(kernel.body.type(op.inputs[0]), kernel.mesh),
                  local_bytes(kernel.body.type(op.outputs[0]), kernel.mesh), group_of(machine, place, axes_of(op))},
                 work);
}

/// Most strategies have a part of the machine's rate, and not all have its tensor cores.
void set_rate(const StrategyRate& rate, Work& work) {
  work.rate = rate.part;
  if (rate.tensor_cores) return;
  work.f32 += work.f16;
  work.f16 = 0;
}

/// A convolution that has a price reaches the rate that follows from it.
void set_price(const Plan& plan, const Kernel& kernel, const Strategy& strategy, Work& work) {
  const KernelBody body(kernel, plan.places[kernel.place.index].mesh.size());
  const std::optional<double> seconds = convolution_seconds(strategy, body, plan.target);
  if (seconds) work.rate = work.f32 / ceilings_of(plan.target).f32 / *seconds;
}

/// The work of all trips of a loop inside a kernel; a run-time trip count counts as one.
void count_loop(const Module& module, const Graph& body, const Op& loop, const Mesh& mesh, double function,
                Work& work) {
  Work trip;
  for (const OpId id : loop.regions[0].order())
    count_operations(OpView(module, loop.regions[0], loop.regions[0].op(id)), mesh, function, trip);
  const std::optional<Tensor> known = OpView(module, body, loop).known(0);
  const double trips = known ? static_cast<double>(known->int_at(0)) : 1;
  work.f32 += trip.f32 * trips;
  work.f64 += trip.f64 * trips;
  work.scalar += trip.scalar * trips;
}

Work kernel_work(const Plan& plan, const Module& module, const Kernel& kernel, const Strategy& strategy,
                 const Machine& machine) {
  const double function = machine.ceilings.function;
  Work work;
  work.bytes = moved_bytes(kernel);
  if (!plan.target.has_grid()) work.scalar = strategy_cycles(plan, kernel, strategy);
  for (const OpId id : kernel.body.order()) {
    const OpView op(module, kernel.body, kernel.body.op(id));
    count_operations(op, kernel.mesh, function, work);
    if (is_contraction(op.op())) set_rate(strategy_rate(strategy, plan.target, dtype_of(op)), work);
    if (op.op().kind == OpKind::Conv) set_price(plan, kernel, strategy, work);
    if (op.op().kind == OpKind::Loop) count_loop(module, kernel.body, op.op(), kernel.mesh, function, work);
    count_exchange_in(plan, kernel, op.op(), machine, work);
  }
  return work;
}

Work copy_work(const Buffer& to) {
  Work work;
  work.bytes = 2 * local_bytes(to.type, to.mesh);
  return work;
}

/// A collective reads its operand, writes its result, and sends by bytes_sent.
Work collective_work(const Plan& plan, const CollectiveStep& step, const Machine& machine) {
  const int64_t before = local_bytes(step.from_type, step.mesh), after = local_bytes(step.to_type, step.mesh);
  Work work;
  if (step.kind == OpKind::ShardSlice) {
    work.bytes = 2 * after;
    return work;
  }
  work.bytes = before + after;
  const RankGroup group = group_of(machine, plan.places[step.place.index], step.axes);
  count_exchange(machine, {step.kind, before, after, group}, work);
  return work;
}

/// Messages that leave or reach a rank; the receiver copies data that stays on the rank.
Work transfer_work(const Plan& plan, int transfer, int rank, bool sends, const Machine& machine) {
  const TransferTable& table = plan.transfers[static_cast<size_t>(transfer)];
  const int64_t element = dtype_bytes(plan.buffer(table.from).type.dtype);
  Work work;
  for (const Message& m : table.messages) {
    const int64_t bytes = element_count(m.extents) * element;
    if ((sends ? m.from : m.to) != rank) continue;
    if (m.from != m.to)
      count_exchange(machine, {OpKind::Transfer, bytes, bytes, group_of(machine, {m.from, m.to})}, work);
    if (!sends) work.bytes += m.from == m.to ? 2 * bytes : bytes;
  }
  return work;
}

}  // namespace

Ceilings ceilings_of(const Target& target) {
  const int level = level_of(target);
  const Ceilings* found = nullptr;
  for (const Row& row : kTable)
    if (row.is_device == target.has_grid() && (row.level <= level || !found)) found = &row.ceilings;
  return *found;
}

Machine usual_machine(const Target& target) {
  Machine machine;
  machine.ceilings = ceilings_of(target);
  machine.is_device = target.has_grid();
  machine.archs = target.archs;
  return machine;
}

double* find_ceiling(Ceilings& ceilings, std::string_view name) {
  for (const Named& named : kNamed)
    if (name == named.name) return &(ceilings.*named.ceiling);
  return nullptr;
}

const std::vector<std::string>& ceiling_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Named& named : kNamed) all.push_back(named.name);
    return all;
  }();
  return names;
}

const char* bound_name(Bound bound) {
  switch (bound) {
    case Bound::Step:
      return "step";
    case Bound::Latency:
      return "latency";
    case Bound::Compute:
      return "compute";
    case Bound::Memory:
      return "memory";
    case Bound::Link:
      return "link";
  }
  return "";
}

StepCost cost_of(const Work& work, const Ceilings& c) {
  const NetworkTime network =
      work.network.value_or(NetworkTime{work.meetings * c.latency, static_cast<double>(work.link_bytes) / c.link});
  const std::pair<double, Bound> parts[] = {
      {(work.f32 / c.f32 + work.f64 / c.f64 + work.f16 / c.f16) / work.rate + work.scalar / c.scalar, Bound::Compute},
      {static_cast<double>(work.bytes) / c.memory, Bound::Memory},
      {network.transfer, Bound::Link},
  };
  auto largest = *std::max_element(std::begin(parts), std::end(parts));
  const double latency = network.latency;
  StepCost cost{work, c.step + latency + largest.first, largest.second};
  if (largest.first < std::max(c.step, latency)) cost.bound = latency > c.step ? Bound::Latency : Bound::Step;
  return cost;
}

int64_t local_bytes(const TensorType& type, const Mesh& mesh) {
  return element_count(buffer_dims(type, mesh)) * dtype_bytes(type.dtype);
}

/// The parameter of a state that a kernel updates in place by adding to it; nothing for all other kernels.
static std::optional<size_t> kept_state(const Kernel& kernel) {
  if (const auto* append = std::get_if<Append>(&kernel.strategy)) return append->state;
  const auto* scatter = std::get_if<Scatter>(&kernel.strategy);
  if (!scatter || !scatter->in_place) return {};
  for (OpId id = kernel.body.first(); id; id = kernel.body.next(id)) {
    const Op& op = kernel.body.op(id);
    if (op.kind != OpKind::ScatterElements && op.kind != OpKind::ScatterND) continue;
    const std::vector<ValueId>& inputs = kernel.body.inputs();
    return static_cast<size_t>(std::find(inputs.begin(), inputs.end(), op.inputs[0]) - inputs.begin());
  }
  return {};
}

/// A kernel that adds to a state reads only the added part and writes as much.
static int64_t added_bytes(const Kernel& kernel, size_t state) {
  int64_t bytes = 0;
  for (size_t i = 0; i < kernel.body.inputs().size(); ++i)
    if (i != state) bytes += 2 * local_bytes(kernel.parameters[i].type, kernel.mesh);
  return bytes;
}

std::optional<int64_t> looked_up_bytes(const Kernel& kernel, size_t parameter, const Storage& storage) {
  constexpr int64_t kLine = 64;
  if (parameter >= kernel.body.inputs().size()) return {};
  int64_t bytes = 0;
  for (const Use& use : kernel.body.value(kernel.body.inputs()[parameter]).uses) {
    if (!use.op || use.input != 0 || category(kernel.body.op(use.op)) != Category::Index) return {};
    bytes += local_bytes(kernel.body.type(kernel.body.result(use.op)), kernel.mesh);
  }
  const TensorType& table = kernel.parameters[parameter].type;
  const int64_t spread = storage.is_row_major() ? 1 : kLine / dtype_bytes(table.dtype);
  return std::min(local_bytes(table, kernel.mesh), bytes * spread);
}

/// Bytes of a parameter that one launch reads or writes.
static int64_t bytes_of(const Kernel& kernel, size_t number) {
  const Parameter& parameter = kernel.parameters[number];
  const std::optional<int64_t> looked_up = looked_up_bytes(kernel, number, parameter.storage);
  return looked_up ? *looked_up : local_bytes(parameter.type, kernel.mesh);
}

int64_t moved_bytes(const Kernel& kernel) {
  if (const std::optional<size_t> state = kept_state(kernel)) return added_bytes(kernel, *state);
  int64_t bytes = 0;
  for (size_t p = 0; p < kernel.parameters.size(); ++p) bytes += bytes_of(kernel, p);
  return bytes;
}

int64_t moved_weight_bytes(const Kernel& kernel) {
  int64_t bytes = 0;
  for (size_t p = 0; p < kernel.parameters.size(); ++p)
    if (kernel.parameters[p].weight) bytes += bytes_of(kernel, p);
  return bytes;
}

Work work_alone(const Module& module, const Graph& graph, const Op& op, const Mesh& mesh, double function) {
  Work work;
  count_operations(OpView(module, graph, op), mesh, function, work);
  for (const ValueId v : op.inputs)
    if (v) work.bytes += local_bytes(graph.type(v), mesh);
  for (const ValueId v : op.outputs) work.bytes += local_bytes(graph.type(v), mesh);
  return work;
}

double operations_alone(const Module& module, const Graph& graph, const Op& op, double function) {
  const Work work = work_alone(module, graph, op, {}, function);
  return work.f32 + work.f64 + work.f16;
}

double seconds_alone(const Module& module, const Graph& graph, const Op& op, const Ceilings& ceilings) {
  if (category(op) == Category::View || !op.regions.empty()) return 0;
  return cost_of(work_alone(module, graph, op, {}, ceilings.function), ceilings).seconds;
}

double contraction_operations(const Module& module, const Kernel& kernel) {
  double operations = 0;
  for (OpId id = kernel.body.first(); id; id = kernel.body.next(id)) {
    if (is_contraction(kernel.body.op(id)))
      operations += 2 * points_of(OpView(module, kernel.body, kernel.body.op(id)), kernel.mesh);
  }
  return operations;
}

/// The ceilings of a kernel that runs on a part of the machine, such as a loop over chunks.
static Ceilings part_of(Ceilings ceilings) {
  for (double Ceilings::*rate : {&Ceilings::f32, &Ceilings::f64, &Ceilings::f16, &Ceilings::memory, &Ceilings::scalar})
    ceilings.*rate *= ceilings.chunked;
  return ceilings;
}

static Machine without_levels(Ceilings ceilings) {
  Machine machine;
  machine.ceilings = std::move(ceilings);
  return machine;
}

CostModel::CostModel(const Plan& plan, const Module& module, Ceilings ceilings)
    : CostModel(plan, module, without_levels(std::move(ceilings))) {}

CostModel::CostModel(const Plan& plan, const Module& module, Machine machine)
    : plan_(plan), machine_(std::move(machine)), chunked_(part_of(machine_.ceilings)) {
  for (const Kernel& kernel : plan.kernels) {
    const auto work = [&](const Strategy& strategy) { return kernel_work(plan, module, kernel, strategy, machine_); };
    kernels_.push_back(work(kernel.strategy));
    in_chunks_.push_back(work(kernel.in_chunks.value_or(kernel.strategy)));
  }
}

StepCost CostModel::of(const Step& step, int rank, bool chunked) const {
  const auto cost = [&](const Work& work) { return cost_of(work, chunked ? chunked_ : machine_.ceilings); };
  if (const auto* launch = std::get_if<LaunchStep>(&step.what))
    return cost((chunked ? in_chunks_ : kernels_)[launch->kernel.index]);
  if (const auto* copy = std::get_if<CopyStep>(&step.what))
    return cost(copy->in_place ? Work() : copy_work(plan_.buffer(copy->to)));
  if (const auto* collective = std::get_if<CollectiveStep>(&step.what))
    return cost(collective_work(plan_, *collective, machine_));
  const auto* send = std::get_if<SendStep>(&step.what);
  const auto* recv = std::get_if<RecvStep>(&step.what);
  if (!send && !recv) return {};
  const Work work = transfer_work(plan_, send ? send->transfer : recv->transfer, rank, send != nullptr, machine_);
  return work.bytes + work.link_bytes > 0 ? cost(work) : StepCost{};
}

}  // namespace weftc
