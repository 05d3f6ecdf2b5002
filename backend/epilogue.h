// What follows a contraction in its kernel, computed where a sum is put: pointwise ops, and views that only move
// elements.
#pragma once
#include "backend/element.h"

namespace weftc {

class Epilogue {
 public:
  Epilogue(KernelContext& context, ValueId root) : context_(context), body_(context.body), root_(root) {}

  /// Finds where each value behind the contraction has the element that is its `index`. False if an output is not
  /// reached.
  bool reach(const IndexList& index);
  /// Statements in the current scope: computes all outputs from the sum, a local of that name, and stores them.
  void write(Elements& elements, const std::string& sum) const;

 private:
  KernelContext& context_;
  const Graph& body_;
  const ValueId root_;
  std::vector<std::optional<IndexList>> placed_;  // by value
};

}  // namespace weftc
