// What the command line says of a model: which file, which dims and shapes, which inputs are fixed.
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
  std::vector<size_t> bounded = {};  // which of them are bounds

  bool is_bounded(size_t d) const { return contains(bounded, d); }
  /// "1x3x<=64"
  std::string text() const;
};
/// --bind INPUT=FILE.npy
struct BindRequest {
  std::string input;
  std::string file;
};

/// --sequence INPUT=3, --optional INPUT=present, --optional INPUT=absent: how many tensors an input stands for.
struct ElementsRequest {
  std::string input;
  std::optional<int64_t> elements;  // of a sequence; none: an optional tensor
  bool is_absent = false;           // of an optional
};

struct ReadOptions {
  std::string path;              // .onnx or .onnxtxt
  std::vector<DimRequest> dims;  // one value each: specialisations are read one by one
  std::vector<ShapeRequest> shapes;
  std::vector<BindRequest> binds;
  std::vector<ElementsRequest> elements = {};
  std::vector<std::string> overrides = {};  // inputs with a default that the executable takes, as --override says
};

/// What is wrong with the values of a dim, behind its name: "lists a length twice"; empty: nothing.
std::string values_problem(const DimRequest& request);
/// "seq=128", "seq=1,128", "seq<=1024", "seq<=64,1024": what --dim takes. Nothing after reporting.
std::optional<DimRequest> parse_dim_option(const std::string& text, Diags& diags);
/// "INPUT=1x3x224x224", "INPUT=1x<=64" (a bound); "INPUT=scalar" is no dimensions.
std::optional<ShapeRequest> parse_shape_option(const std::string& text, Diags& diags);
/// "INPUT=3"
std::optional<ElementsRequest> parse_sequence_option(const std::string& text, Diags& diags);
/// "INPUT=present", "INPUT=absent"
std::optional<ElementsRequest> parse_optional_option(const std::string& text, Diags& diags);
/// "INPUT=FILE.npy"
std::optional<BindRequest> parse_bind_option(const std::string& text, Diags& diags);

}  // namespace weftc
