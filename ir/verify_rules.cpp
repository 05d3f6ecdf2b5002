// The name of an op in a finding.
#include "ir/verify_rules.h"

#include "ir/op_def.h"

namespace weftc {

std::string Findings::op_text(const Op& op) { return format("'{}' ({}): ", printable(op.name), op_def(op).name); }

}  // namespace weftc
