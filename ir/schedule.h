// The user's request, exactly as the YAML has it: names, not graph nodes (README.md). Read-only for passes.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/base/diag.h"
#include "ir/generation.h"
#include "ir/layout.h"
#include "ir/mechanism.h"
#include "ir/pipeline_order.h"

namespace weftc {

/// A node name, a value name, `{uses: WEIGHT}`, `weight_of(NODE)` or a name made by an earlier step; may hold
/// `{l}`-style variables and `*`.
struct Selector {
  enum class Kind { Name, Uses, Weight };
  Kind kind = Kind::Name;
  std::string text;
  Loc loc;
};
/// A selector's name as a schedule writes it.
inline std::string shown_selector(const Selector& selector) {
  return selector.kind == Selector::Kind::Weight ? "weight_of(" + selector.text + ")" : selector.text;
}

/// One axis (or one product of axes, outer first) of a `shard` entry: `tp: 1`, `tp: {dim: 1, parts: 3}`, `tp: R`.
struct AxisRequest {
  std::vector<std::string> axes;
  bool replicated = false;
  int dim = 0;
  int64_t parts = 1;
  Loc loc;
};

/// Layout constraint on a value (`NAME`), or on the value that its readers get (`NAME.use`).
struct ShardEntry {
  Selector target;
  bool use = false;
  std::vector<AxisRequest> axes;  // in the order written
};

struct SplitStep {
  Selector op;
  int dim = 0;
  std::vector<std::string> into;  // reduce-scatter, all-gather
  std::vector<Loc> into_locs = {};
};
struct ReorderStep {
  bool gather = true;           // otherwise moves all-reduces past linear ops
  std::vector<Selector> moved;  // one gather, or several reduces
  std::vector<Selector> past;
};
struct FuseStep {
  std::vector<Selector> ops;
  std::string into;
  Loc into_loc = {};
  int64_t bucket = 0;  // bytes at which a kernel of collectives is full, and `into` is a prefix of its name; 0: one
                       // kernel
};
struct OverlapStep {
  std::vector<Selector> ops;
  int chunks = 2;  // 0: no chunks; collectives run whole, beside ops that do not need them
  int dim = 0;
  Mechanism mechanism = Mechanism::Streams;
};
struct TransformStep {
  std::variant<SplitStep, ReorderStep, FuseStep, OverlapStep> what;
  Loc loc;
};

struct PlaceRequest {
  std::string name;
  std::vector<int> ranks;
  Mesh mesh;
  Loc loc;
};

struct StageRequest {
  std::string name;
  std::string place;  // empty: a place of its own with the stage's name, on ranks of its own
  std::vector<Selector> nodes;
  Loc loc;
  bool has_rest = false;  // the nodes that no other stage lists
};
struct OrderEntry {
  std::string stage;
  int micro_batch;
  Loc loc;
};
/// `order: {search: ...}`.
struct SearchRequest {
  int periods = 1;                // micro-batches of a period, at most
  std::optional<int64_t> memory;  // bytes of a rank for values between blocks
  int seconds = 0;                // approximate core seconds; 0: a few
};
struct PipelineRequest {
  enum class Order { Named, Search, Table };
  std::vector<StageRequest> stages;
  bool cuts = false;  // only the number of stages is given: nodes are divided by their times
  int micro_batches = 1;
  Order order = Order::Named;
  PipelineOrder named = PipelineOrder::GPipe;
  SearchRequest search;
  bool splits_backward = false;  // gradients of weights form a block of their own
  std::vector<OrderEntry> table;
  Loc loc;
  Loc micro_batches_loc, order_loc;  // their positions; without `order:`, the pipeline's
};

struct StateRequest {
  std::string input;
  std::string output;
  Loc loc;
};

/// An entry of `kernels:` fixes how the kernels of that name are computed.
struct KernelPin {
  std::string name;           // of a kernel, node or value; may hold `{l}`-style variables and `*`
  std::string strategy;       // one of strategy_names()
  std::vector<int64_t> tile;  // rows and columns; empty: the compiler chooses them
  Loc loc, strategy_loc, tile_loc;
  int64_t panels = 0;       // panels of an unfolded convolution at once; 0: the compiler chooses the number
  bool one_thread = false;  // when launched, one thread computes and the others wait
};

/// An entry of `precision:`: the type that the operands of products and convolutions are rounded to.
struct PrecisionEntry {
  std::optional<Selector> target;  // none: all
  DType dtype = DType::F32;
  Loc loc;

