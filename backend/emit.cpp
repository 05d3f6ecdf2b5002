// Assembles a program's files. Kernels are written first (kernel_text.h), because steps need to know their arguments.
// Then come the steps (steps.h), which may write further kernels for loops over chunks, then the declarations, and the
// templates of templates/ around them.
#include "backend/emit.h"

#include <algorithm>
#include <map>
#include <set>

#include "backend/declarations.h"
#include "backend/dialects/target_dialect.h"
#include "backend/layers.h"
#include "backend/level_files.h"
#include "backend/print.h"
#include "backend/steps.h"

namespace weftc {

namespace {

/// Kernels of one file are compiled together. Larger files are split, for parallel builds.
constexpr size_t kFileBytes = 24000;

std::vector<Params> line_items(const std::vector<std::string>& lines) {
  std::vector<Params> items;
  for (const std::string& line : lines) items.emplace_back().set("text", line);
  return items;
}

std::string plain_title(const std::string& category) {
  std::string title = category;
  title[0] = static_cast<char>(toupper(static_cast<unsigned char>(title[0])));
  return title;
}

/// A file of kernels. Headers that take long to compile are included only if a kernel calls them.
std::string kernels_text(const Plan& plan, const ProgramNames& names, const std::string& title,
                         const std::vector<std::string>& texts, const std::set<std::string>& headers) {
  Params params;
  params.set("title", title).set("program", names.space);
  params.list("headers").emplace_back().set("name", dialect_of(plan.target).kernel_header);
  for (const std::string& header : headers) params.list("headers").emplace_back().set("name", header);
  for (const std::string& text : texts) params.list("kernels").emplace_back().set("text", text);
  return render_file("kernels.cpp", params);
}

// One file for each category. Kernels are sorted by name, so that the Plan's order does not move text.
std::vector<SourceFile> kernel_files(const Plan& plan, const ProgramNames& names,
                                     const std::vector<KernelText>& kernels) {
  std::map<std::string, std::vector<const KernelText*>> by_category;
  for (size_t k = 0; k < kernels.size(); ++k)
    if (!kernels[k].text.empty()) by_category[category_name(plan.kernels[k].category)].push_back(&kernels[k]);
  std::vector<SourceFile> files;
  for (auto& [category, list] : by_category) {
    std::sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    size_t number = 0;
    for (size_t from = 0; from < list.size();) {
      std::vector<std::string> texts;
      size_t bytes = 0;
      std::set<std::string> headers;
      for (; from < list.size() && (bytes == 0 || bytes + list[from]->text.size() <= kFileBytes); ++from) {
        texts.push_back(list[from]->text);
        bytes += list[from]->text.size();
        headers.insert(list[from]->headers.begin(), list[from]->headers.end());
      }
      const std::string suffix = number++ ? "_" + std::to_string(number) : "";
      files.push_back({"kernels/" + category + suffix + dialect_of(plan.target).kernel_suffix,
                       kernels_text(plan, names, plain_title(category), texts, headers)});
    }
  }
  return files;
}

// The first line of program.cpp: "gpt2 on 2 ranks: tp 2."
std::string summary(const Plan& plan) {
  std::string text =
      identifier(plan.name) + (plan.world == 1 ? " on one rank" : " on " + std::to_string(plan.world) + " ranks");
  std::vector<std::string> axes;
  for (const Place& place : plan.places)
    for (const MeshAxis& axis : place.mesh) axes.push_back(axis.name + " " + std::to_string(axis.size));
  return comment_text(text + (axes.empty() ? "" : ": " + join(axes, ", ")) + ".");
}

/// A stream with computing steps has a team of threads.
bool is_parallel(const Plan& plan, int stream) {
  bool computes = false;
  for (const Block& block : plan.blocks)
    for_each_step(block.steps, [&](const Step& s) {
      const auto* launch = std::get_if<LaunchStep>(&s.what);
      computes |= launch && s.stream == stream && plan.kernel(launch->kernel).category != Category::Collective;
    });
  return computes;
}

class Emitter {
 public:
  Emitter(const Plan& plan, Diags& diags, ProgramForm form, const std::string& variant)
      : plan_(plan), diags_(diags), form_(form), names_(plan, variant), declarations_(plan, names_) {}

