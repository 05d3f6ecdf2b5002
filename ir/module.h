// Everything of one compilation between the readers and the Plan: the graph, its constants, the places it runs on.
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

/// A node of the imported model, after inlining of local functions.
struct Origin {
  std::string name;     // the node's, or its first output's when it has none
  std::string op_type;  // as in the model
  int index = 0;        // position in the imported graph
  Loc loc;
  Phase phase = Phase::Forward;
};

/// An entry of the schedule as it will be cited: "fuse into far0".
struct Transform {
  std::string text;
  Loc loc;
};

/// An input and an output that are one buffer living across invocations.
struct State {
  std::string input;
  std::string output;
  Loc loc;
  ConstantId initial = {};  // its first value; none: zeros
  std::string of = {};      // what an optimizer keeps: the state of the parameter that it is about
};

/// When a block of a pipeline runs: for each micro-batch, or once in front of all of them or behind them.
enum class Turn : uint8_t { Before, MicroBatch, Behind };

/// The order in which blocks run micro-batches; each op carries the number of its block. A stage is one block, and in a
/// training one for each phase, and for what runs once.
struct Pipeline {
  struct Block {
    std::string name;
    int stage = 0;  // as the schedule lists them
    Phase phase = Phase::Forward;
    Turn turn = Turn::MicroBatch;
    bool of_weights = false;  // of a backward pass: only what no other stage waits for
  };
  struct Entry {
    int block;
    int micro_batch;
  };
  std::vector<Block> blocks;  // those that run once in this order
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
  std::vector<Place> places;  // place 0 is where ops without a better one live
  std::vector<Origin> origins;
  std::vector<Transform> transforms;
  std::vector<State> states;
  std::optional<Generation> generation;
  std::optional<Training> training;
  std::map<std::string, std::string> primals;  // of derivatives: the values that they are by
  std::optional<Pipeline> pipeline;
  /// Names of weights, values and nodes that became part of others, and of which: selectors of a schedule ask.
  std::map<std::string, std::vector<std::string>> folded;
  std::set<std::string> unread;      // names of values that were removed because nothing read them
  std::set<std::string> left_out;    // names that transforms would have made which have nothing to do on one rank
  std::vector<std::string> remarks;  // choices made by passes, for `explain`
  int64_t seed = 0;
  /// The lengths that only a run knows, by name: their bounds. The shapes of the inputs and states of a request say
  /// what they are, or the scalar of a NameLength.
  std::map<std::string, int64_t> lengths;
  std::vector<LengthRelation> relations;  // of them
  bool per_rank = false;                  // `view: per-rank`: inputs and outputs vary (L10)

  int world() const;  // 1 + the largest rank of any place
  const Place& place(PlaceId id) const { return places[id.index]; }
  /// The axes of the layouts of a place's values in a graph of this module (regions add time axes).
  Mesh mesh(const Graph& in, PlaceId place) const;
  /// The Constant's value was computed into `into` (a value's or a node's name): what a schedule that names it is told.
  /// Nothing happens for other values.
  void note_folded(const Graph& in, ValueId value, const std::string& into);
  /// The same of a value of any op: `into` stands for it and for the op.
  void note_replaced(const Graph& in, ValueId value, const std::string& into);
  /// True for an op of the backward pass of a training.
  bool is_backward(const Op& op) const;
  /// True for an op behind the forward pass of a training, where values are computed again: it shares no op, kernel or
  /// reshard with the forward pass.
  bool is_late(const Op& op) const;
  /// Where to point for an op: its first origin, else the transform that made it, else the model's file.
  Loc loc(const Op& op) const;
};

}  // namespace weftc
