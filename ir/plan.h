// The Plan: programs, blocks, steps, buffers, signals, kernels, weights (ir/README.md). It is immutable once made and
// proved before emission, and it is the backend's only input.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/storage.h"
#include "ir/strategy.h"
#include "ir/target.h"

namespace weftc {

/// The unit that has an instance of a buffer each. Block: one block of rows (LoopStep), for each thread that runs one.
enum class Life : uint8_t { Chunk, MicroBatch, Run, State, Block };

/// Memory of a value on each rank of its place. Instance i of a deep buffer (a chunk's or micro-batch's value) lies at
/// position + (i mod depth) * bytes.
struct Buffer {
  std::string name;  // the value's
  TensorType type;   // global shape, layout on mesh; a time axis in the layout means one instance a chunk
  Mesh mesh;
  PlaceId place;
  int64_t bytes = 0;  // of one instance, rounded up to kBufferAlign
  int depth = 1;
  bool window = false;  // peers reach it: same position on all ranks, in the window memory
  Life life = Life::Run;
  std::string live;  // "h.0.ln_2 .. h.0.mlp.c_fc": first and last step, for human readers
  Storage storage;

  Dims dims() const { return buffer_dims(type, mesh); }
};
inline constexpr int64_t kBufferAlign = 256;

/// The address of a buffer (P7): the start of its memory, the end of another buffer, or the place of another buffer.
/// OfThread: memory of each thread, which the Plan counts from the end of the rank's own memory.
struct Position {
  enum class Kind : uint8_t { Absent, Start, EndOf, SameAs, OfThread };
  Kind kind = Kind::Absent;
  BufferId of;
  int64_t offset = 0;  // resolved, bytes
};

/// A constant in each rank's image: its local slice, packed.
struct Weight {
  std::string name;
  ConstantId constant;
  TensorType type;
  PlaceId place;
  Storage storage;
  int segment = 0;
  int64_t offset = 0;  // bytes, in the rank's image
  int64_t bytes = 0;   // of one rank's slice, with padding
};
/// Weights sliced over the same axes (of one place; empty: on all ranks alike). Page aligned.
struct Segment {
  PlaceId place;
  std::vector<int> axes;
  int64_t end = 0;  // bytes, in the rank's image
};

/// One operand of a kernel: an input or output of its body.
struct Parameter {
  std::string name;  // C++ identifier, unique in the kernel
  TensorType type;   // as in the body: global shape, layout on the kernel's mesh
  /// Time axes (indices into the kernel's mesh) over which the operand's memory is whole: the kernel indexes its chunk.
  /// For every other time axis in the layout the memory holds just one chunk.
  std::vector<int> whole_over;
  bool window = false;  // a collective inside the kernel reaches it on all peers
  bool weight = false;
  Storage storage;  // of its memory
  /// The shape of its memory if the kernel gets only some of its rows; none: the type's shape.
  std::optional<Shape> memory = {};

  bool operator==(const Parameter&) const = default;
  /// The type with the shape of the memory.
  TensorType memory_type() const { return {type.dtype, memory.value_or(type.shape), type.layout}; }
};

/// A run-time extent of a kernel: an int64_t that is passed as an argument, or that the kernel computes from others.
struct RunExtent {
  std::string name;  // C++ identifier
  /// Ragged: valid elements of `extent` (or of `length` if set), in blocks of `block` at this rank's coordinate on
  /// `axis`.
  int axis = -1;  // index into the kernel's mesh; -1: a whole length
  int64_t extent = 0;
  int64_t block = 0;
  std::optional<Length> length = {};  // in the names of the body
  int64_t bound = 0;                  // of the length, or of this rank's part of it