  std::vector<SourceFile> run() {
    for (size_t k = 0; k < plan_.kernels.size(); ++k)
      kernels_.push_back(write_kernel(plan_, plan_.kernels[k], names_.kernels[k], diags_));
    check_ports(plan_.inputs);
    check_ports(plan_.outputs);
    if (!diags_.ok()) return {};
    std::vector<SourceFile> files = {{"program.cpp", program_text()}};
    if (!diags_.ok()) return {};
    for (SourceFile& file : kernel_files(plan_, names_, kernels_)) files.push_back(std::move(file));
    if (!chunk_kernels_.empty())
      files.push_back({std::string("kernels/chunks") + dialect_of(plan_.target).kernel_suffix, chunk_kernels_text()});
    for (SourceFile& file : level_files(plan_, form_)) files.push_back(std::move(file));
    files.push_back({"CMakeLists.txt", cmake_text(plan_, files)});
    files.push_back({"manifest.json", manifest_text(plan_)});
    return files;
  }

 private:
  /// A port of an emitted program has a limit on dimensions (kMaxPortDims of weft/program.h).
  void check_ports(const std::vector<Port>& ports) {
    constexpr int kMaxPortDims = 8;
    for (const Port& port : ports)
      if (port.type.ndim() > kMaxPortDims)
        diags_.error("port-dims-unsupported", Loc::in_file(plan_.name),
                     "'{}' has {} dimensions, but inputs and outputs have at most {}", printable(port.name),
                     port.type.ndim(), kMaxPortDims);
  }

  // program.cpp. As a side effect it finds kernels that only loops over chunks call. On a device those have no text of
  // their own, because the loop's file has them as functions.
  std::string program_text() {
    for (const Program& program : plan_.programs) layers_.push_back(find_layers(plan_, names_, program, kernels_));
    StepText steps(plan_, names_, kernels_, diags_);
    std::vector<Params> programs;
    for (size_t p = 0; p < plan_.programs.size(); ++p) programs.push_back(program(p, steps));
    chunk_kernels_ = steps.chunk_kernels();
    called_by_chunks_ = steps.called_by_chunks();
    for (uint32_t k = 0; dialect_of(plan_.target).facts.has_grid && k < kernels_.size(); ++k)
      if (!steps.is_launched({k})) kernels_[k].text.clear();
    Params params;
    std::vector<std::string> layouts;
    params.set("summary", summary(plan_)).set("name", names_.space);
    params.set("header", dialect_of(plan_.target).program_header);
    for (const std::string& line : declarations_.axes()) params.list("axes").emplace_back().set("line", line);
    params.lists["axes"];
    std::vector<std::string> mesh, streams;
    for (const auto& place : names_.axes) mesh.insert(mesh.end(), place.begin(), place.end());
    for (size_t s = 0; s < plan_.streams.size(); ++s) {
      const bool parallel = is_parallel(plan_, static_cast<int>(s));
      streams.push_back("{" + string_literal(plan_.streams[s]) + (parallel ? ", true}" : "}"));
    }
    params.set("mesh", join(mesh, ", "))
        .set("stream_names", join(names_.streams, ", "))
        .set("streams", join(streams, ", "));
    params.lists["windows"] = line_items(windows());
    params.lists["signals"] = line_items(declarations_.signals());
    params.lists["transfers"] = line_items(declarations_.transfers());
    params.lists["lengths"] = line_items(declarations_.lengths());
    params.lists["kernels"] = line_items(kernel_lines());
    params.lists["programs"] = std::move(programs);
    std::vector<std::string> states;
    std::set<std::string> names;  // a state that is read in several places occurs several times
    for (const StateSlot& s : plan_.states)
      if (names.insert(s.input).second)
        states.push_back("{" + string_literal(s.input) + ", " + string_literal(s.output) + "}");
    params.set("states", join(states, ", "));
    params.set("end_tokens", plan_.generation ? numbers_text(plan_.generation->end) : "");
    params.set("generation", plan_.generation ? generation_rows(*plan_.generation) : "");
    params.set("figures", plan_.training ? literals(plan_.training->figures) : "");
    params.set("updates", plan_.training ? literals(plan_.training->updates) : "");
    params.set("training", plan_.training ? training_row(*plan_.training) : "");
    params.lists["rank_lists"] = line_items(rank_lists());
    params.set("program_rows", program_rows());
    params.set("executable", executable_rows());
    params.set("variant", form_ == ProgramForm::Variant ? "variant" : "");
    set_entry(params, plan_.target, form_);
    return render_file("program.cpp", params);
  }

