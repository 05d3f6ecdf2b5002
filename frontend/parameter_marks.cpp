// The signature has a line for each operand of the exported program:
//
//   # inputs
//   p_emb_weight: PARAMETER target='emb.weight'
//   b_cos: BUFFER target='cos' persistent=True
//   tokens: USER_INPUT
//
//   # outputs
//   linear_1: USER_OUTPUT
#include "frontend/parameter_marks.h"

#include "frontend/module_paths.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr std::string_view kKind = "pkg.torch.export.graph_signature.InputSpec.kind",
                           kSignature = "pkg.torch.export.ExportedProgram.graph_signature",
                           kFolded = "pkg.onnxscript.optimizer.folded_from";

/// `p_emb_weight: PARAMETER target='emb.weight'`; other lines do not concern initialisers.
void mark_by_line(OnnxModel& model, std::string_view line) {
  constexpr std::string_view kTarget = " target='";
  const size_t colon = line.find(": "), target = line.find(kTarget);
  if (colon == std::string_view::npos || target == std::string_view::npos || target < colon + 2) return;
  const size_t begin = target + kTarget.size(), end = line.find('\'', begin);
  if (end == std::string_view::npos) return;
  OnnxMark& mark = model.marks[std::string(line.substr(begin, end - begin))];
  if (mark.kind.empty()) mark.kind = line.substr(colon + 2, target - colon - 2);
}

}  // namespace

void mark_value(OnnxModel& model, const std::string& value, std::string_view key, std::string_view text) {
  if (key == kKind) model.marks[value].kind = text;
  if (key == kFolded)
    if (auto sources = python_strings(text)) model.marks[value].folded_from = std::move(*sources);
}

void mark_by_signature(OnnxModel& model, std::string_view key, std::string_view text) {
  if (key != kSignature) return;
  text = text.substr(0, text.find("# outputs"));
  while (!text.empty()) {
    const size_t end = text.find('\n');
    mark_by_line(model, text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
}

}  // namespace weftc
