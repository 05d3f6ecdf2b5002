// The epilogue of a contraction, convolution or running sum: the ops of the kernel's body that follow it. They are
// computed where the runtime's routine passes a finished sum, so that the sum itself is never stored:
//
//   body:      y = MatMul(x, w); z = y + bias; out = Relu(z)
//   epilogue:  const float z = y_sum + bias[n];  out[m * 768 + n] = z < float(0) ? float(0) : z;
//
// Views are allowed if they only move elements: the element then has one destination, which reach() finds.
#pragma once
#include "backend/element.h"

namespace weftc {

/// The ops after `root`, the contraction of the kernel's body.
class Epilogue {
 public:
  Epilogue(KernelContext& context, ValueId root) : context_(context), body_(context.body), root_(root) {}

  /// Finds for each later value the index of root's element `index`. False if an output has no such index; then the
  /// kernel cannot be computed in this way.
  bool reach(const IndexList& index);
  /// Puts statements into the current scope that compute the element of every output from the sum, a local variable of
  /// that name, and store it. reach() must have succeeded before.
  void write(Elements& elements, const std::string& sum) const;

 private:
  KernelContext& context_;
  const Graph& body_;
  const ValueId root_;
  std::vector<std::optional<IndexList>> placed_;  // by value
};

}  // namespace weftc
