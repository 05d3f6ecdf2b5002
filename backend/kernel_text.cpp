// A kernel's function: comment, head and body, and the code around the body of a kernel that accesses its peers.
//
//   // MatMul h.0.mlp.c_proj; fuse into far          the nodes it came from, and the transform
//   void far(weft::Peers peers, ...) {               the head, by the target's dialect
//     peers.barrier();                               what the peers have written is there
//     for (...) ...                                  the body, by the kernel's strategy
//     peers.barrier();                               what was read may be overwritten
//   }
#include "backend/kernel_text.h"

#include <algorithm>
#include <map>

#include "backend/column_calls.h"
#include "backend/index_checks.h"
#include "backend/long_sums.h"
#include "backend/nest.h"
#include "backend/print.h"
#include "backend/render.h"
#include "backend/row_calls.h"
#include "backend/stream_rows.h"
#include "backend/sums_in_parts.h"
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

/// Three numbers of spatial dimensions as text, `fill` for missing ones.
static std::string triple(const IndexDims& numbers, int64_t fill) {
  std::vector<std::string> texts(3 - numbers.size(), std::to_string(fill));
  for (const Scale& n : numbers) texts.push_back(n.text());
  return "{" + join(texts, ", ") + "}";
}

std::string window_line(const KernelContext& context, const WindowGeometry& g, const std::string& name) {
  for (const IndexDims* extents : {&g.in, &g.out, &g.before})
    for (const Scale& extent : *extents) context.need_lengths(IndexExpr::of(extent));
  const bool is_constant = g.inputs.is_number() && g.outputs.is_number();
  return std::string(is_constant ? "constexpr" : "const") + " weft::SlidingWindow " + name +
         "{.in = " + triple(g.in, 1) + ", .out = " + triple(g.out, 1) + ", .taps = " + triple(g.window, 1) +
         ", .stride = " + triple(g.stride, 1) + ", .dilation = " + triple(g.dilation, 1) +
         ", .pad = " + triple(g.before, 0) + "};";
}

/// Bytes that a rank receives from its peers, by their type in memory. The program's --link models their time.
static Statements received_bytes(const KernelContext& context) {
  std::map<std::string, int64_t> counts;
  for (OpId id : context.body.order()) {
    const Op& op = context.body.op(id);
    if (category(op) != Category::Collective || op.kind == OpKind::ShardSlice) continue;
    // Peers write their slices of a gathered value here. Parts of a reduction are read: as many as this rank sums.
    const ValueId part = op.kind == OpKind::AllGather ? op.inputs[0] : context.body.result(id);
    counts[memory_type(context.body.type(part).dtype)] += (context.ranks() - 1) * element_count(context.dims(part));
  }
  Statements statements;
  for (const auto& [type, count] : counts) statements.push_back(Call{call("peers.received<" + type + ">", {count})});
  return statements;
}

static std::string window_type(const KernelContext& context, size_t parameter) {
  const bool is_input = parameter < context.body.inputs().size();
  return (is_input ? "const " : "") + std::string(memory_type(context.kernel.parameters[parameter].type.dtype)) + "*";
}

/// Peers' copies of the window operands: a pointer for each one used in the body.
static Statements peer_pointers(const KernelContext& context) {
  Statements statements;
  for (const auto& [parameter, peer] : context.used_peer_copies()) {
    const std::string rank = peer < 0 ? "peers.index" : std::to_string(peer);
    statements.push_back(Let{window_type(context, parameter) + " const", context.peer_copy_name(parameter, peer),
                             call("peers.at", {name(rank), name(context.parameter_name(parameter))}), true});
  }
  return statements;
}

/// The same as arrays, which stay in registers. Writes to all peers begin with the rank's own copy and continue with
/// the next ranks, so that no two ranks store to the same one at a time.
static Statements peer_arrays(const KernelContext& context) {
  const Expr ranks = name("ranks"), p = name("p");
  Statements statements = {"constexpr int ranks = " + std::to_string(context.ranks()) + ";"};
  For fill{.variable = "p", .bound = ranks, .type = "int"};
  for (size_t i = 0; i < context.kernel.parameters.size(); ++i) {
    if (!context.kernel.parameters[i].window) continue;
    const std::string& window = context.parameter_name(i);
    const Expr peer = i < context.body.inputs().size() ? p : binary(binary(name("peers.index"), "+", p), "%", ranks);
    statements.push_back(window_type(context, i) + " " + window + "_at[ranks];");
    fill.body.push_back(Store{element(window + "_at", p), call("peers.at", {peer, name(window)})});
  }
  statements.push_back(std::move(fill));
  return statements;
}

/// The checks of the indices that a body looks up, then the body.
static Statements with_checks(KernelContext& context, Statements body) {
  Statements statements = index_checks(context);
  append(statements, std::move(body));
  return statements;
}

