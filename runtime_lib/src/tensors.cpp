// Global tensors and the parts of them that ranks hold: a rank takes its part of a .npy file, and rank 0 puts the parts
// of an output together in the staging memory, or from messages of ranks on other machines.
#include "tensors.h"

#include <algorithm>
#include <cstring>

#include "checks.h"
#include "npy.h"
#include "relay.h"

namespace weft {

namespace {

Range range_of(const PortView& view) { return {view.port.in_window, view.port.offset, view.bytes()}; }
Range range_of(const Bound& bound) { return {false, bound.count.offset, int64_t{sizeof(int64_t)}}; }

int64_t length_of(RankBase& rank, const Bound& bound) {
  const Range range = range_of(bound);
  rank.fetch(range);
  return *reinterpret_cast<const int64_t*>(rank.at(range));
}

void set_length(RankBase& rank, const Bound& bound, int64_t length) {
  const Range range = range_of(bound);
  *reinterpret_cast<int64_t*>(rank.at(range)) = length;
  rank.flush(range);
}

Part part_of(const PortView& view, const WholeTensor& tensor) {
  Part part{std::vector<char>(size_t(view.bytes())), lengths_of(view.port, tensor.shape)};
  take_part(view, tensor.shape, tensor.elements, part.bytes.data());
  return part;
}

Part load_part(const PortView& view, const std::string& file) {
  const NpyFile npy(file, view.port.dtype);
  check_shape(view.port, npy.shape(), file);
  return part_of(view, {view.port.name, npy.shape(), npy.data()});
}

void store_part(RankBase& rank, const PortView& view, const Part& part) {
  const Range range = range_of(view);
  if (!part.bytes.empty()) memcpy(rank.at(range), part.bytes.data(), part.bytes.size());
  rank.flush(range);
  for (size_t b = 0; b < part.lengths.size(); ++b) set_length(rank, view.port.layout.bounds[b], part.lengths[b]);
}

const Length* find_length(const std::vector<Length>& known, const Bound& bound) {
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const Length& length) { return length.offset == bound.count.offset; });
  return found == known.end() ? nullptr : &*found;
}

/// The length of a port's bounded dimension is known too; lengths that lie in one place are one.
void note_length(std::vector<Length>& known, const Port& port, size_t bound_index, int64_t length) {
  const Bound& bound = port.layout.bounds[bound_index];
  const Length* found = find_length(known, bound);
  if (found == nullptr)
    known.push_back({bound.count.offset, length, port.name});
  else if (found->value != length)
    fail(kWrongInput, "'%s': dimension %d has length %ld, but '%s' has %ld there", port.name, bound.dim, long(length),
         found->name, long(found->value));
}

void check_length(const Port& port, const Bound& bound, int64_t length) {
  const int64_t limit = port.shape.dims[bound.dim];
  if (length < 0 || length > limit)
    fail(kWrongInput, "'%s' has %ld elements on dimension %d, more than its bound of %ld", port.name, long(length),
         bound.dim, long(limit));
}

}  // namespace

Inputs::Inputs(RankBase& rank, const Options& options) : rank_(rank), seed_(options.seed) {
  for (const Port& port : rank.program.inputs) {
    if (!holds(rank.program, port, rank.rank) || is_state_input(rank.executable, port.name)) continue;
    const auto given = options.inputs.find(port.name);
    const bool is_random = given == options.inputs.end();
    inputs_.push_back({PortView(port, rank.rank), is_random ? "" : given->second, is_random, false, {}});
  }
}

void Inputs::load_one(Input& input, int invocation) {
  if (!input.file.empty()) {
    input.part = load_part(input.view, input_file(input.file, invocation));
    return;
  }
  input.part = {std::vector<char>(size_t(input.view.bytes())),
                lengths_of(input.view.port, file_shape(input.view.port))};
}

/// Elements of a random input, whose lengths are settled.
void Inputs::fill(Input& input) const {
  input.is_filled = true;
  std::vector<int64_t> shape = file_shape(input.view.port);
  const size_t leading = shape.size() - size_t(input.view.port.shape.ndim);
  const std::span<const Bound> bounds = input.view.port.layout.bounds;
  for (size_t b = 0; b < bounds.size(); ++b) shape[size_t(bounds[b].dim) + leading] = input.part.lengths[b];
  take_random(input.view, shape, seed_, input.part.bytes.data());
}

