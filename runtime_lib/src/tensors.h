// Transfers between files and a rank's buffers: inputs before an invocation, states before the first and after the
// last, outputs after the last.
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

/// A rank's parts of one global tensor: one for each of its places that reads it.
using PortViews = std::vector<PortView>;

/// A rank's part of one global tensor, outside of the program's buffers, with the run-time lengths of its bounds.
struct Part {
  std::vector<char> bytes;       // of all views, contiguous
  std::vector<int64_t> lengths;  // one for each bound of the layout
};

/// A whole tensor in memory.
struct WholeTensor {
  const char* name;
  std::vector<int64_t> shape;
  const char* elements;
};

class States;

/// The inputs of one variant on one rank (inputs.h). It knows the lengths also of inputs that only other ranks hold.
class VariantInputs {
 public:
  VariantInputs(RankBase& rank, const Executable& variant, const Options& options);
  /// Reads files and draws random inputs, if it does not have them yet.
  void load(int invocation);
  /// Takes this rank's part of a tensor, for the next upload.
  void give(const WholeTensor& tensor);
  /// Puts the inputs and the lengths of the request into their buffers (a program may have written over the inputs).
  /// Throws Failure (wrong input), with nothing changed, if lengths contradict each other or the states, or exceed
  /// their limits.
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
  /// The same, if it is called only once: frees the values from files.
  void begin();
  /// Copies the states out of the buffers, and back into them.
  std::vector<Part> take();
  void put(const std::vector<Part>& parts);
  /// Puts this rank's parts of tensors into the buffers of these states. Throws Failure (wrong input), with nothing
  /// changed, if their lengths contradict each other or other states.
  void give(const std::vector<WholeTensor>& tensors);
  /// Called when an invocation has computed the next values; takes over their lengths.
  void advance();
  /// Adds the lengths of the states to the claims. claim_bounds sets lengths that nothing has claimed to their bounds.
  void claim(LengthClaims& claims) const;
  void claim_bounds(LengthClaims& claims) const;
  /// The current length of a run-time dimension.
  int64_t length(std::string_view name, int dim) const;
  /// The memory that poisoning must not touch.
  std::vector<Range> ranges() const;

 private:
  struct StateTensor {
    std::vector<const Port*> ports;  // of each variant
    PortViews views;                 // of all of them; none: the rank holds no part
    std::optional<Part> from_file;   // none: it starts from its initialiser, or from zeros
    std::vector<int64_t> lengths;    // for each bound of the port
  };
  void set(StateTensor& state, const Part& part);
  void start(StateTensor& state);
  /// The port in the variant that runs.
  const Port& port_of(const StateTensor& state) const { return *state.ports[rank_.variant_number]; }

  RankBase& rank_;
  std::vector<StateTensor> states_;
};

/// Bytes that an input or output has at its bounds.
int64_t port_bytes(const Port& port);

/// All ranks call it: ranks that hold a part of the tensor send it, and rank 0 calls `use` with the whole. A state has
/// the lengths after the last invocation, or those in `states`.
void gather_tensor(RankBase& rank, const Port& port, std::span<const Port> Program::*ports,
                   const std::function<void(const WholeTensor&)>& use, const States* states = nullptr);

/// Bytes of shared memory needed to assemble the tensors that the options request.
int64_t staging_bytes(const Executable& executable, const Options& options);

/// All ranks call these: they assemble outputs, or states, and rank 0 writes the files.
void write_outputs(RankBase& rank, const Options& options);
/// Throws Failure (wrong input) if states have to be finite and one is not.
void write_states(RankBase& rank, const Options& options, const std::string& folder,
                  States::Finite finite = States::Finite::Any);

}  // namespace weft