/// The body between two barriers of all ranks.
static Statements with_peers(KernelContext& context, Statements body) {
  if (!context.reads_peers()) return body;
  body = with_checks(context, std::move(body));
  Statements statements = context.facts().has_peer_arrays ? peer_arrays(context) : peer_pointers(context);
  statements.push_back(!context.facts().waits_may_fail ? "peers.barrier();"
                       : context.is_in_chunks()        ? "if (!peers.barrier()) return false;"
                                                       : "if (!peers.barrier()) return;");
  append(statements, std::move(body));
  if (context.facts().counts_received) append(statements, received_bytes(context));
  const Expr meeting = call("peers.barrier", {});
  statements.push_back(context.is_in_chunks() ? Statement(Return{meeting}) : Statement(Call{meeting}));
  return statements;
}

Statements write_body(KernelContext& context, const PeerExchange&, Writer<PeerExchange>) {
  return with_peers(context, write_nests(context));
}
Statements write_body(KernelContext& context, const PlainLoops&, Writer<PlainLoops>) {
  return with_peers(context, write_nests(context));
}
Statements write_body(KernelContext& context, const Rows&, Writer<Rows>) { return write_nests(context); }
Statements write_body(KernelContext& context, const Elementwise&, Writer<Elementwise>) { return write_nests(context); }
Statements write_body(KernelContext&, const LibraryProduct&, Writer<LibraryProduct>) {
  check_failed(__FILE_NAME__, __LINE__, "a library's product has no body");
}

static std::string comment_of(const Plan& plan, const Kernel& kernel) {
  const std::string transform = kernel.transform.empty() ? "" : "; " + kernel.transform;
  const auto* append = std::get_if<Append>(&kernel.strategy);
  const std::string there = append ? "; " + kernel.parameters[append->state].name + " lies where the result does" : "";
  return comment_text(nodes_text(plan, kernel.origins, 100) + transform + there);
}

std::string wrapped_head(const std::string& head, const std::vector<std::string>& parameters) {
  const std::string indent(head.size() + 1, ' ');
  std::string text = head + "(";
  size_t column = text.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string part = parameters[i] + (i + 1 < parameters.size() ? "," : ")");
    if (i && column + 1 + part.size() > 117) {
      text += "\n" + indent + part;
      column = indent.size() + part.size();
    } else {
      text += (i ? " " : "") + part;
      column += (i ? 1 : 0) + part.size();
    }
  }
  return parameters.empty() ? text + ")" : text;
}

/// The head of a kernel's definition, or of a function that only kernels call.
static std::string definition_head(const KernelContext& context, const std::string& name) {
  const KernelWords& words = context.dialect().words;
  const bool may_fail = context.is_in_chunks() && context.reads_peers();
  const std::string kind = context.is_in_chunks() ? words.function : words.kernel;
  return wrapped_head(kind + (may_fail ? "bool " : "void ") + name, context.parameters(true));
}

static bool has_strings(const Graph& body) {
  for (OpId id = body.first(); id; id = body.next(id)) {
    const Op& op = body.op(id);
    for (ValueId value : op.outputs)
      if (body.type(value).dtype == DType::String) return true;
    if (std::any_of(op.regions.begin(), op.regions.end(), has_strings)) return true;
  }
  return false;
}

KernelText write_kernel(const Plan& plan, const Kernel& kernel, const std::string& name, Diags& diags, KernelUse use) {
  KernelContext context(plan, kernel, diags, use);
  KernelText text;
  text.name = name;
  if (std::holds_alternative<LibraryProduct>(context.strategy())) return text;
  Statements body = std::visit([&]<class S>(const S& strategy) { return write_body(context, strategy, Writer<S>()); },
                               context.strategy());
  if (!context.reads_peers()) body = with_checks(context, std::move(body));
  Statements statements = context.prologue();
  append(statements, std::move(body));
  const bool is_host = !context.facts().has_grid;
  if (is_host) {
    if (call_for_columns(context.names, statements)) context.need_header("column_sums.h");
    bare_vector_loops(statements);
    add_in_parts(statements);
  }
  widen_long_sums(context.names, is_host, statements);
  if (is_host) {
    call_for_rows(statements);
    stream_rows(context, statements);
  }
  if (has_strings(context.body)) {
    context.need_header("strings.h");
    make_serial(statements);  // functions of strings throw, so no loop may be a vector loop
  }
  const std::string lines = joined_lines(lines_of(statements, context.dialect().loops()));
  text.parameters = wrapped_head("void " + name, context.parameters());
  text.blocks = context.blocks(), text.threads = context.threads();
  text.arguments = context.passed_arguments();
  text.group = context.group();
  text.headers = context.headers();
  Params params;
  params.set("nodes", comment_of(plan, kernel)).set("head", definition_head(context, name)).set("body", lines);
  text.text = render_file("kernel.cpp", params);
  return text;
}

}  // namespace weftc