/// Lengths of one place agree. A random input takes the length that files and states give it, else its bound.
void Inputs::agree(Input& input, std::vector<Length>& known) {
  for (size_t b = 0; b < input.part.lengths.size(); ++b) {
    const Port& port = input.view.port;
    int64_t& mine = input.part.lengths[b];
    const Length* found = find_length(known, port.layout.bounds[b]);
    if (input.is_random && found != nullptr)
      mine = found->value;
    else
      note_length(known, port, b, mine);
  }
}

void Inputs::load(int invocation) {
  for (Input& input : inputs_) {
    const bool varies = input.file.find("{i}") != std::string::npos;
    if (loaded_ < 0 || (varies && loaded_ != invocation)) load_one(input, invocation);
  }
  loaded_ = invocation;
}

void Inputs::give(const WholeTensor& tensor) {
  for (Input& input : inputs_) {
    if (std::string_view(tensor.name) != input.view.port.name) continue;
    input.part = part_of(input.view, tensor);
    input.is_random = false;
  }
}

void Inputs::upload(std::vector<Length> known) {
  for (const bool is_random : {false, true})
    for (Input& input : inputs_) {
      if (input.is_random != is_random) continue;
      const std::vector<int64_t> before = input.part.lengths;
      agree(input, known);
      if (is_random && (!input.is_filled || input.part.lengths != before)) fill(input);
    }
  for (const Input& input : inputs_) store_part(rank_, input.view, input.part);
}

bool Inputs::have_length_at(int64_t offset) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) {
    const std::span<const Bound> bounds = input.view.port.layout.bounds;
    return std::any_of(bounds.begin(), bounds.end(), [&](const Bound& bound) { return bound.count.offset == offset; });
  });
}

static Part initial_part(const RankBase& rank, const PortView& view, const Options& options) {
  const std::string file = first_file_of_state(options, view.port.name);
  if (!file.empty()) return load_part(view, file);
  Part part{std::vector<char>(size_t(view.bytes())), std::vector<int64_t>(view.port.layout.bounds.size(), 0)};
  if (view.port.layout.initial >= 0) {
    memcpy(part.bytes.data(), rank.image + view.port.layout.initial, part.bytes.size());
    part.lengths = lengths_of(view.port, file_shape(view.port));
  }
  return part;
}

States::States(RankBase& rank, const Options& options) : rank_(rank) {
  for (const State& state : rank.executable.states) {
    const Port* read = find_port(rank.program.inputs, state.input);
    if (read == nullptr || !holds(rank.program, *read, rank.rank)) continue;
    StateTensor held{PortView(*read, rank.rank), {}};
    held.initial = initial_part(rank, held.view, options);
    states_.push_back(std::move(held));
  }
}

void States::reset() {
  for (const StateTensor& state : states_) store_part(rank_, state.view, state.initial);
}

std::vector<Part> States::take() {
  std::vector<Part> parts;
  for (const StateTensor& state : states_) {
    const Range range = range_of(state.view);
    rank_.fetch(range);
    Part part{{rank_.at(range), rank_.at(range) + range.bytes}, {}};
    for (const Bound& bound : state.view.port.layout.bounds) part.lengths.push_back(length_of(rank_, bound));
    parts.push_back(std::move(part));
  }
  return parts;
}

void States::put(const std::vector<Part>& parts) {
  for (size_t s = 0; s < states_.size(); ++s) store_part(rank_, states_[s].view, parts[s]);
}

void States::give(const std::vector<WholeTensor>& tensors) {
  std::vector<Length> known;
  std::vector<std::pair<const StateTensor*, Part>> given;
  for (const StateTensor& state : states_) {
    const Port& port = state.view.port;
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const WholeTensor& t) { return std::string_view(t.name) == port.name; });
    if (tensor != tensors.end()) given.emplace_back(&state, part_of(state.view, *tensor));
    for (size_t b = 0; b < port.layout.bounds.size(); ++b)
      note_length(known, port, b,
                  tensor != tensors.end() ? given.back().second.lengths[b] : length_of(rank_, port.layout.bounds[b]));
  }
  for (const auto& [state, part] : given) store_part(rank_, state->view, part);
}

std::vector<Length> States::lengths(const Inputs& inputs) const {
  std::vector<Length> out;
  for (const StateTensor& state : states_)
    for (const Bound& bound : state.view.port.layout.bounds)
      if (inputs.have_length_at(bound.count.offset))
        out.push_back({bound.count.offset, length_of(rank_, bound), state.view.port.name});
  return out;
}

