#include "backend/kernel_text.h"

#include <algorithm>
#include <map>

#include "backend/code.h"
#include "backend/nest.h"
#include "backend/render.h"
#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

std::string nodes_text(const Plan& plan, const std::vector<OriginId>& origins, size_t limit) {
  std::string text;
  for (size_t i = 0; i < origins.size(); ++i) {
    const Origin& origin = plan.origins[origins[i].index];
    const std::string node = (i ? ", " : "") + origin.op_type + " " + origin.name;
    if (i && text.size() + node.size() > limit) return text + " and " + std::to_string(origins.size() - i) + " more";
    text += node;
  }
  return text;
}

/// Three numbers of spatial dimensions as text, `fill` where there are fewer.
static std::string triple(const Dims& numbers, int64_t fill) {
  std::vector<std::string> texts(3 - numbers.size(), std::to_string(fill));
  for (int64_t n : numbers) texts.push_back(std::to_string(n));
  return "{" + join(texts, ", ") + "}";
}

std::string window_line(const WindowGeometry& g) {
  return "constexpr weft::SlidingWindow window{.in = " + triple(g.in, 1) + ", .out = " + triple(g.out, 1) +
         ", .taps = " + triple(g.window, 1) + ", .stride = " + triple(g.stride, 1) +
         ", .dilation = " + triple(g.dilation, 1) + ", .pad = " + triple(g.before, 0) + "};";
}

/// What comes to a rank from its peers, by the type in memory: a --link of the program takes its time.
static std::vector<std::string> received_lines(const KernelContext& context) {
  std::map<std::string, int64_t> counts;
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Collective || op.kind == OpKind::ShardSlice) continue;
    // Peers write their slices of a gathered value here; parts of a reduction are read, as many as this rank sums.
    const ValueId part = op.kind == OpKind::AllGather ? op.inputs[0] : context.body.result(id);
    counts[memory_type(context.body.type(part).dtype)] += (context.ranks() - 1) * element_count(context.dims(part));
  }
  std::vector<std::string> lines;
  for (const auto& [type, count] : counts)
    lines.push_back("peers.received<" + type + ">(" + std::to_string(count) + ");");
  return lines;
}

static std::string window_type(const KernelContext& context, size_t parameter) {
  const bool is_input = parameter < context.body.inputs().size();
  return (is_input ? "const " : "") + std::string(memory_type(context.kernel.parameters[parameter].type.dtype)) + "*";
}

/// Peers' copies of the window operands: a pointer for each that the body names.
static std::vector<std::string> peer_pointers(const KernelContext& context, const std::vector<std::string>& body) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < context.kernel.parameters.size(); ++i)
    for (int64_t p = -1; context.kernel.parameters[i].window && p < context.ranks(); ++p) {
      const std::string name = context.peer_copy(i, p);
      const auto has_name = [&](const std::string& line) { return line.find(name) != std::string::npos; };
      if (std::none_of(body.begin(), body.end(), has_name)) continue;
      lines.push_back(window_type(context, i) + " const " + name + " = peers.at(" +
                      (p < 0 ? "peers.index" : std::to_string(p)) + ", " + context.parameter_name(i) + ");");
    }
  return lines;
}

/// The same as tables, which a device's kernel keeps in registers. What is written to all peers begins with the rank's
/// own copy and goes round from there: no two ranks store to the same one at a time.
static std::vector<std::string> peer_tables(const KernelContext& context) {
  std::vector<std::string> lines = {"constexpr int ranks = " + std::to_string(context.ranks()) + ";"};
  const size_t inputs = context.body.inputs().size();
  std::vector<std::string> fill;
  for (size_t i = 0; i < context.kernel.parameters.size(); ++i) {
    if (!context.kernel.parameters[i].window) continue;
    const std::string &name = context.parameter_name(i), peer = i < inputs ? "p" : "(peers.index + p) % ranks";
    lines.push_back(window_type(context, i) + " " + name + "_at[ranks];");
    fill.push_back("  " + name + "_at[p] = peers.at(" + peer + ", " + name + ");");
  }
  lines.push_back("for (int p = 0; p < ranks; ++p) {");
  lines.insert(lines.end(), fill.begin(), fill.end());
  lines.push_back("}");
  return lines;
}

