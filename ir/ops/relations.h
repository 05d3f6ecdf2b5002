// Relations between lengths that records require, in the form that reads best in messages.
#pragma once
#include "ir/length_relation.h"

namespace weftc {

/// left <= right. If the difference has only one length, it is solved for that: seq <= 4 for seq + 2 <= 6, and 2 <= n
/// for 0 <= n - 2.
LengthRelation at_most(const Length& left, const Length& right);

}  // namespace weftc