  bool is_slice() const { return axis >= 0; }
  /// A named length is passed; any other is computed from those earlier in the list.
  bool is_named() const { return length && !is_slice() && as_name(*length); }
  bool operator==(const RunExtent&) const = default;
};

/// One function of the emitted program. `body` is a region in which every op is lowered into this one kernel. The first
/// parameters are the Input ops in order; body.outputs() follow. Constants of one element become literals. A kernel of
/// category Collective ends with a barrier of its ranks, so that memory it read from peers may be overwritten later.
struct Kernel {
  std::string name;   // C++ identifier
  Category category;  // Pointwise, Reduction, Contraction, Index, Scan, Collective
  Graph body;
  PlaceId place;
  Mesh mesh;                          // place axes, then time axes
  std::vector<Parameter> parameters;  // inputs, then outputs
  std::vector<RunExtent> extents;
  std::vector<OriginId> origins;   // of the first user
  std::string transform;           // "fuse into far", "" if none
  std::vector<std::string> users;  // step names, in order
  Strategy strategy;               // how it is computed when launched, or else in chunks
  /// How the one kernel of a loop over chunks computes it, if the target needs another strategy there than for a
  /// launch.
  std::optional<Strategy> in_chunks;
  bool one_thread = false;  // when launched, the thread of the stream computes it alone
  Loc pin;                  // where the schedule names the strategy; none: the compiler chose it
  std::string pin_name;     // the name that means only this kernel in a schedule's `kernels:`; empty: no name does
};

/// Elements of a buffer: those whose index of `dim` has (index div block) mod size == the coordinate on mesh axis
/// `axis` (a place axis: the rank's own coordinate; a time axis: the chunk).
struct PartDigit {
  int axis;
  int dim;
  int64_t block;
  int size;
  bool operator==(const PartDigit&) const = default;
};
struct Access {
  BufferId buffer;
  bool write = false;
  std::vector<int> peers;       // place axes: the access reaches the copies of all ranks on them; empty: the own copy
  std::vector<PartDigit> part;  // empty: all of it
  bool accumulate = false;      // a CopyStep in a For: chunk 0 stores, the others add (P results of a Chunk)
  std::optional<Stripe> stripe = {};  // of the buffer: only these elements
};

/// The buffer or weight that is bound to a kernel's formal parameter.
struct Operand {
  BufferId buffer;  // or
  WeightId weight;
};

struct Signal {
  std::string name;
  int count = 1;  // elements: one, or one a chunk, times micro-batches
  PlaceId place;
  std::vector<int> axes;  // place axes whose ranks raise it for each other; empty: between streams of one rank
};
/// Selects an element of a signal (or an instance of a deep buffer). A signal has `count` / micro-batches elements a
/// micro-batch. Once and MicroBatch mean the last of them, Chunk that of the chunk.
enum class Per : uint8_t { Once, Chunk, MicroBatch };
struct Wait {
  enum class Reason : uint8_t { Data, Reuse, Position };
  SignalId signal;
  Per per = Per::Once;
  int lag = 0;  // this many chunks or micro-batches earlier; the first ones have nothing to wait for
  Reason reason = Reason::Data;
  bool in_kernel = false;
  bool trains = false;  // in a pipeline: skipped by an evaluation, which leaves out the block that raises it
};
struct Raise {
  SignalId signal;
  Per per = Per::Once;
  bool in_kernel = false;
};

/// Rows of a Transfer: elements of a box, contiguous in the order of `extents`.
struct Message {
  int from = 0, to = 0;            // world ranks
  int64_t source = 0, target = 0;  // elements, in the local buffers
  Dims extents;
  Dims source_strides, target_strides;  // elements
};

struct Step;

struct LaunchStep {
  KernelId kernel;
  std::vector<Operand> operands;  // one for each formal
  std::vector<BufferId> lengths;  // for each named length of the kernel's extents; none: rows of the loop around
};
struct CopyStep {
  BufferId from, to;      // equal types
  bool in_place = false;  // `from` and `to` share memory: nothing is moved
  /// True for a step that only waits and raises.
  bool is_empty() const { return from == to; }
};
struct CollectiveStep {
  OpKind kind;  // AllReduce, ReduceScatter, AllGather, AllToAll, Broadcast, Reduce, ShardSlice
  ReduceOp reduce = ReduceOp::Sum;
  int root = 0;           // Broadcast, Reduce: the rank of the group that sends or receives
  std::vector<int> axes;  // of the place
  PlaceId place;
  Mesh mesh;
  BufferId from, to;
  TensorType from_type, to_type;                    // layouts before and after, on mesh (ir/exchange_types.h)
  std::vector<int> from_whole_over, to_whole_over;  // as in Parameter
};
/// A send is in the source's block, its recv in the target's.
struct SendStep {
  int transfer;
};
struct RecvStep {
  int transfer;
};
struct ForStep {
  int trips;  // chunks
  std::vector<Step> body;
  Mechanism mechanism = Mechanism::Streams;
  bool in_turn = false;  // on one stream: chunks do not overlap
  size_t forward = 0;    // over micro-batches of a training: an evaluation runs only this many first steps of the body
};
struct IfStep {
  BufferId condition;
  std::vector<Step> then_body, else_body;
};
/// A dimension of a loop's buffers along which each step computes a row from the same row only. Buffers and weights
/// without such rows are read whole by all threads.
struct RowAxis {
  Length count;
  int64_t block = 0;                   // rows of a block; 0: a thread takes all of its own at once
  std::map<BufferId, Length> strides;  // elements from one row to the next
  std::map<WeightId, Length> weight_strides;
  bool operator==(const RowAxis&) const = default;

  bool in_one_block() const { return block == count.high(); }
  /// An upper bound.
  int64_t blocks() const { return (count.high() + block - 1) / block; }
};
/// Rows of a loop divided among threads: each thread runs all trips for its own rows. The loop's kernels take the rows
/// of each axis as a length (own_rows); launches have no buffer for it.
struct SharedRows {
  static constexpr int64_t kTile = 4;  // a thread takes a multiple of this number
  static constexpr size_t kMostAxes = 3;
  std::vector<RowAxis> axes;  // outer first; several only in blocks
  std::set<BufferId> own;     // each thread has its own: results of a trip for all rows; results of a block
  bool operator==(const SharedRows&) const = default;

