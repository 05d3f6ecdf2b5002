// Checks, inference and reports that many records use, so that messages for one error are the same for every op.
#include "ir/ops/record.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace weftc {

std::vector<int64_t> range_of(int64_t first, int64_t last) {
  std::vector<int64_t> numbers(std::max<int64_t>(0, last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::optional<DType> onnx_dtype(int64_t number) {
  switch (number) {
    case 1:
      return DType::F32;
    case 2:
      return DType::U8;
    case 3:
      return DType::I8;
    case 4:
      return DType::U16;
    case 5:
      return DType::I16;
    case 6:
      return DType::I32;
    case 7:
      return DType::I64;
    case 8:
      return DType::String;
    case 9:
      return DType::Bool;
    case 10:
      return DType::F16;
    case 11:
      return DType::F64;
    case 12:
      return DType::U32;
    case 13:
      return DType::U64;
    case 16:
      return DType::BF16;
    case 17:
      return DType::F8E4M3FN;
    case 18:
      return DType::F8E4M3FNUZ;
    case 19:
      return DType::F8E5M2;
    case 20:
      return DType::F8E5M2FNUZ;
    case 21:
      return DType::U4;
    case 22:
      return DType::I4;
    case 23:
      return DType::F4E2M1;
    case 24:
      return DType::F8E8M0;
    case 25:
      return DType::U2;
    case 26:
      return DType::I2;
    case 27:
      return DType::F6E2M3;
    case 28:
      return DType::F6E3M2;
    default:
      return {};
  }
}

bool import_dtype(Graph& graph, OpId op, const char* attr, const OpView& view) {
  if (!view.op().has(attr)) return true;
  const int64_t number = view.op().integer(attr);
  const std::optional<DType> dtype = onnx_dtype(number);
  if (!dtype)
    return view.fail("element-type-unsupported", "element type {} of attribute '{}' is not supported", number, attr);
  graph.edit(op).set(attr, dtype_attr(*dtype));
  return true;
}

bool same_dtypes(const OpView& op, int first, int end) {
  std::optional<DType> dtype;
  for (int i = first; i < std::min(end, op.inputs()); ++i) {
    if (!op.has(i)) continue;
    if (dtype && *dtype != op.type(i).dtype)
      return op.fail("operand-dtypes", "operands must have one element type, but there are {} and {}",
                     dtype_name(*dtype), dtype_name(op.type(i).dtype));
    dtype = op.type(i).dtype;
  }
  return true;
}

bool is_real_operand(const OpView& op, int input) {
  if (is_float(op.type(input).dtype)) return true;
  return op.fail("operand-not-float", "operand {} has element type {}, a floating type is needed", input,
                 dtype_name(op.type(input).dtype));
}

bool is_known(const OpView& op, int input, const char* attr, const char* what) {
  if (!op.has(input)) return true;
  const std::string& value = op.graph().value(op.op().inputs[input]).name;
  std::string id = op_def(op.op()).name;
  for (char& c : id) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return op.fail(id + "-" + attr + "-runtime-unsupported",
                 "the {} is computed at run time (value '{}'); it must be known at compile time: fix the input it "
                 "depends on with --bind, or the dimensions with --dim",
                 what, printable(value));
}

bool is_given(const OpView& op, int input, const char* attr, const char* what) {
  if (!is_known(op, input, attr, what)) return false;
  if (op.op().has(attr)) return true;
  return op.fail("operand-missing", "the {} is missing (operand {} or attribute '{}')", what, input, attr);
}

bool has_ndim(const OpView& op, int input, int at_least, int at_most) {
  const int ndim = op.type(input).ndim();
  if (ndim >= at_least && ndim <= at_most) return true;
  return op.fail("operand-ndim", "operand {} has {} dimensions, expected {}{}", input, ndim, at_least,
                 at_most == at_least ? "" : " or more");
}

bool is_fixed(const OpView& op, int input) {
  if (is_static(op.type(input).shape)) return true;
  return op.fail("bounded-dim-unsupported",
                 "operand {} has a dimension of run-time length, which {} does not take; pin it with --dim", input,
                 op_def(op.op()).name);
}

bool is_fixed_dim(const OpView& op, int input, int dim) {
  return !op.type(input).shape[static_cast<size_t>(dim)].is_run_time() || is_fixed(op, input);
}

Extent joined(const OpView& op, const Shape& shape, size_t first, size_t end) {
  Length length = 1;
  int64_t bound = 1;
  for (size_t d = first; d < end; ++d) length = length * length_of(shape[d]), bound *= shape[d].bound;
  Extent extent = op.extent(length);
  extent.bound = bound;
  return extent;
}

bool infer_same(const OpView& op, std::vector<TensorType>& results) {
  results = {{op.type(0).dtype, op.type(0).shape, {}}};
  return true;
}

void canonical_axis(Op& op, const OpView& view) {
  fill_defaults(op);
  op.set("axis", from_front(int_of(op, "axis"), view.type(0).ndim()));
}

Dims broadcast_strides(const Dims& dims, int ndim) {
  const Dims strides = strides_of(dims);
  Dims aligned(ndim, 0);
  const int offset = ndim - static_cast<int>(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) aligned[offset + d] = strides[d];
  return aligned;
}

Attrs slice_of(const Dims& dims, int64_t axis, int64_t start, int64_t end) {
  std::vector<int64_t> starts(dims.size(), 0), ends = dims;
  starts[axis] = start;
  ends[axis] = end;
  return {{"ends", ends}, {"starts", starts}, {"steps", std::vector<int64_t>(dims.size(), 1)}};
}

}  // namespace weftc
