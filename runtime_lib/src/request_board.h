// What rank 0 tells the other ranks of a request: it lies in the memory that they share, behind the place where outputs
// are assembled.
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

/// What all ranks do next.
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
  /// When a rank complains. One rank may run already while another still looks for complaints about what was given.
  enum class Phase { Load, Run };
  /// The text of a rank's complaint, of RankBase::kComplaintBytes; empty: none.
  char* complaint(Phase phase, int rank) const;
  /// The first complaint of any rank.
  std::string first_complaint(Phase phase) const;

  /// Inputs and states, each name once; of a generation the prompt and the settings take the place of the inputs that
  /// it feeds.
  const std::vector<const Port*>& ports() const { return ports_; }
  /// The one of this name. Throws Failure (wrong input) that lists those there are.
  size_t find(const std::string& name) const;
  /// How many of them are inputs and states of the program: the first ones.
  size_t inputs() const { return inputs_; }
  /// A request says it: it is no state and no setting.
  bool is_required(size_t port) const;
  void clear() const;
  /// The same, but for prompt and settings.
  void clear_inputs() const;
  void give(size_t port, const std::vector<int64_t>& shape, const char* elements) const;
  bool is_given(size_t port) const { return given(port).is_given; }
  WholeTensor tensor(size_t port) const;
  /// Of a generation: the number of the prompt's port, and the settings that are given, by name. Throws Failure (wrong
  /// input) for one that is out of range.
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
  std::vector<int64_t> elements_;  // where those of each port begin
};

}  // namespace weft
