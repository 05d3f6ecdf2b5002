// The model's inputs: dims pinned by --dim, bounded (--dim n<=1024), given by --shape, or open; inputs bound to
// files. Every open dim is reported in one message with the flags that would pin it, so that one more try
// suffices.
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
      : state_(state), options_(options), scope_(scope), loc_(Loc::in_file(state.model.file)) {}
  bool run();

 private:
  bool check_requests();
  bool check_dim_request(const DimRequest& request, const std::vector<std::string>& known);
  template <class Request>
  bool check_input_requests(const std::vector<Request>& requests, const char* flag);
  bool input(const OnnxValue& input);
  bool check_type(const OnnxValue& input);
  bool bind(const OnnxValue& input, const BindRequest& request);
  bool fits(const OnnxValue& input, const Dims& dims, const std::string& what);
  std::optional<Dims> dims_of(const OnnxValue& input);
  std::optional<int64_t> extent_of(const OnnxValue& input, size_t d);
  void add_lengths();
  void report_open();
  void open(const std::string& flag, const std::string& place);
  std::vector<std::string> input_names() const;
  const DimRequest* request_of(const OnnxDim& dim) const;

  ImportState& state_;
  const ReadOptions& options_;
  ImportScope& scope_;
  Loc loc_;
  std::vector<OpenDim> open_;
  std::vector<OnnxValue> tensors_;  // the inputs, those that are no tensors as the tensors that they stand for
  std::vector<WholeInput> wholes_;  // those
};

/// True if the value is an input and not an initialiser that old exporters list among the inputs.
bool is_input(const ImportScope& scope, const OnnxValue& value) { return !scope.initialisers.contains(value.name); }

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

/// A request must name a dim of some input, with one value in range, and no other value elsewhere.
bool InputImporter::check_dim_request(const DimRequest& request, const std::vector<std::string>& known) {
  const Loc& loc = request.loc;
  if (!contains(known, request.name)) {
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
  for (const DimRequest& other : options_.dims) {
    if (&other == &request) break;
    if (other.name != request.name || (other.values == request.values && other.bounded == request.bounded)) continue;
    state_.diags.error("dim-conflict", loc, "dim '{}' is pinned twice with different values", printable(request.name))
        .note(other.loc, "the other value");
    return false;
  }
  return true;
}

bool InputImporter::check_requests() {
  std::vector<std::string> dims;
  for (const OnnxValue& input : tensors_)
    if (input.dims)
      for (const OnnxDim& dim : *input.dims)
        if (dim.kind == OnnxDim::Kind::Named) dims.push_back(dim.name);
  bool ok = check_input_requests(options_.shapes, "--shape");
  ok &= check_input_requests(options_.binds, "--bind");
  for (const DimRequest& request : options_.dims) ok &= check_dim_request(request, dims);
  return ok;
}

/// What --dim says of a named dim; null for any other.
const DimRequest* InputImporter::request_of(const OnnxDim& dim) const {
  if (dim.kind != OnnxDim::Kind::Named) return nullptr;
  for (const DimRequest& request : options_.dims)
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

/// True if dims from outside agree with what the model says of them.
bool InputImporter::fits(const OnnxValue& input, const Dims& dims, const std::string& what) {
  bool ok = !input.dims || input.dims->size() == dims.size();
  for (size_t d = 0; ok && input.dims && d < dims.size(); ++d) {
    const OnnxDim& dim = (*input.dims)[d];
    const DimRequest* request = request_of(dim);
    if (dim.kind == OnnxDim::Kind::Fixed)
      ok = dim.extent == dims[d];
    else if (request)
      ok = request->bounded ? dims[d] <= request->values[0] : dims[d] == request->values[0];
  }
  if (ok && checked_count(dims)) return true;
  state_.diags.error("input-shape", loc_, "{} of shape {} does not fit input '{}' of the model", what, dims_text(dims),
                     printable(input.name));
  return false;
}

/// Replaces an input by the constant in a file, whose type must fit.
bool InputImporter::bind(const OnnxValue& input, const BindRequest& request) {
  std::optional<Tensor> tensor = read_tensor_file(request.file, state_.diags);
  if (!tensor || !fits(input, tensor->dims, "the tensor in '" + printable(request.file) + "'")) return false;
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

/// Notes an open dim under the flag that would pin it.
void InputImporter::open(const std::string& flag, const std::string& place) {
  auto known = std::find_if(open_.begin(), open_.end(), [&](const OpenDim& dim) { return dim.flag == flag; });
  if (known == open_.end()) known = open_.insert(open_.end(), {flag, {}});
  known->places.push_back(place);
}

/// The --shape flag for an input, with its known dims filled in.
static std::string shape_flag(const OnnxValue& input) {
  std::vector<std::string> parts;
  for (const OnnxDim& dim : *input.dims)
    parts.push_back(dim.kind == OnnxDim::Kind::Fixed   ? std::to_string(dim.extent)
                    : dim.kind == OnnxDim::Kind::Named ? printable(dim.name)
                                                       : "N");
  return "--shape " + printable(input.name) + "=" + join(parts, "x");
}

std::optional<int64_t> InputImporter::extent_of(const OnnxValue& input, size_t d) {
  const OnnxDim& dim = (*input.dims)[d];
  const std::string place = format("dim {} of '{}'", d, printable(input.name));
  if (dim.kind == OnnxDim::Kind::Fixed) return dim.extent;
  if (const DimRequest* request = request_of(dim)) return request->values[0];
  open(dim.kind == OnnxDim::Kind::Named ? "--dim " + printable(dim.name) + "=NUMBER" : shape_flag(input), place);
  return {};
}

/// The extents of an input; nothing after reporting or noting what is open.
std::optional<Dims> InputImporter::dims_of(const OnnxValue& input) {
  for (const ShapeRequest& request : options_.shapes)
    if (request.input == input.name) {
      if (fits(input, request.dims, "--shape")) return request.dims;
      return {};
    }
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

/// Gives every extent of a bounded dim its length, which has the dim's name.
void InputImporter::add_lengths() {
  for (const OnnxValue& input : tensors_) {
    const auto value = scope_.values.find(input.name);
    if (value == scope_.values.end() || !input.dims) continue;
    if (scope_.graph.producer_op(value->second).kind != OpKind::Input) continue;
    const bool pinned = std::any_of(options_.shapes.begin(), options_.shapes.end(),
                                    [&](const ShapeRequest& r) { return r.input == input.name; });
    if (pinned) continue;
    TensorType type = scope_.graph.type(value->second);
    for (size_t d = 0; d < input.dims->size(); ++d) {
      const DimRequest* request = request_of((*input.dims)[d]);
      if (!request || !request->bounded) continue;
      const Length length = Length::named(request->name, type.shape[d].bound);
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

bool InputImporter::run() {
  std::vector<OnnxValue> inputs;
  for (const OnnxValue& input : scope_.source.inputs)
    if (is_input(scope_, input)) inputs.push_back(input);
  if (!unfold_inputs(inputs, options_, state_, tensors_, wholes_) || !check_requests()) {
    for (const OnnxValue& input : scope_.source.inputs) scope_.failed.insert(input.name);
    return false;
  }
  bool ok = true;
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
