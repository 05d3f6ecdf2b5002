// Global tensors and the parts of them that ranks hold. A rank takes its part of a .npy file. Rank 0 assembles the
// parts of an output in the staging memory, or from messages of ranks on other machines.
#include "tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checks.h"
#include "lengths.h"
#include "npy.h"
#include "relay.h"
#include "text_ports.h"
#include "variants.h"

namespace weft {

namespace {

Range range_of(const PortView& view) { return {view.port.in_window, view.port.offset, view.bytes()}; }

int64_t bytes_of(const PortViews& views) {
  int64_t bytes = 0;
  for (const PortView& view : views) bytes += view.bytes();
  return bytes;
}

/// Calls use(view, its bytes) for each view; `bytes` has the bytes of all views.
template <class Bytes, class Use>
void for_each_view(const PortViews& views, Bytes& bytes, Use&& use) {
  auto* at = bytes.data();
  for (const PortView& view : views) {
    use(view, at);
    at += view.bytes();
  }
}

Part part_of(const PortViews& views, const Port& port, const WholeTensor& tensor) {
  Part part{std::vector<char>(size_t(bytes_of(views))), lengths_of(port, tensor.shape)};
  for_each_view(views, part.bytes,
                [&](const PortView& view, char* bytes) { take_part(view, tensor.shape, tensor.elements, bytes); });
  return part;
}

void store_part(RankBase& rank, const PortViews& views, const Part& part) {
  for_each_view(views, part.bytes, [&](const PortView& view, const char* bytes) {
    const Range range = range_of(view);
    if (range.bytes > 0) memcpy(rank.at(range), bytes, size_t(range.bytes));
    rank.flush(range);
  });
}

void add_claims(LengthClaims& claims, const Port& port, const std::vector<int64_t>& lengths) {
  const std::span<const Bound> bounds = port.layout.bounds;
  for (size_t b = 0; b < lengths.size(); ++b) claims.add(bounds[b], lengths[b], "'" + std::string(port.name) + "'");
}

/// A rank's views of an input; none if the rank holds no part of it.
PortViews views_of(const Executable& variant, const char* name, int rank) {
  const Program& program = program_of(variant, rank);
  PortViews views;
  for (const Port& port : program.inputs)
    if (std::string_view(port.name) == name && holds(program, port, rank)) views.emplace_back(port, rank);
  return views;
}

/// A rank's part of a tensor in a file; only the lengths if it holds no part.
Part load_from(RankBase& rank, const PortViews& views, const Port& port, const std::string& file) {
  const NpyFile npy(file, port.dtype);
  check_shape(port, npy.shape(), file);
  rank.file_sums.add(port.name, npy.shape(), {npy.data(), size_t(tensor_bytes(port.dtype, npy.shape()))});
  return part_of(views, port, {port.name, npy.shape(), npy.data()});
}

void check_length(const Port& port, const Bound& bound, int64_t length) {
  const int64_t limit = port.shape.dims[bound.dim];
  if (length < 0 || length > limit)
    fail(kWrongInput, "'%s' has %ld elements on dimension %d, more than its bound of %ld", port.name, long(length),
         bound.dim, long(limit));
}

}  // namespace

VariantInputs::VariantInputs(RankBase& rank, const Executable& variant, const Options& options)
    : rank_(rank), seed_(options.seed) {
  for (const Port* port : distinct_ports(variant, &Program::inputs)) {
    if (is_state_input(variant, port->name)) continue;
    const auto given = options.inputs.find(port->name);
    const bool is_given_later = is_fed(variant, port->name);
    const bool has_file = given != options.inputs.end() && !is_given_later;
    inputs_.push_back({*port,
                       views_of(variant, port->name, rank.rank),
                       has_file ? given->second : "",
                       !has_file && !is_given_later,
                       false,
                       {}});
    if (is_given_later && variant.training != nullptr)
      inputs_.back().part.bytes.assign(size_t(bytes_of(inputs_.back().views)), 0);  // no evaluation
  }
}

void VariantInputs::load_one(Input& input, int invocation) {
  if (!input.file.empty()) {
    input.part = load_from(rank_, input.views, input.port, input_file(input.file, invocation));
    return;
  }
  input.part = {std::vector<char>(size_t(bytes_of(input.views))), lengths_of(input.port, file_shape(input.port))};
}

/// Elements of a random input, whose lengths are settled.
void VariantInputs::fill(Input& input) const {
  input.is_filled = true;
  if (input.views.empty()) return;
  std::vector<int64_t> shape = file_shape(input.port);
  const size_t leading = shape.size() - size_t(input.port.shape.ndim);
  const std::span<const Bound> bounds = input.port.layout.bounds;
  for (size_t b = 0; b < bounds.size(); ++b) shape[size_t(bounds[b].dim) + leading] = input.part.lengths[b];
  for_each_view(input.views, input.part.bytes,
                [&](const PortView& view, char* bytes) { take_random(view, shape, seed_, bytes); });
}

/// A random input takes the lengths that files and states give it, else its bounds.
void VariantInputs::settle(Input& input, LengthClaims& claims) {
  const std::vector<int64_t> before = input.part.lengths;
  for (size_t b = 0; b < input.part.lengths.size(); ++b)
    if (const int64_t said = claims.of(input.port.layout.bounds[b].length.name); said >= 0)
      input.part.lengths[b] = said;
  add_claims(claims, input.port, input.part.lengths);
  if (!input.is_filled || input.part.lengths != before) fill(input);
}

void VariantInputs::load(int invocation) {
  for (Input& input : inputs_) {
    const bool varies = input.file.find("{i}") != std::string::npos;
    if (loaded_ < 0 || (varies && loaded_ != invocation)) load_one(input, invocation);
  }
  loaded_ = invocation;
}

void VariantInputs::give(const WholeTensor& tensor) {
  for (Input& input : inputs_) {
    if (std::string_view(tensor.name) != input.port.name) continue;
    input.part = part_of(input.views, input.port, tensor);
    input.is_random = false;
  }
}

void VariantInputs::upload(const States& states) {
  LengthClaims claims(*rank_.variant);
  states.claim(claims);
  for (const Input& input : inputs_)
    if (!input.is_random) add_claims(claims, input.port, input.part.lengths);
  for (Input& input : inputs_)
    if (input.is_random) settle(input, claims);
  states.claim_bounds(claims);
  store_lengths(rank_, claims);
  for (const Input& input : inputs_) store_part(rank_, input.views, input.part);
}

/// A state's initial value from a file, if there is one.
static std::optional<Part> part_of_file(RankBase& rank, const PortViews& views, const Port& port,
                                        const Options& options) {
  const std::string file = first_file_of_state(options, port.name);
  if (file.empty()) return {};
  return load_from(rank, views, port, file);
}

States::States(RankBase& rank, const Options& options) : rank_(rank) {
  const Executable& first = variant_of(rank.executable, 0);
  for (const Port* port : distinct_ports(first, &Program::inputs)) {
    if (!is_state_input(first, port->name)) continue;
    StateTensor held{{}, views_of(first, port->name, rank.rank), std::nullopt, {}};
    for (size_t v = 0; v < variant_count(rank.executable); ++v)
      held.ports.push_back(&port_named(variant_of(rank.executable, v), port->name, &Program::inputs));
    held.from_file = part_of_file(rank, held.views, *port, options);
    states_.push_back(std::move(held));
  }
}

void States::reset() {
  for (StateTensor& state : states_) start(state);
}

void States::begin() {
  reset();
  for (StateTensor& state : states_) state.from_file.reset();
}

/// Without a file a state starts from zero, or from its initialiser, which lies in the image as it does in the buffer.
void States::start(StateTensor& state) {
  if (state.from_file) return set(state, *state.from_file);
  const Port& port = *state.ports.front();
  const bool is_zero = port.layout.initial < 0;
  state.lengths =
      is_zero ? lengths_at_start(variant_of(rank_.executable, 0), port) : lengths_of(port, file_shape(port));
  for (const PortView& view : state.views) {
    const Range range = range_of(view);
    if (range.bytes == 0) continue;
    if (is_zero)
      memset(rank_.at(range), 0, size_t(range.bytes));
    else
      memcpy(rank_.at(range), rank_.image + view.port.layout.initial, size_t(range.bytes));
    rank_.flush(range);
  }
}

void States::set(StateTensor& state, const Part& part) {
  store_part(rank_, state.views, part);
  state.lengths = part.lengths;
}

void States::advance() {
  for (StateTensor& state : states_) {
    if (state.lengths.empty()) continue;
    const Port& port = port_of(state);
    const std::span<const Bound> next = bounds_of_next(*rank_.variant, port.name);
    for (size_t b = 0; b < state.lengths.size(); ++b)
      for (const Bound& bound : next)
        if (bound.dim == port.layout.bounds[b].dim) state.lengths[b] = bound.length(rank_.lengths.data());
  }
}

std::vector<Part> States::take() {
  std::vector<Part> parts;
  for (const StateTensor& state : states_) {
    Part& part = parts.emplace_back(Part{{}, state.lengths});
    part.bytes.resize(size_t(bytes_of(state.views)));
    for_each_view(state.views, part.bytes, [&](const PortView& view, char* bytes) {
      const Range range = range_of(view);
      rank_.fetch(range);
      std::copy_n(rank_.at(range), range.bytes, bytes);
    });
  }
  return parts;
}

void States::put(const std::vector<Part>& parts) {
  for (size_t s = 0; s < states_.size(); ++s) set(states_[s], parts[s]);
}

void States::give(const std::vector<WholeTensor>& tensors) {
  LengthClaims claims(*rank_.variant);
  std::vector<std::pair<StateTensor*, Part>> given;
  for (StateTensor& state : states_) {
    const Port& port = port_of(state);
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const WholeTensor& t) { return std::string_view(t.name) == port.name; });
    if (tensor != tensors.end()) given.emplace_back(&state, part_of(state.views, port, *tensor));
    add_claims(claims, port, tensor != tensors.end() ? given.back().second.lengths : state.lengths);
  }
  for (const auto& [state, part] : given) set(*state, part);
}

