// The memories of all ranks of a Plan, and what one step does to them. Inside of evaluate_plan, which decides
// the order. A rank has two blocks of bytes, its own memory and the windows that peers reach; a step reads
// tensors out of them by the types of its parameters, computes with the reference evaluation, and writes bytes
// back at the positions that planning chose.
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

  /// Rows of a loop that are taken through all trips before the others, as one thread of a rank does.
  struct RowPart {
    const SharedRows* of = nullptr;
    std::vector<int64_t> first = {}, count = {};  // by axis
    std::map<std::string, int64_t> lengths = {};  // of the model
    /// Where the part begins in what a launch reads or writes, in elements.
    int64_t offset(const Operand& operand) const;
  };
  /// Where a rank is in time: the micro-batch if there are several, then the chunks of enclosing Fors; the trip of a
  /// Loop.
  struct Now {
    int micro_batch = 0;
    Coordinates time;
    int64_t trip = 0;
    RowPart rows = {};
  };
  /// Scatters an input over the ranks of its port, and notes the run-time lengths that it has.
  void load(const Port& port, const Tensor& global);
  /// The global tensor of a port, whose memory has this shape now.
  Tensor assemble_port(const Port& port, const Shape& shape);
  /// Runs a kernel's body for one rank.
  void launch(int rank, const LaunchStep& step, const Now& now);
  /// Copies a buffer, or adds it to the total of a Chunk from the second chunk on.
  void copy(int rank, const CopyStep& step, const std::vector<Access>& accesses, const Now& now);
  /// All ranks of the group at once.
  void exchange(const std::vector<int>& ranks, const CollectiveStep& step, const Now& now);
  /// Moves the messages of a transfer that this rank receives.
  void pull(int rank, const TransferTable& table, const Now& now);
  /// The run-time lengths of the model, as a rank has them.
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
  /// How the local tensor of a type lies in memory that is not sliced over some of its axes (it holds every
  /// chunk, or every rank's part): by dim, the index in the memory of each local index.
  struct Spread {
    Dims dims;                             // of the tensor
    std::vector<std::vector<int64_t>> at;  // by dim: index in the memory
    Dims strides;                          // of the memory
  };

  const Place& place(PlaceId id) const { return plan_.places[id.index]; }
  Coordinates place_coordinates(PlaceId id, int rank) const {
    return coordinates_of(place(id).mesh, place(id).index_of(rank));
  }
  /// The first byte of a buffer's instance: base + (chunk or micro-batch mod depth) * bytes (P5). Of rows that are
  /// shared: of the first of the part.
  std::byte* address(int rank, BufferId buffer, const Now& now);
  /// Of the storage, whether it is by bounds (else the memory is as dense as the lengths let it be), and the stripe.
  Spread spread(const TensorType& type, const std::vector<int>& whole, const Mesh& mesh, const Coordinates& at,
                const Dims& lengths, const Storage& storage) const;
  /// The same with the shape and the lengths that the memory has.
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
  /// Elements of a buffer that a spread reaches must lie inside its instance.
  bool fits(BufferId buffer, const Spread& spread, DType dtype, const Now& now);
  /// The part of a weight that a rank reads, from the constant: packing is the packer's, and tested there.
  Tensor weight_part(int rank, WeightId weight, const Spread& from, DType dtype, const Now& now);
  void load(const std::string& length, int64_t number);
  static Dims lengths_of(const Shape& shape, const std::map<std::string, int64_t>& known);
  std::map<std::string, int64_t> lengths_of(int rank, const LaunchStep& step, const Now& now);
  void read_operands(int runner, const LaunchStep& step, const Now& now, const std::map<std::string, int64_t>& known,
                     std::vector<Locals>& locals);
  /// Writes a kernel's results, each where its parameter says.
  void store_results(int rank, const LaunchStep& step, const Now& now, const std::map<std::string, int64_t>& known,
                     Frame& frame);
  void store_gathered(int rank, const LaunchStep& step, size_t output, const Now& now,
                      const std::map<std::string, int64_t>& known, const Tensor& mine);

  const Plan& plan_;
  Module module_;  // places and constants, which evaluation of bodies asks for
  int64_t invocation_;
  std::vector<Rank> ranks_;
  std::map<uint32_t, Locals> weights_;
};

}  // namespace weftc
