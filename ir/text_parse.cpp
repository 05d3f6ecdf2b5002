// Recursive descent over the text form. A type is kept as written until what it refers to is known: axes need the
// place, counts may be values that come later.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "ir/base/text.h"
#include "ir/local_op.h"
#include "ir/op_def.h"
#include "ir/text_form.h"
#include "ir/text_lex.h"

namespace weft {

namespace {

using Kind = Token::Kind;

// Text is read with care for what it would allocate.
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostElements = int64_t{1} << 48;
constexpr int64_t kMostZeros = int64_t{1} << 28;
constexpr int64_t kMostListed = int64_t{1} << 20;

struct ParsedType {
  TensorType type;                            // without counts and layout
  std::vector<std::pair<int, Token>> counts;  // dim, value
  std::vector<std::pair<Token, AxisState>> states;
};

class Parser {
 public:
  Parser(const std::string& file, const std::string& text, Diags& diags) : lexer_(file, text, diags) {}
  std::optional<Module> module();

 private:
  // Words.
  bool fail(const Token& at, const std::string& message) { return lexer_.fail(at, message); }
  bool next_is(Kind kind, std::string_view text) const { return lexer_.peek().is(kind, text); }
  bool accept(Kind kind, std::string_view text);
  bool expect(Kind kind, std::string_view text);
  bool expect_any(Kind kind, const char* what, Token& token);
  bool integer(int64_t& number);
  bool small(int& number);
  bool text(std::string& into);
  bool real(DType dtype, double& number);
  template <class Item>
  bool list(std::string_view close, Item item);

  // Tables.
  bool head();
  bool place();
  bool state();
  bool pipeline();
  bool constant();
  bool constant_elements(Tensor& tensor);
  bool origin();
  bool transform();
  bool location(Loc& loc);
  bool mesh(Mesh& mesh);
  bool check_numbers();

  // Graphs.
  bool graph(Graph& graph);
  bool op(Graph& graph);
  bool result_names(NewOp& made, std::vector<Token>& names);
  bool operands(const Graph& graph, NewOp& made);
  bool attrs(NewOp& made);
  bool attr_value(AttrValue& value);
  bool attr_list(AttrValue& value);
  bool types(std::vector<ParsedType>& types, size_t count);
  bool type(ParsedType& parsed);
  bool axis_state(AxisState& state);
  bool tail(NewOp& made);
  bool regions(NewOp& made);
  bool add(Graph& graph, NewOp made, const std::vector<Token>& names, const std::vector<ParsedType>& types);
  bool lay_out(Graph& graph, ValueId value, const ParsedType& parsed);
  bool returns(Graph& graph);
  bool value_named(const Graph& graph, const Token& name, ValueId& value);

  struct PendingCount {
    ValueId value;
    int dim;
    Token count;
  };

