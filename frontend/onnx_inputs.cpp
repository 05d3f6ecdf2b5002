// The model's inputs: dims pinned by --dim, bounded (--dim n<=1024), given by --shape, or open; inputs bound to files.
// Every open dim is reported in one message with the flags that would pin it, so that one more try suffices.
#include <algorithm>
#include <map>

#include "frontend/input_elements.h"
#include "frontend/onnx_import.h"
#include "frontend/tensor_file.h"
#include "ir/base/contains.h"

namespace weftc {

namespace {

/// A dimension without a length, where it occurs.
struct OpenDim {
  std::string flag;                 // "--dim batch=NUMBER", "--shape x=1x3xN"
  std::vector<std::string> places;  // "dim 0 of 'x'"
};

class InputImporter {
 public:
  InputImporter(ImportState& state, const ReadOptions& options, ImportScope& scope)
      : state_(state), options_(options), scope_(scope), loc_(Loc::in_file(state.model.file)), dims_(options.dims) {}
  bool run();

 private:
  void bound_by_shapes();
  bool check_requests();
  bool check_dim_request(const DimRequest& request, const std::vector<std::string>& known);
  bool bound_count(const DimRequest& request);
  template <class Request>
  bool check_input_requests(const std::vector<Request>& requests, const char* flag);
  bool input(const OnnxValue& input);
  bool check_type(const OnnxValue& input);
  bool bind(const OnnxValue& input, const BindRequest& request);
  bool fits(const OnnxValue& input, const ShapeRequest& shape, const std::string& what);
  std::optional<Dims> dims_of(const OnnxValue& input);
  std::optional<int64_t> extent_of(const OnnxValue& input, size_t d);
  std::string length_name(const OnnxValue& input, size_t d) const;
  void add_lengths();
  bool has_default(const OnnxValue& input) const { return scope_.initialisers.contains(input.name); }
  bool is_bound(const OnnxValue& input) const;
  bool default_input(const OnnxValue& input);
  bool check_overrides();
  void report_defaults() const;
  void report_open();
  void open(const std::string& flag, const std::string& place);
  std::vector<std::string> input_names() const;
  const DimRequest* request_of(const OnnxDim& dim) const;
  const ShapeRequest* shape_of_input(const OnnxValue& input) const;
  std::vector<std::string> dim_names() const;

