// How a kernel is computed: one of a closed set, chosen when the Plan is made (passes/strategy), written by the
// backend, read by the cost model, explain, the manifest and tests. Nothing of it is decided while text is written.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/kernel/index_expr.h"
#include "ir/storage.h"

namespace weftc {

/// Rows and columns of the tile of a block, of one thread, and of one warp where tensor cores compute it.
struct Tile {
  int64_t m, n, thread_m, thread_n, warp_m, warp_n;
  int64_t threads() const { return m / thread_m * (n / thread_n); }
  bool operator==(const Tile&) const = default;
};

/// What a library does behind a product, after the bias.
enum class Activation : uint8_t { None, Relu, Gelu };

/// A product that a device's library computes: y[b, m, n] = activation(sum over k of a[b, m, k] * b[b, k, n] +
/// bias[n]).
struct LibraryProduct {
  static constexpr const char* kName = "library-product";
  /// A number, or at most that many: what run-time extent `run` of the kernel says.
  struct Extent {
    int64_t bound = 1;
    std::optional<size_t> run;
  };
  /// Where the first element is, and by how many elements the next row, the next column and the next of each dimension
  /// of the batch follow.
  struct Operand {
    size_t parameter = 0;
    IndexExpr first;  // of the coordinates on the kernel's mesh
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
  size_t weight = 0;     // the parameter
  Storage packing = {};  // how it lies
  int width = 16;
  bool transposed = false;  // the weight is (n, k): the view in front of the product is undone by the packing
  /// Steps of k that lie side by side and are multiplied at once: four of bytes, two where both operands are bfloat16.
  int64_t together = 1;
};
/// Host: the second operand is brought into panels each time, a few columns at once; or as a whole, and the thread
/// keeps the panels for the blocks of rows that follow.
struct StridedProduct {
  static constexpr const char* kName = "strided-product";
  bool is_short = false;   // few terms: sums are put out of registers (weft/short_product.h)
  int64_t kept_bytes = 0;  // of those panels; 0: none are kept
  size_t kept = 0;         // the parameter that they are made of
  bool operator==(const StridedProduct&) const = default;
};
/// Host: the second operand is a weight of few bits, packed in panels of `width` columns when the executable is built;
/// its terms lie like its words (weft/block_product.h).
struct BlockProduct {
  static constexpr const char* kName = "block-product";
  size_t weight = 0;     // the parameter: words
  size_t terms = 0;      // the parameter: scales and zero points
  Storage packing = {};  // how both lie
  int64_t bits = 0;
};
/// Host: an image whose channels lie innermost, windows read where they lie, times filters in panels of 16
/// (weft/direct_convolution.h), which are packed when the executable is built where they are constants.
struct DirectConvolution {
  static constexpr const char* kName = "direct-convolution";
  size_t weight = 0;            // the parameter: the filters
  Storage packing = {};         // how they lie
  bool copies_filters = false;  // they are no constant: each launch brings them into that order
  bool copies_image = true;     // the image does not lie so: it is brought into that order first
  bool is_product = false;      // of windows of one element and few channels: outputs are the rows of a product
  bool is_short = false;        // which has few terms, as StridedProduct
  int64_t together = 1;         // channels that lie side by side and are multiplied at once, as in PackedProduct
};
/// Host: windows of 3 x 3 that move by one element, of an image whose channels lie innermost: `tile` x `tile` outputs
/// at a time by Winograd's minimal filtering, which multiplies 4 times (tile 4) or 2.25 times (tile 2) less than a
/// direct convolution and rounds more (weft/winograd.h).
struct WinogradConvolution {
  static constexpr const char* kName = "winograd-convolution";
  size_t weight = 0;         // the parameter: the filters
  Storage packing = {};      // how they lie: their points
  bool copies_image = true;  // as above
  int64_t tile = 4;
};
/// Host: one filter a group, of an image whose groups lie innermost: some groups of neighbouring outputs at a time
/// (weft/channels_last.h). A depthwise convolution has one channel a group. The derivative of its filters has one for
/// each image of the batch.
struct ChannelConvolution {
  static constexpr const char* kName = "channel-convolution";
  size_t weight = 0;            // the parameter: the filters
  Storage packing = {};         // how they lie: a tap of all groups, then the next
  bool copies_filters = false;  // as above
  bool copies_image = true;     // as above
};
/// One filter a channel: on the host a row of outputs at a time, on a device an output a thread.
struct PlaneConvolution {
  static constexpr const char* kName = "plane-convolution";
};
/// Host: windows of one element: a product of the filters and the planes.
struct PointConvolution {
  static constexpr const char* kName = "point-convolution";
};
/// Host: windows are brought into panels each time, `panels` of them at once, then multiplied with the filters.
struct UnfoldedConvolution {
  static constexpr const char* kName = "unfolded-convolution";
  int64_t panels = 0;
};
/// The largest element or the sum of each window: on the host a row of outputs at a time, or some channels where these
/// lie innermost; on a device an output a thread.
struct WindowReduction {
  static constexpr const char* kName = "window-reduction";
  bool channels_last = false;
};
/// Device: our own product through shared memory, whose operands and result may be any elements.
struct TiledProduct {
  static constexpr const char* kName = "tiled-product";
  Tile tile{};
};
/// Device: the same for a convolution, whose windows are gathered as they are needed.
struct TiledConvolution {
  static constexpr const char* kName = "tiled-convolution";
  Tile tile{};
};
/// Device: tiles of 32 x 32 elements are turned in shared memory. Dimension `row` of the result is the one that is
/// contiguous in the operand.
struct Transposition {
  static constexpr const char* kName = "transposition";
  size_t row = 0;
};
/// Running sums along one axis. On a device a thread takes a line; where lines are few and long, a block.
struct Scan {
  static constexpr const char* kName = "scan";
  bool by_block = false;
};
/// The data is copied, then updates go where their indices say, in order. In place: the result lies where the data
/// does, and nothing is copied.
struct Scatter {
  static constexpr const char* kName = "scatter";
  bool in_place = false;
};
/// Trees: the rows of a matrix walk down all trees, some rows (or some trees of one row) at once.
struct TreeWalk {
  static constexpr const char* kName = "tree-walk";
};
/// A result that grows along `axis` lies where its first part, parameter `state`, does: only the rows behind that part
/// are written. A key-value cache is the common case: present = Concat(past, new).
struct Append {
  static constexpr const char* kName = "append";
  size_t state = 0;
  size_t axis = 0;
};
/// Who takes the elements of a row: one thread, the threads of a warp, or those of a block.
enum class RowTeam : uint8_t { Thread, Warp, Block };
/// Reductions over the elements of a row, with what is computed before, between and behind them.
struct Rows {
  static constexpr const char* kName = "rows";
  RowTeam team = RowTeam::Thread;
};
/// The first elements of each line in their order. On a device a warp finds few of a short line, a block any number.
struct TopK {
  static constexpr const char* kName = "top-k";
  RowTeam team = RowTeam::Thread;
};
/// Where a mask is true, and how many times: one pass, on a device by one warp.
struct Selection {
  static constexpr const char* kName = "selection";
};
/// Boxes of each line that overlap with no better one. On a device a warp has a line.
struct BoxSelection {
  static constexpr const char* kName = "box-selection";
};
/// Elements of one shape, each by itself: computations, views, look-ups.
struct Elementwise {
  static constexpr const char* kName = "elementwise";
};
/// All steps of a loop whose body is element-wise: each element goes through all of them, and what it carries from one
/// to the next stays in registers. On the host `lanes` elements go together, which is what vectorises.
struct Recurrence {
  static constexpr const char* kName = "recurrence";
  int64_t lanes = 1;
};
/// Collectives over the peer table of a rank group, with what is computed on the slices.
struct PeerExchange {
  static constexpr const char* kName = "peer-exchange";
};
/// A loop an operand dimension, one element at a time: right for every body, fast for none of those that have a better
/// strategy in principle; `why` says what stood against each.
struct PlainLoops {
  static constexpr const char* kName = "plain-loops";
  std::string why;
};

using Strategy =
    std::variant<PlainLoops, LibraryProduct, PackedProduct, BlockProduct, StridedProduct, DirectConvolution,
                 WinogradConvolution, ChannelConvolution, PlaneConvolution, PointConvolution, UnfoldedConvolution,
                 WindowReduction, TiledProduct, TiledConvolution, Transposition, Scan, Scatter, TreeWalk, Append, Rows,
                 TopK, Selection, BoxSelection, Elementwise, PeerExchange, Recurrence>;

/// On a device short rows are a warp's, long ones a block's.
inline RowTeam device_row_team(int64_t elements) { return elements <= 256 ? RowTeam::Warp : RowTeam::Block; }

/// Where a kernel is used: launched (on the host a function), or called by the one kernel of a loop over chunks, which
/// on a device is another kind of function: no library can be called there, and it has the blocks and threads of its
/// caller.
enum class KernelUse : uint8_t { Launched, InChunks };

/// A weight that a strategy reads in a form of its own, made when the executable is built.
struct PackedWeight {
  size_t parameter = 0;
  Storage packing;
};
/// None for strategies that read their operands as they lie. Strategies with a packing have fields `weight` and
/// `packing`.
std::vector<PackedWeight> packed_weights_of(const Strategy& strategy);
/// Memory that each thread keeps for the strategy from one launch to the next.
int64_t kept_bytes_of(const Strategy& strategy);

/// Whether the strategy multiplies pairs of bfloat16.
bool has_pairs(const Strategy& strategy);

/// Whether the strategy reads an image with its channels innermost, and must bring it into that order first: nothing
/// for strategies that want no such image.
std::optional<bool> copies_image(const Strategy& strategy);
void set_copies_image(Strategy& strategy, bool copies);

/// "packed-product": as schedules, explain and the manifest name it.
const char* strategy_name(const Strategy& strategy);
/// The name with its parameters: "tiled-product 64x64".
std::string strategy_text(const Strategy& strategy);
/// What stood against everything better than plain loops; empty for other strategies.
std::string reason_text(const Strategy& strategy);
/// All names, in the order of the variant.
std::vector<std::string> strategy_names();
/// Whether the strategy of that name computes tiles whose size can be chosen.
bool has_tile(const std::string& name);
/// Whether it brings panels into memory, of which a schedule can say how many at once.
bool has_panels(const std::string& name);

}  // namespace weftc