  std::vector<std::string> kernel_lines() const {
    std::vector<std::string> lines;
    for (const KernelText& k : kernels_)
      if (!k.text.empty()) lines.push_back(k.parameters + ";");
    for (const KernelText& k : chunk_kernels_) lines.push_back(k.parameters + ";");
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  /// The loops over chunks that are one kernel, after the functions that they call.
  std::string chunk_kernels_text() const {
    const std::vector<std::string> called(called_by_chunks_.begin(), called_by_chunks_.end());
    std::vector<std::string> texts = {join(called, "\n")};
    for (const KernelText& k : chunk_kernels_) texts.push_back(k.text);
    std::set<std::string> headers;
    for (const KernelText& k : chunk_kernels_) headers.insert(k.headers.begin(), k.headers.end());
    return kernels_text(plan_, names_, "Chunk", texts, headers);
  }

  /// Windows have one position in all programs; each is declared from the first program that has it.
  std::vector<std::string> windows() const {
    Program all;
    all.ranks = {0};
    all.positions.resize(plan_.buffers.size());
    for (size_t b = 0; b < plan_.buffers.size(); ++b)
      for (const Program& program : plan_.programs)
        if (all.positions[b].kind == Position::Kind::Absent) all.positions[b] = program.positions[b];
    return Declarations(plan_, layers_.size() == 1 ? layers_[0].names : names_).buffers(all, true);
  }

  // Ranks that run different steps have different programs, each in a namespace of its own; a single program has no
  // namespace.
  std::string space(size_t program) const {
    return plan_.programs.size() > 1 ? "program_" + std::to_string(program) : "";
  }

  Params program(size_t number, StepText& steps) {
    const Program& program = plan_.programs[number];
    const ProgramLayers& layers = layers_[number];
    const Declarations declarations(plan_, layers.names);
    Params params;
    std::vector<std::string> ranks, layouts;
    for (int rank : program.ranks) ranks.push_back(std::to_string(rank));
    params.set("space", space(number)).set("ranks_text", "Ranks " + join(ranks, ", ") + ".");
    params.lists["buffers"] = line_items(declarations.buffers(program, false));
    params.lists["weights"] = line_items(declarations.weights(program));
    params.lists["layers"] = line_items(layers.tables);
    params.set("segments", declarations.segments(program));
    params.lists["blocks"];
    std::vector<std::string> order;
    const bool single = plan_.blocks.size() == 1 && plan_.micro_batches == 1;
    for (size_t b = 0; b < plan_.blocks.size(); ++b) {
      if (!holds(plan_, program, plan_.blocks[b].place)) continue;
      const std::string mb = has_order() ? ", int mb)" : ")";
      const std::string head = single ? "run(weft::Rank& r)" : block_name(static_cast<int>(b)) + "(weft::Rank& r" + mb;
      params.list("blocks")
          .emplace_back()
          .set("head", head)
          .set("begin", has_order() ? begin_of(plan_.blocks[b]) : "")
          .set("body", joined_lines(steps.block(plan_.blocks[b], layers)));
    }
    for (const OrderedBlock& turn : plan_.order)
      if (has_order() && holds(plan_, program, plan_.blocks[static_cast<size_t>(turn.block)].place))
        order.push_back(turn_row(turn));
    params.set("order", wrapped_rows(order));
    params.set("trains", plan_.training ? "yes" : "");
    params.set("order_says", plan_.training ? ", and whether an evaluation has them" : "");
    params.set("order_if", plan_.training ? "\n    if (turn.is_evaluated || !r.evaluates())" : "");
    params.set("phases", plan_.training && !single && !has_order() ? phases() : "");
    params.set("inputs", declarations.ports(program, plan_.inputs, "Input", layouts));
    params.set("outputs", declarations.ports(program, plan_.outputs, "Output", layouts));
    if (const std::string slots = declarations.length_slots(program); !slots.empty())
      layouts.push_back("constexpr weft::LengthSlot kLengthSlots[] = {" + slots + "};");
    params.lists["layouts"] = line_items(layouts);
    return params;
  }

  /// Rows of a table, several a line.
  static std::string wrapped_rows(const std::vector<std::string>& rows) {
    constexpr size_t kWidth = 110;
    std::string text;
    size_t line = 0;
    for (const std::string& row : rows) {
      const bool fits = line > 0 && line + 1 + row.size() <= kWidth;
      text += line == 0 ? "" : fits ? " " : "\n";
      line = (fits ? line + 1 : 0) + row.size();
      text += row;
    }
    return text;
  }

  /// True if blocks run in the order of a table.
  bool has_order() const { return plan_.has_stages && (plan_.blocks.size() > 1 || plan_.micro_batches > 1); }

  /// The description of the block's steps in traces.
  static std::string begin_of(const Block& block) {
    const char* pass = block.turn != Turn::MicroBatch  ? "Once"
                       : block.phase == Phase::Forward ? "Forward"
                       : block.of_weights              ? "Weight"
                                                       : "Backward";
    return "r.begin({" + string_literal(block.name) + ", weft::Pass::" + pass + ", mb});";
  }

  /// Block, micro-batch, and in a training whether an evaluation runs it too.
  std::string turn_row(const OrderedBlock& turn) const {
    const bool is_evaluated = plan_.blocks[static_cast<size_t>(turn.block)].phase == Phase::Forward;
    return "{" + block_name(turn.block) + ", " + std::to_string(turn.micro_batch) +
           (plan_.training && is_evaluated ? ", true" : "") + "},";
  }

  /// Calls of the blocks of a training; the first part of them is an evaluation.
  std::string phases() const {
    std::vector<std::string> calls;
    for (const OrderedBlock& turn : plan_.order) calls.push_back(block_name(turn.block) + "(r);");
    calls.insert(calls.begin() + 1, "if (r.evaluates()) return;");
    return join(calls, "\n");
  }

  std::string block_name(int block) const {
    return plan_.blocks.size() == 1 ? "block" : names_.blocks[static_cast<size_t>(block)];
  }

  std::vector<std::string> rank_lists() const {
    std::vector<std::string> lines;
    for (size_t p = 0; plan_.programs.size() > 1 && p < plan_.programs.size(); ++p) {
      std::vector<std::string> ranks;
      for (int rank : plan_.programs[p].ranks) ranks.push_back(std::to_string(rank));
      lines.push_back("constexpr int kRanks" + std::to_string(p) + "[] = {" + join(ranks, ", ") + "};");
    }
    return lines;
  }

  bool has_port(const Program& program, const std::vector<Port>& ports) const {
    return std::any_of(ports.begin(), ports.end(), [&](const Port& port) {
      return program.positions[port.buffer.index].kind != Position::Kind::Absent && holds(plan_, program, port.place);
    });
  }

  // The rows of the table in which the runtime finds the program of a rank; empty fields are left out.
  std::string program_rows() const {
    std::vector<std::string> rows;
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const Program& program = plan_.programs[p];
      const std::string in = space(p).empty() ? "" : space(p) + "::";
      std::string row = "{";
      if (!in.empty()) row += ".ranks = kRanks" + std::to_string(p) + ",\n ";
      row += ".streams = kStreams,";
      if (has_port(program, plan_.inputs)) row += "\n .inputs = " + in + "kInputs,";
      if (has_port(program, plan_.outputs)) row += "\n .outputs = " + in + "kOutputs,";
      if (!declarations_.weights(program).empty()) row += "\n .weights = " + in + "kWeights,";
      if (!declarations_.length_slots(program).empty()) row += "\n .lengths = " + in + "kLengthSlots,";
      row += "\n .own_bytes = " + std::to_string(program.own_bytes) + ",";
      row += "\n .window_bytes = " + std::to_string(program.window_bytes) + ",";
      if (declarations_.signal_count() != "0") row += "\n .signals = " + declarations_.signal_count() + ",";
      rows.push_back(row + "\n .run = " + in + "run},");
    }
    return join(rows, "\n");
  }

