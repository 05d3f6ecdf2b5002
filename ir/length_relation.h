// A condition that a model puts on its run-time lengths beyond names and bounds, such as that two dimensions are equal.
//
//   Mul(x f32[seq<=8], y f32[total<=8])       seq = total
//   MatMul(x f32[2, seq<=8], w f32[8, 4])     seq = 8
//   GatherElements(x f32[seq<=8, 4], at i64[n<=8, 2])     n <= seq
//   If(c) { Add(x f32[n<=8], y f32[m<=8]) }               n = m where c
//
// Each request is checked for these conditions before the program runs. Lengths that data decides are checked once they
// are known.
#pragma once
#include <string>

#include "ir/length.h"

namespace weftc {

struct LengthRelation {
  std::string what;          // source of the demand, as a message names it: "node 'scale' (Mul)"
  Length left, right;        // in an equation, a number is on the right
  bool may_be_less = false;  // left may be less than right; else they are equal
  Length where = 1;          // the condition holds where this is not 0: the node is in a branch or a loop

  bool operator==(const LengthRelation&) const = default;
};

}  // namespace weftc
