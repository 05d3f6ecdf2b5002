// What goes into a rank's buffers before an invocation and comes out of them after the last: inputs, states, outputs.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lengths.h"
#include "options.h"
#include "ports.h"

namespace weft {

/// Where a rank's parts of one global tensor lie: one for each of its places that reads it.
using PortViews = std::vector<PortView>;

/// A rank's part of one global tensor, outside of the program's buffers, with the run-time lengths of its bounds.
struct Part {
  std::vector<char> bytes;       // of all views, one behind the other
  std::vector<int64_t> lengths;  // one for each bound of the layout
};

/// A whole tensor in memory.
struct WholeTensor {
  const char* name;
  std::vector<int64_t> shape;
  const char* elements;
};

class States;

/// The inputs of one variant as one rank has them (inputs.h). Of those that only others hold it knows the lengths.
class VariantInputs {
 public:
  VariantInputs(RankBase& rank, const Executable& variant, const Options& options);
  /// Reads files and draws random inputs, where they are not at hand.
  void load(int invocation);
  /// Takes this rank's part of a tensor, for the next upload.
  void give(const WholeTensor& tensor);
  /// Puts the inputs and the lengths of the request into their buffers (a program may have written over the inputs).
  /// Throws Failure (wrong input), with nothing changed, where lengths contradict each other or those of the states, or
  /// are beyond their limits.
  void upload(const States& states);

 private:
  struct Input {
    const Port& port;
    PortViews views;            // none: the rank holds no part
    std::string file;           // empty: random, or given
    bool is_random, is_filled;  // with random elements
    Part part;
  };
  void load_one(Input& input, int invocation);
  void settle(Input& input, LengthClaims& claims);
  void fill(Input& input) const;

  RankBase& rank_;
  uint64_t seed_;
  std::vector<Input> inputs_;
  int loaded_ = -1;
};

/// The states of one rank.
class States {
 public:
  /// Whether states that are written must be finite.
  enum class Finite : uint8_t { Any, Demanded };
  States(RankBase& rank, const Options& options);
  /// Puts the initial values into the buffers.
  void reset();
  /// The same for the only time: what came from files is forgotten.
  void begin();
  /// What lies in the buffers, and putting it there again.
  std::vector<Part> take();
  void put(const std::vector<Part>& parts);
  /// Puts this rank's parts of tensors into the buffers of these states. Throws Failure (wrong input), with nothing
  /// changed, where their lengths contradict each other or those of other states.
  void give(const std::vector<WholeTensor>& tensors);
  /// An invocation has made the next values, with the lengths that these have.
  void advance();
  /// What the states say of lengths; of those that nothing says, that they are at their bounds.
  void claim(LengthClaims& claims) const;
  void claim_bounds(LengthClaims& claims) const;
  /// How long a dimension of run-time length is.
  int64_t length(std::string_view name, int dim) const;
  /// The memory that poisoning leaves alone.
  std::vector<Range> ranges() const;

 private:
  struct StateTensor {
    std::vector<const Port*> ports;  // of each variant
    PortViews views;                 // of all of them; none: the rank holds no part
    std::optional<Part> from_file;   // none: it begins as its initialiser, or as zeros
    std::vector<int64_t> lengths;    // for each bound of the port
  };
  void set(StateTensor& state, const Part& part);
  void start(StateTensor& state);
  /// As the variant has it that runs.
  const Port& port_of(const StateTensor& state) const { return *state.ports[rank_.variant_number]; }

  RankBase& rank_;
  std::vector<StateTensor> states_;
};

/// Bytes that an input or output has at its bounds.
int64_t port_bytes(const Port& port);

/// All ranks: those that hold a part of the tensor give it, and rank 0 uses the whole. A state has the lengths that the
/// last invocation has left, or those that `states` says.
void gather_tensor(RankBase& rank, const Port& port, std::span<const Port> Program::*ports,
                   const std::function<void(const WholeTensor&)>& use, const States* states = nullptr);

/// Bytes of shared memory needed to assemble what the options ask for.
int64_t staging_bytes(const Executable& executable, const Options& options);

/// All ranks together: assembles outputs, or states; rank 0 writes the files.
void write_outputs(RankBase& rank, const Options& options);
/// Throws Failure (wrong input) where states have to be finite and one is not.
void write_states(RankBase& rank, const Options& options, const std::string& folder,
                  States::Finite finite = States::Finite::Any);

}  // namespace weft
