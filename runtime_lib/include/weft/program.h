// Declarations of an emitted program: plain constant data, the same for every target.
#pragma once
#include <initializer_list>
#include <span>

#include "weft/level.h"
#include "weft/types.h"

namespace weft {

template <class T>
constexpr int64_t next_segment(Weight<T> last) {
  return round_up(last.end(), kPage);
}

/// The weights of an image up to `end` that are sliced alike. They begin at the end of the previous segment, rounded up
/// to a page. The weights file holds one page-aligned slice for each index of `sliced`, in order, from byte `file` on.
/// -1: right after the slices of the previous segment. A rank's image is the concatenation of its slices of all
/// segments of its program.
struct Segment {
  int64_t end;
  Group sliced = {};
  int64_t file = -1;
};

/// A sequence of steps that one host thread runs in order. A parallel stream has a team of all --threads threads, any
/// other only its own thread. All programs of an executable number their streams alike.
struct Stream {
  const char* name;
  bool parallel = false;
};

inline constexpr int kNoLayer = -1;

/// A step, as named in traces and time-outs: its ONNX nodes, and the transform of the schedule that shaped it. In a
/// loop over layers the texts are shared by all layers, with "{layer}" for the number.
struct Step {
  int stream;
  const char* name;
  const char* nodes;
  const char* transform = "";
  int layer = kNoLayer;
};

/// The work of a pipeline block: a part of a training step, or all of an inference (Forward). Once: before or after all
/// micro-batches.
enum class Pass : uint8_t { Forward, Backward, Weight, Once };

/// A block of a pipeline as it runs, for traces.
struct BlockRun {
  const char* block = nullptr;  // none: there is no pipeline
  Pass pass = Pass::Forward;
  int micro_batch = 0;
};

inline constexpr int kMaxPortDims = 8;

struct Shape {
  int64_t dims[kMaxPortDims] = {};
  int ndim = 0;
  constexpr Shape(std::initializer_list<int64_t> list) {
    for (int64_t d : list) dims[ndim++] = d;
  }
  constexpr int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= dims[i];
    return n;
  }
};

/// S(dim, block) over a group taken as one axis of size n: coordinate i / block % n holds index i. The slice is ragged
/// if block * n does not divide the extent, or if the dimension has a run-time length. Then block = ceil(extent / n),
/// and the buffer has room for a whole block.
struct Slice {
  int dim;
  int64_t block;
  Group group;
};

/// A length that is one of a request's named lengths or computed from them. They are in the order of
/// Executable::lengths.
struct Length {
  int name = -1;
  int64_t (*computed)(const int64_t* lengths) = nullptr;
  constexpr Length(int n) : name(n) {}
  template <class Function>
  constexpr Length(Function f) : computed(f) {}
  int64_t operator()(const int64_t* lengths) const { return name < 0 ? computed(lengths) : lengths[name]; }
};

/// A dimension whose length is known at run time only. The extent in the shape is the bound, and the buffer has room
/// for it. Inputs and states define the named lengths.
struct Bound {
  int dim;
  Length length;
  std::span<const int64_t> values = {};  // the allowed lengths; empty: all up to the bound
};

/// The memory from which the kernels of a program read a named length.
struct LengthSlot {
  int name;
  Own<int64_t> at;
  bool is_made = false;  // a step computes it; else it is written before the first step
};

/// Limits of a length of a request. In messages, `what` names the dimension that has this length.
struct LengthLimit {
  const char* what;
  Length length;
  int64_t least, most;
  bool is_made = false;  // whether a step computes the length: it is checked after the invocation
};

enum class Relation : uint8_t { Equal, AtMost };

/// A relation between two lengths of a request that the model requires. In messages, `what` names the node that
/// requires it, and the texts name the lengths.
struct LengthDemand {
  const char* what;
  const char* left_text;
  Length left;
  Relation relation;
  const char* right_text;
  Length right;
  bool is_made = false;  // whether a step computes the length: it is checked after the invocation
  Length where = [](const int64_t*) { return int64_t{1}; };  // 0: the relation need not hold for these lengths
};

/// How the ranks of one program hold a global tensor.
struct Layout {
  std::span<const Slice> slices = {};  // none: replicated
  Group per_rank = {};                 // V: unrelated copies, the .npy file has a leading dimension of the group's size
  std::span<const Bound> bounds = {};
  std::span<const int> ranks = {};  // the ranks of the program that hold it; empty: all
  /// Whether strides follow from the bounds; else from the lengths, so that the tensor is dense.
  bool by_bounds = false;
  int64_t initial = -1;  // a state's initialiser: offset of its local slice in the image; -1: zero
};

