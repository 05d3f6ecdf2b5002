// Common code of the host's contractions: operands as places in memory, arrays for operands without a place, and the
// lambda that takes a row of sums. The products are in kernel_contraction.cpp, convolutions and pools in
// kernel_windows.cpp.
#pragma once
#include "backend/epilogue.h"
#include "backend/kernel_text.h"

namespace weftc {

/// Location of an operand's element in memory: base[offset].
struct Site {
  std::string base;
  IndexExpr offset;
  const Parameter* parameter = nullptr;
};

/// Names of the variables in an emitted product: the position of a sum, the sums of a row, and declarations before the
/// call.
struct SumNames {
  explicit SumNames(Names& names)
      : batch(names.unique("batch")),
        m(names.unique("m")),
        n(names.unique("n")),
        n0(names.unique("n0")),
        j(names.unique("j")),
        width(names.unique("width")),
        sums(names.unique("sums")),
        extents(names.unique("extents")),
        rows(names.unique("rows")),
        panels(names.unique("panels")),
        columns(names.unique("columns")) {}
  const std::string batch, m, n, n0, j;  // n: n0 + j
  const std::string width, sums, extents, rows, panels, columns;
};

class ContractionWriter {
 public:
  explicit ContractionWriter(KernelContext& context)
      : context_(context),
        body_(context.body),
        root_(contraction_of(context.body)),
        op_(body_.producer_op(root_)),
        names_(context.names),
        sum_text_(names_.sums + "[" + names_.j + "]"),
        fetches_ahead_(op_.kind == OpKind::MatMul || op_.kind == OpKind::BlockMatMul),
        after_(context, root_) {}

  // One function for each strategy, whose rules have found it legal.
  Statements packed();
  Statements strided(const StridedProduct& strategy);
  Statements direct_convolution(const DirectConvolution& strategy);
  Statements winograd_convolution(const WinogradConvolution& strategy);
  Statements channel_convolution(const ChannelConvolution& strategy);
  Statements plane_convolution();
  Statements point_convolution();
  Statements unfolded(const UnfoldedConvolution& strategy);
  Statements pool();
  Statements pool_channels();
  Statements product_of_elements(const PackedProduct& strategy);
  Statements block_product(const BlockProduct& strategy);
  /// Whether the operands are 8-bit integers.
  bool sums_bytes() const { return op_.kind == OpKind::ConvInteger || op_.kind == OpKind::MatMulInteger; }

 private:
  /// Extents and run-time texts of "batch m k, batch k n".
  struct Shape {
    IndexDims batch;
    int64_t m, n, k;
    std::string batch_text, m_text, n_text, k_text;
  };

  std::optional<Site> site(ValueId value, const IndexList& index);
  Site contiguous_array(ValueId value, const IndexList& index, const char* role);
  Site array_site(ValueId value, const IndexList& index, const char* role);
  std::optional<std::string> splat(ValueId value) const;
  Shape extents();
  Site panels_site(const IndexList& lead);
  Site rows_site(const IndexList& index, int64_t k);
  std::string rows_of_elements(int64_t together);
  void declare_rows(const Site& a);
  Statements shared_panels();
  Statements panels_of_batch();
  IndexList operand_index(ValueId value, const IndexList& lead, const IndexExpr& row, const IndexExpr& column) const;
  IndexList start_batch(const Shape& shape);
  void rows_of_batch(const Shape& shape, const IndexList& lead);
  Statements batch_call_of(const Shape& shape, const std::string& function, const std::string& second);
  Statements short_batch_call(const Shape& shape, const std::string& second);
  Statements batch_call(const Shape& shape, const std::string& function, const std::string& second);
  Statements put(const Shape& shape, const std::string& head);
  Statements fetches(const Statements& row, const Statements& loop) const;
  Statements byte_stores(Scope& row, Scope& loop);
  std::string sums_parameters(const std::string& column) const;
  std::string any_batch() const { return "[[maybe_unused]] int64_t " + names_.batch; }
  std::string first_operand(const Site& a) const;
  std::string contraction_text(const Shape& shape, int64_t packed_k = 0) const;

  /// How many sums of a row are passed at once: 16, from multiples of 16; up to 16, from any column; any number.
  enum class Columns { Panels, Few, Many };

  /// Common parts of convolutions: geometry, extents, and the filters as an operand.
  struct Filters {
    WindowGeometry geometry;
    Shape shape;
    Site w;
  };
  std::string channels_text(const WindowGeometry& g) const;
  Filters filters(bool is_plane);
  Site planes();
  IndexList image_index() const;
  std::string image(bool copies, int64_t together);
  std::string image_stored(bool copies, const Storage& storage, const char* element);
  std::string image_or_planes(bool copies, int64_t together);
  template <class Convolution>
  std::string filters(const Convolution& strategy, const char* element = nullptr);
  std::string convolve_call(const std::string& window, const std::string& convolution, const std::string& count,
                            const std::string& x, const std::string& filters, int64_t together) const;
  std::string declare_convolution(const Scale& batch, int64_t groups, int64_t channels, const std::string& filters);
  IndexList channels_last_index(const WindowGeometry& g, int64_t channels) const;
  bool put_ahead(const IndexList& result, const std::string& lambda);
  Statements product_of_outputs(const WindowGeometry& g, const DirectConvolution& strategy);
  std::string channels_call(const WindowGeometry& g, const std::string& window);
  std::string pool_call(bool largest) const;
  std::string declare_window(const WindowGeometry& g);

  IndexExpr row(const Shape& shape) const;
  IndexExpr column(const Scale& n) const;
  std::string text(const Scale& count) const;
  Expr expression(const Scale& count) const;
  const char* type() const { return compute_type(body_.type(root_).dtype); }

  KernelContext& context_;
  const Graph& body_;
  const ValueId root_;
  const Op& op_;
  const SumNames names_;
  std::string sum_text_;
  Columns columns_ = Columns::Panels;
  bool fetches_ahead_;  // panels read and write memory at distances of a row of a matrix
  Statements lines_;    // before the contraction
  Epilogue after_;
};

/// An address: "x + m * 768", with the named variables set to zero.
std::string address(const Site& site, const std::vector<std::string>& without);

}  // namespace weftc
