// How a kernel is computed: one of a closed set, chosen when the Plan is made (passes/strategy). The backend emits it;
// the cost model, explain, the manifest and tests read it. Emission decides nothing about it.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/kernel/index_expr.h"
#include "ir/storage.h"

namespace weftc {

/// Rows and columns of the tile of a block, of one thread, and of one warp if tensor cores compute it.
struct Tile {
  int64_t m, n, thread_m, thread_n, warp_m, warp_n;
  int64_t threads() const { return m / thread_m * (n / thread_n); }
  bool operator==(const Tile&) const = default;
};

/// The activation that a library applies to a product, after the bias.
enum class Activation : uint8_t { None, Relu, Gelu };

/// A product that a device's library computes: y[b, m, n] = activation(sum over k of a[b, m, k] * b[b, k, n] +
/// bias[n]).
struct LibraryProduct {
  static constexpr const char* kName = "library-product";
  /// A number. If `run` is set, it is an upper bound, and the kernel's run-time extent `run` has the value.
  struct Extent {
    int64_t bound = 1;
    std::optional<size_t> run;
  };
  /// Position of the first element, and strides in elements: to the next row, to the next column, and along each batch
  /// dimension.
  struct Operand {
    size_t parameter = 0;
    IndexExpr first;  // depends on the coordinates on the kernel's mesh
    int64_t row = 0, column = 0;
    std::vector<int64_t> batch;
  };
  Extent m, n, k;
  std::vector<int64_t> batch;  // at most two, outer first
  Operand a, b, y;
  std::optional<Operand> bias;  // one element a column
  Activation activation = Activation::None;
};

/// Host: the second operand is a weight, one matrix or a batch, in panels that are packed when the program is built.
struct PackedProduct {
  static constexpr const char* kName = "packed-product";
  size_t weight = 0;     // the weight's storage
  Storage packing = {};  // the weight's storage
  int width = 16;
  bool transposed = false;  // the weight is (n, k): packing undoes the transposition before the product
  /// Steps of k that are adjacent in memory and multiplied at once: four of bytes, two if both operands are bfloat16.
  int64_t together = 1;
};
/// Host: the second operand is packed into panels each time, a few columns at once. Or it is packed as a whole, and the
/// thread keeps the panels for the blocks of rows that follow.
struct StridedProduct {
  static constexpr const char* kName = "strided-product";
  bool is_short = false;   // few terms: sums are stored straight from registers (weft/short_product.h)
  int64_t kept_bytes = 0;  // of those panels; 0: no panels are kept
  size_t kept = 0;         // the parameter that is packed into them
  bool operator==(const StridedProduct&) const = default;
};
/// Host: the second operand is a weight of few bits, packed in panels of `width` columns when the executable is built.
/// Its terms have the storage of its words (weft/block_product.h).
struct BlockProduct {
  static constexpr const char* kName = "block-product";
  size_t weight = 0;     // the parameter: words
  size_t terms = 0;      // the parameter: scales and zero points
  Storage packing = {};  // storage of both
  int64_t bits = 0;
};
/// Host: convolves an image with innermost channels, reading windows in place, with filters in panels of 16
/// (weft/direct_convolution.h). Constant filters are packed when the executable is built.
struct DirectConvolution {
  static constexpr const char* kName = "direct-convolution";
  size_t weight = 0;            // the parameter: the filters
  Storage packing = {};         // their storage
  bool copies_filters = false;  // they are not constant: each launch packs them
  bool copies_image = true;     // the image has another storage: it is converted first
  bool is_product = false;      // windows of one element and few channels: outputs are the rows of a product
  bool is_short = false;        // which has few terms, as in StridedProduct
  int64_t together = 1;         // adjacent channels that are multiplied at once, as in PackedProduct
};
/// Host: convolves an image with innermost channels, for windows of 3 x 3 and stride 1, by Winograd's minimal
/// filtering. It computes `tile` x `tile` outputs at a time. It needs 4 times (tile 4) or 2.25 times (tile 2) fewer
/// multiplications than a direct convolution, and rounds more (weft/winograd.h).
struct WinogradConvolution {
  static constexpr const char* kName = "winograd-convolution";
  size_t weight = 0;         // the parameter: the filters
  Storage packing = {};      // their storage: points
  bool copies_image = true;  // as in DirectConvolution
  int64_t tile = 4;
};
/// Host: one filter a group, for an image with innermost groups: some groups of neighbouring outputs at a time
/// (weft/channels_last.h). A depthwise convolution has one channel a group. The derivative of its filters has one for
/// each image of the batch.
struct ChannelConvolution {
  static constexpr const char* kName = "channel-convolution";
  size_t weight = 0;            // the parameter: the filters
  Storage packing = {};         // their storage: a tap of all groups, then the next
  bool copies_filters = false;  // as in DirectConvolution
  bool copies_image = true;     // as in DirectConvolution
};
/// One filter a channel: on the host a row of outputs at a time, on a device an output a thread.
struct PlaneConvolution {
  static constexpr const char* kName = "plane-convolution";
};
/// Host: windows of one element, as a product of the filters and the planes.
struct PointConvolution {
  static constexpr const char* kName = "point-convolution";
};
/// Host: windows are packed into panels each time, `panels` of them at once, then multiplied with the filters.
struct UnfoldedConvolution {
  static constexpr const char* kName = "unfolded-convolution";
  int64_t panels = 0;
};
/// The maximum or the sum of each window. The host computes a row of outputs at a time, or some channels if these are
/// innermost. On a device each thread computes one output.
struct WindowReduction {
  static constexpr const char* kName = "window-reduction";
  bool channels_last = false;
};
/// Device: Weft's own product through shared memory. Its operands and result may be any elements.
struct TiledProduct {
  static constexpr const char* kName = "tiled-product";
  Tile tile{};
};
/// Device: the same for a convolution, which gathers windows as needed.
struct TiledConvolution {
  static constexpr const char* kName = "tiled-convolution";
  Tile tile{};
};
/// Device: transposes tiles of 32 x 32 elements in shared memory. Dimension `row` of the result is the one that is
/// contiguous in the operand.
struct Transposition {
  static constexpr const char* kName = "transposition";
  size_t row = 0;
};
/// Running sums along one axis. On a device a thread takes a line; if lines are few and long, a block does.
struct Scan {
  static constexpr const char* kName = "scan";
  bool by_block = false;
};
/// The data is copied, then updates are applied in order at their indices. In place: the result shares the memory of
/// the data, and nothing is copied.
struct Scatter {
  static constexpr const char* kName = "scatter";
  bool in_place = false;
};
/// Trees: the rows of a matrix walk down all trees, some rows (or some trees of one row) at once.
struct TreeWalk {
  static constexpr const char* kName = "tree-walk";
};
/// Writes a result that grows along `axis` in place: it shares the memory of its first part, parameter `state`, and
/// only the new rows are written. A key-value cache is the common case: present = Concat(past, new).
struct Append {
  static constexpr const char* kName = "append";
  size_t state = 0;
  size_t axis = 0;
};
/// The threads that share the elements of a row: one thread, a warp, or a block.
enum class RowTeam : uint8_t { Thread, Warp, Block };
/// Reductions over the elements of a row, with the computations before, between and after them.
struct Rows {
  static constexpr const char* kName = "rows";
  RowTeam team = RowTeam::Thread;
};
/// The first elements of each line, sorted. On a device a warp finds few of a short line, a block any number.
struct TopK {
  static constexpr const char* kName = "top-k";
  RowTeam team = RowTeam::Thread;
};
/// Positions of true elements in a mask, and their count: one pass, on a device by one warp.
struct Selection {
  static constexpr const char* kName = "selection";
};
/// Selects the boxes of each line that overlap with no better one. On a device a warp has a line.
struct BoxSelection {
  static constexpr const char* kName = "box-selection";
};
/// Independent elements of one shape: computations, views, look-ups.
struct Elementwise {
  static constexpr const char* kName = "elementwise";
};
/// All steps of a loop whose body is element-wise. Each element goes through all steps, and its carried values stay in
/// registers. On the host `lanes` elements are computed together, which vectorises.
struct Recurrence {
  static constexpr const char* kName = "recurrence";
  int64_t lanes = 1;
};
/// Collectives over the peer table of a rank group, with computations on the slices.
struct PeerExchange {
  static constexpr const char* kName = "peer-exchange";
};
/// A loop for each dimension, one element at a time. It is right for every body, and slow for bodies that have a better
/// strategy in principle. `why` says why each better strategy was rejected.
struct PlainLoops {
  static constexpr const char* kName = "plain-loops";
  std::string why;
};

using Strategy =
    std::variant<PlainLoops, LibraryProduct, PackedProduct, BlockProduct, StridedProduct, DirectConvolution,
                 WinogradConvolution, ChannelConvolution, PlaneConvolution, PointConvolution, UnfoldedConvolution,
                 WindowReduction, TiledProduct, TiledConvolution, Transposition, Scan, Scatter, TreeWalk, Append, Rows,
                 TopK, Selection, BoxSelection, Elementwise, PeerExchange, Recurrence>;

/// On a device a warp takes a short row, a block a long one.
inline RowTeam device_row_team(int64_t elements) { return elements <= 256 ? RowTeam::Warp : RowTeam::Block; }

/// How a kernel is used: launched (on the host: as a function), or called by the one kernel of a loop over chunks. On a
/// device that is another kind of function: it cannot call a library, and it has the blocks and threads of its caller.
enum class KernelUse : uint8_t { Launched, InChunks };

/// A weight that a strategy reads in a packed form, made when the executable is built.
struct PackedWeight {
  size_t parameter = 0;
  Storage packing;
};
/// Empty for strategies that read their operands in their storage. Strategies with a packing have fields `weight` and
/// `packing`.
std::vector<PackedWeight> packed_weights_of(const Strategy& strategy);
/// Memory that each thread keeps for the strategy from one launch to the next.
int64_t kept_bytes_of(const Strategy& strategy);

/// Whether the strategy multiplies pairs of bfloat16.
bool has_pairs(const Strategy& strategy);

/// Whether the strategy, which reads an image with innermost channels, must convert it to that order first. Nothing for
/// strategies that need no such image.
std::optional<bool> copies_image(const Strategy& strategy);
void set_copies_image(Strategy& strategy, bool copies);

/// "packed-product": the name in schedules, explain and the manifest.
const char* strategy_name(const Strategy& strategy);
/// The name with its parameters: "tiled-product 64x64".
std::string strategy_text(const Strategy& strategy);
/// Why every strategy better than plain loops was rejected; empty for other strategies.
std::string reason_text(const Strategy& strategy);
/// All names, in the order of the variant.
std::vector<std::string> strategy_names();
/// Whether the strategy of that name has tiles whose size a schedule can choose.
bool has_tile(const std::string& name);
/// Whether it packs panels whose number at once a schedule can choose.
bool has_panels(const std::string& name);

}  // namespace weftc
