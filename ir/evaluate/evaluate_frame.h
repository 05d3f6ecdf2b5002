// Internals of the reference evaluation. A Frame is one run of one graph. A region gets a frame of its own inside its
// op's (one for each chunk or iteration) and shares the locals of its captures by pointer.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/evaluate/evaluate_layout.h"
#include "ir/op_def.h"

namespace weftc {

/// State shared by all frames of one evaluation.
struct Evaluation {
  const Module& module;
  Observer observe;  // called with each value of the top graph, not of regions
  RandomState random;
  std::map<std::string, int64_t> lengths = {};  // of this run, by name
  std::string error = {};                       // the first error; once set, evaluation stops
};

/// The values of one run of one graph. Locals are over the place of the value's producer, at one point of time (`time`:
/// the coordinates of the enclosing Chunks).
class Frame {
 public:
  Frame(Evaluation& evaluation, const Graph& graph, Coordinates time);

  /// Binds a value to locals that outlive the frame, or to its own.
  void bind(ValueId value, const Locals* locals) { values_[value.index] = locals; }
  /// Gives the value locals of its own.
  void store(ValueId value, Locals locals);
  /// Binds a region's parameters to the same locals.
  void bind_inputs(const std::vector<const Locals*>& locals);
  /// Runs all ops except the inputs, in graph order. False after setting the error.
  bool run(bool observe);
  const Locals& locals(ValueId value) const { return *values_[value.index]; }
  const Locals& output(size_t i) const { return locals(graph_.outputs()[i].value); }

 private:
  /// Runs an op by its category: regions, collectives and transfers here, any other by its record's eval on
  /// each rank.
  bool run_op(const Op& op);
  /// Constants are created at their first use: all weights of a model at once need too much memory.
  bool make_constant(ValueId value);
  /// Frees operands that no later op reads.
  void release_operands(const Op& op);
  bool run_constant(const Op& op);
  bool run_local(const Op& op);
  /// One op on one rank: local operands, the op with local attributes, and the global index of each local
  /// element.
  bool run_rank(const Op& op, int rank, std::vector<Locals>& results);
  bool run_collective(const Op& op);
  /// From place to place: the value is assembled on the source's ranks and scattered over the target's.
  bool run_transfer(const Op& op);
  /// reshard_some at this point of time, of the ranks of a place.
  Locals reshard_now(const std::vector<const Tensor*>& ranks, PlaceId place, const TensorType& from,
                     const TensorType& to, ReduceOp varying) const;
  // evaluate_region.cpp
  bool run_region(const Op& op);
  bool run_fused(const Op& op);
  bool run_chunk(const Op& op);
  /// Binds the operands' parts of one chunk to the body.
  void bind_chunk(const Op& op, Frame& body) const;
  /// Joins the results of all chunks, or reduces them in order.
  bool join_chunks(const Op& op, size_t output, const std::vector<Locals>& chunks);
  bool run_if(const Op& op);
  bool run_loop(const Op& op);
  bool run_trip(const Op& op, int64_t trip, int64_t& condition, std::vector<Locals>& carried,
                std::vector<std::vector<Locals>>& scans);
  /// Stacks the elements that the iterations of a Loop produced for one scan output.
  bool store_scan(const Op& op, size_t output, const std::vector<Locals>& trips);
  /// The locals of the operands from number `first` on, which a region reads as its parameters.
  std::vector<const Locals*> captures(const Op& op, size_t first) const;
  /// The one number that all ranks hold; nothing after setting the error.
  std::optional<int64_t> agreed(const Op& op, ValueId value, const char* what);

  /// Sets the error unless one is set, and returns false.
  bool fail(const Op& op, const std::string& what);
  /// The axes of a place, then those of time: a chunk is one more coordinate of the mesh.
  Mesh mesh(PlaceId place) const { return run_.module.mesh(graph_, place); }
  Mesh rank_mesh(PlaceId place) const { return place ? run_.module.place(place).mesh : Mesh{}; }
  Coordinates coordinates(PlaceId place, int rank) const;
  /// The local dims of a result with its run-time lengths, which are checked against their bounds.
  std::optional<Dims> run_time_dims(const Op& op, const TensorType& type, const Mesh& mesh, const Coordinates& at);
  /// The whole length of a dimension in this run.
  int64_t global_extent(const Extent& extent) const;
  /// The global extents of a value; an unsliced run-time length has the local tensor's extent.
  Dims global_dims(const TensorType& type, const Mesh& mesh, const Dims& local) const;
  /// For each sliced dimension, the global indices that the rank holds, ascending; empty: all of them.
  void hold_indices(const TensorType& type, const Mesh& mesh, const Coordinates& at,
                    std::vector<std::vector<int64_t>>& held) const;

  Evaluation& run_;
  const Graph& graph_;
  Coordinates time_;
  std::vector<const Locals*> values_;
  std::vector<std::unique_ptr<Locals>> owned_;  // by value
  std::vector<size_t> readers_left_;            // by value: at 0 the memory is freed
};

}  // namespace weftc
