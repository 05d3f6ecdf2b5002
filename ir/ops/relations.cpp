// If the difference of two lengths has only one length, the relation is solved for it, because a request gives it.
#include "ir/ops/relations.h"

namespace weftc {

LengthRelation at_most(const Length& left, const Length& right) {
  const Length room = right - left;
  const std::vector<Length::Term>& terms = room.terms();
  const bool has_number = terms.size() == 2 && terms[1].factors.empty();
  const bool has_one = !terms.empty() && !terms[0].factors.empty() && (terms.size() == 1 || has_number);
  if (!has_one || room.high() < 0) return {"", left, right, true};
  Length one = 1;
  for (const LengthSymbolPtr& factor : terms[0].factors) one = one * Length(factor);
  const int64_t number = has_number ? terms[1].coefficient : 0, times = terms[0].coefficient;
  if (times < 0) return {"", one, number / -times, true};
  return {"", number < 0 ? (times - 1 - number) / times : 0, one, true};
}

}  // namespace weftc
