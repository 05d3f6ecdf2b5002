#include "passes/plan/plan_parts.h"

namespace weftc {

std::vector<std::vector<Step>*> bodies_of(Step& step) {
  if (auto* loop = std::get_if<ForStep>(&step.what)) return {&loop->body};
  if (auto* branch = std::get_if<IfStep>(&step.what)) return {&branch->then_body, &branch->else_body};
  if (auto* loop = std::get_if<LoopStep>(&step.what)) return {&loop->body};
  return {};
}

std::vector<const std::vector<Step>*> bodies_of(const Step& step) {
  std::vector<const std::vector<Step>*> bodies;
  for (const std::vector<Step>* body : bodies_of(const_cast<Step&>(step))) bodies.push_back(body);
  return bodies;
}

}  // namespace weftc
