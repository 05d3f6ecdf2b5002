// Every small mistake that a planner could make, at every place of a Plan.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "passes/plan/plan_parts.h"

namespace weftc::test {

struct Mutation {
  std::string text;
  std::function<void(Plan&)> apply;
};

/// A step by its way down: block, index, then (body, index) pairs.
using StepPath = std::vector<size_t>;

inline Step& step_at(Plan& plan, const StepPath& path) {
  Step* step = &plan.blocks[path[0]].steps[path[1]];
  for (size_t i = 2; i < path.size(); i += 2) step = &(*bodies_of(*step)[path[i]])[path[i + 1]];
  return *step;
}
inline std::vector<Step>& list_at(Plan& plan, const StepPath& path) {
  if (path.size() == 2) return plan.blocks[path[0]].steps;
  return *bodies_of(step_at(plan, StepPath(path.begin(), path.end() - 2)))[path[path.size() - 2]];
}

inline void collect_paths(const std::vector<Step>& steps, const StepPath& prefix, std::vector<StepPath>& paths) {
  for (size_t i = 0; i < steps.size(); ++i) {
    StepPath path = prefix;
    path.push_back(i);
    paths.push_back(path);
    const auto bodies = bodies_of(steps[i]);
    for (size_t b = 0; b < bodies.size(); ++b) {
      StepPath inner = path;
      inner.push_back(b);
      collect_paths(*bodies[b], inner, paths);
    }
  }
}

inline void mutate_step(const Step& step, const StepPath& path, bool last, std::vector<Mutation>& made) {
  const auto add = [&](const std::string& what, std::function<void(Plan&)> f) {
    made.push_back({what + " at '" + step.name + "'", std::move(f)});
  };
  for (size_t w = 0; w < step.waits.size(); ++w) {
    add("dropped wait", [=](Plan& p) {
      auto& waits = step_at(p, path).waits;
      waits.erase(waits.begin() + static_cast<long>(w));
    });
    add("longer lag", [=](Plan& p) { ++step_at(p, path).waits[w].lag; });
  }
  for (size_t r = 0; r < step.raises.size(); ++r)
    add("lost signal", [=](Plan& p) {
      auto& raises = step_at(p, path).raises;
      raises.erase(raises.begin() + static_cast<long>(r));
    });
  add("missing step", [=](Plan& p) {
    auto& list = list_at(p, path);
    list.erase(list.begin() + static_cast<long>(path.back()));
  });
  if (!last)
    add("swapped with the next step", [=](Plan& p) {
      auto& list = list_at(p, path);
      std::swap(list[path.back()], list[path.back() + 1]);
    });
  add("another stream", [=](Plan& p) {
    Step& s = step_at(p, path);
    s.stream = (s.stream + 1) % static_cast<int>(p.streams.size());
  });
  if (const auto* what = std::get_if<CollectiveStep>(&step.what); what && what->mesh.size() > 1)
    add("other peers", [=](Plan& p) {
      auto& c = std::get<CollectiveStep>(step_at(p, path).what);
      c.axes[0] = (c.axes[0] + 1) % static_cast<int>(c.mesh.size());
    });
  if (const auto* loop = std::get_if<ForStep>(&step.what); loop && loop->trips > 1)
    add("one chunk less", [=](Plan& p) { --std::get<ForStep>(step_at(p, path).what).trips; });
}

inline void mutate_memory(const Plan& plan, std::vector<Mutation>& made) {
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const std::string name = " of '" + plan.buffers[b].name + "'";
    made.push_back({"half the size" + name, [=](Plan& p) { p.buffers[b].bytes /= 2; }});
    if (plan.buffers[b].depth > 1) made.push_back({"less depth" + name, [=](Plan& p) { --p.buffers[b].depth; }});
    for (size_t o = 0; o < plan.buffers.size(); ++o)
      if (o != b && plan.buffers[o].window == plan.buffers[b].window)
        made.push_back({"moved to '" + plan.buffers[o].name + "'" + name, [=](Plan& p) {
                          for (Program& program : p.programs)
                            if (program.positions[b].kind != Position::Kind::Absent &&
                                program.positions[o].kind != Position::Kind::Absent)
                              program.positions[b] = {
                                  Position::Kind::SameAs, {static_cast<uint32_t>(o)}, program.positions[o].offset};
                        }});
  }
  for (size_t t = 0; t < plan.transfers.size(); ++t)
    for (size_t m = 0; m < plan.transfers[t].messages.size(); ++m) {
      made.push_back({"missing message", [=](Plan& p) {
                        auto& list = p.transfers[t].messages;
                        list.erase(list.begin() + static_cast<long>(m));
                      }});
      made.push_back({"message to another rank", [=](Plan& p) {
                        auto& to = p.transfers[t].messages[m].to;
                        to = (to + 1) % p.world;
                      }});
      made.push_back({"message from elsewhere", [=](Plan& p) { p.transfers[t].messages[m].source += 1; }});
    }
  for (size_t o = 0; o + 1 < plan.order.size(); ++o)
    made.push_back({"swapped blocks", [=](Plan& p) { std::swap(p.order[o], p.order[o + 1]); }});
}

inline std::vector<Mutation> mutations_of(const Plan& plan) {
  std::vector<Mutation> made;
  std::vector<StepPath> paths;
  for (size_t b = 0; b < plan.blocks.size(); ++b) collect_paths(plan.blocks[b].steps, {b}, paths);
  for (const StepPath& path : paths) {
    Plan copy = plan;
    mutate_step(step_at(copy, path), path, path.back() + 1 == list_at(copy, path).size(), made);
  }
  mutate_memory(plan, made);
  return made;
}

}  // namespace weftc::test
