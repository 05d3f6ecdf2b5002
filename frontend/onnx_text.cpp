// Recursive descent over the tokens of ONNX's text syntax (as onnx.parser reads it), with positions kept for messages.
// The first error throws an exception that read_onnx_text catches.
#include "frontend/onnx_text.h"

#include <charconv>
#include <cstdlib>

#include "frontend/graph_depth.h"
#include "frontend/onnx_text_parser.h"
#include "frontend/parameter_marks.h"

namespace weftc {

void OnnxTextParser::fail(std::string id, const TextToken& at, std::string message) const {
  throw OnnxTextError{std::move(id), at, std::move(message)};
}

/// Reports the current token, which is not the expected one.
void OnnxTextParser::unexpected(const std::string& wanted) const {
  const TextToken& at = token();
  if (at.kind == TextToken::Kind::Bad) fail("model-text-character", at, at.text);
  const std::string seen =
      at.kind == TextToken::Kind::End ? "the text ends" : "'" + printable(at.text) + "' stands here";
  fail("model-text-syntax", at, seen + ", expected " + wanted);
}

bool OnnxTextParser::eat(std::string_view mark) {
  if (!token().is(mark)) return false;
  take();
  return true;
}

void OnnxTextParser::expect(std::string_view mark, const char* where) {
  if (!eat(mark)) unexpected("'" + std::string(mark) + "' " + where);
}

std::string OnnxTextParser::id(const char* what) {
  if (!at_id()) unexpected(what);
  return take().text;
}

std::string OnnxTextParser::text(const char* what) {
  if (token().kind != TextToken::Kind::Text) unexpected(std::string(what) + " in double quotes");
  return take().text;
}

/// An integer that fits 64 bits.
int64_t OnnxTextParser::whole(const char* what) {
  if (token().kind != TextToken::Kind::Int) unexpected(what);
  const TextToken number = take();
  const char* first = number.text.data() + (number.text[0] == '+');
  int64_t value = 0;
  if (std::from_chars(first, number.text.data() + number.text.size(), value).ec != std::errc())
    fail("model-text-range", number, "'" + number.text + "' does not fit 64 bits");
  return value;
}

bool is_special(const TextToken& token) {
  if (token.kind != TextToken::Kind::Name) return false;
  for (const char* word : {"inf", "infinity", "nan"})
    if (token.text == word || token.text == std::string("-") + word) return true;
  return false;
}

bool OnnxTextParser::at_number() const {
  return token().kind == TextToken::Kind::Int || token().kind == TextToken::Kind::Real || is_special(token());
}

double OnnxTextParser::real(const char* what) {
  if (!at_number()) unexpected(what);
  return std::strtod(take().text.c_str(), nullptr);
}

/// Types that are not tensors.
static bool is_container(std::string_view word) {
  return word == "seq" || word == "map" || word == "optional" || word == "sparse_tensor";
}

/// True if a type begins here.
bool OnnxTextParser::at_type(size_t ahead) const {
  const TextToken& at = token(ahead);
  if (at.kind != TextToken::Kind::Name) return false;
  if (is_container(at.text)) return token(ahead + 1).is("(");
  return element_type_of_name(at.text) != 0;
}

/// An extent, a symbol, or '?'.
OnnxDim OnnxTextParser::dim() {
  if (eat("?")) return {};
  if (token().kind == TextToken::Kind::Int) {
    const TextToken at = token();
    const int64_t extent = whole("an extent");
    if (extent < 0) fail("model-text-extent", at, "an extent is 0 or more; '?' stands for one that is not known");
    return {OnnxDim::Kind::Fixed, extent, ""};
  }
  return {OnnxDim::Kind::Named, 0, id("an extent, a name or '?'")};
}

/// map(...), sparse_tensor(...): only the name is kept, because such values are not read.
std::string OnnxTextParser::other_type() {
  const std::string word = take().text;
  expect("(", "after the type");
  for (int open = 1; open > 0;) {
    if (token().kind == TextToken::Kind::End || token().kind == TextToken::Kind::Bad) unexpected("')'");
    if (token().is("(")) ++open;
    if (token().is(")")) --open;
    take();
  }
  return word == "seq" ? "sequence" : word == "sparse_tensor" ? "sparse tensor" : word;
}

/// `float[2, N]`, `seq(float[N])`, `optional(...)` of either.
OnnxValue OnnxTextParser::value_type() {
  const bool is_optional = is_name("optional");
  if (is_optional) take(), expect("(", "after 'optional'");
  const bool is_sequence = is_name("seq");
  if (is_sequence) take(), expect("(", "after 'seq'");
  OnnxValue value = tensor_type();
  value.form = {is_sequence, is_optional};
  for (const bool is_open : {is_sequence, is_optional})
    if (is_open) expect(")", "after the type");
  return value;
}

/// `float[2, N]`; `float` is a scalar.
OnnxValue OnnxTextParser::tensor_type() {
  OnnxValue value;
  if (is_container(token().text)) {
    value.other_type = other_type();
    return value;
  }
  if (element_type_of_name(token().text) == 0) unexpected("a type");
  value.element_type = element_type_of_name(take().text);
  value.dims.emplace();
  if (!eat("[")) return value;
  if (eat("]")) {  // float[] is a tensor of unknown rank, as in onnx.parser
    value.dims.reset();
    return value;
  }
  do value.dims->push_back(dim());
  while (eat(","));
  expect("]", "after the extents");
  return value;
}

/// Typed or untyped names up to `close`; those with a value are initialisers. `declare`: the names are inputs or
/// outputs.
void OnnxTextParser::values(const char* close, std::vector<OnnxValue>& values, std::vector<OnnxTensor>& initialisers,
                            bool declare) {
  if (eat(close)) return;
  do {
    OnnxValue value;
    if (at_type()) value = value_type();
    const TextToken at = token();
    value.name = id("the name of a value");
    if (eat("=")) initialisers.push_back(initialiser(value, at));
    if (declare) values.push_back(std::move(value));
  } while (eat(","));
  expect(close, "after the values");
}

/// name (inputs) => (outputs) <initialisers> { nodes }
OnnxGraph OnnxTextParser::graph() {
  if (++depth_ > kDeepestGraph)
    fail("model-text-depth", token(), format("graphs are nested more than {} deep", kDeepestGraph));
  OnnxGraph graph;
  graph.name = id("the graph's name");
  expect("(", "before the graph's inputs");
  values(")", graph.inputs, graph.initialisers, true);
  expect("=>", "between inputs and outputs");
  expect("(", "before the graph's outputs");
  const size_t before = graph.initialisers.size();
  const TextToken at = token();
  values(")", graph.outputs, graph.initialisers, true);
  if (graph.initialisers.size() != before) fail("model-text-output", at, "an output cannot have a value");
  if (eat("<")) {
    std::vector<OnnxValue> described;
    values(">", described, graph.initialisers, false);
  }
  graph.nodes = nodes();
  --depth_;
  return graph;
}

std::vector<OnnxNode> OnnxTextParser::nodes() {
  std::vector<OnnxNode> made;
  expect("{", "before the nodes");
  while (!eat("}")) made.push_back(node());
  return made;
}

/// Names up to `close`. A blank between commas is an absent operand.
std::vector<std::string> OnnxTextParser::ids(const char* close, bool blanks) {
  std::vector<std::string> names;
  if (eat(close)) return names;
  do names.push_back(blanks && (token().is(",") || token().is(close)) ? "" : id("the name of a value"));
  while (eat(","));
  expect(close, "after the names");
  return names;
}

static std::string standard_domain(std::string domain) { return domain == "ai.onnx" ? "" : domain; }

/// domain.with.dots.Op, or Op:overload
void OnnxTextParser::op_name(OnnxNode& node) {
  std::string domain;
  node.op_type = id("the name of an operator");
  while (eat(".")) {
    domain += (domain.empty() ? "" : ".") + node.op_type;
    node.op_type = id("the name of an operator");
  }
  node.domain = standard_domain(domain);
  if (eat(":")) node.overload = id("an overload");
}

/// [name] outputs = domain.Op <attributes> (operands) <attributes> @ annotations
OnnxNode OnnxTextParser::node() {
  OnnxNode node;
  node.line = token().line;
  node.column = token().column;
  if (eat("[")) {
    node.name = id("the node's name");
    expect("]", "after the node's name");
  }
  node.outputs = ids("=", true);
  op_name(node);
  if (token().is("<")) attrs(node.attrs);
  expect("(", "before the operands");
  node.inputs = ids(")", true);
  if (token().is("<")) attrs(node.attrs);
  while (eat("@")) annotation(node);
  return node;
}

void OnnxTextParser::attrs(std::vector<OnnxAttr>& attrs) {
  expect("<", "before the attributes");
  if (eat(">")) return;
  do attrs.push_back(attr());
  while (eat(","));
  expect(">", "after the attributes");
}

/// Applies a declared type, `name : floats = ...`, which gives an empty list or an integer its meaning.
void OnnxTextParser::declared(OnnxAttr& attr, const std::string& type, const TextToken& at) {
  using Kind = OnnxAttr::Kind;
  static const std::map<std::string, Kind> kKinds = {
      {"int", Kind::Int},         {"float", Kind::Real},   {"string", Kind::Text},  {"tensor", Kind::Tensor},
      {"graph", Kind::Graph},     {"ints", Kind::Ints},    {"floats", Kind::Reals}, {"strings", Kind::Texts},
      {"tensors", Kind::Tensors}, {"graphs", Kind::Graphs}};
  const auto kind = kKinds.find(type);
  if (kind == kKinds.end()) fail("model-text-attribute-type", at, "'" + printable(type) + "' is no attribute type");
  const bool empty = attr.kind == Kind::Ints && attr.ints.empty();
  if (attr.kind == Kind::Int && kind->second == Kind::Real)
    attr.real = static_cast<double>(attr.integer);
  else if (attr.kind == Kind::Ints && kind->second == Kind::Reals)
    attr.reals.assign(attr.ints.begin(), attr.ints.end());
  else if (attr.kind != kind->second && !empty && attr.reference.empty())
    fail("model-text-attribute-value", at,
         format("the value is {}, but the type says {}", attr_kind_name(attr.kind), type));
  attr.kind = kind->second;
}

/// name: type = value, the type being optional.
OnnxAttr OnnxTextParser::attr() {
  OnnxAttr attr;
  attr.name = id("the name of an attribute");
  const bool typed = eat(":");
  const TextToken at = token();
  const std::string type = typed ? id("an attribute type") : "";
  expect("=", "before the attribute's value");
  if (type == "type_proto") {
    attr.kind = OnnxAttr::Kind::Type;
    value_type();
    return attr;
  }
  attr_value(attr);
  if (typed) declared(attr, type, at);
  return attr;
}

/// The token after `=` determines the kind, unless a type was declared.
void OnnxTextParser::attr_value(OnnxAttr& attr) {
  using Kind = OnnxAttr::Kind;
  if (eat("@")) {
    attr.reference = id("the name of the function's attribute");
  } else if (eat("[")) {
    attr_list(attr);
  } else if (token().kind == TextToken::Kind::Int) {
    attr.kind = Kind::Int;
    attr.integer = whole("an integer");
  } else if (at_number()) {
    attr.kind = Kind::Real;
    attr.real = attr_real();
  } else if (at_type()) {
    attr.kind = Kind::Tensor;
    attr.tensors.push_back(attr_tensor());
  } else if (at_id() && token(1).is("(")) {
    attr.kind = Kind::Graph;
    attr.graphs.push_back(graph());
  } else if (token().kind == TextToken::Kind::Text) {
    attr.kind = Kind::Text;
    attr.text = take().text;
  } else {
    unexpected("a number, a string, a list, a tensor, a graph or @NAME");
  }
}

/// Numbers are read both ways until one of them is a float, which makes all of them floats.
void OnnxTextParser::attr_list(OnnxAttr& attr) {
  using Kind = OnnxAttr::Kind;
  attr.kind = Kind::Ints;
  if (eat("]")) return;
  if (token().kind == TextToken::Kind::Text) {
    attr.kind = Kind::Texts;
    do attr.texts.push_back(text("a string"));
    while (eat(","));
  } else if (at_type()) {
    attr.kind = Kind::Tensors;
    do attr.tensors.push_back(attr_tensor());
    while (eat(","));
  } else {
    do {
      if (token().kind == TextToken::Kind::Real || is_special(token())) attr.kind = Kind::Reals;
      const bool is_int = token().kind == TextToken::Kind::Int;
      const size_t before = at_;
      attr.ints.push_back(is_int ? whole("a number") : 0);
      if (is_int) at_ = before;
      attr.reals.push_back(attr_real());
    } while (eat(","));
    if (attr.kind == Kind::Ints)
      attr.reals.clear();
    else
      attr.ints.clear();
  }
  expect("]", "after the list");
}

std::map<std::string, int64_t> OnnxTextParser::opset_list() {
  std::map<std::string, int64_t> opsets;
  expect("[", "before the opsets");
  if (eat("]")) return opsets;
  do {
    const std::string domain = text("a domain");
    expect(":", "after the domain");
    opsets[standard_domain(domain)] = whole("an opset version");
  } while (eat(","));
  expect("]", "after the opsets");
  return opsets;
}

/// ["key": "value", ...], which is ignored.
void OnnxTextParser::metadata() {
  expect("[", "before the entries");
  if (eat("]")) return;
  do {
    const std::string key = text("a key");
    expect(":", "after the key");
    mark_by_signature(model_, key, text("a value"));
  } while (eat(","));
  expect("]", "after the entries");
}

/// A key of a model's or a function's header; keys without effect are read and dropped.
void OnnxTextParser::header_entry(const std::string& key, std::map<std::string, int64_t>& opsets, OnnxFunction* into) {
  const TextToken at = token();
  if (key == "opset_import")
    opsets = opset_list();
  else if (!into && key == "domain")
    text("a domain");
  else if (key == "domain")
    into->domain = standard_domain(text("a domain"));
  else if (key == "doc_string")
    text("a text");
  else if (key == "metadata_props")
    metadata();
  else if (into && key == "overload")
    into->overload = text("an overload");
  else if (!into && key == "ir_version")
    model_.ir_version = whole("an IR version");
  else if (!into && key == "configuration")
    configurations();
  else if (!into && key == "producer_name")
    model_.producer = text("a name");
  else if (!into && key == "producer_version")
    text("a version");
  else if (!into && key == "model_version")
    whole("a version");
  else
    fail("model-text-key", at,
         "'" + printable(key) + "' is no key of a " + (into ? "function" : "model") +
             did_you_mean(key, {"ir_version", "opset_import", "domain", "producer_name", "doc_string", "overload"}));
}

void OnnxTextParser::header(std::map<std::string, int64_t>& opsets, OnnxFunction* into) {
  if (!eat("<")) return;
  if (eat(">")) return;
  do {
    const std::string key = id("a key such as ir_version");
    expect(":", "after the key");
    header_entry(key, opsets, into);
  } while (eat(","));
  expect(">", "after the header");
}

/// <header> name <attributes> (inputs) => (outputs) { nodes }
void OnnxTextParser::function() {
  OnnxFunction made;
  header(made.opsets, &made);
  made.name = id("the function's name");
  if (eat("<") && !eat(">")) {
    do {
      if (token(1).is("=") || token(1).is(":"))
        made.defaults.push_back(attr());
      else
        made.attrs.push_back(id("the name of an attribute"));
    } while (eat(","));
    expect(">", "after the attributes");
  }
  std::vector<OnnxTensor> initialisers;
  std::vector<OnnxValue> inputs, outputs, described;
  const TextToken at = token();
  expect("(", "before the function's inputs");
  values(")", inputs, initialisers, true);
  expect("=>", "between inputs and outputs");
  expect("(", "before the function's outputs");
  values(")", outputs, initialisers, true);
  if (eat("<")) values(">", described, initialisers, false);
  if (!initialisers.empty()) fail("model-text-function", at, "a function has no initializers; use Constant");
  for (OnnxValue& input : inputs) {
    made.inputs.push_back(input.name);
    if (input.element_type) made.types.emplace(input.name, std::move(input));
  }
  for (OnnxValue& output : outputs) made.outputs.push_back(std::move(output.name));
  made.nodes = nodes();
  model_.functions.push_back(std::move(made));
}

void OnnxTextParser::parse() {
  header(model_.opsets, nullptr);
  model_.graph = graph();
  while (token().kind != TextToken::Kind::End) function();
}

void OnnxTextParser::parse_functions(bool are_own) {
  is_own_ = are_own;
  while (token().kind != TextToken::Kind::End) function();
}

OnnxValue OnnxTextParser::parse_type() {
  OnnxValue type = value_type();
  if (token().kind != TextToken::Kind::End) unexpected("the end of the type");
  return type;
}

namespace {
/// Runs `parse` on a text; nothing after reporting its first error.
template <class Parse>
std::optional<OnnxModel> read_text(const std::string& file, const std::string& text, Diags& diags, const Parse& parse) {
  OnnxModel model;
  model.file = file;
  model.lines = split(text, '\n');
  for (std::string& line : model.lines)
    if (line.ends_with('\r')) line.pop_back();
  try {
    OnnxTextParser parser(model, tokens_of(text));
    parse(parser);
    return model;
  } catch (const OnnxTextError& error) {
    const TextToken& at = error.at;
    const bool shows_text =
        at.kind == TextToken::Kind::Name || at.kind == TextToken::Kind::Int || at.kind == TextToken::Kind::Real;
    diags.error(error.id,
                Loc::text(file, at.line, at.column, model.lines[at.line - 1],
                          shows_text ? static_cast<int>(at.text.size()) : 1),
                "{}", error.message);
    return {};
  }
}
}  // namespace

std::optional<OnnxModel> read_onnx_text(const std::string& file, const std::string& text, Diags& diags) {
  return read_text(file, text, diags, [](OnnxTextParser& parser) { parser.parse(); });
}

std::optional<OnnxModel> read_onnx_functions(const std::string& file, const std::string& text, Diags& diags,
                                             bool are_own) {
  return read_text(file, text, diags, [are_own](OnnxTextParser& parser) { parser.parse_functions(are_own); });
}

std::optional<OnnxValue> read_onnx_type(const std::string& name, const std::string& text) {
  Diags discarded;
  OnnxValue type;
  if (!read_text(name, text, discarded, [&](OnnxTextParser& parser) { type = parser.parse_type(); })) return {};
  type.name = name;
  return type;
}

}  // namespace weftc
