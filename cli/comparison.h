// Runs a program on known inputs and compares its results with known outputs.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "frontend/onnx_inspect.h"
#include "frontend/onnx_options.h"
#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/tensor.h"

namespace weftc {

struct Options;

/// Global tensors by the names of the model's inputs and outputs.
struct KnownData {
  std::map<std::string, Tensor> inputs;
  std::map<std::string, Tensor> outputs;  // of the last iteration
  std::vector<ElementsRequest> elements;  // inputs that are not tensors
  int iterations = 1;                     // more if the model has states, whose first values are inputs
};

/// input_N and output_N of a folder, .npy or .pb, for the model's inputs and outputs in order. Nothing after reporting.
std::optional<KnownData> read_known_data(const std::string& folder, const ModelSummary& model, Diags& diags);

/// The path of input_N, or "".
std::string known_input_file(const std::string& folder, size_t number);

/// Uniform in [-1, 1), integers 0 or 1, strings "0" or "1"; the same for the same seed and name.
Tensor seeded_tensor(const std::string& name, DType dtype, const Dims& dims, uint64_t seed);

/// How a program ended, and how its outputs compare.
struct Comparison {
  int exit_code = 0;   // of the program; kMismatch if results differ
  double error = 0;    // the largest of all outputs
  std::string detail;  // empty: no error
};

/// The largest error by the metric of ir/tensor.h that counts as equal for results rounded to a type.
double tolerance_of(DType dtype);
/// --tolerance, or else the tolerance of the coarsest type to which the graph rounds, even if outputs have another
/// type. One program may store (and round) a value that another keeps in registers, or add in another order. Rounded
/// values then differ in the last bit, and so do fp32 values that depend on them.
double tolerance_of(const Options& options, const Graph& graph);
/// Compares one output with the expected tensor. The tolerance is for floats.
Comparison compare(const std::string& name, Tensor result, const Tensor& expected, double tolerance);

/// Runs `command` with the inputs and states of the plan; outputs go to FOLDER/out. Its memory is filled with NaN
/// first, so that reads of unwritten memory show. Only exit code and detail are set.
Comparison run_on(std::vector<std::string> command, const Plan& plan, const KnownData& data, const std::string& folder,
                  double seconds);
/// Compares an output in FOLDER/out with the expected tensor.
Comparison compare_output(const Plan& plan, const std::string& name, Tensor expected, double tolerance,
                          const std::string& folder);
/// Both, for all outputs. Returns the largest error and the first difference.
Comparison run_and_compare(const std::vector<std::string>& command, const Plan& plan, const KnownData& data,
                           double tolerance, const std::string& folder, double seconds);

/// "1.2e-06", or why there is no number.
std::string error_text(double error);

/// The file name that the executable makes of a name.
std::string output_file_name(const std::string& name);

}  // namespace weftc
