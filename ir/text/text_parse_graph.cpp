// The graph part of the text form: ops, their types and regions. Names must be unique in a graph, so that a printed
// result identifies its values exactly.
#include <algorithm>

#include "ir/base/text.h"
#include "ir/local_op.h"
#include "ir/op_def.h"
#include "ir/text/text_parser.h"

namespace weftc {

using Kind = Token::Kind;

// A limit on elements: everything after the parser multiplies extents.
static constexpr int64_t kMostElements = int64_t{1} << 48;

/// Parses a graph after its opening brace, including the closing one.
bool TextParser::graph(Graph& graph) {
  if (accept(Kind::Word, "time") && !mesh(graph.time_axes)) return false;
  while (!next_is(Kind::Word, "return"))
    if (!op(graph)) return false;
  lexer_.take();
  return returns(graph) && expect(Kind::Sign, "}");
}

/// Looks a value up in the current graph; a region does not see the graphs around it.
bool TextParser::value_named(const Graph& graph, const Token& name, ValueId& value) {
  value = graph.find_value(name.text);
  return value || fail(name, format("there is no value '{}' here", printable(name.text)));
}

/// The outputs after `return`, each with a name of its own if that differs from the value's.
bool TextParser::returns(Graph& graph) {
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

/// One op; see text_form.h for the order of its parts.
bool TextParser::op(Graph& graph) {
  NewOp made;
  std::vector<Token> names;
  std::vector<ParsedType> results;
  if (!result_names(made, names)) return false;
  Token record;
  if (!expect_any(Kind::Word, "the name of an op", record)) return false;
  const std::optional<OpKind> kind = parse_op_kind(record.text);
  if (!kind) return fail(record, format("there is no op '{}'", printable(record.text)));
  made.kind = *kind;
  if (!operands(graph, made) || !attrs(made.attrs) || !types(results, names.size())) return false;
  made.name = names.empty() ? "" : names[0].text;
  if (!tail(made)) return false;
  if (made.name.empty()) return fail(record, "an op without results needs a name");
  if (graph.find_op(made.name)) return fail(record, format("there is already an op '{}'", printable(made.name)));
  return regions(made) && add(graph, std::move(made), names, results);
}

/// The values before `=`; an op may have no results.
bool TextParser::result_names(NewOp& made, std::vector<Token>& names) {
  if (lexer_.peek().kind != Kind::Value) return true;
  do {
    Token name;
    if (!expect_any(Kind::Value, "a value", name)) return false;
    made.result_names.push_back(name.text);
    names.push_back(name);
  } while (accept(Kind::Sign, ","));
  return expect(Kind::Sign, "=");
}

bool TextParser::operands(const Graph& graph, NewOp& made) {
  return expect(Kind::Sign, "(") && list(")", [&] {
           if (accept(Kind::Word, "_")) return made.inputs.push_back({}), true;
           Token name;
           if (!expect_any(Kind::Value, "a value or _", name)) return false;
           return value_named(graph, name, made.inputs.emplace_back());
         });
}

bool TextParser::attrs(Attrs& into) {
  if (!accept(Kind::Sign, "{")) return true;
  return list("}", [&] {
    Token name;
    if (!expect_any(Kind::Word, "the name of an attribute", name) || !expect(Kind::Sign, "=")) return false;
    for (const Attr& attr : into)
      if (attr.name == name.text) return fail(name, format("attribute '{}' stands twice", name.text));
    into.push_back({name.text, {}});
    return attr_value(into.back().value);
  });
}

static bool is_real_text(const std::string& text) { return text.find_first_of(".einf") != std::string::npos; }

/// An integer, a real (with a point, an exponent, inf or nan), a string, a constant's number, or a list of one
/// of these.
bool TextParser::attr_value(AttrValue& value) {
  const Token token = lexer_.peek();
  if (token.kind == Kind::Text) return value = lexer_.take().text, true;
  if (token.kind == Kind::Numbered) {
    lexer_.take();
    int64_t number = 0;
    if (!parse_integer(token.text, number) || number < 0 || number >= UINT32_MAX)
      return fail(token, "no constant's number");
    if (number > most_constant_) most_constant_ = number, last_constant_ = token;
    value = ConstantId{static_cast<uint32_t>(number)};
    return true;
  }
  if (accept(Kind::Word, "real"))
    return value = std::vector<double>{}, expect(Kind::Sign, "[") && expect(Kind::Sign, "]");
  if (accept(Kind::Word, "text"))
    return value = std::vector<std::string>{}, expect(Kind::Sign, "[") && expect(Kind::Sign, "]");
  if (accept(Kind::Sign, "[")) return attr_list(value);
  if (token.kind != Kind::Number && token.kind != Kind::Word) return fail(token, "expected the value of an attribute");
  if (!is_real_text(token.text)) {
    int64_t number = 0;
    return integer(number) && (value = number, true);
  }
  double number = 0;
  return real(DType::F64, number) && (value = number, true);
}

/// A list is of strings or reals if its first element is; an empty list of these is written `text []` or `real []`.
bool TextParser::attr_list(AttrValue& value) {
  if (lexer_.peek().kind == Kind::Text) {
    std::vector<std::string> texts;
    if (!list("]", [&] { return text(texts.emplace_back()); })) return false;
    value = std::move(texts);
    return true;
  }
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

bool TextParser::types(std::vector<ParsedType>& types, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!expect(Kind::Sign, i ? "," : ":") || !type(types.emplace_back())) return false;
  return true;
}

/// A number, or a length and its bound.
bool TextParser::extent(Extent& made) {
  const Token first = lexer_.peek();
  if (first.kind == Kind::Number && parse_integer(first.text, made.bound)) return integer(made.bound);
  const std::string text = lexer_.take_up_to("<=");
  const std::optional<Length> length = parse_length(text, module_.lengths);
  if (!length)
    return fail(first, format("'{}' is no length of the module", printable(text.empty() ? first.text : text)));
  lexer_.take();
  int64_t bound = 0;
  if (!integer(bound)) return false;
  made = run_time_extent(bound, *length);
  return true;
}

/// dtype[extents] [axis: state, ...]; the layout is kept by the names of axes, since the place is not known
/// yet.
bool TextParser::type(ParsedType& parsed) {
  Token name;
  if (!expect_any(Kind::Word, "an element type", name)) return false;
  const std::optional<DType> dtype = parse_dtype(name.text);
  if (!dtype) return fail(name, format("there is no element type '{}'", printable(name.text)));
  parsed.type.dtype = *dtype;
  int64_t elements = 1;
  const auto each = [&] {
    Extent& made = parsed.type.shape.emplace_back();
    if (!extent(made)) return false;
    if (made.bound < 0) return fail(name, "an extent is negative");
    const int64_t bound = std::max<int64_t>(made.bound, 1);
    if (bound > kMostElements / elements) return fail(name, "this shape has too many elements");
    elements *= bound;
    return true;
  };
  if (!expect(Kind::Sign, "[") || !list("]", each)) return false;
  if (!accept(Kind::Sign, "[")) return true;
  return list("]", [&] {
    const Token axis = lexer_.take();
    if (axis.kind != Kind::Word && axis.kind != Kind::Text && axis.kind != Kind::Numbered)
      return fail(axis, "expected the name of an axis");
    parsed.states.emplace_back(axis, AxisState{});
    return expect(Kind::Sign, ":") && axis_state(parsed.states.back().second);
  });
}

bool TextParser::axis_state(AxisState& state) {
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

bool TextParser::small_number(int& number) {
  const Token token = lexer_.peek();
  int64_t value = 0;
  if (!integer(value)) return false;
  if (value < 0 || value > INT32_MAX) return fail(token, "no number of a block or port");
  number = static_cast<int>(value);
  return true;
}

bool TextParser::mechanism(Mechanism& mechanism) {
  Token name;
  if (!expect_any(Kind::Word, "a mechanism", name)) return false;
  const std::optional<Mechanism> known = parse_mechanism(name.text);
  if (!known) return fail(name, format("there is no mechanism '{}'", printable(name.text)));
  mechanism = *known;
  return true;
}

/// The parts after the types; each is present only if it differs from its default.
bool TextParser::tail(NewOp& made) {
  if (lexer_.peek().kind == Kind::Place) {
    const Token name = lexer_.take();
    for (size_t i = 0; i < module_.places.size() && !made.place; ++i)
      if (module_.places[i].name == name.text) made.place = PlaceId{static_cast<uint32_t>(i)};
    if (!made.place) return fail(name, format("there is no place '{}'", printable(name.text)));
  }
  if (accept(Kind::Word, "block") && !small_number(made.block.emplace())) return false;
  if (accept(Kind::Word, "port") && !small_number(made.port.emplace())) return false;
  if (accept(Kind::Word, "mechanism") && !mechanism(made.mechanism)) return false;
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

bool TextParser::regions(NewOp& made) {
  while (accept(Kind::Sign, "{"))
    if (!graph(made.regions.emplace_back())) return false;
  return true;
}

/// Adds the op, then the layouts of its results: these need the op's place.
bool TextParser::add(Graph& graph, NewOp made, const std::vector<Token>& names, const std::vector<ParsedType>& types) {
  for (const Token& name : names)
    if (graph.find_value(name.text)) return fail(name, format("there is already a value '{}'", printable(name.text)));
  for (const ParsedType& type : types) made.results.push_back(type.type);
  const OpId id = graph.add(std::move(made));
  for (size_t r = 0; r < names.size(); ++r) {
    const ValueId value = graph.op(id).outputs[r];
    if (!lay_out(graph, value, types[r])) return false;
  }
  return true;
}

/// Resolves the axes of a layout in the mesh of the value's place and the region's time axes. `#N` selects an axis by
/// its number if a name occurs twice.
bool TextParser::lay_out(Graph& graph, ValueId value, const ParsedType& parsed) {
  if (parsed.states.empty()) return true;
  const Mesh mesh = module_.mesh(graph, place_of(graph, value));
  TensorType type = parsed.type;
  for (const auto& [axis, state] : parsed.states) {
    int64_t index = -1;
    if (axis.kind == Kind::Numbered && (!parse_integer(axis.text, index) || index >= 64))
      return fail(axis, "no axis number");
    for (size_t a = 0; a < mesh.size() && index < 0; ++a)
      if (mesh[a].name == axis.text) index = static_cast<int64_t>(a);
    if (index < 0) return fail(axis, format("there is no axis '{}' here", printable(axis.text)));
    type.layout.set(static_cast<int>(index), state);
  }
  graph.retype(value, std::move(type));
  return true;
}

}  // namespace weftc
