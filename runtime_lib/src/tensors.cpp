#include "tensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "npy.h"

namespace weft {

std::string file_name(const std::string& name) {
  std::string out = name;
  for (char& c : out)
    if (!isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  return out;
}

void make_folder(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      fail(kWrongInput, "cannot make the folder %s: %s", part.c_str(), strerror(errno));
    if (slash == std::string::npos) return;
  }
}

namespace {

Range range_of(const PortView& view) { return {view.port.in_window, view.port.offset, view.bytes()}; }
Range range_of(const Bound& bound) { return {false, bound.count.offset, int64_t{sizeof(int64_t)}}; }

int64_t& length_of(RankState& rank, const Bound& bound) {
  return *reinterpret_cast<int64_t*>(rank.at(range_of(bound)));
}

/// A shape fits a port if every dimension is the port's, or, where bounded, not larger.
void check_shape(const Port& port, const std::vector<int64_t>& shape, const std::string& file) {
  const std::vector<int64_t> wanted = file_shape(port);
  const size_t leading = wanted.size() - size_t(port.shape.ndim);
  std::string expected;
  bool fits = shape.size() == wanted.size();
  for (size_t d = 0; d < wanted.size(); ++d) {
    bool is_bounded = false;
    for (const Bound& bound : port.layout.bounds) is_bounded |= size_t(bound.dim) + leading == d;
    if (fits) fits = is_bounded ? shape[d] <= wanted[d] : shape[d] == wanted[d];
    expected += (d == 0 ? "" : "x") + std::string(is_bounded ? "<=" : "") + std::to_string(wanted[d]);
  }
  if (!fits)
    fail(kWrongInput, "%s: shape %s; '%s' is %s", file.c_str(), shape_text(shape).c_str(), port.name,
         expected.empty() ? "scalar" : expected.c_str());
}

std::vector<int64_t> lengths_of(const Port& port, const std::vector<int64_t>& shape) {
  std::vector<int64_t> out;
  const size_t leading = shape.size() - size_t(port.shape.ndim);
  for (const Bound& bound : port.layout.bounds) out.push_back(shape[size_t(bound.dim) + leading]);
  return out;
}

Part load_part(const PortView& view, const std::string& file) {
  const NpyFile npy(file, view.port.dtype);
  check_shape(view.port, npy.shape(), file);
  Part part{std::vector<char>(size_t(view.bytes())), lengths_of(view.port, npy.shape())};
  take_part(view, npy.shape(), npy.data(), part.bytes.data());
  return part;
}

void store_part(RankState& rank, const PortView& view, const Part& part) {
  memcpy(rank.at(range_of(view)), part.bytes.data(), part.bytes.size());
  for (size_t b = 0; b < part.lengths.size(); ++b) length_of(rank, view.port.layout.bounds[b]) = part.lengths[b];
}

void check_length(const Port& port, const Bound& bound, int64_t length) {
  const int64_t limit = port.shape.dims[bound.dim];
  if (length < 0 || length > limit)
    fail(kWrongInput, "'%s' has %ld elements on dimension %d, more than its bound of %ld", port.name, long(length),
         bound.dim, long(limit));
}

std::string numbered(std::string file, int invocation) {
  for (size_t at; (at = file.find("{i}")) != std::string::npos;) file.replace(at, 3, std::to_string(invocation));
  return file;
}

}  // namespace

// ---- inputs ---------------------------------------------------------------------------------------------------------

Inputs::Inputs(RankState& rank, const Options& options) : rank_(rank), seed_(options.seed) {
  for (const Port& port : rank.program.inputs) {
    if (!holds(rank.program, port, rank.rank) || is_state_input(rank.executable, port.name)) continue;
    const auto given = options.inputs.find(port.name);
    inputs_.push_back({PortView(port, rank.rank), given == options.inputs.end() ? "" : given->second, {}});
  }
}

void Inputs::load(Input& input, int invocation) {
  if (!input.file.empty()) {
    input.part = load_part(input.view, numbered(input.file, invocation));
    return;
  }
  input.part = {std::vector<char>(size_t(input.view.bytes())),
                lengths_of(input.view.port, file_shape(input.view.port))};
  take_random(input.view, seed_, input.part.bytes.data());
}

void Inputs::upload(int invocation) {
  std::vector<std::pair<int64_t, int64_t>> seen;  // offset of a length, its value
  for (Input& input : inputs_) {
    const bool varies = input.file.find("{i}") != std::string::npos;
    if (loaded_ < 0 || (varies && loaded_ != invocation)) load(input, invocation);
    for (size_t b = 0; b < input.part.lengths.size(); ++b) {
      const Bound& bound = input.view.port.layout.bounds[b];
      for (const auto& [offset, length] : seen)
        if (offset == bound.count.offset && length != input.part.lengths[b])
          fail(kWrongInput, "'%s': dimension %d has length %ld, but another input says %ld", input.view.port.name,
               bound.dim, long(input.part.lengths[b]), long(length));
      seen.emplace_back(bound.count.offset, input.part.lengths[b]);
    }
    store_part(rank_, input.view, input.part);
  }
  loaded_ = invocation;
}

// ---- states ---------------------------------------------------------------------------------------------------------

static Part initial_part(const RankState& rank, const PortView& view, const Options& options) {
  if (!options.load_state.empty())
    return load_part(view, options.load_state + "/" + file_name(view.port.name) + ".npy");
  Part part{std::vector<char>(size_t(view.bytes())), std::vector<int64_t>(view.port.layout.bounds.size(), 0)};
  if (view.port.layout.initial >= 0) {
    memcpy(part.bytes.data(), rank.image + view.port.layout.initial, part.bytes.size());
    part.lengths = lengths_of(view.port, file_shape(view.port));
  }
  return part;
}

States::States(RankState& rank, const Options& options) : rank_(rank) {
  for (const State& state : rank.executable.states) {
    const Port* read = find_port(rank.program.inputs, state.input);
    if (read == nullptr || !holds(rank.program, *read, rank.rank)) continue;
    Held held{PortView(*read, rank.rank), find_port(rank.program.outputs, state.output), {}};
    held.initial = initial_part(rank, held.view, options);
    states_.push_back(std::move(held));
  }
}

void States::reset() {
  for (const Held& state : states_) store_part(rank_, state.view, state.initial);
}

void States::advance() {
  for (const Held& state : states_) {
    if (state.written == nullptr) continue;
    const Port &read = state.view.port, &written = *state.written;
    if (read.in_window != written.in_window || read.offset != written.offset)
      memcpy(rank_.at(range_of(state.view)), rank_.at({written.in_window, written.offset, 0}),
             size_t(state.view.bytes()));
    for (size_t b = 0; b < read.layout.bounds.size(); ++b) {
      const int64_t length = length_of(rank_, written.layout.bounds[b]);
      check_length(written, written.layout.bounds[b], length);
      length_of(rank_, read.layout.bounds[b]) = length;
    }
  }
}

std::vector<Range> States::ranges() const {
  std::vector<Range> out;
  for (const Held& state : states_) {
    out.push_back(range_of(state.view));
    for (const Bound& bound : state.view.port.layout.bounds) out.push_back(range_of(bound));
  }
  return out;
}

// ---- files ----------------------------------------------------------------------------------------------------------

namespace {

/// The staging memory: the shape of the tensor being assembled, then its elements.
struct Staging {
  int64_t shape[kMaxPortDims + 1];
};
constexpr int64_t kStagingData = kPage;
static_assert(sizeof(Staging) <= kStagingData);

int64_t port_bytes(const Port& port) {
  int64_t n = element_bytes(port.dtype);
  for (const int64_t d : file_shape(port)) n *= d;
  return n;
}

/// The shape at run time, from the lengths in this rank's buffers.
std::vector<int64_t> shape_now(RankState& rank, const Port& port) {
  std::vector<int64_t> shape = file_shape(port);
  const size_t leading = shape.size() - size_t(port.shape.ndim);
  for (const Bound& bound : port.layout.bounds) {
    const int64_t length = length_of(rank, bound);
    check_length(port, bound, length);
    shape[size_t(bound.dim) + leading] = length;
  }
  return shape;
}

/// All ranks: those that hold a part put it into the staging memory, and rank 0 writes the file.
void write_tensor(RankState& rank, const Port& any, std::span<const Port> Program::*ports, const std::string& file) {
  Staging& staging = *reinterpret_cast<Staging*>(rank.world.staging());
  char* whole = rank.world.staging() + kStagingData;
  const Port* mine = find_port(rank.program.*ports, any.name);
  if (mine != nullptr && !holds(rank.program, *mine, rank.rank)) mine = nullptr;
  if (mine != nullptr && writes_part(rank.executable, *mine, ports, rank.rank)) {
    const PortView view(*mine, rank.rank);
    const std::vector<int64_t> shape = shape_now(rank, *mine);
    put_part(view, shape, rank.at(range_of(view)), whole);
    if (is_first_holder(rank.executable, *mine, ports, rank.rank)) std::copy(shape.begin(), shape.end(), staging.shape);
  }
  rank.meet();
  if (rank.rank == 0) {
    const std::vector<int64_t> shape(staging.shape, staging.shape + file_shape(any).size());
    write_npy(file, any.dtype, shape, whole);
  }
  rank.meet();
}

}  // namespace

int64_t staging_bytes(const Executable& executable, const Options& options) {
  int64_t bytes = 0;
  if (!options.output_dir.empty())
    for (const Port* port : distinct_ports(executable, &Program::outputs)) bytes = std::max(bytes, port_bytes(*port));
  if (!options.save_state.empty())
    for (const Port* port : distinct_ports(executable, &Program::inputs))
      if (is_state_input(executable, port->name)) bytes = std::max(bytes, port_bytes(*port));
  return bytes == 0 ? 0 : bytes + kStagingData;
}

void write_tensors(RankState& rank, const Options& options) {
  if (!options.output_dir.empty()) {
    if (rank.rank == 0) make_folder(options.output_dir);
    for (const Port* port : distinct_ports(rank.executable, &Program::outputs))
      write_tensor(rank, *port, &Program::outputs, options.output_dir + "/" + file_name(port->name) + ".npy");
  }
  if (options.save_state.empty()) return;
  if (rank.rank == 0) make_folder(options.save_state);
  for (const Port* port : distinct_ports(rank.executable, &Program::inputs))
    if (is_state_input(rank.executable, port->name))
      write_tensor(rank, *port, &Program::inputs, options.save_state + "/" + file_name(port->name) + ".npy");
}

void check_inputs(const Executable& executable, const Options& options) {
  std::vector<const Port*> ports = distinct_ports(executable, &Program::inputs);
  std::erase_if(ports, [&](const Port* port) { return is_state_input(executable, port->name); });
  for (const auto& [name, file] : options.inputs) {
    const auto same = [&name = name](const Port* port) { return name == port->name; };
    if (std::any_of(ports.begin(), ports.end(), same)) continue;
    if (is_state_input(executable, name.c_str()))
      fail(kWrongInput, "'%s' is a state; it is loaded with --load-state", name.c_str());
    std::string names;
    for (const Port* port : ports) names += (names.empty() ? "" : ", ") + std::string(port->name);
    fail(kWrongInput, "there is no input '%s'; there are: %s", name.c_str(), names.c_str());
  }
  for (const Port* port : ports)
    if (!options.random_inputs && !options.inputs.contains(port->name))
      fail(kWrongInput, "input '%s' (%s, %s) is missing: --input %s=FILE.npy, or --random-inputs SEED", port->name,
           dtype_name(port->dtype), shape_text(file_shape(*port)).c_str(), port->name);
}

}  // namespace weft
