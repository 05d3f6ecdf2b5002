// A Loop under construction, for decompositions that go through a sequence step by step.
//
//   StepLoop loop(build, "forward", steps);
//   const ValueId sum = loop.carry(zeros);           carried values first,
//   const ValueId x = loop.capture(sequence);        then what the body reads from outside
//   loop.next({add(loop.body(), sum, at(loop.body(), x, loop.iteration()))});
//   return loop.finish();                            the carried values after the last step
#pragma once
#include "ir/ops/composite.h"

namespace weftc {

class StepLoop {
 public:
  /// `trips`: number of steps. `condition`: whether to run the first one (none: always).
  StepLoop(Builder& build, const std::string& part, ValueId trips, ValueId condition = {});

  Builder& body() { return body_; }
  /// Parameters of the body: the number of the step, and the condition.
  ValueId iteration() const { return region_.inputs()[0]; }
  ValueId condition() const { return region_.inputs()[1]; }

  /// Adds a value that is carried from step to step; returns its parameter in the body.
  ValueId carry(ValueId initial);
  /// Makes a value of the graph around the loop available in the body; a constant is copied into the body.
  ValueId capture(ValueId outer);
  /// The carried values of the next step, in the order of carry().
  void next(std::vector<ValueId> values) { next_ = std::move(values); }
  /// Sets whether there is a next step (a value of the body); without it the condition does not change.
  void go_on(ValueId condition) { again_ = condition; }
  /// Adds the Loop; its results are the carried values.
  std::vector<ValueId> finish();

 private:
  Builder& build_;
  Graph region_;
  Builder body_;
  std::vector<ValueId> operands_, next_;
  size_t carried_ = 0;
  ValueId again_;
};

/// A tensor of zeros that takes no memory until it is stored.
ValueId zeros(Builder& build, DType dtype, const Dims& dims);
/// Elements `index` along dimension `axis`; a scalar index drops the dimension, a list of one keeps it.
ValueId element_at(Builder& build, ValueId whole, ValueId index, int64_t axis = 0);
/// `whole` with element_at(whole, index) replaced by `element`.
ValueId with_element(Builder& build, ValueId whole, ValueId index, ValueId element);

/// The maximum number of trips of a Loop, if it is known or the length of a dimension.
std::optional<Length> trip_count(const OpView& loop);
/// True if a Loop makes every trip of its count: its condition is true at first, and the body passes it on or returns a
/// constant true.
bool makes_all_trips(const OpView& loop);

}  // namespace weftc
