// SSA graph: ops and values in arenas, linked by ids, changed only through the methods of Graph. An erased op keeps its
// slot, so ids stay valid. Adding an op may move the arena, so a reference to an Op is invalid after add().
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/ids.h"
#include "ir/layout.h"
#include "ir/mechanism.h"
#include "ir/op_kind.h"
#include "ir/type.h"

namespace weftc {

class Graph;

/// int, float, string, ints, floats, strings, or a tensor of the module.
using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, ConstantId>;
struct Attr {
  std::string name;
  AttrValue value;

  bool operator==(const Attr&) const = default;
};
/// Sorted by name.
using Attrs = std::vector<Attr>;

/// An operation. `inputs` may hold none-ids for absent optional operands. A region's parameters correspond one to one
/// to the op's inputs unless the op's record says otherwise (If: all but the condition; Loop: iteration, then the
/// inputs without the trip count).
struct Op {
  OpKind kind;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::vector<Graph> regions;
  PlaceId place;
  std::string name;               // unique in the module: the ONNX node's, NODE.sum, or a name made by a transform
  std::vector<OriginId> origins;  // sorted
  TransformId transform;          // the schedule entry that made or moved it
  std::optional<int> block = {};  // the block of the pipeline that runs it
  std::optional<int> port = {};   // for an Input: the model's input that it loads; other copies may load it too
  Mechanism mechanism = Mechanism::Streams;  // of a Chunk, or a collective

  bool has(std::string_view attr) const;
  /// The attribute, which must exist and have this type.
  int64_t integer(std::string_view attr) const;
  double real(std::string_view attr) const;
  const std::string& text(std::string_view attr) const;
  const std::vector<int64_t>& ints(std::string_view attr) const;
  const std::vector<double>& reals(std::string_view attr) const;
  const std::vector<std::string>& texts(std::string_view attr) const;
  ConstantId constant(std::string_view attr) const;
  int64_t integer_or(std::string_view attr, int64_t otherwise) const;
  const AttrValue* find(std::string_view attr) const;
  void set(std::string attr, AttrValue value);
  void remove(std::string_view attr);
};

/// An operand position that reads a value; without an op, it is output number `input` of the graph.
struct Use {
  OpId op;
  uint32_t input = 0;

  bool operator==(const Use&) const = default;
};

/// A tensor that an op produces, with its uses.
struct Value {
  TensorType type;
  OpId producer;
  uint32_t result = 0;  // output number of the producer
  std::string name;     // the ONNX value's, unique in its graph; never empty
  std::vector<Use> uses;
};

/// Arguments of `Graph::add`. Result names default to the op's name (".1", ".2" appended from the second on).
struct NewOp {
  OpKind kind;
  std::vector<ValueId> inputs;
  std::vector<TensorType> results;
  Attrs attrs;
  std::vector<Graph> regions;
  PlaceId place;
  std::string name;
  std::vector<OriginId> origins;
  TransformId transform;
  std::vector<std::string> result_names;
  std::optional<int> block = {};
  std::optional<int> port = {};
  Mechanism mechanism = Mechanism::Streams;
};
/// A copy of an op for this or another graph, without operands, results and regions.
NewOp copy_of(const Op& op);

class Graph {
 public:
  /// An output of the graph: it has a name of its own, because one value may be returned twice.
  struct Output {
    ValueId value;
    std::string name;
  };

  /// Adds an op before `before` (none: at the end). Names are made unique by appending "_2", "_3".
  OpId add(NewOp op, OpId before = {});
  /// All readers of `from` read `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Operand number `input` becomes `value` (none: absent).
  void set_input(OpId op, size_t input, ValueId value);
  /// Removes an op whose results have no uses.
  void erase(OpId op);
  /// Changes a value's type, for example to give it a layout.
  void retype(ValueId value, TensorType type);
  // The length of the operand list, the order, names and outputs.
  void add_input(OpId op, ValueId value);
  void remove_input(OpId op, size_t input);
  void move_before(OpId op, OpId before);
  void rename(ValueId value, std::string name);
  void rename_op(OpId op, std::string name);
  void add_output(ValueId value, std::string name);
  void set_output(size_t output, ValueId value);
  /// Replaces all outputs.
  void set_outputs(std::vector<Output> outputs);
  /// For attributes, place, origins, transform, block, port and regions. Do not change kind, name, inputs or outputs
  /// through it.
  Op& edit(OpId op) { return ops_[op.index].op; }

  const Op& op(OpId id) const { return ops_[id.index].op; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const TensorType& type(ValueId id) const { return values_[id.index].type; }
  OpId producer(ValueId id) const { return values_[id.index].producer; }
  const Op& producer_op(ValueId id) const { return op(producer(id)); }
  /// The result of an op with exactly one.
  ValueId result(OpId id) const { return op(id).outputs[0]; }

  /// Live ops in order: each op comes after the producers of its inputs.
  std::vector<OpId> order() const;
  OpId first() const { return first_; }
  OpId next(OpId id) const { return ops_[id.index].next; }
  OpId previous(OpId id) const { return ops_[id.index].previous; }
  size_t op_count() const { return live_; }
  /// Arena sizes, for tables indexed by id.
  size_t op_capacity() const { return ops_.size(); }
  size_t value_capacity() const { return values_.size(); }
  bool is_live(OpId id) const { return id && ops_[id.index].live; }

  /// Results of the Input ops, in order: the graph's inputs, or a region's parameters.
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  /// The value of that name, or none.
  ValueId find_value(std::string_view name) const;
  /// The live op of that name, or none.
  OpId find_op(std::string_view name) const;

  /// Axes that enclosing Chunks add after those of the place, outer first (C1). Empty at the top.
  Mesh time_axes;

 private:
  struct Node {
    Op op;
    OpId previous, next;
    bool live = true;
  };
  void link(OpId id, OpId before);
  void unlink(OpId id);
  void drop_use(ValueId value, Use use);

  std::vector<Node> ops_;
  std::vector<Value> values_;
  OpId first_, last_;
  size_t live_ = 0;
  std::vector<ValueId> inputs_;
  std::vector<Output> outputs_;
  std::unordered_map<std::string, uint32_t> value_names_, op_names_;
};

}  // namespace weftc