/// A global input or output and the buffer that holds this rank's part, row-major. An input that several places use is
/// listed once for each. An output that several programs hold is listed in each of them.
struct Port {
  const char* name;
  DType dtype;
  Shape shape;  // global, without the leading dimension of per_rank
  bool in_window;
  int64_t offset;
  Layout layout;
  template <class T>
  constexpr Port(const char* n, Shape s, Own<T> b, Layout l = {})
      : name(n), dtype(dtype_of<T>()), shape(s), in_window(false), offset(b.offset), layout(l) {}
  template <class T>
  constexpr Port(const char* n, Shape s, Window<T> b, Layout l = {})
      : name(n), dtype(dtype_of<T>()), shape(s), in_window(true), offset(b.offset), layout(l) {}
};

/// An input and an output of equal type and layout that are one state across invocations. It starts from zero, the
/// port's initialiser, or --load-state. The program leaves the next value in the input's buffer: it updates the buffer
/// in place, or copies the value in its last steps.
struct State {
  const char* input;
  const char* output;
};

/// How the next token is chosen from its logits.
struct Sampling {
  int64_t max_new = 1;     // tokens of one generation
  double temperature = 0;  // 0: the largest logit is taken; else logits are divided by it
  int64_t top_k = 0;       // only this many of the most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens whose probabilities add up to this
  int64_t seed = 0;
};

/// A loop over tokens: the program is fed a prompt, and then each token that is chosen from its last logits.
struct Generation {
  const char* tokens;               // input [batch, length]
  const char* logits;               // output [batch, length, vocabulary], or without the length: of the last token
  const char* positions = nullptr;  // input [batch, length] or [length]: each token's index in the text
  const char* mask = nullptr;       // input [batch, tokens of the text so far], all ones
  const char* past = nullptr;       // state that holds the tokens fed so far; none: the whole text is fed each time
  int past_dim = 0;                 // the dimension that grows by one for each token; -1: the size is fixed
  int64_t room;                     // the longest text that can be fed
  std::span<const int64_t> end = {};
  Sampling sampling = {};  // the default
};

/// Outputs of one training step, each a scalar. The states are the parameters and the optimizer's state.
struct Training {
  const char* loss;
  const char* rate;
  const char* optimizer;                      // its name
  const char* norm = nullptr;                 // the norm of all gradients together
  std::span<const char* const> figures = {};  // other requested scalars
  std::span<const char* const> updates = {};  // other scalars, which an evaluation does not have
  const char* evaluates = nullptr;            // a boolean input: whether the invocation is an evaluation
  int64_t random_seed = 0;                    // the seed of the model's random operators
};

class Rank;

/// The program that the ranks of one class run.
struct Program {
  std::span<const int> ranks = {};  // empty: all
  std::span<const Stream> streams = {};
  std::span<const Port> inputs = {}, outputs = {};
  std::span<const Segment> weights = {};
  std::span<const LengthSlot> lengths = {};
  int64_t own_bytes = 0, window_bytes = 0;
  int signals = 0;               // end of the last Signal or Transfer
  void (*run)(Rank&) = nullptr;  // one iteration: every step in issue order; each stream's thread walks all of it
  constexpr int64_t image_bytes() const { return weights.empty() ? 0 : round_up(weights.back().end, kPage); }
};

struct Executable;

/// The lengths of a model's dim for which a variant is compiled: one length, or all up to a bound.
struct DimValue {
  const char* name;
  int64_t value;
  bool is_bound = false;
};

/// One of several programs in an executable, each for other lengths of the model's dims. Variants share weights, states
/// and communicators. Each request is run by one of them.
struct Variant {
  const char* name;  // "seq=128"
  std::span<const DimValue> dims;
  const Executable* executable;
};

struct Executable {
  const char* name;
  int world = 1;                    // ranks
  std::span<const Axis> axes = {};  // of all places, for --info
  std::span<const Program> programs = {};
  std::span<const State> states = {};
  std::span<const char* const> lengths = {};  // names of the lengths that each request sets
  std::span<const LengthLimit> limits = {};
  std::span<const LengthDemand> demands = {};
  const Generation* generation = nullptr;
  const Training* training = nullptr;
  bool has_pairs = false;  // whether a kernel multiplies pairs of bfloat16, which AVX512-BF16 sums with other rounding
  std::span<const Variant> variants = {};  // small before large; if there are any, only these are declared
};

/// The command line of an emitted program: starts or joins the ranks, loads inputs, runs, writes outputs. `level` is
/// the CPU level that it is compiled for.
int main(const Executable& executable, int argc, char** argv, Level level = kLevel);
/// The same for a program that is compiled for several levels of CPUs, from low to high.
int main(std::span<const LevelProgram> programs, int argc, char** argv);

}  // namespace weft
