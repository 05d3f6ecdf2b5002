// What the files of records share: common inference, attributes of common kinds, reports.
#pragma once
#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/op_records.h"

namespace weftc {

/// first, first + 1, ... last - 1.
std::vector<int64_t> range_of(int64_t first, int64_t last);
/// From the number of a type in ONNX files (1 is FLOAT); nothing for types that we do not have.
std::optional<DType> onnx_dtype(int64_t number);
/// Replaces attribute `attr`, an ONNX type number, by our dtype's; reports types that we do not have.
bool import_dtype(Graph& graph, OpId op, const char* attr, const OpView& view);

/// All present operands from `first` on have one dtype, else reports.
bool same_dtypes(const OpView& op, int first = 0);
/// Operand `input` has a floating type, else reports.
bool is_real_operand(const OpView& op, int input);
/// Operand `input` is gone (it became the attribute `attr`), else reports that it must be known at compile time.
bool is_known(const OpView& op, int input, const char* attr, const char* what);
/// The same, and the attribute is there: as an attribute of older opsets, or from the operand.
bool is_given(const OpView& op, int input, const char* attr, const char* what);
/// Has at least `ndim` dimensions, else reports.
bool has_ndim(const OpView& op, int input, int at_least, int at_most = 64);
/// No dimension of the operand has a run-time length, else reports.
bool is_fixed(const OpView& op, int input);

/// Broadcast operands, dtype of the first; all of one dtype.
bool infer_broadcast(const OpView& op, std::vector<TensorType>& results);
/// One result of the first operand's type.
bool infer_same(const OpView& op, std::vector<TensorType>& results);
/// Attribute `axis` non-negative, for ops whose axis counts dimensions of operand 0.
void canonical_axis(Op& op, const OpView& view);

/// Row-major strides of `dims` aligned right to `ndim` dimensions, 0 where the extent is 1 or missing.
Dims broadcast_strides(const Dims& dims, int ndim);

}  // namespace weftc
