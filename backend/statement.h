// Statements of emitted code as trees: a loop nest before it is text. Generators build them, and the printer (print.h)
// converts them to C++. Questions about unprinted code (whether it contains a loop or declares a name) are answered
// from the tree.
#pragma once
#include <functional>
#include <optional>
#include <variant>

#include "backend/expression.h"
#include "ir/layout.h"

namespace weftc {

struct Statement;
/// A list of statements inside another one. Its members are defined where a Statement is complete.
class Statements : public std::vector<Statement> {
 public:
  Statements();
  Statements(std::initializer_list<Statement> list);
  Statements(const Statements& other);
  Statements(Statements&& other) noexcept;
  Statements& operator=(const Statements& other);
  Statements& operator=(Statements&& other) noexcept;
  ~Statements();
};

/// `const float y = value;`, or a variable that later statements change.
struct Let {
  std::string type, name;
  Expr value;  // empty: no initial value
  bool is_mutable = false;
};
/// `alignas(64) float y_row[768];`
struct LocalArray {
  std::string type, name;
  int64_t count = 0;
  bool is_aligned = false;
};
/// `y[i] = value;`
struct Store {
  Expr to, value;
};
/// `y_sum += value;`: the accumulator takes one more element.
struct Reduce {
  ReduceOp op = ReduceOp::Sum;
  Expr into;
  Expr value;
};
/// `weft::store(y + i, y_4);`: a call as a statement.
struct Call {
  Expr call;
};
/// `return value;` of a function or lambda.
struct Return {
  Expr value;
};
/// `// text`
struct Comment {
  std::string text;
};
/// A declaration or jump without a statement of its own kind, as a line of C++.
struct Line {
  std::string text;
};

/// The threads that run the iterations of a loop.
enum class LoopKind : uint8_t {
  Serial,        // one thread
  Vector,        // one thread, several at once where the loop contains no other
  Together,      // one thread, several at once, each running the loop inside
  Unrolled,      // one thread, which keeps the results of each iteration in registers
  Threads,       // all threads of the grid take them in turn
  Warps,         // all warps of the grid
  Blocks,        // all blocks of the grid
  Lanes,         // the lanes of a warp
  BlockThreads,  // the threads of a block
  BlockWarps,    // the warps of a block
};

struct For {
  /// The accumulator of a vector loop: each lane has one of its own.
  struct Accumulator {
    ReduceOp op;
    std::string name;
  };
  LoopKind kind = LoopKind::Serial;
  std::string variable = {};
  Expr bound = {};
  Expr first = 0;
  Expr step = 1;  // for loops of one thread; others step by the number of threads that share the loop
  std::string type = "int64_t";
  std::optional<Accumulator> accumulator = {};
  int64_t most = 0;  // maximum number of iterations over all threads that share the loop; 0: not known
  Statements body = {};
};
/// Tasks [0, count), of which threads of the team take ranges [begin, end) of at least `grain`.
struct TeamTasks {
  Expr count;
  int64_t grain = 1;
  Statements body = {};
};
/// A team's range of tasks, cut into runs: a run ends at the next multiple of `run` or with the range. Inside, `first`
/// is the position of the run's first task after the last multiple, and `next` is the task after its end.
struct TeamRuns {
  Expr run;
  Statements body = {};
};
struct If {
  Expr condition;
  Statements body = {};
};
/// The lanes of a warp or the threads of a block wait for each other.
struct Barrier {
  LoopKind among;  // Lanes or BlockThreads
};
/// Statements that one lane runs for all, because all lanes of the row have equal values.
struct OneLane {
  LoopKind lanes = LoopKind::Lanes;  // Lanes, BlockThreads, or Threads: one of the whole grid
  Statements body = {};
};
/// A call whose last argument is a lambda: `head` ends with its brace, `close` follows the body.
struct Callback {
  std::string head;
  Statements body = {};
  std::string close = "});";
};
/// Braces around declarations of their own.
struct Braces {
  Statements body = {};
};
/// A place for statements that are not known yet, and may stay empty. The statements that keep a value for a later loop
/// are written when that loop requests the value. Copies of a Later share one place.
struct Later {
  std::shared_ptr<Statements> statements = std::make_shared<Statements>();
};

namespace detail {
template <class T, class V>
constexpr bool is_alternative = false;
template <class T, class... Nodes>
constexpr bool is_alternative<T, std::variant<Nodes...>> = (std::is_same_v<T, Nodes> || ...);
}  // namespace detail

struct Statement {
  using Variant = std::variant<Let, LocalArray, Store, Reduce, Call, Return, Comment, Barrier, Line, For, TeamTasks,
                               TeamRuns, If, OneLane, Callback, Braces, Later>;
  Variant what;

  template <class T>
  requires detail::is_alternative<T, Variant> Statement(T node) : what(std::move(node)) {}
  Statement(std::string line) : what(Line{std::move(line)}) {}
  Statement(const char* line) : what(Line{line}) {}

  /// The statements inside; null for a statement that has none.
  Statements* body();
  const Statements* body() const { return const_cast<Statement*>(this)->body(); }
};

inline Statements::Statements() = default;
inline Statements::Statements(std::initializer_list<Statement> list) : vector(list) {}
inline Statements::Statements(const Statements& other) = default;
inline Statements::Statements(Statements&& other) noexcept = default;
inline Statements& Statements::operator=(const Statements& other) = default;
inline Statements& Statements::operator=(Statements&& other) noexcept = default;
inline Statements::~Statements() = default;

/// Each expression of the statements and each inside it, at any depth.
void for_each_expression(const Statements& statements, const std::function<void(const Expr&)>& visit);
/// True if there is a loop among the statements, at any depth.
bool has_loop(const Statements& statements);
/// True if one of the statements, not those inside them, declares a name.
bool has_declaration(const Statements& statements);
void append(Statements& statements, Statements more);
/// Makes loops over vectors take one element at a time.
void make_serial(Statements& statements);
/// Adds the statements of one part of a body. If they declare names outside of loops, they get braces of their own,
/// because each part chooses its names independently.
void append_part(Statements& statements, Statements part);

}  // namespace weftc
