// The memories of all ranks of a Plan, and what one step does to them. Inside of evaluate_plan.
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

  /// Where a rank is in time: the micro-batch if there are several, then the chunks of enclosing Fors; the trip of a
  /// Loop.
  struct Now {
    int micro_batch = 0;
    Coordinates time;
    int64_t trip = 0;
  };
  void load(const Port& port, const Tensor& global);
  Tensor assemble_port(const Port& port);
  void launch(int rank, const LaunchStep& step, const Now& now);
  void copy(int rank, const CopyStep& step, const std::vector<Access>& accesses, const Now& now);
  /// All ranks of the group at once.
  void exchange(const std::vector<int>& ranks, const CollectiveStep& step, const Now& now);
  void pull(int rank, const TransferTable& table, const Now& now);
  int64_t number(int rank, BufferId buffer, const Now& now);
  void put_number(int rank, BufferId buffer, int64_t value, const Now& now);

  std::string error;

 private:
  struct Rank {
    std::vector<std::byte> own, window;
    const Program* program = nullptr;
  };
  /// How a local tensor of a type lies in memory that is whole over some axes.
  struct Spread {
    Dims dims;                             // of the tensor
    std::vector<std::vector<int64_t>> at;  // by dim: index in the memory
    Dims strides;                          // of the memory
  };

  const Place& place(PlaceId id) const { return plan_.places[id.index]; }
  Coordinates place_coordinates(PlaceId id, int rank) const {
    return coordinates_of(place(id).mesh, place(id).index_of(rank));
  }
  std::byte* address(int rank, BufferId buffer, const Now& now);
  Spread spread(const TensorType& type, const std::vector<int>& whole, const Mesh& mesh, const Coordinates& at,
                const Dims& lengths) const;
  Tensor read(int rank, BufferId buffer, const Spread& from, DType dtype, const Now& now);
  void write(int rank, BufferId buffer, const Spread& to, const Tensor& tensor, const Now& now);
  /// Elements of a buffer that a spread reaches must lie inside its instance.
  bool fits(BufferId buffer, const Spread& spread, DType dtype);
  Tensor weight_part(int rank, WeightId weight, const Spread& from, DType dtype);
  Dims lengths_of(int rank, const Kernel& kernel, const LaunchStep& step, const TensorType& type, const Now& now);
  void read_operands(int runner, const LaunchStep& step, const Now& now, std::vector<Locals>& locals);
  void store_results(int rank, const LaunchStep& step, const Now& now, Frame& frame);
  void store_gathered(int rank, const LaunchStep& step, size_t output, const Now& now, const Tensor& mine);

  const Plan& plan_;
  Module module_;  // places and constants, which evaluation of bodies asks for
  int64_t invocation_;
  std::vector<Rank> ranks_;
  std::map<uint32_t, Locals> weights_;
};

}  // namespace weftc