void States::claim(LengthClaims& claims) const {
  for (const StateTensor& state : states_) add_claims(claims, port_of(state), state.lengths);
}

void States::claim_bounds(LengthClaims& claims) const {
  for (const StateTensor& state : states_)
    for (const Bound& bound : port_of(state).layout.bounds)
      if (claims.of(bound.length.name) < 0)
        claims.add(bound, port_of(state).shape.dims[bound.dim], port_of(state).name);
}

int64_t States::length(std::string_view name, int dim) const {
  for (const StateTensor& state : states_)
    for (size_t b = 0; b < state.lengths.size(); ++b)
      if (name == port_of(state).name && port_of(state).layout.bounds[b].dim == dim) return state.lengths[b];
  fail(kBug, "there is no state '%s' whose dimension %d has a run-time length", std::string(name).c_str(), dim);
}

std::vector<Range> States::ranges() const {
  std::vector<Range> out;
  for (const StateTensor& state : states_)
    for (const PortView& view : state.views) out.push_back(range_of(view));
  return out;
}

namespace {

/// The staging memory: the shape of the tensor being assembled, then its elements.
struct StagingArea {
  int64_t shape[kMaxPortDims + 1];
};
constexpr int64_t kStagingData = kPage;
static_assert(sizeof(StagingArea) <= kStagingData);

/// The shape at run time; of a state, the one that the invocation has left.
std::vector<int64_t> shape_now(const RankBase& rank, const Port& port, const States* states) {
  std::vector<int64_t> shape = file_shape(port);
  const size_t leading = shape.size() - size_t(port.shape.ndim);
  if (states != nullptr) {
    for (const Bound& bound : port.layout.bounds)
      shape[size_t(bound.dim) + leading] = states->length(port.name, bound.dim);
    return shape;
  }
  const bool is_state = is_state_input(*rank.variant, port.name);
  for (const Bound& bound : is_state ? bounds_of_next(*rank.variant, port.name) : port.layout.bounds) {
    const int64_t length = bound.length(rank.lengths.data());
    check_length(port, bound, length);
    shape[size_t(bound.dim) + leading] = length;
  }
  return shape;
}

char* whole_of(const World& world) { return world.staging() + kStagingData; }
StagingArea& staging_of(const World& world) { return *reinterpret_cast<StagingArea*>(world.staging()); }

/// The port that a rank holds of this name; nullptr: none.
const Port* held_port(const Executable& executable, const char* name, std::span<const Port> Program::*ports, int rank) {
  const Program& program = program_of(executable, rank);
  const Port* port = find_port(program.*ports, name);
  return port != nullptr && holds(program, *port, rank) ? port : nullptr;
}

/// A part on its way to rank 0 of another machine: the shape, then the buffer.
std::vector<char> pack_part(const PortView& view, const std::vector<int64_t>& shape, const char* buffer) {
  StagingArea head = {};
  std::copy(shape.begin(), shape.end(), head.shape);
  std::vector<char> out(sizeof head + size_t(view.bytes()));
  memcpy(out.data(), &head, sizeof head);
  memcpy(out.data() + sizeof head, buffer, size_t(view.bytes()));
  return out;
}

void place_part(const RankBase& rank, const Delivery& part, const char* name, std::span<const Port> Program::*ports) {
  const Port* port = held_port(*rank.variant, name, ports, part.from);
  const size_t head = sizeof(StagingArea);
  if (port == nullptr || part.bytes.size() != head + size_t(PortView(*port, part.from).bytes()))
    fail(kBug, "rank %d sent %zu bytes that are no part of '%s'", part.from, part.bytes.size(), name);
  StagingArea staging;
  memcpy(&staging, part.bytes.data(), head);
  const std::vector<int64_t> shape(staging.shape, staging.shape + file_shape(*port).size());
  put_part(PortView(*port, part.from), shape, part.bytes.data() + head, whole_of(rank.world));
  if (is_first_holder(*rank.variant, *port, ports, part.from)) staging_of(rank.world) = staging;
}

/// Puts this rank's part into the staging memory, or sends it to rank 0's.
void give_part(RankBase& rank, const Port& mine, std::span<const Port> Program::*ports, const States* states) {
  const PortView view(mine, rank.rank);
  const std::vector<int64_t> shape = shape_now(rank, mine, states);
  const Range range = range_of(view);
  rank.fetch(range);
  if (rank.world.relay != nullptr && rank.rank != 0)
    return rank.world.relay->deliver(pack_part(view, shape, rank.at(range)));
  put_part(view, shape, rank.at(range), whole_of(rank.world));
  if (is_first_holder(*rank.variant, mine, ports, rank.rank))
    std::copy(shape.begin(), shape.end(), staging_of(rank.world).shape);
}

}  // namespace

