// Internals of the text form's parser: recursive descent over tokens. A type is kept unresolved until its references
// are known: axes need the place.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "ir/text/text_lex.h"

namespace weftc {

/// A type as written, until the place's axes are known.
struct ParsedType {
  TensorType type;  // without layout
  std::vector<std::pair<Token, AxisState>> states;
};

class TextParser {
 public:
  TextParser(const std::string& file, const std::string& text, Diags& diags) : lexer_(file, text, diags) {}
  /// The whole module; nothing after reporting.
  std::optional<Module> module();

 private:
  // Words.
  bool fail(const Token& at, const std::string& message) { return lexer_.fail(at, message); }
  bool next_is(Token::Kind kind, std::string_view text) const { return lexer_.peek().is(kind, text); }
  /// Takes the token if it is the next one.
  bool accept(Token::Kind kind, std::string_view text);
  /// Takes the token, or reports a mismatch.
  bool expect(Token::Kind kind, std::string_view text);
  /// Takes a token of this kind, whatever its text; `what` is for the message.
  bool expect_any(Token::Kind kind, const char* what, Token& token);
  bool integer(int64_t& number);
  /// An integer from 0 to 2^30: a rank, a block, a count.
  bool small(int& number);
  bool text(std::string& into);
  bool real(DType dtype, double& number);
  /// Items up to the closing sign, separated by commas; the opening one is already read.
  template <class Item>
  bool list(std::string_view close, Item item) {
    if (accept(Token::Kind::Sign, close)) return true;
    while (item()) {
      if (accept(Token::Kind::Sign, close)) return true;
      if (!expect(Token::Kind::Sign, ",")) return false;
    }
    return false;
  }

  // The tables around the graph; each function starts after the table's first word.
  bool head();
  bool place();
  bool length();
  bool relation();
  bool state();
  bool training();
  bool primal();
  bool again();
  bool generation();
  Phase phase();
  bool pipeline();
  bool constant();
  bool constant_elements(Tensor& tensor);
  bool string(int64_t& id);
  bool origin();
  bool transform();
  bool location(Loc& loc);
  bool mesh(Mesh& mesh);
  bool check_numbers();

  // The graph. Each function parses the part in its name and returns false after reporting.
  bool graph(Graph& graph);
  bool op(Graph& graph);
  bool result_names(NewOp& made, std::vector<Token>& names);
  bool operands(const Graph& graph, NewOp& made);
  bool attrs(Attrs& into);
  bool attr_value(AttrValue& value);
  bool attr_list(AttrValue& value);
  bool types(std::vector<ParsedType>& types, size_t count);
  bool type(ParsedType& parsed);
  bool extent(Extent& made);
  bool axis_state(AxisState& state);
  bool tail(NewOp& made);
  bool small_number(int& number);
  bool mechanism(Mechanism& mechanism);
  bool regions(NewOp& made);
  bool add(Graph& graph, NewOp made, const std::vector<Token>& names, const std::vector<ParsedType>& types);
  bool lay_out(Graph& graph, ValueId value, const ParsedType& parsed);
  bool returns(Graph& graph);
  bool value_named(const Graph& graph, const Token& name, ValueId& value);

  Lexer lexer_;
  Module module_;
  Token last_constant_, last_origin_, last_transform_;  // the largest number mentioned so far
  int64_t most_constant_ = -1, most_origin_ = -1, most_transform_ = -1;
};

/// True if all of `text` is one integer of 64 bits.
bool parse_integer(const std::string& text, int64_t& number);

}  // namespace weftc
