// The data of a request that rank 0 passes to the other ranks. It lies in the memory that they share, after the staging
// memory of outputs.
//
//   | order | what each rank complains of | for each input: whether it is given, and its shape | elements of all inputs
//   |
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sampling.h"
#include "tensors.h"
#include "text_ports.h"

namespace weft {

/// The next action of all ranks.
struct Order {
  enum class Kind : int32_t { Run, Close, Stop, Save };
  Kind kind;
  int32_t session;  // its number; -1: the request is a session of its own
};

class RequestBoard {
 public:
  explicit RequestBoard(const Executable& executable, char* memory = nullptr);
  /// The memory it needs.
  int64_t bytes() const { return end_; }

  Order& order() const { return *reinterpret_cast<Order*>(memory_); }
  /// When a rank complains. One rank may run already while another still checks for complaints about the inputs.
  enum class Phase { Load, Run };
  /// The text of a rank's complaint, of RankBase::kComplaintBytes; empty: no complaint.
  char* complaint(Phase phase, int rank) const;
  /// The first complaint of any rank.
  std::string first_complaint(Phase phase) const;

  /// Inputs and states, each name once. In a generation, the prompt and the settings replace the inputs that it feeds.
  const std::vector<const Port*>& ports() const { return ports_; }
  /// The index of the port with this name. Throws Failure (wrong input) that lists all names.
  size_t find(const std::string& name) const;
  /// How many of them are inputs and states of the program: the first ones.
  size_t inputs() const { return inputs_; }
  /// Whether every request must give it: it is neither a state nor a setting.
  bool is_required(size_t port) const;
  void clear() const;
  /// The same, except for prompt and settings.
  void clear_inputs() const;
  void give(size_t port, const std::vector<int64_t>& shape, const char* elements) const;
  bool is_given(size_t port) const { return given(port).is_given; }
  WholeTensor tensor(size_t port) const;
  /// For a generation: the index of the prompt's port, and the given settings by name. Throws Failure (wrong input) for
  /// one that is out of range.
  size_t prompt() const { return inputs_; }
  std::map<std::string, double> settings() const;

 private:
  struct Given {
    bool is_given;
    int64_t shape[kMaxPortDims + 1];  // with the leading dimension of copies
  };
  Given& given(size_t port) const {
    return *reinterpret_cast<Given*>(memory_ + given_ + int64_t(port * sizeof(Given)));
  }

  const Executable& executable_;
  const int ranks_;
  char* const memory_;
  std::shared_ptr<const TextPorts> text_;  // of a generation
  std::vector<const Port*> ports_;
  size_t inputs_;
  int64_t complaints_, given_, end_;
  std::vector<int64_t> elements_;  // offset of each port's elements
};

}  // namespace weft
