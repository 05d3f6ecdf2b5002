// Common code of the records: inference, attributes of common kinds, reports. A check returns false after it has
// reported to the op's node. A record's infer then returns false, and the op keeps no types.
#pragma once
#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/op_records.h"

namespace weftc {

/// first, first + 1, ... last - 1.
std::vector<int64_t> range_of(int64_t first, int64_t last);
/// From the number of a type in ONNX files (1 is FLOAT); nothing for types that Weft does not have.
std::optional<DType> onnx_dtype(int64_t number);
/// Replaces attribute `attr`, an ONNX type number, by the number of Weft's dtype; reports types that Weft does not
/// have.
bool import_dtype(Graph& graph, OpId op, const char* attr, const OpView& view);

/// An attribute that is one of a few texts, or of a few integers: `choices`, separated by spaces. It is required if it
/// has no default.
inline AttrSpec choice(const char* name, std::optional<AttrValue> otherwise, const char* choices) {
  const bool is_int = otherwise && std::holds_alternative<int64_t>(*otherwise);
  const bool required = !otherwise;
  return {name, is_int ? AttrType::Int : AttrType::Text, std::move(otherwise), required, false, choices};
}
/// An attribute that is 0 or 1.
inline AttrSpec flag(const char* name, int64_t otherwise) { return choice(name, otherwise, "0 1"); }

/// True if all present operands from `first` to `end` have one dtype; else reports.
bool same_dtypes(const OpView& op, int first = 0, int end = INT_MAX);
/// True if operand `input` has a floating type; else reports.
bool is_real_operand(const OpView& op, int input);
/// True if operand `input` is absent because it became the attribute `attr` (see ConstantOperand); else reports that
/// `what` must be known at compile time.
bool is_known(const OpView& op, int input, const char* attr, const char* what);
/// As is_known, and the attribute is present: from the operand, or as an attribute of an older opset; else reports.
bool is_given(const OpView& op, int input, const char* attr, const char* what);
/// True if the operand has at_least to at_most dimensions; else reports.
bool has_ndim(const OpView& op, int input, int at_least, int at_most = 64);
/// True if no dimension of the operand has a run-time length; else reports that it must be pinned.
bool is_fixed(const OpView& op, int input);
/// The same for one dimension.
bool is_fixed_dim(const OpView& op, int input, int dim);
/// Joins dimensions `first` to `end`.
Extent joined(const OpView& op, const Shape& shape, size_t first, size_t end);

/// Broadcast operands, dtype of the first; all of one dtype.
bool infer_broadcast(const OpView& op, std::vector<TensorType>& results);
/// One result of the first operand's type.
bool infer_same(const OpView& op, std::vector<TensorType>& results);
/// Attributes of a Slice of a tensor of these dims that takes [start, end) of `axis`.
Attrs slice_of(const Dims& dims, int64_t axis, int64_t start, int64_t end);
/// Attribute `axis` non-negative, for ops whose axis counts dimensions of operand 0.
void canonical_axis(Op& op, const OpView& view);

/// Row-major strides of `dims` aligned right to `ndim` dimensions, 0 where the extent is 1 or missing.
Dims broadcast_strides(const Dims& dims, int ndim);

}  // namespace weftc