int64_t port_bytes(const Port& port) { return tensor_bytes(port.dtype, file_shape(port)); }

void gather_tensor(RankBase& rank, const Port& any, std::span<const Port> Program::*ports,
                   const std::function<void(const WholeTensor&)>& use, const States* states) {
  const Port* mine = held_port(*rank.variant, any.name, ports, rank.rank);
  if (mine != nullptr && writes_part(*rank.variant, *mine, ports, rank.rank)) give_part(rank, *mine, ports, states);
  rank.barrier();
  if (rank.rank == 0) {
    if (rank.world.relay != nullptr)
      for (const Delivery& part : rank.world.relay->take_deliveries()) place_part(rank, part, any.name, ports);
    const StagingArea& staging = staging_of(rank.world);
    use({any.name, {staging.shape, staging.shape + file_shape(any).size()}, whole_of(rank.world)});
  }
  rank.barrier();
}

int64_t staging_bytes(const Executable& executable, const Options& options) {
  int64_t bytes = shared_logits_bytes(executable);
  if (executable.training != nullptr) bytes = sizeof(double);  // a figure of a step
  if (executable.generation == nullptr && (!options.output_dir.empty() || options.serves))
    for (const Port* port : distinct_ports(executable, &Program::outputs)) bytes = std::max(bytes, port_bytes(*port));
  if (!options.save_state.empty() || !options.checkpoint.empty() || options.serves)
    for (const Port* port : distinct_ports(executable, &Program::inputs))
      if (is_state_input(executable, port->name)) bytes = std::max(bytes, port_bytes(*port));
  return bytes == 0 ? 0 : bytes + kStagingData;
}

