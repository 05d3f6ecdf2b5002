// What a model demands of its run-time lengths beyond their names and bounds: two dimensions that an op takes for one.
//
//   Mul(x f32[seq<=8], y f32[total<=8])       seq = total
//   MatMul(x f32[2, seq<=8], w f32[8, 4])     seq = 8
//   GatherElements(x f32[seq<=8, 4], at i64[n<=8, 2])     n <= seq
//   If(c) { Add(x f32[n<=8], y f32[m<=8]) }               n = m where c
//
// Every request is checked for them before the program runs; of lengths that data decides, when they are there.
#pragma once
#include <string>

#include "ir/length.h"

namespace weftc {

struct LengthRelation {
  std::string what;          // that demands it, as a message names it: "node 'scale' (Mul)"
  Length left, right;        // of an equation, a number is on the right
  bool may_be_less = false;  // left may be less than right; else they are equal
  Length where = 1;          // it is demanded where this is not 0: the node stands in a branch or a loop

  bool operator==(const LengthRelation&) const = default;
};

}  // namespace weftc