  bool in_blocks() const { return axes.front().block != 0; }
};
/// A loop of one trip with rows in blocks is a chain of kernels: intermediate values are never stored as a whole.
struct LoopStep {
  BufferId trip_count;    // none: no bound
  BufferId condition;     // none: always true; read before each trip
  BufferId iteration;     // none: not used; written before each trip
  int64_t max_trips = 0;  // 0: not known; the proof expands a few
  std::vector<Step> body;
  std::vector<BufferId> carried;  // values for the next trip; each trip writes them by a copy at its end
  std::optional<SharedRows> rows = {};

  bool is_chain() const { return rows && rows->in_blocks(); }
};

struct Step {
  std::string name;
  int stream = 0;
  std::variant<LaunchStep, CopyStep, CollectiveStep, SendStep, RecvStep, ForStep, IfStep, LoopStep> what;
  std::vector<Access> accesses;  // of launch, copy, collective, send, recv; conditions of if and loop
  std::vector<Wait> waits;
  std::vector<Raise> raises;
  std::vector<OriginId> origins;
  std::string transform;  // "overlap c_proj, far", "" if none
  Loc transform_loc;
  Phase phase = Phase::Update;  // of a training
};

struct TransferTable {
  std::string name;
  BufferId from, to;
  std::vector<Message> messages;
};

/// The ops of one place with one stage and phase, emitted as one function.
struct Block {
  std::string name;  // "run" when it is the only one
  PlaceId place;
  std::vector<Step> steps;
  Turn turn = Turn::MicroBatch;
  Phase phase = Phase::Forward;  // of a training
  bool of_weights = false;       // in a backward pass: only ops whose results no other stage waits for
};
struct OrderedBlock {
  int block;
  int micro_batch;
};

/// All ranks in the same places.
struct Program {
  std::vector<int> ranks;
  std::vector<Position> positions;  // by BufferId; Absent where the program's places do not hold the buffer
  int64_t own_bytes = 0;
  int64_t window_bytes = 0;
  int64_t thread_bytes = 0;  // of buffers whose life is a block, at most: for each thread
};

/// An input or output of the model.
struct Port {
  std::string name;
  TensorType type;
  Mesh mesh;
  PlaceId place;
  BufferId buffer;
};
/// The buffer from which the ranks of a place read a named length: a scalar of int64.
struct LengthBuffer {
  std::string name;
  int64_t bound;
  PlaceId place;
  BufferId buffer;
  bool is_made;  // a step computes it; else the request gives it
};
/// A limit on a length that is tighter than its names allow: a state is full, a TopK needs a minimum of elements.
struct LengthLimit {
  std::string what;  // text for messages: "state 'past' ('present')"
  Length length;
  int64_t least, most;
  bool is_made;  // a step computes the length
};
/// A condition that the model puts on two lengths.
struct LengthDemand {
  LengthRelation relation;
  bool is_made;  // a step computes one of the lengths
};
/// An input and an output that are one value across iterations. The output shares the input's memory (in place), or the
/// last steps of an iteration copy it there.
struct StateSlot {
  std::string input, output;  // names of the ports
  BufferId buffer;            // the input's: it lives across iterations
  BufferId next;              // the output's
  bool in_place = false;
  std::string why_copied = {};  // "" if it is in place
  WeightId initial = {};        // its first value, row-major; none: zeros
};

struct Plan {
  std::string name;
  Target target;
  int world = 1;
  std::vector<Place> places;
  std::vector<Origin> origins;
  const Constants* constants = nullptr;  // of the module, which must outlive the Plan
  std::vector<Kernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<Segment> segments;
  std::vector<Signal> signals;
  std::vector<TransferTable> transfers;
  std::vector<std::string> streams;  // "compute", "comm", ...
  std::vector<Block> blocks;
  std::vector<OrderedBlock> order;  // one list for all ranks; each runs the blocks of its places
  std::vector<Program> programs;
  std::vector<Port> inputs, outputs;
  std::vector<LengthBuffer> lengths;
  std::vector<LengthLimit> limits;
  std::vector<LengthDemand> demands;
  std::vector<StateSlot> states;
  std::optional<Generation> generation;
  std::optional<Training> training;
  int micro_batches = 1;
  bool has_stages = false;  // in a pipeline: `order` gives the order of blocks
  int64_t seed = 0;
  bool per_rank = false;
  bool unrolls_layers = false;  // the text of a program has no loops over layers

  const Kernel& kernel(KernelId id) const { return kernels[id.index]; }
  const Buffer& buffer(BufferId id) const { return buffers[id.index]; }
  const Weight& weight(WeightId id) const { return weights[id.index]; }
};

}  // namespace weftc
