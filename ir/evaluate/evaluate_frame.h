// Inside of the reference evaluation: one Frame a graph being run, a region's inside its op's.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ir/evaluate/evaluate_layout.h"
#include "ir/op_def.h"

namespace weftc {

/// What all frames of one evaluation share.
struct Evaluation {
  const Module& module;
  Observer observe;  // called with each value of the graph that is not a region
  RandomState random;
  std::string error = {};  // the first one; set: everything stops
};

/// The values of one run of one graph. Locals are over the place of the value's producer, at one point of time (`time`:
/// the coordinates of the enclosing Chunks).
class Frame {
 public:
  Frame(Evaluation& evaluation, const Graph& graph, Coordinates time);

  /// Binds a value to locals that outlive the frame, or to its own.
  void bind(ValueId value, const Locals* locals) { values_[value.index] = locals; }
  void store(ValueId value, Locals locals);
  /// Binds a region's parameters to the same locals.
  void bind_inputs(const std::vector<const Locals*>& locals);
  /// Runs all ops but the inputs. False after setting the error.
  bool run(bool observe);
  const Locals& locals(ValueId value) const { return *values_[value.index]; }
  const Locals& output(size_t i) const { return locals(graph_.outputs()[i].value); }

 private:
  bool run_op(const Op& op);
  /// Constants are made where they are read first: all weights of a model at once are too much.
  bool make_constant(ValueId value);
  bool make_constants(const Op& op);
  void release_operands(const Op& op);
  bool run_constant(const Op& op);
  bool run_local(const Op& op);
  bool run_rank(const Op& op, int rank, std::vector<Locals>& results);
  bool run_collective(const Op& op);
  bool run_transfer(const Op& op);
  /// reshard_some at this point of time, of the ranks of a place.
  Locals reshard_now(const std::vector<const Tensor*>& ranks, PlaceId place, const TensorType& from,
                     const TensorType& to, ReduceOp varying) const;
  // evaluate_region.cpp
  bool run_region(const Op& op);
  bool run_fused(const Op& op);
  bool run_chunk(const Op& op);
  void bind_chunk(const Op& op, Frame& body) const;
  bool join_chunks(const Op& op, size_t output, const std::vector<Locals>& chunks);
  bool run_if(const Op& op);
  bool run_loop(const Op& op);
  bool run_trip(const Op& op, int64_t trip, int64_t& condition, std::vector<Locals>& carried,
                std::vector<std::vector<Locals>>& scans);
  bool store_scan(const Op& op, size_t output, const std::vector<Locals>& trips);
  std::vector<const Locals*> captures(const Op& op, size_t first) const;
  /// The one number that all ranks hold; nothing after setting the error.
  std::optional<int64_t> agreed(const Op& op, ValueId value, const char* what);

  bool fail(const Op& op, const std::string& what);
  /// The place's axes, then those of time.
  Mesh mesh(PlaceId place) const { return run_.module.mesh(graph_, place); }
  Mesh rank_mesh(PlaceId place) const { return place ? run_.module.place(place).mesh : Mesh{}; }
  Coordinates coordinates(PlaceId place, int rank) const;
  /// The run-time length that a value counts, which may be read from the counted value itself; none: not known yet.
  std::optional<int64_t> length_of(ValueId count, int rank) const;
  std::optional<Dims> run_time_dims(const Op& op, const TensorType& type, const Mesh& mesh, const Coordinates& at,
                                    int rank);
  void hold_indices(const TensorType& type, const Mesh& mesh, const Coordinates& at,
                    std::vector<std::vector<int64_t>>& held) const;

  Evaluation& run_;
  const Graph& graph_;
  Coordinates time_;
  std::vector<const Locals*> values_;
  std::vector<std::unique_ptr<Locals>> owned_;  // by value
  std::vector<size_t> readers_left_;            // by value: memory is given back behind the last one
};

}  // namespace weftc