template <class T>
static bool are_finite(const char* elements, int64_t bytes) {
  const auto* first = reinterpret_cast<const T*>(elements);
  return std::all_of(first, first + bytes / int64_t(sizeof(T)), [](T x) { return std::isfinite(x); });
}

/// A state that holds infinities or NaN would be no start for anything.
static void demand_finite(const Port& port, const WholeTensor& tensor) {
  const int64_t bytes = tensor_bytes(port.dtype, tensor.shape);
  const bool is_good = port.dtype == DType::F32   ? are_finite<float>(tensor.elements, bytes)
                       : port.dtype == DType::F64 ? are_finite<double>(tensor.elements, bytes)
                                                  : true;
  if (!is_good) fail(kWrongInput, "'%s' is not finite any more: no checkpoint of it is written", port.name);
}

static void write_tensor(RankBase& rank, const Port& any, std::span<const Port> Program::*ports,
                         const std::string& file, Bfloat16Form form) {
  gather_tensor(rank, any, ports,
                [&](const WholeTensor& tensor) { write_npy(file, any.dtype, tensor.shape, tensor.elements, form); });
}

static Bfloat16Form bfloat16_form(const Options& options) {
  return options.ml_dtypes ? Bfloat16Form::MlDtypes : Bfloat16Form::Bits;
}

void write_outputs(RankBase& rank, const Options& options) {
  if (options.output_dir.empty()) return;
  if (rank.rank == 0) make_folder(options.output_dir);
  for (const Port* port : distinct_ports(rank.executable, &Program::outputs))
    write_tensor(rank, *port, &Program::outputs, options.output_dir + "/" + file_name(port->name) + ".npy",
                 bfloat16_form(options));
}

void write_states(RankBase& rank, const Options& options, const std::string& folder, States::Finite finite) {
  if (folder.empty()) return;
  if (rank.rank == 0) make_folder(folder);
  for (const Port* port : distinct_ports(rank.executable, &Program::inputs))
    if (is_state_input(rank.executable, port->name))
      gather_tensor(rank, *port, &Program::inputs, [&](const WholeTensor& tensor) {
        if (finite == States::Finite::Demanded) demand_finite(*port, tensor);
        write_npy(state_file(folder, port->name), port->dtype, tensor.shape, tensor.elements, bfloat16_form(options));
      });
}

}  // namespace weft