  static std::string numbers_text(const std::vector<int64_t>& numbers) {
    std::vector<std::string> texts;
    for (const int64_t number : numbers) texts.push_back(std::to_string(number));
    return join(texts, ", ");
  }

  static std::string literals(std::vector<std::string> texts) {
    for (std::string& text : texts) text = string_literal(text);
    return join(texts, ", ");
  }

  static std::string generation_rows(const Generation& g) {
    std::string rows;
    const auto name = [&](const char* field, const std::string& text) {
      if (!text.empty()) rows += format(".{} = {},\n", field, string_literal(text));
    };
    name("tokens", g.tokens);
    name("logits", g.logits);
    name("positions", g.positions);
    name("mask", g.mask);
    name("past", g.past);
    if (!g.past.empty()) rows += format(".past_dim = {},\n", g.past_dim);
    rows += format(".room = {},\n", g.room);
    if (!g.end.empty()) rows += ".end = kEnd,\n";
    const Sampling& s = g.sampling;
    return rows + format(".sampling = {.max_new = {}, .temperature = {}, .top_k = {}, .top_p = {}, .seed = {}},",
                         s.max_new, shortest(s.temperature), s.top_k, shortest(s.top_p), s.seed);
  }

  std::string training_row(const Training& t) const {
    const std::string norm = t.norm.empty() ? "" : ", .norm = " + string_literal(t.norm);
    const std::string figures = t.figures.empty() ? "" : ", .figures = kFigures";
    const std::string updates = t.updates.empty() ? "" : ", .updates = kUpdates";
    const std::string evaluates = t.evaluates.empty() ? "" : ", .evaluates = " + string_literal(t.evaluates);
    const std::string seed =
        plan_.seed == 0 ? "" : ", .random_seed = " + std::to_string(static_cast<uint32_t>(plan_.seed));
    return format("{.loss = {}, .rate = {}, .optimizer = {}", string_literal(t.loss), string_literal(t.rate),
                  string_literal(t.optimizer)) +
           norm + figures + updates + evaluates + seed + "}";
  }

