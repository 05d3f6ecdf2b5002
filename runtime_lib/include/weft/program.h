// What an emitted program declares about itself: plain constant data, the same for every target.
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

/// The weights of an image up to `end` (from the end of the segment before, rounded up to a page) that are sliced
/// alike. The weights file holds one page-aligned slice for each index of `sliced`, in order, from byte `file` on (-1:
/// right behind the slices of the segment before). A rank's image is its slice of every segment of its program, one
/// behind the other.
struct Segment {
  int64_t end;
  Group sliced = {};
  int64_t file = -1;
};

/// One ordered line of steps = one host thread. A parallel stream has a team of all --threads threads, any other only
/// its own thread. Streams have one numbering in all programs of an executable.
struct Stream {
  const char* name;
  bool parallel = false;
};

inline constexpr int kNoLayer = -1;

/// A step, as named in traces and time-outs: its ONNX nodes, and the transform of the schedule that shaped it. In a
/// loop over layers these are the texts of all layers, with "{layer}" for the number.
struct Step {
  int stream;
  const char* name;
  const char* nodes;
  const char* transform = "";
  int layer = kNoLayer;
};

/// What a block of a pipeline does: a part of a step of a training, or all of an inference (Forward). Once: in front of
/// the micro-batches or behind them.
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

/// S(dim, block) over a group taken as one axis of size n: index i lives at coordinate i / block % n. Ragged if block *
/// n does not divide the extent, or the dimension has a run-time length: then block = ceil(extent / n), and the buffer
/// has room for a whole block.
struct Slice {
  int dim;
  int64_t block;
  Group group;
};

/// A length in terms of the named ones of a request, which stand in the order of Executable::lengths: one of them, or
/// computed from them.
struct Length {
  int name = -1;
  int64_t (*computed)(const int64_t* lengths) = nullptr;
  constexpr Length(int n) : name(n) {}
  template <class Function>
  constexpr Length(Function f) : computed(f) {}
  int64_t operator()(const int64_t* lengths) const { return name < 0 ? computed(lengths) : lengths[name]; }
};

/// A dimension whose length is known at run time only: the extent in the shape is the bound, and the buffer has room
/// for it. Inputs and states have named lengths, and say what these are.
struct Bound {
  int dim;
  Length length;
  std::span<const int64_t> values = {};  // the lengths there are; empty: all up to the bound
};

/// Where the kernels of a program read a named length.
struct LengthSlot {
  int name;
  Own<int64_t> at;
  bool is_made = false;  // by a step; else it lies there before the first
};

/// What a length of a request may be; `what` is how a message names that which has it.
struct LengthLimit {
  const char* what;
  Length length;
  int64_t least, most;
  bool is_made = false;  // of a length that a step makes: looked at behind the invocation
};

enum class Relation : uint8_t { Equal, AtMost };

/// What the model demands of two lengths of a request. `what` is how a message names that which demands it, the texts
/// how it names the lengths.
struct LengthDemand {
  const char* what;
  const char* left_text;
  Length left;
  Relation relation;
  const char* right_text;
  Length right;
  bool is_made = false;  // of a length that a step makes: looked at behind the invocation
  Length where = [](const int64_t*) { return int64_t{1}; };  // 0: it is not demanded of these lengths
};

/// How the ranks of one program hold a global tensor.
struct Layout {
  std::span<const Slice> slices = {};  // none: replicated
  Group per_rank = {};                 // V: unrelated copies, the .npy file has a leading dimension of the group's size
  std::span<const Bound> bounds = {};
  std::span<const int> ranks = {};  // of the program's ranks, those that hold it; empty: all
  /// Whether bounded dimensions take the room of their bounds; else the lengths lie as dense as those of any tensor.
  bool by_bounds = false;
  int64_t initial = -1;  // a state's initialiser: offset of its local slice in the image; -1: zero
};

/// A global input or output and the buffer that holds this rank's part, row-major. An input that several places use is
/// listed once for each; an output that several programs hold is listed in each.
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
/// port's initialiser, or --load-state. The program leaves the next value in the input's buffer: it updates it there,
/// or its last steps copy it.
struct State {
  const char* input;
  const char* output;
};

/// How the next token is chosen from its logits.
struct Sampling {
  int64_t max_new = 1;     // tokens of one generation
  double temperature = 0;  // 0: the largest logit is taken; else logits are divided by it
  int64_t top_k = 0;       // only so many of the most likely tokens; 0: all
  double top_p = 1;        // only the most likely tokens that have this probability together
  int64_t seed = 0;
};

/// A loop over tokens: the program is fed a prompt and then, again and again, what is chosen from its last logits.
struct Generation {
  const char* tokens;               // input [batch, length]
  const char* logits;               // output [batch, length, vocabulary], or without the length: of the last token
  const char* positions = nullptr;  // input [batch, length] or [length], where each token stands in the text
  const char* mask = nullptr;       // input [batch, tokens of the text so far], all ones
  const char* past = nullptr;       // state that holds the tokens fed so far; none: the whole text is fed each time
  int past_dim = 0;                 // in which it grows by a row for each token; -1: its size is fixed
  int64_t room;                     // the longest text that can be fed
  std::span<const int64_t> end = {};
  Sampling sampling = {};  // where nobody asks for another one
};

/// Outputs of one step of a training, each a number. States are the parameters and what the optimizer keeps of them.
struct Training {
  const char* loss;
  const char* rate;
  const char* optimizer;                      // the function that it is
  const char* norm = nullptr;                 // of all gradients together
  std::span<const char* const> figures = {};  // others that are asked for
  std::span<const char* const> updates = {};  // others that an evaluation has not
  const char* evaluates = nullptr;            // an input: whether the invocation is an evaluation
  int64_t random_seed = 0;                    // of what the model draws
};

class Rank;

/// What the ranks of one class run.
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

/// What a variant is compiled for: one length of a dim of the model, or all up to a bound.
struct DimValue {
  const char* name;
  int64_t value;
  bool is_bound = false;
};

/// One of several programs in an executable, for other lengths of the model's dims. They share weights, the memory of
/// states, and what ranks talk through; each request is run by one of them.
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
  std::span<const char* const> lengths = {};  // names of the lengths that only a request knows
  std::span<const LengthLimit> limits = {};
  std::span<const LengthDemand> demands = {};
  const Generation* generation = nullptr;
  const Training* training = nullptr;
  bool has_pairs = false;  // some kernel multiplies pairs of bfloat16, with other sums on CPUs with AVX512-BF16
  std::span<const Variant> variants = {};  // small before large; of an executable that has any, only these are said
};

/// The command line of an emitted program: starts or joins the ranks, loads inputs, runs, writes outputs.
/// `level` is what it is compiled for.
int main(const Executable& executable, int argc, char** argv, Level level = kLevel);
/// The same, of a program that is compiled for several levels of CPUs, from low to high.
int main(std::span<const LevelProgram> programs, int argc, char** argv);

}  // namespace weft