  Lexer lexer_;
  Module module_;
  std::vector<PendingCount> pending_;  // of the graph being read
  int constants_ = 0;
  Token last_constant_, last_origin_, last_transform_;  // the largest number that was mentioned
  int64_t most_constant_ = -1, most_origin_ = -1, most_transform_ = -1;
};

// ---- words ---------------------------------------------------------------------------------------------------------

bool Parser::accept(Kind kind, std::string_view text) {
  if (!next_is(kind, text)) return false;
  lexer_.take();
  return true;
}

bool Parser::expect(Kind kind, std::string_view text) {
  if (accept(kind, text)) return true;
  return fail(lexer_.peek(), format("expected '{}', but there is '{}'", text, printable(lexer_.peek().text)));
}

bool Parser::expect_any(Kind kind, const char* what, Token& token) {
  if (lexer_.peek().kind != kind)
    return fail(lexer_.peek(), format("expected {}, but there is '{}'", what, printable(lexer_.peek().text)));
  token = lexer_.take();
  return true;
}

bool to_integer(const std::string& text, int64_t& number) {
  char* end = nullptr;
  errno = 0;
  number = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}

bool Parser::integer(int64_t& number) {
  Token token;
  if (!expect_any(Kind::Number, "a number", token)) return false;
  return to_integer(token.text, number) || fail(token, format("'{}' is no integer of 64 bits", token.text));
}

bool Parser::small(int& number) {
  const Token token = lexer_.peek();
  int64_t value = 0;
  if (!integer(value)) return false;
  number = static_cast<int>(value);
  return (value >= 0 && value < 1 << 30) || fail(token, format("{} is not possible here", value));
}

bool Parser::text(std::string& into) {
  Token token;
  if (!expect_any(Kind::Text, "a quoted string", token)) return false;
  into = token.text;
  return true;
}

bool Parser::real(DType dtype, double& number) {
  const Token token = lexer_.take();
  char* end = nullptr;
  number = std::strtod(token.text.c_str(), &end);  // knows inf and nan
  if (token.text.empty() || *end != '\0') return fail(token, format("'{}' is no number", printable(token.text)));
  number = round_to(dtype, number);
  return true;
}

/// Items up to the closing sign, separated by commas; the opening one is already read.
template <class Item>
bool Parser::list(std::string_view close, Item item) {
  if (accept(Kind::Sign, close)) return true;
  while (item()) {
    if (accept(Kind::Sign, close)) return true;
    if (!expect(Kind::Sign, ",")) return false;
  }
  return false;
}

// ---- tables --------------------------------------------------------------------------------------------------------

bool Parser::head() {
  if (!expect(Kind::Word, "module") || !text(module_.name)) return false;
  if (!expect(Kind::Word, "file") || !text(module_.file)) return false;
  if (!expect(Kind::Word, "seed") || !integer(module_.seed)) return false;
  module_.per_rank = accept(Kind::Word, "per-rank");
  return true;
}

bool Parser::mesh(Mesh& mesh) {
  return expect(Kind::Sign, "{") && list("}", [&] {
           const Token name = lexer_.take();
           if (name.kind != Kind::Word && name.kind != Kind::Text) return fail(name, "expected the name of an axis");
           int64_t size = 0;
           if (!expect(Kind::Sign, ":") || !integer(size)) return false;
           // So many that their product is no number of ranks any more.
           if (size < 1 || size > kMostRanks / mesh_size(mesh))
             return fail(name, format("axis '{}' has size {}", printable(name.text), size));
           mesh.push_back({name.text, static_cast<int>(size)});
           return true;
         });
}

bool Parser::place() {
  Token name;
  Place place;
  if (!expect_any(Kind::Place, "a place", name) || !expect(Kind::Sign, "[")) return false;
  place.name = name.text;
  const auto rank = [&] { return small(place.ranks.emplace_back()); };
  if (!list("]", rank) || !mesh(place.mesh)) return false;
  if (mesh_size(place.mesh) != place.size())
    return fail(name, format("the mesh of place '{}' does not have {} ranks", printable(place.name), place.size()));
  module_.places.push_back(std::move(place));
  return true;
}

bool Parser::location(Loc& loc) {
  if (!accept(Kind::Word, "at")) return true;
  std::string file;
  int64_t line = 0, column = 0;
  if (!text(file) || !expect(Kind::Sign, ":") || !integer(line) || !expect(Kind::Sign, ":") || !integer(column))
    return false;
  loc = Loc::text(file, static_cast<int>(line), static_cast<int>(column));
  return true;
}

bool Parser::state() {
  State state;
  if (!text(state.input) || !expect(Kind::Sign, "->") || !text(state.output) || !location(state.loc)) return false;
  module_.states.push_back(std::move(state));
  return true;
}

bool Parser::pipeline() {
  Pipeline pipeline;
  const auto stage = [&] { return text(pipeline.stages.emplace_back()); };
  const auto entry = [&] {
    Pipeline::Entry& made = pipeline.order.emplace_back();
    return small(made.stage) && small(made.micro_batch);
  };
  if (!expect(Kind::Sign, "[") || !list("]", stage) || !expect(Kind::Word, "micro-batches")) return false;
  if (!small(pipeline.micro_batches) || !expect(Kind::Word, "order")) return false;
  if (!expect(Kind::Sign, "[") || !list("]", entry)) return false;
  module_.pipeline = std::move(pipeline);
  return true;
}

bool Parser::constant() {
  Token number;
  std::string name;
  ParsedType type;
  if (!expect_any(Kind::Numbered, "the constant's number", number)) return false;
  if (number.text != std::to_string(module_.constants.size()))
    return fail(number, format("constants are numbered in order: this is #{}", module_.constants.size()));
  if (!text(name) || !this->type(type) || !expect(Kind::Sign, "=")) return false;
  if (!type.counts.empty() || !type.states.empty())
    return fail(number, "a constant has neither layout nor run-time length");
  const int64_t count = type.type.count();
  const bool zero_filled = next_is(Kind::Sign, "...");
  if (count > (zero_filled ? kMostZeros : kMostListed)) return fail(number, "this constant has too many elements");
  if (accept(Kind::Sign, "...")) {
    const std::vector<std::byte> zeros(static_cast<size_t>(count * dtype_bytes(type.type.dtype)));
    module_.constants.add(name, type.type.dtype, type.type.dims(), zeros);
    return true;
  }
  Tensor tensor(type.type.dtype, type.type.dims());
  if (!constant_elements(tensor)) return false;
  module_.constants.add(name, tensor);
  return true;
}

bool Parser::constant_elements(Tensor& tensor) {
  const Token open = lexer_.peek();
  int64_t count = 0;
  const auto element = [&] {
    if (count >= tensor.size()) return fail(lexer_.peek(), format("more than {} elements", tensor.size()));
    const int64_t at = count++;
    if (tensor.is_real()) return real(tensor.dtype, tensor.real[at]);
    Token token;
    if (!expect_any(Kind::Number, "a number", token)) return false;
    errno = 0;
    char* end = nullptr;
    // Values of u64 above the signed range are written unsigned.
    const bool high = tensor.dtype == DType::U64 && token.text[0] != '-';
    const int64_t value = high ? static_cast<int64_t>(std::strtoull(token.text.c_str(), &end, 10))
                               : std::strtoll(token.text.c_str(), &end, 10);
    if (*end != '\0' || errno) return fail(token, format("'{}' is no integer", token.text));
    tensor.put_whole(at, value);
    return true;
  };
  if (!expect(Kind::Sign, "[") || !list("]", element)) return false;
  return count == tensor.size() || fail(open, format("{} elements given for {}", count, tensor.size()));
}

bool Parser::origin() {
  int64_t number = 0, index = 0;
  Origin origin;
  const Token at = lexer_.peek();
  if (!integer(number) || !text(origin.name) || !text(origin.op_type) || !integer(index)) return false;
  if (number != static_cast<int64_t>(module_.origins.size()))
    return fail(at, format("origins are numbered in order: this is {}", module_.origins.size()));
  origin.index = static_cast<int>(index);
  origin.loc = Loc::in_node(module_.file, origin.name, origin.op_type, origin.index);
  module_.origins.push_back(std::move(origin));
  return true;
}

bool Parser::transform() {
  int64_t number = 0;
  Transform transform;
  const Token at = lexer_.peek();
  if (!integer(number) || !text(transform.text) || !location(transform.loc)) return false;
  if (number != static_cast<int64_t>(module_.transforms.size()))
    return fail(at, format("transforms are numbered in order: this is {}", module_.transforms.size()));
  module_.transforms.push_back(std::move(transform));
  return true;
}

bool Parser::check_numbers() {
  if (most_constant_ >= static_cast<int64_t>(module_.constants.size()))
    return fail(last_constant_, format("there is no constant #{}", most_constant_));
  if (most_origin_ >= static_cast<int64_t>(module_.origins.size()))
    return fail(last_origin_, format("there is no origin {}", most_origin_));
  if (most_transform_ >= static_cast<int64_t>(module_.transforms.size()))
    return fail(last_transform_, format("there is no transform {}", most_transform_));
  return true;
}

std::optional<Module> Parser::module() {
  bool good = head();
  while (good && lexer_.peek().kind != Kind::End) {
    const Token word = lexer_.take();
    if (word.is(Kind::Word, "place"))
      good = place();
    else if (word.is(Kind::Word, "state"))
      good = state();
    else if (word.is(Kind::Word, "pipeline"))
      good = pipeline();
    else if (word.is(Kind::Word, "constant"))
      good = constant();
    else if (word.is(Kind::Word, "graph"))
      good = expect(Kind::Sign, "{") && graph(module_.graph);
    else if (word.is(Kind::Word, "origin"))
      good = origin();
    else if (word.is(Kind::Word, "transform"))
      good = transform();
    else
      good = fail(word, "expected place, state, pipeline, constant, graph, origin or transform");
  }
  if (!good || !check_numbers() || !lexer_.ok()) return {};
  return std::move(module_);
}

// ---- graphs --------------------------------------------------------------------------------------------------------

/// Behind the opening brace, up to and with the closing one.
bool Parser::graph(Graph& graph) {
  std::vector<PendingCount> outer = std::move(pending_);
  pending_.clear();
  if (accept(Kind::Word, "time") && !mesh(graph.time_axes)) return false;
  while (!next_is(Kind::Word, "return"))
    if (!op(graph)) return false;
  lexer_.take();
  if (!returns(graph) || !expect(Kind::Sign, "}")) return false;
  for (const PendingCount& pending : pending_) {
    TensorType type = graph.type(pending.value);
    if (!value_named(graph, pending.count, type.shape[pending.dim].count)) return false;
    graph.retype(pending.value, std::move(type));
  }
  pending_ = std::move(outer);
  return true;
}

bool Parser::value_named(const Graph& graph, const Token& name, ValueId& value) {
  value = graph.find_value(name.text);
  return value || fail(name, format("there is no value '{}' here", printable(name.text)));
}

bool Parser::returns(Graph& graph) {
  while (lexer_.peek().kind == Kind::Value) {
    const Token token = lexer_.take();
    ValueId value;
    if (!value_named(graph, token, value)) return false;
    std::string name = token.text;
    if (lexer_.peek().kind == Kind::Text) name = lexer_.take().text;
    graph.add_output(value, name);
    if (!accept(Kind::Sign, ",")) break;
  }
  return true;
}

bool Parser::op(Graph& graph) {
  NewOp made;
  std::vector<Token> names;
  std::vector<ParsedType> results;
  if (!result_names(made, names)) return false;
  Token record;
  if (!expect_any(Kind::Word, "the name of an op", record)) return false;
  const std::optional<OpKind> kind = parse_op_kind(record.text);
  if (!kind) return fail(record, format("there is no op '{}'", printable(record.text)));
  made.kind = *kind;
  if (!operands(graph, made) || !attrs(made) || !types(results, names.size())) return false;
  made.name = names.empty() ? "" : names[0].text;
  if (!tail(made)) return false;
  if (made.name.empty()) return fail(record, "an op without results needs a name");
  if (graph.find_op(made.name)) return fail(record, format("there is already an op '{}'", printable(made.name)));
  return regions(made) && add(graph, std::move(made), names, results);
}

bool Parser::result_names(NewOp& made, std::vector<Token>& names) {
  if (lexer_.peek().kind != Kind::Value) return true;
  do {
    Token name;
    if (!expect_any(Kind::Value, "a value", name)) return false;
    made.result_names.push_back(name.text);
    names.push_back(name);
  } while (accept(Kind::Sign, ","));
  return expect(Kind::Sign, "=");
}

bool Parser::operands(const Graph& graph, NewOp& made) {
  return expect(Kind::Sign, "(") && list(")", [&] {
           if (accept(Kind::Word, "_")) return made.inputs.push_back({}), true;
           Token name;
           if (!expect_any(Kind::Value, "a value or _", name)) return false;
           return value_named(graph, name, made.inputs.emplace_back());
         });
}

bool Parser::attrs(NewOp& made) {
  if (!accept(Kind::Sign, "{")) return true;
  return list("}", [&] {
    Token name;
    if (!expect_any(Kind::Word, "the name of an attribute", name) || !expect(Kind::Sign, "=")) return false;
    for (const Attr& attr : made.attrs)
      if (attr.name == name.text) return fail(name, format("attribute '{}' stands twice", name.text));
    made.attrs.push_back({name.text, {}});
    return attr_value(made.attrs.back().value);
  });
}

bool is_real_text(const std::string& text) { return text.find_first_of(".einf") != std::string::npos; }

bool Parser::attr_value(AttrValue& value) {
  const Token token = lexer_.peek();
  if (token.kind == Kind::Text) return value = lexer_.take().text, true;
  if (token.kind == Kind::Numbered) {
    lexer_.take();
    int64_t number = 0;
    if (!to_integer(token.text, number) || number < 0 || number >= UINT32_MAX)
      return fail(token, "no constant's number");
    if (number > most_constant_) most_constant_ = number, last_constant_ = token;
    value = ConstantId{static_cast<uint32_t>(number)};
    return true;
  }
  if (accept(Kind::Word, "real"))
    return value = std::vector<double>{}, expect(Kind::Sign, "[") && expect(Kind::Sign, "]");
  if (accept(Kind::Sign, "[")) return attr_list(value);
  if (token.kind != Kind::Number && token.kind != Kind::Word) return fail(token, "expected the value of an attribute");
  if (!is_real_text(token.text)) {
    int64_t number = 0;
    return integer(number) && (value = number, true);
  }
  double number = 0;
  return real(DType::F64, number) && (value = number, true);
}

bool Parser::attr_list(AttrValue& value) {
  std::vector<int64_t> ints;
  std::vector<double> reals;
  const bool is_real = is_real_text(lexer_.peek().text);
  const auto item = [&] { return is_real ? real(DType::F64, reals.emplace_back()) : integer(ints.emplace_back()); };
  if (!list("]", item)) return false;
  if (is_real)
    value = std::move(reals);
  else
    value = std::move(ints);
  return true;
}

bool Parser::types(std::vector<ParsedType>& types, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!expect(Kind::Sign, i ? "," : ":") || !type(types.emplace_back())) return false;
  return true;
}

bool Parser::type(ParsedType& parsed) {
  Token name;
  if (!expect_any(Kind::Word, "an element type", name)) return false;
  const std::optional<DType> dtype = parse_dtype(name.text);
  if (!dtype) return fail(name, format("there is no element type '{}'", printable(name.text)));
  parsed.type.dtype = *dtype;
  int64_t elements = 1;
  const auto extent = [&] {
    const bool bounded = accept(Kind::Sign, "<=");
    Extent made;
    Token count;
    if (!integer(made.bound)) return false;
    if (made.bound < 0) return fail(name, "an extent is negative");
    const int64_t bound = std::max<int64_t>(made.bound, 1);
    if (bound > kMostElements / elements) return fail(name, "this shape has too many elements");
    elements *= bound;
    if (bounded && !expect_any(Kind::Value, "the value that counts", count)) return false;
    if (bounded) parsed.counts.emplace_back(parsed.type.ndim(), count);
    parsed.type.shape.push_back(made);
    return true;
  };
  if (!expect(Kind::Sign, "[") || !list("]", extent)) return false;
  if (!accept(Kind::Sign, "[")) return true;
  return list("]", [&] {
    const Token axis = lexer_.take();
    if (axis.kind != Kind::Word && axis.kind != Kind::Text && axis.kind != Kind::Numbered)
      return fail(axis, "expected the name of an axis");
    parsed.states.emplace_back(axis, AxisState{});
    return expect(Kind::Sign, ":") && axis_state(parsed.states.back().second);
  });
}

bool Parser::axis_state(AxisState& state) {
  Token kind;
  if (!expect_any(Kind::Word, "R, S(dim,block), P(op) or V", kind)) return false;
  if (kind.text == "R") return true;
  if (kind.text == "V") return state = AxisState::varying(), true;
  if (kind.text == "P") {
    Token op;
    if (!expect(Kind::Sign, "(") || !expect_any(Kind::Word, "a reduction", op)) return false;
    const std::optional<ReduceOp> reduce = parse_reduce(op.text);
    if (!reduce) return fail(op, format("there is no reduction '{}'", printable(op.text)));
    state = AxisState::partial(*reduce);
    return expect(Kind::Sign, ")");
  }
  if (kind.text != "S") return fail(kind, "expected R, S(dim,block), P(op) or V");
  int64_t dim = 0, block = 0;
  if (!expect(Kind::Sign, "(") || !integer(dim) || !expect(Kind::Sign, ",") || !integer(block)) return false;
  if (dim < 0 || dim > 64 || block < 1) return fail(kind, "a slice is S(dim,block) with a block of at least 1");
  state = AxisState::sliced(static_cast<int>(dim), block);
  return expect(Kind::Sign, ")");
}

bool Parser::tail(NewOp& made) {
  if (lexer_.peek().kind == Kind::Place) {
    const Token name = lexer_.take();
    for (size_t i = 0; i < module_.places.size() && !made.place; ++i)
      if (module_.places[i].name == name.text) made.place = PlaceId{static_cast<uint32_t>(i)};
    if (!made.place) return fail(name, format("there is no place '{}'", printable(name.text)));
  }
  if (lexer_.peek().kind == Kind::Text) made.name = lexer_.take().text;
  const auto number = [&](int64_t& most, Token& last, auto& id) {
    const Token token = lexer_.peek();
    int64_t value = 0;
    if (!integer(value)) return false;
    if (value < 0 || value >= UINT32_MAX) return fail(token, "no number of a table");
    if (value > most) most = value, last = token;
    id.index = static_cast<uint32_t>(value);
    return true;
  };
  if (accept(Kind::Word, "from")) do {
      if (!number(most_origin_, last_origin_, made.origins.emplace_back())) return false;
    } while (accept(Kind::Sign, ","));
  return !accept(Kind::Word, "by") || number(most_transform_, last_transform_, made.transform);
}

bool Parser::regions(NewOp& made) {
  while (accept(Kind::Sign, "{"))
    if (!graph(made.regions.emplace_back())) return false;
  return true;
}

bool Parser::add(Graph& graph, NewOp made, const std::vector<Token>& names, const std::vector<ParsedType>& types) {
  for (const Token& name : names)
    if (graph.find_value(name.text)) return fail(name, format("there is already a value '{}'", printable(name.text)));
  for (const ParsedType& type : types) made.results.push_back(type.type);
  const OpId id = graph.add(std::move(made));
  for (size_t r = 0; r < names.size(); ++r) {
    const ValueId value = graph.op(id).outputs[r];
    if (!lay_out(graph, value, types[r])) return false;
    for (const auto& [dim, count] : types[r].counts) pending_.push_back({value, dim, count});
  }
  return true;
}

bool Parser::lay_out(Graph& graph, ValueId value, const ParsedType& parsed) {
  if (parsed.states.empty()) return true;
  const Mesh mesh = module_.mesh(graph, place_of(graph, value));
  TensorType type = parsed.type;
  for (const auto& [axis, state] : parsed.states) {
    int64_t index = -1;
    if (axis.kind == Kind::Numbered && (!to_integer(axis.text, index) || index >= 64))
      return fail(axis, "no axis number");
    for (size_t a = 0; a < mesh.size() && index < 0; ++a)
      if (mesh[a].name == axis.text) index = static_cast<int64_t>(a);
    if (index < 0) return fail(axis, format("there is no axis '{}' here", printable(axis.text)));
    type.layout.set(static_cast<int>(index), state);
  }
  graph.retype(value, std::move(type));
  return true;
}

}  // namespace

std::optional<Module> parse_module(const std::string& name, const std::string& text, Diags& diags) {
  return Parser(name, text, diags).module();
}

}  // namespace weft