  ImportState& state_;
  const ReadOptions& options_;
  ImportScope& scope_;
  Loc loc_;
  std::vector<DimRequest> dims_;  // from --dim, and bounds of named dims from --shape
  std::vector<OpenDim> open_;
  std::vector<OnnxValue> tensors_;  // the inputs; inputs that are not tensors are replaced by their tensors
  std::vector<WholeInput> wholes_;  // the inputs that are not tensors
};

std::vector<std::string> InputImporter::input_names() const {
  std::vector<std::string> names;
  for (const OnnxValue& input : tensors_) names.push_back(input.name);
  return names;
}

template <class Request>
bool InputImporter::check_input_requests(const std::vector<Request>& requests, const char* flag) {
  bool ok = true;
  const std::vector<std::string> names = input_names();
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string& name = requests[i].input;
    if (!contains(names, name)) {
      state_.diags.error("unknown-input", loc_, "{}: the model has no input '{}'{}", flag, printable(name),
                         names_there_are(name, names));
      ok = false;
    }
    for (size_t k = 0; k < i; ++k)
      if (requests[k].input == name) {
        state_.diags.error("input-requested-twice", loc_, "{} is given twice for input '{}'", flag, printable(name));
        ok = false;
      }
  }
  return ok;
}

/// A bound may be for a length that data decides; its name is the node's that produces it, or one of that node's
/// results.
bool InputImporter::bound_count(const DimRequest& request) {
  if (!request.bounded) return false;
  for (const OnnxNode& node : scope_.source.nodes) {
    if (is_constant_node(node) || (node.name != request.name && !contains(node.outputs, request.name))) continue;
    state_.count_bounds[node.name] = request.values[0];
    return true;
  }
  return false;
}

/// A request must name a dim of some input and have one value in range; requests must not contradict each other.
bool InputImporter::check_dim_request(const DimRequest& request, const std::vector<std::string>& known) {
  const Loc& loc = request.loc;
  const bool is_of_input = contains(known, request.name);
  if (!is_of_input && !(request.values.size() == 1 && bound_count(request))) {
    state_.diags.error("unknown-dim", loc, "no input has a dim '{}'{}", printable(request.name),
                       names_there_are(request.name, known));
    return false;
  }
  if (request.values.size() != 1) {
    state_.diags.error("dim-values-unsupported", loc,
                       "dim '{}' has {} values: `weft compile` makes a variant of each, other verbs look at one: give "
                       "one with --dim",
                       printable(request.name), request.values.size());
    return false;
  }
  if (request.values[0] < (request.bounded ? 1 : 0) || request.values[0] > kMostElements) {
    state_.diags.error("dim-range", loc, "dim '{}' cannot be {}", printable(request.name), request.values[0]);
    return false;
  }
  for (const DimRequest& other : dims_) {
    if (&other == &request) break;
    if (other.name != request.name || (other.values == request.values && other.bounded == request.bounded)) continue;
    state_.diags.error("dim-conflict", loc, "dim '{}' is pinned twice with different values", printable(request.name))
        .note(other.loc, "the other value");
    return false;
  }
  return true;
}

std::vector<std::string> InputImporter::dim_names() const {
  std::vector<std::string> names;
  for (const OnnxValue& input : tensors_)
    if (input.dims)
      for (const OnnxDim& dim : *input.dims)
        if (dim.kind == OnnxDim::Kind::Named) names.push_back(dim.name);
  return names;
}

const ShapeRequest* InputImporter::shape_of_input(const OnnxValue& input) const {
  for (const ShapeRequest& request : options_.shapes)
    if (request.input == input.name) return &request;
  return nullptr;
}

/// A bound that --shape gives a named dim is a bound of the name.
void InputImporter::bound_by_shapes() {
  for (const OnnxValue& input : tensors_) {
    const ShapeRequest* shape = shape_of_input(input);
    if (!shape || !input.dims || input.dims->size() != shape->dims.size()) continue;
    for (const size_t d : shape->bounded)
      if (const OnnxDim& dim = (*input.dims)[d]; dim.kind == OnnxDim::Kind::Named)
        dims_.push_back({dim.name, {shape->dims[d]}, true, Loc::in_file("--shape " + printable(input.name))});
  }
}

bool InputImporter::check_requests() {
  bool ok = check_input_requests(options_.shapes, "--shape");
  ok &= check_input_requests(options_.binds, "--bind");
  bound_by_shapes();
  const std::vector<std::string> names = dim_names();
  for (const DimRequest& request : dims_) ok &= check_dim_request(request, names);
  return ok;
}

/// The --dim request for a named dim; null for any other.
const DimRequest* InputImporter::request_of(const OnnxDim& dim) const {
  if (dim.kind != OnnxDim::Kind::Named) return nullptr;
  for (const DimRequest& request : dims_)
    if (request.name == dim.name) return &request;
  return nullptr;
}

bool InputImporter::check_type(const OnnxValue& input) {
  const bool tensor = input.other_type.empty() && input.element_type != 0;
  if (tensor && dtype_of_element_type(input.element_type)) return true;
  const std::string type = !input.other_type.empty() ? input.other_type
                           : tensor                  ? "tensor of " + element_type_name(input.element_type)
                                                     : "value without a type";
  state_.diags.error("input-type-unsupported", loc_, "input '{}' is a {}, which is not supported",
                     printable(input.name), type);
  return false;
}

/// True if dims from outside agree with the model's.
bool InputImporter::fits(const OnnxValue& input, const ShapeRequest& shape, const std::string& what) {
  const Dims& dims = shape.dims;
  bool ok = !input.dims || input.dims->size() == dims.size();
  for (size_t d = 0; ok && d < dims.size(); ++d) {
    const OnnxDim dim = input.dims ? (*input.dims)[d] : OnnxDim{};
    const DimRequest* request = request_of(dim);
    if (dim.kind == OnnxDim::Kind::Fixed)
      ok = dim.extent == dims[d];
    else if (request)
      ok = request->bounded ? dims[d] <= request->values[0] : dims[d] == request->values[0];
    ok = ok && !(shape.is_bounded(d) && (dims[d] < 1 || dim.kind == OnnxDim::Kind::Fixed));
  }
  if (ok && checked_count(dims)) return true;
  state_.diags.error("input-shape", loc_, "{} of shape {} does not fit input '{}' of the model", what, shape.text(),
                     printable(input.name));
  return false;
}

/// Replaces an input by the constant in a file, whose type must match.
bool InputImporter::bind(const OnnxValue& input, const BindRequest& request) {
  std::optional<Tensor> tensor = read_tensor_file(request.file, state_.diags);
  if (!tensor || !fits(input, {input.name, tensor->dims}, "the tensor in '" + printable(request.file) + "'"))
    return false;
  const DType wanted = *dtype_of_element_type(input.element_type);
  if (!read_as(*tensor, wanted)) {
    state_.diags.error("bind-type", loc_, "input '{}' is {}, but '{}' holds {}", printable(input.name),
                       dtype_name(wanted), printable(request.file), dtype_name(tensor->dtype));
    return false;
  }
  NewOp made = new_op(OpKind::Constant, {wanted, shape_of(tensor->dims), {}});
  made.attrs = {{"value", state_.module.constants.add(input.name, *tensor)}};
  made.name = input.name;
  made.result_names = {input.name};
  scope_.values[input.name] = scope_.graph.result(scope_.graph.add(std::move(made)));
  return true;
}

/// Records an open dim under the flag that would pin it.
void InputImporter::open(const std::string& flag, const std::string& place) {
  auto known = std::find_if(open_.begin(), open_.end(), [&](const OpenDim& dim) { return dim.flag == flag; });
  if (known == open_.end()) known = open_.insert(open_.end(), {flag, {}});
  known->places.push_back(place);
}

/// The --shape flag for an input, with its known dims filled in.
static std::string shape_flag(const OnnxValue& input) {
  std::vector<std::string> parts;
  for (const OnnxDim& dim : *input.dims)
    parts.push_back(dim.kind == OnnxDim::Kind::Fixed ? std::to_string(dim.extent) : "N");
  return "--shape " + printable(input.name) + "=" + join(parts, "x") + ", or with <=N for a bound";
}

std::optional<int64_t> InputImporter::extent_of(const OnnxValue& input, size_t d) {
  const OnnxDim& dim = (*input.dims)[d];
  const std::string place = format("dim {} of '{}'", d, printable(input.name));
  if (dim.kind == OnnxDim::Kind::Fixed) return dim.extent;
  if (const DimRequest* request = request_of(dim)) return request->values[0];
  open(dim.kind == OnnxDim::Kind::Named ? "--dim " + printable(dim.name) + "=NUMBER" : shape_flag(input), place);
  return {};
}

/// The extents of an input; nothing after reporting or recording an open dim.
std::optional<Dims> InputImporter::dims_of(const OnnxValue& input) {
  if (const ShapeRequest* shape = shape_of_input(input))
    return fits(input, *shape, "--shape") ? std::optional(shape->dims) : std::nullopt;
  if (!input.dims) {
    open("--shape " + printable(input.name) + "=NxN...", "the whole shape of '" + printable(input.name) + "'");
    return {};
  }
  bool ok = true;
  Dims dims;
  for (size_t d = 0; d < input.dims->size(); ++d) {
    const std::optional<int64_t> extent = extent_of(input, d);
    ok &= extent.has_value();
    dims.push_back(extent.value_or(0));
  }
  if (!ok) return {};
  if (checked_count(dims)) return dims;
  state_.diags.error("input-size", loc_, "input '{}' of shape {} has more than 2^40 elements", printable(input.name),
                     dims_text(dims));
  return {};
}

bool InputImporter::input(const OnnxValue& input) {
  if (scope_.values.contains(input.name) || scope_.failed.contains(input.name)) {
    state_.diags.error("input-repeated", loc_, "input '{}' is listed twice", printable(input.name));
    return false;
  }
  bool ok = check_type(input);
  if (ok)
    for (const BindRequest& request : options_.binds)
      if (request.input == input.name) {
        ok = bind(input, request);
        if (!ok) scope_.failed.insert(input.name);
        return ok;
      }
  const std::optional<Dims> dims = ok ? dims_of(input) : std::nullopt;
  if (!dims) {
    scope_.failed.insert(input.name);
    return false;
  }
  NewOp made = new_op(OpKind::Input, {*dtype_of_element_type(input.element_type), shape_of(*dims), {}});
  made.name = input.name;
  made.result_names = {input.name};
  scope_.values[input.name] = scope_.graph.result(scope_.graph.add(std::move(made)));
  return true;
}

/// Name of the length of a bounded dim: the dim's name, or "x_2" for an unnamed dim of input x; "" for any other dim.
std::string InputImporter::length_name(const OnnxValue& input, size_t d) const {
  const OnnxDim dim = input.dims ? (*input.dims)[d] : OnnxDim{};
  if (const ShapeRequest* shape = shape_of_input(input); shape && !shape->is_bounded(d)) return "";
  if (const DimRequest* request = request_of(dim)) return request->bounded ? request->name : "";
  std::string name = format("{}_{}", input.name, d);
  for (const std::vector<std::string> taken = dim_names(); contains(taken, name);) name += "_";
  return dim.kind == OnnxDim::Kind::Open ? name : "";
}

/// Gives every extent of a bounded dim its length.
void InputImporter::add_lengths() {
  for (const OnnxValue& input : tensors_) {
    const auto value = scope_.values.find(input.name);
    if (value == scope_.values.end() || scope_.graph.producer_op(value->second).kind != OpKind::Input) continue;
    TensorType type = scope_.graph.type(value->second);
    for (size_t d = 0; d < type.shape.size(); ++d) {
      const std::string name = length_name(input, d);
      if (name.empty()) continue;
      const Length length = Length::named(name, type.shape[d].bound);
      state_.module.lengths[length.text()] = type.shape[d].bound;
      type.shape[d] = run_time_extent(type.shape[d].bound, length);
    }
    scope_.graph.retype(value->second, std::move(type));
  }
}

void InputImporter::report_open() {
  if (open_.empty()) return;
  std::vector<std::string> all;
  for (const OpenDim& dim : open_) all.insert(all.end(), dim.places.begin(), dim.places.end());
  auto report = state_.diags.error("open-dim", loc_, "{} of the inputs {} no length: {}",
                                   all.size() == 1 ? "a dimension" : "dimensions", all.size() == 1 ? "has" : "have",
                                   join(all, ", "));
  for (const OpenDim& dim : open_) report.note(loc_, "pin {} with {}", join(dim.places, ", "), dim.flag);
}

bool InputImporter::is_bound(const OnnxValue& input) const {
  return std::ranges::any_of(options_.binds, [&](const BindRequest& bind) { return bind.input == input.name; });
}

/// Makes an input optional for the executable: a state that starts as the initialiser and keeps its value.
bool InputImporter::default_input(const OnnxValue& input) {
  const OnnxTensor& tensor = *scope_.initialisers.at(input.name);
  const auto first = state_.constant(tensor, "initializer '" + printable(input.name) + "'", tensor.loc);
  if (!first || !fits(input, {input.name, tensor.dims}, "its initializer")) return false;
  State state{input.name, input.name, loc_};
  state.initial = *first;
  state_.module.states.push_back(std::move(state));
  state_.defaulted.push_back(input.name);
  NewOp made = new_op(OpKind::Input, {state_.module.constants[*first].dtype, shape_of(tensor.dims), {}});
  made.name = input.name;
  made.result_names = {input.name};
  scope_.values[input.name] = scope_.graph.result(scope_.graph.add(std::move(made)));
  return true;
}

/// Each name given by --override must be an input with a default.
bool InputImporter::check_overrides() {
  std::vector<std::string> names;
  for (const OnnxValue& input : scope_.source.inputs)
    if (has_default(input)) names.push_back(input.name);
  bool ok = true;
  for (const std::string& name : options_.overrides) {
    if (contains(names, name)) continue;
    state_.diags.error("unknown-default", loc_, "--override: the model has no input '{}' with a default{}",
                       printable(name), names_there_are(name, names));
    ok = false;
  }
  return ok;
}

/// Reports inputs that are constants because they have defaults.
void InputImporter::report_defaults() const {
  constexpr size_t kMostNames = 4;
  std::vector<std::string> names;
  for (const OnnxValue& input : scope_.source.inputs)
    if (has_default(input) && !contains(options_.overrides, input.name) && !is_bound(input))
      names.push_back("'" + printable(input.name) + "'");
  if (names.empty() || !state_.model.has_defaults()) return;
  const size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  state_.diags.warning("defaults-kept", loc_,
                       "inputs with a default are constants: {}{}; --override INPUT leaves one to the executable",
                       join(names, ", "), more ? format(" and {} more", more) : "");
}

bool InputImporter::run() {
  std::vector<OnnxValue> inputs;
  bool ok = check_overrides();
  for (const OnnxValue& input : scope_.source.inputs) {
    if (!has_default(input) || is_bound(input))
      inputs.push_back(input);
    else if (contains(options_.overrides, input.name))
      ok &= default_input(input);
  }
  report_defaults();
  if (!unfold_inputs(inputs, options_, state_, tensors_, wholes_) || !check_requests()) {
    for (const OnnxValue& input : scope_.source.inputs) scope_.failed.insert(input.name);
    return false;
  }
  for (const OnnxValue& value : tensors_) ok &= input(value);
  add_lengths();
  fold_inputs(wholes_, state_, scope_);
  report_open();
  return ok;
}

}  // namespace

bool import_inputs(ImportState& state, const ReadOptions& options, ImportScope& scope) {
  return InputImporter(state, options, scope).run();
}

}  // namespace weftc