  std::string executable_rows() const {
    std::string rows = ".name = " + string_literal(names_.program) + ",\n.world = " + std::to_string(plan_.world) + ",";
    if (!declarations_.axes().empty()) rows += "\n.axes = kMesh,";
    rows += "\n.programs = kPrograms,";
    if (!plan_.states.empty()) rows += "\n.states = kStates,";
    if (!plan_.lengths.empty()) rows += "\n.lengths = kLengths,";
    if (!plan_.limits.empty()) rows += "\n.limits = kLimits,";
    if (!plan_.demands.empty()) rows += "\n.demands = kDemands,";
    if (plan_.training) rows += "\n.training = &kTraining,";
    if (plan_.generation) rows += "\n.generation = &kGeneration,";
    if (std::any_of(plan_.kernels.begin(), plan_.kernels.end(), [](const Kernel& k) { return has_pairs(k.strategy); }))
      rows += "\n.has_pairs = true,";
    return rows;
  }

  Plan plan_;  // a copy: names of nodes in loops over layers are added to it
  Diags& diags_;
  const ProgramForm form_;
  const ProgramNames names_;
  const Declarations declarations_;
  std::vector<ProgramLayers> layers_;  // by program
  std::vector<KernelText> kernels_, chunk_kernels_;
  std::set<std::string> called_by_chunks_;
};

}  // namespace

std::vector<SourceFile> emit(const Plan& plan, Diags& diags, ProgramForm form, const std::string& variant) {
  return Emitter(plan, diags, form, variant).run();
}

std::string cmake_text(const Plan& plan, const std::vector<SourceFile>& files) {
  Params params;
  const TargetDialect& dialect = dialect_of(plan.target);
  params.set("name", identifier(plan.name)).set("target", dialect.name).set("languages", dialect.languages);
  params.set("archs", plan.target.has_levels() ? "" : dialect.archs(plan.target));
  params.set("levels", plan.target.has_levels() ? join(plan.target.archs, " ") : "");
  params.set("arch_variable", dialect.arch_variable).set("arch_meaning", dialect.arch_meaning);
  for (const SourceFile& file : files) params.list("sources").emplace_back().set("path", file.path);
  return render_file("program_CMakeLists.txt", params);
}

namespace {
std::string json_list(const std::vector<std::string>& items, const std::string& indent) {
  if (items.empty()) return "[]";
  return "[\n" + indent + "  " + join(items, ",\n" + indent + "  ") + "\n" + indent + "]";
}
std::string loc_text(const Loc& loc) {
  return loc.file + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column);
}
/// Fields of a step in a pipeline: its block, and whether that runs for each micro-batch.
std::string block_fields(const Plan& plan, const Block& block) {
  if (!plan.has_stages) return "";
  const char* turn = block.turn == Turn::MicroBatch ? ", \"turn\": \"micro_batch\"" : "";
  return ", \"block\": " + json_string(block.name) + turn;
}

void step_rows(const Plan& plan, const Block& block, std::vector<std::string>& rows) {
  for_each_step(block.steps, [&](const Step& s) {
    std::vector<std::string> nodes;
    for (OriginId id : s.origins) {
      const Origin& origin = plan.origins[id.index];
      nodes.push_back("{\"op\": " + json_string(origin.op_type) + ", \"name\": " + json_string(origin.name) + "}");
    }
    std::string row = "{\"name\": " + json_string(s.name) +
                      ", \"stream\": " + json_string(plan.streams[static_cast<size_t>(s.stream)]);
    if (const auto* launch = std::get_if<LaunchStep>(&s.what))
      row += ", \"kernel\": " + json_string(plan.kernel(launch->kernel).name);
    if (!s.transform.empty()) row += ", \"transform\": " + json_string(s.transform);
    if (s.transform_loc.kind == Loc::Kind::Text) row += ", \"schedule\": " + json_string(loc_text(s.transform_loc));
    row += block_fields(plan, block);
    rows.push_back(row + ", \"nodes\": [" + join(nodes, ", ") + "]}");
  });
}

/// How a kernel is computed, if the schedule pinned that, and why no better strategy fits.
std::string strategy_fields(const Kernel& kernel) {
  std::string fields = "\"strategy\": " + json_string(strategy_text(kernel.strategy));
  if (kernel.one_thread) fields += ", \"threads\": 1";
  if (kernel.in_chunks) fields += ", \"in_chunks\": " + json_string(strategy_text(*kernel.in_chunks));
  if (kernel.pin.kind == Loc::Kind::Text) fields += ", \"pinned\": " + json_string(loc_text(kernel.pin));
  const std::string why = reason_text(kernel.strategy);
  return why.empty() ? fields : fields + ", \"why\": " + json_string(why);
}
}  // namespace

