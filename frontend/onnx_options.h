// Options of the command line for a model: its file, dims and shapes, fixed inputs.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/base/contains.h"
#include "ir/base/diag.h"
#include "ir/schedule.h"
#include "ir/type.h"

namespace weftc {

/// --shape INPUT=1x3x224x224, INPUT=1x3x224x<=224
struct ShapeRequest {
  std::string input;
  Dims dims;
  std::vector<size_t> bounded = {};  // indices of those that are bounds

  bool is_bounded(size_t d) const { return contains(bounded, d); }
  /// "1x3x<=64"
  std::string text() const;
};
/// --bind INPUT=FILE.npy
struct BindRequest {
  std::string input;
  std::string file;
};

/// --sequence INPUT=3, --optional INPUT=present, --optional INPUT=absent: the number of tensors of an input.
struct ElementsRequest {
  std::string input;
  std::optional<int64_t> elements;  // of a sequence; none: an optional tensor
  bool is_absent = false;           // for an optional
};

struct ReadOptions {
  std::string path;              // .onnx or .onnxtxt
  std::vector<DimRequest> dims;  // one value each: specialisations are read one by one
  std::vector<ShapeRequest> shapes;
  std::vector<BindRequest> binds;
  std::vector<ElementsRequest> elements = {};
  std::vector<std::string> overrides = {};  // --override: inputs with a default that the executable takes
};

/// The error in the values of a dim, to follow its name in a message: "lists a length twice"; empty if they are
/// correct.
std::string values_problem(const DimRequest& request);
/// Parses --dim: "seq=128", "seq=1,128", "seq<=1024", "seq<=64,1024". Nothing after reporting.
std::optional<DimRequest> parse_dim_option(const std::string& text, Diags& diags);
/// "INPUT=1x3x224x224", "INPUT=1x<=64" (a bound); "INPUT=scalar" has no dimensions.
std::optional<ShapeRequest> parse_shape_option(const std::string& text, Diags& diags);
/// "INPUT=3"
std::optional<ElementsRequest> parse_sequence_option(const std::string& text, Diags& diags);
/// "INPUT=present", "INPUT=absent"
std::optional<ElementsRequest> parse_optional_option(const std::string& text, Diags& diags);
/// "INPUT=FILE.npy"
std::optional<BindRequest> parse_bind_option(const std::string& text, Diags& diags);

}  // namespace weftc