  bool is_for_all() const { return !target; }
};

/// Names of precisions in a schedule and on the command line.
const std::vector<std::string>& precision_names();
/// The type of a precision's name; nothing for an unknown name.
std::optional<DType> parse_precision(std::string_view name);

/// `generate:`: the loop over tokens. A Name with an empty text is absent.
struct GenerateRequest {
  struct Name {
    std::string text;
    Loc loc;
  };
  Name tokens, logits, positions, mask;
  std::vector<int64_t> end;
  Sampling sampling;
  Loc loc, end_loc, max_new_loc;
  bool has_variants = false;  // this variant may take a fixed number of tokens, since another one takes single ones
};

/// A function in ONNX that a schedule calls, by a name that the compiler knows or by its file, with its operands and
/// attributes.
struct FunctionCall {
  struct Argument {
    std::string name;
    std::vector<std::string> words;  // one, except for a list
    Loc loc, value_loc;
  };
  std::string function;
  std::vector<Argument> arguments;
  Loc loc;
};
/// Parameters by name, which may hold `{l}`-style variables and `*`, or by their number of dimensions.
struct ParameterMatch {
  std::string name;
  std::optional<int64_t> ndim;
  Loc loc;
};
/// An entry of `groups:` of `train:`: attributes of the optimizer that differ for these parameters.
struct ParameterGroup {
  std::vector<ParameterMatch> match;
  std::vector<FunctionCall::Argument> arguments;
};
/// An input that is added to a model for its training: `labels: int64[N]`.
struct InputRequest {
  std::string name;
  std::string type;
  Loc loc;
};
/// A term of the loss: a value of the model, or a function of such.
struct LossRequest {
  std::string value;  // a value of the model; empty: the result of `call`
  FunctionCall call;
  Loc loc;
};
/// A figure reported for a step besides its loss: a value of the model, or a function of such.
struct MetricRequest {
  std::string name;
  std::string value;  // a value of the model; empty: the result of `call`
  FunctionCall call;
  Loc loc;
};
/// For nodes with different forms for training and inference: the training form with statistics of the whole batch, or
/// of each micro-batch; Eval leaves them as they are.
enum class TrainMode : uint8_t { Train, Eval, TrainByMicroBatch };
/// `recompute:` of `train:`: the values of the forward pass that are kept for the backward pass.
struct RecomputeRequest {
  std::vector<Selector> keep;  // none: the fewest bytes that avoid computing anything costly again
  Loc loc;
  std::optional<int64_t> limit = {};  // bytes a rank; values are kept as long as they fit
  /// With a limit: the values that the search for them keeps. None before the search.
  std::optional<std::vector<std::string>> kept = {};
};
/// `train:`: the parts of a training step.
struct TrainRequest {
  std::vector<LossRequest> losses;  // added up
  FunctionCall optimizer, rate;
  std::vector<ParameterMatch> parameters, frozen;  // none: all of them, none of them
  std::vector<ParameterGroup> groups;              // the first that matches counts
  std::vector<InputRequest> inputs;
  std::vector<MetricRequest> metrics;
  std::optional<double> clip_norm, average_decay;
  std::optional<TrainMode> mode;              // none: Train, with a warning if the file has the other form
  std::optional<RecomputeRequest> recompute;  // none: all values that the backward pass reads are kept
  int accumulate = 1;                         // micro-batches a step
  Loc loc, loss_loc, accumulate_loc;
};

/// A dim pinned or bounded by `dims:` or --dim: 128, or "<=1024"; several values make specialisations.
struct DimRequest {
  std::string name;
  std::vector<int64_t> values;
  bool bounded = false;
  Loc loc;
};

/// Further names that a model gives its nodes and weights. Each maps to the names that it stands for.
using Aliases = std::map<std::string, std::vector<std::string>>;

struct Schedule {
  std::string file;  // empty: no schedule, one rank
  Mesh mesh;         // `mesh:`; makes the one place "all"
  std::vector<PlaceRequest> places;
  std::vector<DimRequest> dims;
  std::vector<ShardEntry> shard;
  std::vector<TransformStep> transforms;
  std::vector<StateRequest> states;
  std::optional<GenerateRequest> generate;
  std::optional<TrainRequest> train;
  std::optional<PipelineRequest> pipeline;
  bool per_rank = false;
  /// The device annotations of the model to read: the name of a configuration, "none", or "" for the only configuration
  /// that nodes are annotated for.
  std::string annotations;
  Loc annotations_loc;
  int64_t seed = 0;
  std::vector<KernelPin> kernels;
  std::vector<PrecisionEntry> precision;  // the last line that names a contraction decides
  std::optional<int64_t> memory_limit;    // bytes a rank
  Loc memory_loc;
  Aliases aliases;  // from the model's metadata, not from the YAML
};

/// The places of the schedule. They are the listed ones, or the own places of its pipeline's stages (each with the mesh
/// and the next ranks), or one, "all", with the mesh.
std::vector<PlaceRequest> places_of(const Schedule& schedule);
/// The name of the place at which a stage runs.
inline const std::string& place_of(const StageRequest& stage) { return stage.place.empty() ? stage.name : stage.place; }

}  // namespace weftc
