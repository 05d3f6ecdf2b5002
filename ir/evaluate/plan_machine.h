// The memories of all ranks of a Plan, and the execution of one step on them; evaluate_plan decides the order. A rank
// has two blocks of bytes: its own memory and the windows that peers access. A step reads tensors from them by the
// types of its parameters, computes with the reference evaluation, and writes bytes back at planned positions.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/evaluate/evaluate_frame.h"
#include "ir/plan.h"

namespace weftc {

class PlanMachine {
 public:
  explicit PlanMachine(const Plan& plan, int64_t invocation);

  /// Rows of a loop that go through all trips before the others, as on one thread of a rank.
  struct RowPart {
    const SharedRows* of = nullptr;
    std::vector<int64_t> first = {}, count = {};  // by axis
    std::map<std::string, int64_t> lengths = {};  // of the model
    /// Offset of the part in a launch's operand, in elements.
    int64_t offset(const Operand& operand) const;
  };
  /// A rank's position in time: the micro-batch if there are several, then the chunks of enclosing Fors; the trip of a
  /// Loop.
  struct Now {
    int micro_batch = 0;
    Coordinates time;
    int64_t trip = 0;
    RowPart rows = {};
  };
  /// Scatters an input over the ranks of its port, and records its run-time lengths.
  void load(const Port& port, const Tensor& global);
  /// The global tensor of a port, whose memory has this shape at present.
  Tensor assemble_port(const Port& port, const Shape& shape);
  /// Runs a kernel's body for one rank.
  void launch(int rank, const LaunchStep& step, const Now& now);
  /// Copies a buffer, or adds it to the total of a Chunk from the second chunk on.
  void copy(int rank, const CopyStep& step, const std::vector<Access>& accesses, const Now& now);
  /// Runs a collective for all ranks of the group at once.
  void exchange(const std::vector<int>& ranks, const CollectiveStep& step, const Now& now);
  /// Moves the messages of a transfer that this rank receives.
  void pull(int rank, const TransferTable& table, const Now& now);
  /// The run-time lengths of the model on a rank.
  std::map<std::string, int64_t> lengths_of(int rank);
  /// The one integer in a buffer: a length, a condition, a trip count.
  int64_t number(int rank, BufferId buffer, const Now& now);
  void put_number(int rank, BufferId buffer, int64_t value, const Now& now);

  std::string error;

 private:
  struct Rank {
    std::vector<std::byte> own, window;
    const Program* program = nullptr;
  };
  /// Maps the local tensor of a type to memory that is not sliced over some of its axes (it holds every chunk, or every
  /// rank's part). For each dim: the index in memory for each local index.
  struct Spread {
    Dims dims;                             // of the tensor
    std::vector<std::vector<int64_t>> at;  // by dim: index in the memory
    Dims strides;                          // of the memory
  };

  const Place& place(PlaceId id) const { return plan_.places[id.index]; }
  Coordinates place_coordinates(PlaceId id, int rank) const {
    return coordinates_of(place(id).mesh, place(id).index_of(rank));
  }
  /// The first byte of a buffer's instance: base + (chunk or micro-batch mod depth) * bytes (P5). With shared rows: the
  /// first byte of the part.
  std::byte* address(int rank, BufferId buffer, const Now& now);
  /// From `storage` it uses only the stripe and whether memory is by bounds (else it is dense).
  Spread spread(const TensorType& type, const std::vector<int>& whole, const Mesh& mesh, const Coordinates& at,
                const Dims& lengths, const Storage& storage) const;
  /// The same, given the shape and the lengths of the memory.
  Spread spread(const TensorType& type, TensorType memory, const Mesh& mesh, const Coordinates& at, const Dims& lengths,
                const Dims& room, const Storage& storage) const;
  Spread spread(const Parameter& parameter, const Mesh& mesh, const Coordinates& at,
                const std::map<std::string, int64_t>& known) const;
  static Spread whole(const Dims& dims);
  /// The part's rows of a buffer.
  Spread rows_of(BufferId buffer, const Now& now) const;
  /// The tensor that the spread describes, out of a rank's memory.
  Tensor read(int rank, BufferId buffer, const Spread& from, DType dtype, const Now& now);
  void write(int rank, BufferId buffer, const Spread& to, const Tensor& tensor, const Now& now);
  /// Checks that the elements of a spread are inside the buffer's instance.
  bool fits(BufferId buffer, const Spread& spread, DType dtype, const Now& now);
  /// The part of a weight that a rank reads, taken from the constant. Packing is not modelled; the packer has its own
  /// tests.
  Tensor weight_part(int rank, WeightId weight, const Spread& from, DType dtype, const Now& now);
  void load(const std::string& length, int64_t number);
  static Dims lengths_of(const Shape& shape, const std::map<std::string, int64_t>& known);
  std::map<std::string, int64_t> lengths_of(int rank, const LaunchStep& step, const Now& now);
  void read_operands(int runner, const LaunchStep& step, const Now& now, const std::map<std::string, int64_t>& known,
                     std::vector<Locals>& locals);
  /// Writes a kernel's results to the places that its parameters give.
  void store_results(int rank, const LaunchStep& step, const Now& now, const std::map<std::string, int64_t>& known,
                     Frame& frame);
  void store_gathered(int rank, const LaunchStep& step, size_t output, const Now& now,
                      const std::map<std::string, int64_t>& known, const Tensor& mine);

  const Plan& plan_;
  Module module_;  // places and constants for evaluating bodies
  int64_t invocation_;
  std::vector<Rank> ranks_;
  std::map<uint32_t, Locals> weights_;
};

}  // namespace weftc
