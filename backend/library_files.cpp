// The header lists the model's inputs and outputs with types and shapes: its functions take them as bytes.
#include "backend/library_files.h"

#include <algorithm>
#include <set>

#include "backend/program_names.h"
#include "backend/render.h"
#include "ir/base/naming.h"

namespace weftc {

namespace {

/// An extent of a port in all variants: "8", "<=8", "1 or 8".
std::string extent_text(const std::vector<const Port*>& of_variants, size_t dim) {
  std::set<int64_t> lengths;
  bool is_bound = false;
  for (const Port* port : of_variants) {
    const Extent& extent = port->type.shape[dim];
    lengths.insert(extent.bound);
    is_bound |= extent.is_run_time();
  }
  if (is_bound) return "<=" + std::to_string(*lengths.rbegin());
  std::vector<std::string> texts;
  for (const int64_t length : lengths) texts.push_back(std::to_string(length));
  return join(texts, " or ");
}

/// "f32[1, <=64]".
std::string shape_text(const std::vector<const Port*>& of_variants) {
  const TensorType& type = of_variants.front()->type;
  std::vector<std::string> dims;
  for (size_t d = 0; d < type.shape.size(); ++d) dims.push_back(extent_text(of_variants, d));
  return std::string(dtype_name(type.dtype)) + "[" + join(dims, ", ") + "]";
}

/// `port`, and ports of the same name in the plans of other variants.
std::vector<const Port*> of_variants(const Plans& plans, const Port& port, std::vector<Port> Plan::*ports) {
  std::vector<const Port*> out = {&port};
  for (const Plan* plan : plans)
    if (const Port* same = find_port(plan->*ports, port.name)) out.push_back(same);
  return out;
}

bool is_state(const Plan& plan, const std::string& input) {
  return std::any_of(plan.states.begin(), plan.states.end(), [&](const StateSlot& s) { return s.input == input; });
}

bool is_next_of_state(const Plan& plan, const std::string& output) {
  return std::any_of(plan.states.begin(), plan.states.end(), [&](const StateSlot& s) { return s.output == output; });
}

/// The extent of a text: a prompt or a generated one, in tokens.
Extent text_extent(const Generation& generation) {
  return {.bound = generation.room, .length = std::make_shared<const Length>(Length::named("text", generation.room))};
}

TensorType type_of_tokens(const Plan& plan) {
  const auto tokens = std::find_if(plan.inputs.begin(), plan.inputs.end(),
                                   [&](const Port& port) { return port.name == plan.generation->tokens; });
  TensorType type = tokens->type;
  type.shape[1] = text_extent(*plan.generation);
  return type;
}

std::string header_text(const Plans& plans, const Params& names) {
  const Plan& plan = *plans.back();  // the largest
  Params params = names;
  std::string guard = "WEFT_" + library_name(plan) + "_H";
  std::transform(guard.begin(), guard.end(), guard.begin(), [](unsigned char c) { return toupper(c); });
  params.set("guard", guard);
  params.set("summary", comment_text(library_name(plan) + ", a model compiled by Weft for " +
                                     std::to_string(plan.world) + (plan.world == 1 ? " rank" : " ranks") + "."));
  std::vector<Params>& ports = params.list("ports");
  const auto add = [&](const char* kind, const Port& port, std::vector<Port> Plan::*all) {
    std::string line = comment_text(std::string(kind) + " " + json_string(port.name) + ": " +
                                    shape_text(of_variants(plans, port, all)));
    const bool is_new =
        std::none_of(ports.begin(), ports.end(), [&](const Params& p) { return p.texts.at("line") == line; });
    if (is_new) ports.emplace_back().set("line", std::move(line));
  };
  const std::optional<Generation>& generation = plan.generation;
  for (Port port : plan.inputs) {
    if (generation && (port.name == generation->positions || port.name == generation->mask)) continue;
    if (generation && port.name == generation->tokens) port.type = type_of_tokens(plan);
    add(is_state(plan, port.name) ? "state " : "input ", port, &Plan::inputs);
  }
  for (Port port : plan.outputs) {
    if (generation && port.name == generation->logits) {
      port.name = "tokens";
      port.type = type_of_tokens(plan);
    } else if (generation || is_next_of_state(plan, port.name)) {
      continue;
    }
    add("output", port, &Plan::outputs);
  }
  for (const char* setting : {"max_new\": i64", "temperature\": f64", "top_k\": i64", "top_p\": f64", "seed\": i64"})
    if (generation)
      ports.emplace_back().set("line",
                               comment_text(format("setting \"{}[], as the schedule says if it is not set", setting)));
  return render_file("library.h", params);
}

}  // namespace

std::string library_name(const Plan& plan) { return ProgramNames(plan).program; }

bool check_library_name(const Plan& plan, Diags& diags) {
  // Libraries of the system and of compilers, which programs are linked with implicitly or usually.
  static const std::set<std::string> kOfSystem = {"anl", "asan", "atomic",  "c",      "crypt", "dl",   "gcc",  "gcc_s",
                                                  "m",   "mvec", "pthread", "resolv", "rt",    "tsan", "util", "z"};
  const std::string name = library_name(plan);
  if (!kOfSystem.contains(name)) return true;
  diags.error("library-name", Loc::in_file(plan.name),
              "the library of this model would be lib{}.so, which linkers take for the system's: give the file another "
              "name",
              name);
  return false;
}

std::vector<SourceFile> library_files(const Plans& plans) {
  const std::string name = library_name(*plans.front()), header = name + ".h";
  Params names;
  names.set("type", name + "_model");
  for (const char* function : {"create", "create_rank", "destroy", "set_input", "run", "get_output", "reset", "error"})
    names.set(function, name + "_" + function);
  Params source = names;
  source.set("name", name).set("header", header);
  Params package;
  package.set("name", name);
  return {{"include/" + header, header_text(plans, names)},
          {"library.cpp", render_file("library.cpp", source)},
          {"lib/cmake/" + name + "/" + name + "Config.cmake", render_file("library_config.txt", package)}};
}

}  // namespace weftc