std::string manifest_text(const Plan& plan) {
  std::vector<std::string> steps, kernels, buffers, axes;
  for (const Block& block : plan.blocks) step_rows(plan, block, steps);
  for (const Kernel& k : plan.kernels) {
    std::vector<std::string> users;
    for (const std::string& user : k.users) users.push_back(json_string(user));
    kernels.push_back("{\"name\": " + json_string(k.name) +
                      ", \"category\": " + json_string(category_name(k.category)) + ", " + strategy_fields(k) +
                      ", \"steps\": [" + join(users, ", ") + "]}");
  }
  for (const Buffer& b : plan.buffers)
    buffers.push_back("{\"name\": " + json_string(b.name) + ", \"memory\": " + (b.window ? "\"window\"" : "\"own\"") +
                      ", \"bytes\": " + std::to_string(b.bytes * b.depth) + ", \"live\": " + json_string(b.live) + "}");
  for (const Place& place : plan.places)
    for (const MeshAxis& axis : place.mesh) axes.push_back(json_string(axis.name) + ": " + std::to_string(axis.size));
  return std::string("{\n  \"target\": ") + json_string(dialect_of(plan.target).name) +
         ",\n  \"model\": " + json_string(plan.name) + ",\n  \"world\": " + std::to_string(plan.world) +
         ",\n  \"mesh\": {" + join(axes, ", ") + "},\n  \"steps\": " + json_list(steps, "  ") +
         ",\n  \"kernels\": " + json_list(kernels, "  ") + ",\n  \"buffers\": " + json_list(buffers, "  ") + "\n}\n";
}

}  // namespace weftc
