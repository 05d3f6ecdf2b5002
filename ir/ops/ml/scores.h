// Common code of the classifiers and regressors of ai.onnx.ml: operands as real matrices, post transforms of scores,
// labels.
#pragma once
#include <string>
#include <vector>

#include "ir/ops/formula.h"

namespace weftc {

/// The attributes in which classifiers list their classes; their names differ in older operators.
struct ClassAttrs {
  const char* integers = "classlabels_ints";
  const char* strings = "classlabels_strings";
};

/// A list of reals; empty if the attribute is absent.
std::vector<double> reals_of(const OpView& op, const char* attr);
/// True if operand 0 has one of the element types of ai.onnx.ml's numbers; else reports.
bool has_numbers(const OpView& op);
/// True if operand 0 is also a matrix or a vector (one row); else reports.
bool has_rows(const OpView& op);
/// True if operand 0 is a matrix or a vector of a known number of features, of any element type; else reports.
bool has_row_shape(const OpView& op);
/// True if an operand's last dimension, the number of features, is known at compile time; else reports.
bool has_fixed_features(const OpView& op, int input);
/// The extents of operand 0 as a matrix; a vector is one row.
Shape rows_shape(const OpView& op);
/// Operand 0 as a matrix of `dtype`.
Term rows_of(Builder& build, const OpView& op, DType dtype);

/// The scores [rows, n] after the transform of that name.
Term post_transform(Term scores, const std::string& name);
/// 1 / (1 + exp(-x)).
Term logistic(Term x);

/// Number of classes that the model lists. 0 after reporting that it lists none, or both integers and strings.
int64_t class_count(const OpView& op, const ClassAttrs& attrs);
/// Element types and shapes of a classifier's results: a label a row, and `scores` numbers a row.
std::vector<TensorType> classifier_results(const OpView& op, const ClassAttrs& attrs, int64_t scores);
/// True if string labels fit into elements; else reports.
bool are_labels(const OpView& op, const ClassAttrs& attrs);
/// Labels for positions in the list of classes.
Term labels_of(Builder& build, const OpView& op, const ClassAttrs& attrs, Term positions);
/// The position of the greatest score of each row.
Term best_class(Builder& build, Term scores);

}  // namespace weftc