std::vector<Range> States::ranges() const {
  std::vector<Range> out;
  for (const StateTensor& state : states_) {
    out.push_back(range_of(state.view));
    for (const Bound& bound : state.view.port.layout.bounds) out.push_back(range_of(bound));
  }
  return out;
}

namespace {

/// The staging memory: the shape of the tensor being assembled, then its elements.
struct StagingArea {
  int64_t shape[kMaxPortDims + 1];
};
constexpr int64_t kStagingData = kPage;
static_assert(sizeof(StagingArea) <= kStagingData);

/// The shape at run time, from the lengths in this rank's buffers.
std::vector<int64_t> shape_now(RankBase& rank, const Port& port) {
  std::vector<int64_t> shape = file_shape(port);
  const size_t leading = shape.size() - size_t(port.shape.ndim);
  for (const Bound& bound : port.layout.bounds) {
    const int64_t length = length_of(rank, bound);
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
  const Port* port = held_port(rank.executable, name, ports, part.from);
  const size_t head = sizeof(StagingArea);
  if (port == nullptr || part.bytes.size() != head + size_t(PortView(*port, part.from).bytes()))
    fail(kBug, "rank %d sent %zu bytes that are no part of '%s'", part.from, part.bytes.size(), name);
  StagingArea staging;
  memcpy(&staging, part.bytes.data(), head);
  const std::vector<int64_t> shape(staging.shape, staging.shape + file_shape(*port).size());
  put_part(PortView(*port, part.from), shape, part.bytes.data() + head, whole_of(rank.world));
  if (is_first_holder(rank.executable, *port, ports, part.from)) staging_of(rank.world) = staging;
}

/// Puts this rank's part into the staging memory, or sends it to rank 0's.
void give_part(RankBase& rank, const Port& mine, std::span<const Port> Program::*ports) {
  const PortView view(mine, rank.rank);
  const std::vector<int64_t> shape = shape_now(rank, mine);
  const Range range = range_of(view);
  rank.fetch(range);
  if (rank.world.relay != nullptr && rank.rank != 0)
    return rank.world.relay->deliver(pack_part(view, shape, rank.at(range)));
  put_part(view, shape, rank.at(range), whole_of(rank.world));
  if (is_first_holder(rank.executable, mine, ports, rank.rank))
    std::copy(shape.begin(), shape.end(), staging_of(rank.world).shape);
}

}  // namespace

int64_t port_bytes(const Port& port) { return tensor_bytes(port.dtype, file_shape(port)); }

void gather_tensor(RankBase& rank, const Port& any, std::span<const Port> Program::*ports,
                   const std::function<void(const WholeTensor&)>& use) {
  const Port* mine = held_port(rank.executable, any.name, ports, rank.rank);
  if (mine != nullptr && writes_part(rank.executable, *mine, ports, rank.rank)) give_part(rank, *mine, ports);
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
  int64_t bytes = 0;
  if (!options.output_dir.empty() || options.serves)
    for (const Port* port : distinct_ports(executable, &Program::outputs)) bytes = std::max(bytes, port_bytes(*port));
  if (!options.save_state.empty())
    for (const Port* port : distinct_ports(executable, &Program::inputs))
      if (is_state_input(executable, port->name)) bytes = std::max(bytes, port_bytes(*port));
  return bytes == 0 ? 0 : bytes + kStagingData;
}

static void write_tensor(RankBase& rank, const Port& any, std::span<const Port> Program::*ports,
                         const std::string& file, Bfloat16Form form) {
  gather_tensor(rank, any, ports,
                [&](const WholeTensor& tensor) { write_npy(file, any.dtype, tensor.shape, tensor.elements, form); });
}

void write_tensors(RankBase& rank, const Options& options) {
  const Bfloat16Form form = options.ml_dtypes ? Bfloat16Form::MlDtypes : Bfloat16Form::Bits;
  if (!options.output_dir.empty()) {
    if (rank.rank == 0) make_folder(options.output_dir);
    for (const Port* port : distinct_ports(rank.executable, &Program::outputs))
      write_tensor(rank, *port, &Program::outputs, options.output_dir + "/" + file_name(port->name) + ".npy", form);
  }
  if (options.save_state.empty()) return;
  if (rank.rank == 0) make_folder(options.save_state);
  for (const Port* port : distinct_ports(rank.executable, &Program::inputs))
    if (is_state_input(rank.executable, port->name))
      write_tensor(rank, *port, &Program::inputs, state_file(options.save_state, port->name), form);
}

}  // namespace weft
