// The state of one compilation between the readers and the Plan: the graph, its constants, and its places.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/base/diag.h"
#include "ir/constants.h"
#include "ir/generation.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/length_relation.h"
#include "ir/training.h"

namespace weftc {

/// Where code runs: an ordered list of ranks with named axes (row-major: the last axis varies fastest).
struct Place {
  std::string name;
  std::vector<int> ranks;
  Mesh mesh;

  int size() const { return static_cast<int>(ranks.size()); }
  /// The position of a rank in the list; -1 if the place does not hold it.
  int index_of(int rank) const;
  bool holds(int rank) const { return index_of(rank) >= 0; }
};

/// A node of the imported model, after inlining of local functions; or its derivative, or the node computed again.
struct Origin {
  std::string name;     // the node's, or its first output's when it has none
  std::string op_type;  // as in the model
  int index = 0;        // position in the imported graph
  Loc loc;
  Phase phase = Phase::Forward;
  OriginId of = {};  // for a derivative, and for a node that is computed again: that node
};

/// An entry of the schedule as messages cite it: "fuse into far0".
struct Transform {
  std::string text;
  Loc loc;
};

/// An input and an output that share one buffer across invocations.
struct State {
  std::string input;
  std::string output;
  Loc loc;
  ConstantId initial = {};  // its first value; none: zeros
  std::string of = {};      // for an optimizer's state: the state of its parameter
};

/// When a block of a pipeline runs: for each micro-batch, or once before or after all of them.
enum class Turn : uint8_t { Before, MicroBatch, After };

/// The order in which blocks run micro-batches. Each op carries the number of its block. A stage is one block; in a
/// training, it has one block for each phase, and one for ops that run once.
struct Pipeline {
  struct Block {
    std::string name;
    int stage = 0;  // as the schedule lists them
    Phase phase = Phase::Forward;
    Turn turn = Turn::MicroBatch;
    bool of_weights = false;  // in a backward pass: only ops whose results no other stage waits for
  };
  struct Entry {
    int block;
    int micro_batch;
  };
  std::vector<Block> blocks;  // blocks that run once run in this order
  int micro_batches = 1;
  std::vector<Entry> order;  // one list for all ranks; each runs the entries of its places
  Loc loc;                   // of the order in the schedule
};

/// Moved from pass to pass, never shared. Ids are valid within one module only.
struct Module {
  std::string name;  // a C++ identifier made from the file's name
  std::string file;  // as the user named it
  Graph graph;
  Constants constants;
  std::vector<Place> places;  // ops without a better place are in place 0
  std::vector<Origin> origins;
  std::vector<Transform> transforms;
  std::vector<State> states;
  std::optional<Generation> generation;
  std::optional<Training> training;
  std::map<std::string, std::string> primals;  // for derivatives: the values that they are taken with respect to
  std::map<std::string, std::string> again;    // for values of the forward pass: their copies that are computed again
  std::optional<Pipeline> pipeline;
  /// Names of weights, values and nodes that became part of others, and the names of those. Selectors of a schedule
  /// look them up.
  std::map<std::string, std::vector<std::string>> folded;
  std::set<std::string> unread;      // names of values that were removed because they had no readers
  std::set<std::string> left_out;    // names that transforms would have made, but that have nothing to do on one rank
  std::vector<std::string> remarks;  // choices made by passes, for `explain`
  int64_t seed = 0;
  /// Named run-time lengths with their bounds. Their values come from the shapes of a request's inputs and states, or
  /// from the scalar of a NameLength.
  std::map<std::string, int64_t> lengths;
  std::vector<LengthRelation> relations;  // between these lengths
  bool per_rank = false;                  // `view: per-rank`: inputs and outputs vary (L10)

  int world() const;  // 1 + the largest rank of any place
  const Place& place(PlaceId id) const { return places[id.index]; }
  /// The axes of the layouts of a place's values in a graph of this module (regions add time axes).
  Mesh mesh(const Graph& in, PlaceId place) const;
  /// Records that the Constant's value was computed into `into` (a value's or a node's name), for a schedule that names
  /// it. Nothing happens for other values.
  void note_folded(const Graph& in, ValueId value, const std::string& into);
  /// The same for a value of any op: `into` stands for it and for the op.
  void note_replaced(const Graph& in, ValueId value, const std::string& into);
  /// The node that this one differentiates or computes again, perhaps through several others; else the node itself.
  OriginId forward_node(OriginId origin) const;
  /// True for an op of the backward pass of a training.
  bool is_backward(const Op& op) const;
  /// True for an op after the forward pass of a training with recomputation. It shares no op, kernel or reshard with
  /// the forward pass.
  bool is_late(const Op& op) const;
  /// Source position of an op for messages: its first origin, else the transform that made it, else the model's file.
  Loc loc(const Op& op) const;
};

}  // namespace weftc