/// A body between two meetings of all ranks.
static std::vector<std::string> with_peers(const KernelContext& context, std::vector<std::string> body) {
  if (!context.reads_peers()) return body;
  std::vector<std::string> lines = context.is_device() ? peer_tables(context) : peer_pointers(context, body);
  // On a device a block leaves when the time is over; the host then reports the step.
  lines.push_back(context.is_in_chunks() ? "if (!peers.barrier()) return false;"
                  : context.is_device()  ? "if (!peers.barrier()) return;"
                                         : "peers.barrier();");
  lines.insert(lines.end(), body.begin(), body.end());
  if (!context.is_device())
    for (std::string& line : received_lines(context)) lines.push_back(std::move(line));
  lines.push_back(context.is_in_chunks() ? "return peers.barrier();" : "peers.barrier();");
  return lines;
}

namespace {
/// The statements of a body by its strategy. Loops over elements are write_nests, whatever they compute.
struct BodyWriter {
  KernelContext& context;

  using Lines = std::vector<std::string>;
  Lines operator()(const PackedProduct& s) const { return write_packed_product(context, s); }
  Lines operator()(const StridedProduct&) const { return write_strided_product(context); }
  Lines operator()(const PlaneConvolution&) const { return on_host(write_plane_convolution); }
  Lines operator()(const PointConvolution&) const { return write_point_convolution(context); }
  Lines operator()(const UnfoldedConvolution& s) const { return write_unfolded_convolution(context, s); }
  Lines operator()(const WindowReduction&) const { return on_host(write_window_reduction); }
  Lines operator()(const TiledProduct& s) const { return write_tiled_product(context, s); }
  Lines operator()(const TiledConvolution& s) const { return write_tiled_convolution(context, s); }
  Lines operator()(const Transposition& s) const { return write_transposition(context, s); }
  Lines operator()(const Scatter&) const { return write_scatter(context); }
  Lines operator()(const PeerExchange&) const { return with_peers(context, write_nests(context)); }
  Lines operator()(const Rows&) const { return write_nests(context); }
  Lines operator()(const Elementwise&) const { return write_nests(context); }
  Lines operator()(const PlainLoops&) const { return with_peers(context, write_nests(context)); }
  Lines operator()(const LibraryProduct&) const {
    check_failed(__FILE_NAME__, __LINE__, "a library's product has no body");
  }

  /// A device computes windows of one channel element by element: neighbouring threads read neighbouring windows.
  Lines on_host(Lines (*write)(KernelContext&)) const {
    return context.is_device() ? write_nests(context) : write(context);
  }
};
}  // namespace

static std::string comment_of(const Plan& plan, const Kernel& kernel) {
  const std::string transform = kernel.transform.empty() ? "" : "; " + kernel.transform;
  return comment_text(nodes_text(plan, kernel.origins, 100) + transform);
}

std::string wrapped_head(const std::string& head, const std::string& parameters) {
  const std::string indent(head.size() + 1, ' ');
  std::string text = head + "(", line = text;
  for (size_t from = 0; from < parameters.size();) {
    size_t to = parameters.find(", ", from);
    to = to == std::string::npos ? parameters.size() : to + 2;
    const std::string part = parameters.substr(from, to - from);
    if (line.size() + part.size() > 118 && line.size() > indent.size()) {
      while (text.back() == ' ') text.pop_back();
      text += "\n" + indent;
      line = indent;
    }
    text += part, line += part;
    from = to;
  }
  return text + ")";
}

/// What a device calls a kernel, or the function that a kernel calls.
static std::string device_head(const KernelContext& context, const std::string& name) {
  const std::string kind = !context.is_in_chunks() ? "__global__ void "
                           : context.reads_peers() ? "static WEFT_DEVICE bool "
                                                   : "static WEFT_DEVICE void ";
  return wrapped_head(kind + name, context.parameters(true));
}

KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags, KernelUse use) {
  KernelContext context(plan, kernel, diags, use);
  KernelText text;
  text.name = name;
  if (const auto* product = std::get_if<LibraryProduct>(&context.strategy())) {
    text.call = write_library_call(context, *product);
    text.arguments = context.passed_arguments();
    return text;
  }
  std::vector<std::string> lines = std::visit(BodyWriter{context}, context.strategy());
  const std::vector<std::string> prologue = context.prologue();
  lines.insert(lines.begin(), prologue.begin(), prologue.end());
  text.parameters = wrapped_head("void " + name, context.parameters());
  text.blocks = context.blocks(), text.threads = context.threads();
  text.arguments = context.passed_arguments();
  text.group = context.group();
  Params params;
  const std::string head = context.is_device() ? device_head(context, name) : text.parameters;
  params.set("nodes", comment_of(plan, kernel)).set("head", head).set("body", block_text(lines, 0));
  text.text = render_file("kernel.cpp", params);
  return text;
}

}  // namespace weftc
