// The parser of the ONNX text syntax: onnx_text.cpp has graphs, nodes and attributes, onnx_text_tensor.cpp the tensors,
// onnx_text_devices.cpp device annotations.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "frontend/onnx_model.h"
#include "frontend/onnx_text_lexer.h"

namespace weftc {

/// Thrown at the first error and caught by read_onnx_text: parsing cannot continue after an error.
struct OnnxTextError {
  std::string id;
  TextToken at;
  std::string message;
};

/// One model's text. Each function reads the construct in its name from the current token on, or throws.
class OnnxTextParser {
 public:
  OnnxTextParser(OnnxModel& model, std::vector<TextToken> tokens) : model_(model), tokens_(std::move(tokens)) {}
  void parse();
  void parse_functions(bool are_own);
  OnnxValue parse_type();

 private:
  // Tokens.
  const TextToken& token(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  TextToken take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool eat(std::string_view mark);
  void expect(std::string_view mark, const char* where);
  bool is_name(std::string_view word) const { return token().kind == TextToken::Kind::Name && token().text == word; }
  [[noreturn]] void fail(std::string id, const TextToken& at, std::string message) const;
  [[noreturn]] void unexpected(const std::string& wanted) const;

  // Short constructs.
  bool at_id() const { return token().kind == TextToken::Kind::Name || token().kind == TextToken::Kind::Text; }
  std::string id(const char* what);
  std::string text(const char* what);
  int64_t whole(const char* what);
  double real(const char* what);
  double attr_real();
  bool at_number() const;
  bool at_type(size_t ahead = 0) const;
  OnnxValue value_type();
  std::string other_type();
  OnnxValue tensor_type();
  OnnxDim dim();

  // Long constructs.
  void header(std::map<std::string, int64_t>& opsets, OnnxFunction* into);
  void header_entry(const std::string& key, std::map<std::string, int64_t>& opsets, OnnxFunction* into);
  std::map<std::string, int64_t> opset_list();
  OnnxGraph graph();
  void values(const char* close, std::vector<OnnxValue>& values, std::vector<OnnxTensor>& initialisers, bool declare);
  std::vector<OnnxNode> nodes();
  OnnxNode node();
  void op_name(OnnxNode& node);
  std::vector<std::string> ids(const char* close, bool blanks);
  void attrs(std::vector<OnnxAttr>& attrs);
  OnnxAttr attr();
  void attr_value(OnnxAttr& attr);
  void attr_list(OnnxAttr& attr);
  void declared(OnnxAttr& attr, const std::string& type, const TextToken& at);
  void function();
  // onnx_text_devices.cpp
  void configurations();
  void annotation(OnnxNode& node);
  OnnxNodeDevices node_devices();
  OnnxSharding sharding();
  OnnxShardedAxis sharded_axis();
  void sharding_devices(OnnxSharding& sharding);

  OnnxTensor initialiser(const OnnxValue& type, const TextToken& at);
  OnnxTensor attr_tensor();
  void elements(OnnxTensor& tensor, DType dtype, const TextToken& at);
  void element(std::vector<double>& reals, std::vector<int64_t>& ints, DType dtype);
  void random(OnnxTensor& tensor, DType dtype);
  void external(OnnxTensor& tensor);
  void metadata();
  Loc loc(const TextToken& at) const { return Loc::text(model_.file, at.line, at.column, model_.lines[at.line - 1]); }

  OnnxModel& model_;
  std::vector<TextToken> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_own_ = false;  // the text is the compiler's
};

/// True if the token is a float without digits: inf, infinity, nan, with or without a sign.
bool is_special(const TextToken& token);

}  // namespace weftc
