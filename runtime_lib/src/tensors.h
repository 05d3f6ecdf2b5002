// What goes into a rank's buffers before an invocation and comes out of them after the last: inputs, states, outputs.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "ports.h"

namespace weft {

/// A rank's part of one global tensor, outside of the program's buffers, with the run-time lengths of its bounds.
struct Part {
  std::vector<char> bytes;
  std::vector<int64_t> lengths;  // one for each bound of the layout
};

/// The length of a bounded dimension: where it lies, and the tensor that says it.
struct Length {
  int64_t offset, value;
  const char* name;
};

/// A whole tensor in memory.
struct WholeTensor {
  const char* name;
  std::vector<int64_t> shape;
  const char* elements;
};

/// The inputs of one rank.
class Inputs {
 public:
  Inputs(RankBase& rank, const Options& options);
  /// Reads files and draws random inputs, where they are not at hand.
  void load(int invocation);
  /// Takes this rank's part of a tensor, for the next upload.
  void give(const WholeTensor& tensor);
  /// Puts the inputs into their buffers (a program may have written over them). `known`: what the states say of lengths
  /// that they share with inputs. Throws Failure (wrong input), with nothing changed, where lengths contradict.
  void upload(std::vector<Length> known);
  /// Whether the length of a dimension of some input lies there.
  bool have_length_at(int64_t offset) const;

 private:
  struct Input {
    PortView view;
    std::string file;           // empty: random, or given
    bool is_random, is_filled;  // with random elements
    Part part;
  };
  void load_one(Input& input, int invocation);
  static void agree(Input& input, std::vector<Length>& known);
  void fill(Input& input) const;

  RankBase& rank_;
  uint64_t seed_;
  std::vector<Input> inputs_;
  int loaded_ = -1;
};

/// The states of one rank.
class States {
 public:
  States(RankBase& rank, const Options& options);
  /// Puts the initial values into the buffers.
  void reset();
  /// What lies in the buffers, and putting it there again.
  std::vector<Part> take();
  void put(const std::vector<Part>& parts);
  /// Puts this rank's parts of tensors into the buffers of these states. Throws Failure (wrong input), with nothing
  /// changed, where their lengths contradict each other or those of other states.
  void give(const std::vector<WholeTensor>& tensors);
  /// What the next iteration reads, of the lengths that `inputs` share with states: the others need not leave the
  /// device.
  std::vector<Length> lengths(const Inputs& inputs) const;
  /// The memory that poisoning leaves alone.
  std::vector<Range> ranges() const;

 private:
  struct StateTensor {
    PortView view;
    Part initial;
  };
  RankBase& rank_;
  std::vector<StateTensor> states_;
};

/// Bytes that an input or output has at its bounds.
int64_t port_bytes(const Port& port);

/// All ranks: those that hold a part of the tensor give it, and rank 0 uses the whole.
void gather_tensor(RankBase& rank, const Port& port, std::span<const Port> Program::*ports,
                   const std::function<void(const WholeTensor&)>& use);

/// Bytes of shared memory needed to assemble what the options ask for.
int64_t staging_bytes(const Executable& executable, const Options& options);

/// All ranks together: assembles outputs and states; rank 0 writes the files.
void write_tensors(RankBase& rank, const Options& options);

}  // namespace weft
