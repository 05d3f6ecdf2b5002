// Parses the text form: the module around the graph (places, states, constants, tables of origins and transforms).
// text_parse_graph.cpp parses the inside of `graph { }`. Dumps parse to what was printed; tests of passes are written
// in this form.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "ir/base/text.h"
#include "ir/string_table.h"
#include "ir/text/generation_text.h"
#include "ir/text/text_form.h"
#include "ir/text/text_parser.h"

namespace weftc {

using Kind = Token::Kind;

// Limits on the memory that a text can make the parser allocate: a dump from elsewhere may be damaged.
static constexpr int64_t kMostRanks = 1 << 20;
static constexpr int64_t kMostZeros = int64_t{1} << 28;
static constexpr int64_t kMostListed = int64_t{1} << 20;

bool TextParser::accept(Kind kind, std::string_view text) {
  if (!next_is(kind, text)) return false;
  lexer_.take();
  return true;
}

bool TextParser::expect(Kind kind, std::string_view text) {
  if (accept(kind, text)) return true;
  return fail(lexer_.peek(), format("expected '{}', but there is '{}'", text, printable(lexer_.peek().text)));
}

bool TextParser::expect_any(Kind kind, const char* what, Token& token) {
  if (lexer_.peek().kind != kind)
    return fail(lexer_.peek(), format("expected {}, but there is '{}'", what, printable(lexer_.peek().text)));
  token = lexer_.take();
  return true;
}

bool parse_integer(const std::string& text, int64_t& number) {
  char* end = nullptr;
  errno = 0;
  number = std::strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == '\0' && errno == 0;
}

bool TextParser::integer(int64_t& number) {
  Token token;
  if (!expect_any(Kind::Number, "a number", token)) return false;
  return parse_integer(token.text, number) || fail(token, format("'{}' is no integer of 64 bits", token.text));
}

bool TextParser::small(int& number) {
  const Token token = lexer_.peek();
  int64_t value = 0;
  if (!integer(value)) return false;
  number = static_cast<int>(value);
  return (value >= 0 && value < 1 << 30) || fail(token, format("{} is not possible here", value));
}

bool TextParser::text(std::string& into) {
  Token token;
  if (!expect_any(Kind::Text, "a quoted string", token)) return false;
  into = token.text;
  return true;
}

/// A number, or inf or nan, rounded to the dtype, so that printing it again gives the same text.
bool TextParser::real(DType dtype, double& number) {
  const Token token = lexer_.take();
  char* end = nullptr;
  number = std::strtod(token.text.c_str(), &end);  // accepts inf and nan
  if (token.text.empty() || *end != '\0') return fail(token, format("'{}' is no number", printable(token.text)));
  number = round_to(dtype, number);
  return true;
}

/// The first line: names of model and file, the seed, whether the model is per-rank.
bool TextParser::head() {
  if (!expect(Kind::Word, "module") || !text(module_.name)) return false;
  if (!expect(Kind::Word, "file") || !text(module_.file)) return false;
  if (!expect(Kind::Word, "seed") || !integer(module_.seed)) return false;
  module_.per_rank = accept(Kind::Word, "per-rank");
  return true;
}

/// Axes and their sizes in braces.
bool TextParser::mesh(Mesh& mesh) {
  return expect(Kind::Sign, "{") && list("}", [&] {
           const Token name = lexer_.take();
           if (name.kind != Kind::Word && name.kind != Kind::Text) return fail(name, "expected the name of an axis");
           int64_t size = 0;
           if (!expect(Kind::Sign, ":") || !integer(size)) return false;
           // The product of the sizes would exceed the limit on ranks.
           if (size < 1 || size > kMostRanks / mesh_size(mesh))
             return fail(name, format("axis '{}' has size {}", printable(name.text), size));
           mesh.push_back({name.text, static_cast<int>(size)});
           return true;
         });
}

bool TextParser::place() {
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

/// An optional `at "file":line:column`.
bool TextParser::location(Loc& loc) {
  if (!accept(Kind::Word, "at")) return true;
  std::string file;
  int64_t line = 0, column = 0;
  if (!text(file) || !expect(Kind::Sign, ":") || !integer(line) || !expect(Kind::Sign, ":") || !integer(column))
    return false;
  loc = Loc::text(file, static_cast<int>(line), static_cast<int>(column));
  return true;
}

/// The name of a length and its bound.
bool TextParser::length() {
  const Token name = lexer_.take();
  int64_t bound = 0;
  if (name.kind != Kind::Word && name.kind != Kind::Text) return fail(name, "expected the name of a length");
  if (!expect(Kind::Sign, "<=") || !integer(bound)) return false;
  if (bound < 1) return fail(name, format("length '{}' is at most {}", printable(name.text), bound));
  module_.lengths[Length::named(name.text, bound).text()] = bound;
  return true;
}

/// Two lengths of the module, and the relation between them.
bool TextParser::relation() {
  LengthRelation relation;
  const auto side = [&](Length& made) {
    const Token at = lexer_.peek();
    std::string words;
    if (!text(words)) return false;
    const std::optional<Length> length = parse_length(words, module_.lengths);
    if (!length) return fail(at, format("'{}' is no length of the module", printable(words)));
    made = *length;
    return true;
  };
  if (!side(relation.left)) return false;
  relation.may_be_less = accept(Kind::Sign, "<=");
  if (!relation.may_be_less && !expect(Kind::Sign, "=")) return false;
  if (!side(relation.right) || (accept(Kind::Word, "where") && !side(relation.where))) return false;
  if (!expect(Kind::Word, "by") || !text(relation.what)) return false;
  module_.relations.push_back(std::move(relation));
  return true;
}

bool TextParser::state() {
  State state;
  if (!text(state.input) || !expect(Kind::Sign, "->") || !text(state.output)) return false;
  if (accept(Kind::Word, "from")) {
    const Token at = lexer_.peek();
    AttrValue first;
    if (!attr_value(first)) return false;
    const auto* constant = std::get_if<ConstantId>(&first);
    if (!constant) return fail(at, "expected the number of a constant");
    state.initial = *constant;
  }
  if (accept(Kind::Word, "of") && !text(state.of)) return false;
  if (!location(state.loc)) return false;
  module_.states.push_back(std::move(state));
  return true;
}

bool TextParser::primal() {
  std::string derivative;
  return text(derivative) && text(module_.primals[derivative]);
}

bool TextParser::again() {
  std::string again, first;
  return text(again) && text(first) && module_.again.emplace(first, again).second;
}

bool TextParser::training() {
  Training& made = module_.training.emplace();
  const auto figure = [&] { return text(made.figures.emplace_back()); };
  const auto update = [&] { return text(made.updates.emplace_back()); };
  if (!(text(made.loss) && text(made.rate) && text(made.norm) && text(made.evaluates) && expect(Kind::Sign, "[") &&
        list("]", figure)))
    return false;
  if (accept(Kind::Word, "by") && !text(made.optimizer)) return false;
  if (accept(Kind::Word, "updates") && !(expect(Kind::Sign, "[") && list("]", update))) return false;
  made.recomputes = accept(Kind::Word, "recompute");
  return true;
}

/// The loop over tokens, as attributes.
bool TextParser::generation() {
  const Token at = lexer_.peek();
  Attrs given;
  std::string wrong;
  if (!attrs(given)) return false;
  module_.generation = generation_of(given, wrong);
  return module_.generation || fail(at, format("attribute '{}' of a generation is unknown, or of another kind", wrong));
}

Phase TextParser::phase() {
  if (accept(Kind::Word, "backward")) return Phase::Backward;
  return accept(Kind::Word, "update") ? Phase::Update : Phase::Forward;
}

/// Blocks by name, the number of micro-batches, the order as pairs (block, micro-batch).
bool TextParser::pipeline() {
  Pipeline pipeline;
  const auto block = [&] {
    Pipeline::Block& made = pipeline.blocks.emplace_back();
    made.stage = static_cast<int>(pipeline.blocks.size()) - 1;
    if (!text(made.name) || (accept(Kind::Word, "stage") && !small(made.stage))) return false;
    made.phase = phase();
    made.of_weights = accept(Kind::Word, "weights");
    if (accept(Kind::Word, "before")) made.turn = Turn::Before;
    if (accept(Kind::Word, "after")) made.turn = Turn::After;
    return true;
  };
  const auto entry = [&] {
    Pipeline::Entry& made = pipeline.order.emplace_back();
    return small(made.block) && small(made.micro_batch);
  };
  if (!expect(Kind::Sign, "[") || !list("]", block) || !expect(Kind::Word, "micro-batches")) return false;
  if (!small(pipeline.micro_batches) || !expect(Kind::Word, "order")) return false;
  if (!expect(Kind::Sign, "[") || !list("]", entry)) return false;
  module_.pipeline = std::move(pipeline);
  return true;
}

/// A constant's elements, or `...` for zeros: dumps omit large constants.
bool TextParser::constant() {
  Token number;
  std::string name;
  ParsedType type;
  if (!expect_any(Kind::Numbered, "the constant's number", number)) return false;
  if (number.text != std::to_string(module_.constants.size()))
    return fail(number, format("constants are numbered in order: this is #{}", module_.constants.size()));
  if (!text(name) || !this->type(type) || !expect(Kind::Sign, "=")) return false;
  if (!is_static(type.type.shape) || !type.states.empty())
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

/// A string as its number.
bool TextParser::string(int64_t& id) {
  const Token at = lexer_.peek();
  std::string value;
  if (!text(value)) return false;
  if (const std::string why = why_no_element(value); !why.empty()) return fail(at, "the string " + why);
  id = string_id(value);
  return true;
}

/// Reads the elements of the shape in row-major order.
bool TextParser::constant_elements(Tensor& tensor) {
  const Token open = lexer_.peek();
  int64_t count = 0;
  const auto element = [&] {
    if (count >= tensor.size()) return fail(lexer_.peek(), format("more than {} elements", tensor.size()));
    const int64_t at = count++;
    if (tensor.is_real()) return real(tensor.dtype, tensor.real[at]);
    if (tensor.dtype == DType::String) return string(tensor.integers[at]);
    Token token;
    if (!expect_any(Kind::Number, "a number", token)) return false;
    errno = 0;
    char* end = nullptr;
    // Values of u64 above the signed range are written unsigned.
    const bool high = tensor.dtype == DType::U64 && token.text[0] != '-';
    const int64_t value = high ? static_cast<int64_t>(std::strtoull(token.text.c_str(), &end, 10))
                               : std::strtoll(token.text.c_str(), &end, 10);
    if (*end != '\0' || errno) return fail(token, format("'{}' is no integer", token.text));
    tensor.put_int(at, value);
    return true;
  };
  if (!expect(Kind::Sign, "[") || !list("]", element)) return false;
  return count == tensor.size() || fail(open, format("{} elements given for {}", count, tensor.size()));
}

bool TextParser::origin() {
  int64_t number = 0, index = 0;
  Origin origin;
  const Token at = lexer_.peek();
  if (!integer(number) || !text(origin.name) || !text(origin.op_type) || !integer(index)) return false;
  if (number != static_cast<int64_t>(module_.origins.size()))
    return fail(at, format("origins are numbered in order: this is {}", module_.origins.size()));
  origin.index = static_cast<int>(index);
  origin.phase = phase();
  if (accept(Kind::Word, "of")) {
    int64_t of = 0;
    last_origin_ = lexer_.peek();
    if (!integer(of)) return false;
    most_origin_ = std::max(most_origin_, of);
    origin.of = OriginId{static_cast<uint32_t>(of)};
  }
  origin.loc = Loc::in_node(module_.file, origin.name, origin.op_type, origin.index);
  module_.origins.push_back(std::move(origin));
  return true;
}

bool TextParser::transform() {
  int64_t number = 0;
  Transform transform;
  const Token at = lexer_.peek();
  if (!integer(number) || !text(transform.text) || !location(transform.loc)) return false;
  if (number != static_cast<int64_t>(module_.transforms.size()))
    return fail(at, format("transforms are numbered in order: this is {}", module_.transforms.size()));
  module_.transforms.push_back(std::move(transform));
  return true;
}

/// Ops may mention constants, origins and transforms before their tables; all must be defined by the end.
bool TextParser::check_numbers() {
  if (most_constant_ >= static_cast<int64_t>(module_.constants.size()))
    return fail(last_constant_, format("there is no constant #{}", most_constant_));
  if (most_origin_ >= static_cast<int64_t>(module_.origins.size()))
    return fail(last_origin_, format("there is no origin {}", most_origin_));
  if (most_transform_ >= static_cast<int64_t>(module_.transforms.size()))
    return fail(last_transform_, format("there is no transform {}", most_transform_));
  return true;
}

std::optional<Module> TextParser::module() {
  bool good = head();
  while (good && lexer_.peek().kind != Kind::End) {
    const Token word = lexer_.take();
    if (word.is(Kind::Word, "place"))
      good = place();
    else if (word.is(Kind::Word, "length"))
      good = length();
    else if (word.is(Kind::Word, "relation"))
      good = relation();
    else if (word.is(Kind::Word, "state"))
      good = state();
    else if (word.is(Kind::Word, "primal"))
      good = primal();
    else if (word.is(Kind::Word, "again"))
      good = again();
    else if (word.is(Kind::Word, "train"))
      good = training();
    else if (word.is(Kind::Word, "generate"))
      good = generation();
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
      good = fail(
          word,
          "expected place, length, relation, state, primal, again, train, generate, pipeline, constant, graph, origin "
          "or transform");
  }
  if (!good || !check_numbers() || !lexer_.ok()) return {};
  return std::move(module_);
}

std::optional<Module> parse_module(const std::string& name, const std::string& text, Diags& diags) {
  return TextParser(name, text, diags).module();
}

}  // namespace weftc
