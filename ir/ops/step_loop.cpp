// The Loop is added once its body is complete, because its types are the body's.
#include "ir/ops/step_loop.h"

namespace weftc {

StepLoop::StepLoop(Builder& build, const std::string& part, ValueId trips, ValueId condition)
    : build_(build), body_(build.inside(region_, part)), operands_{trips, condition} {
  body_.parameter("iteration", {DType::I64, {}, {}});
  body_.parameter("condition", {DType::Bool, {}, {}});
}

ValueId StepLoop::carry(ValueId initial) {
  WEFT_CHECK(operands_.size() == 2 + carried_, "a loop's carried values come before what it captures");
  ++carried_;
  operands_.push_back(initial);
  return body_.parameter("carried", build_.type(initial));
}

ValueId StepLoop::capture(ValueId outer) {
  const Op& producer = build_.graph().producer_op(outer);
  if (producer.kind == OpKind::Constant) {
    const ValueId own = body_.op(OpKind::Constant, {}, {{"value", producer.constant("value")}});
    region_.rename(own, build_.graph().value(outer).name);
    return own;
  }
  operands_.push_back(outer);
  return body_.parameter("captured", build_.type(outer));
}

std::vector<ValueId> StepLoop::finish() {
  region_.add_output(again_ ? again_ : condition(), "condition");
  for (ValueId v : next_) region_.add_output(v, region_.value(v).name);
  return build_.region_op(OpKind::Loop, operands_, {{"carried", static_cast<int64_t>(carried_)}}, {region_},
                          static_cast<int>(carried_));
}

ValueId zeros(Builder& build, DType dtype, const Dims& dims) {
  return build.op(OpKind::Expand, {build.constant(Tensor::scalar(dtype, 0))}, {{"shape", dims}});
}

ValueId element_at(Builder& build, ValueId whole, ValueId index, int64_t axis) {
  return build.op(OpKind::Gather, {whole, index}, {{"axis", axis}, {"inside", int64_t{1}}});
}

ValueId with_element(Builder& build, ValueId whole, ValueId index, ValueId element) {
  Dims dims = build.dims(index);
  dims.push_back(1);
  return build.op(OpKind::ScatterND, {whole, build.reshape(index, dims), element},
                  {{"reduction", std::string("none")}, {"inside", int64_t{1}}});
}

}  // namespace weftc
