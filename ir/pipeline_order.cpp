#include "ir/pipeline_order.h"

namespace weftc {

std::string_view name_of(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::GPipe:
      return "gpipe";
    case PipelineOrder::OneFOneB:
      return "1f1b";
    case PipelineOrder::Interleaved:
      return "interleaved";
    case PipelineOrder::ZbH1:
      return "zb-h1";
    case PipelineOrder::ZbV:
      return "zb-v";
    case PipelineOrder::Chimera:
      return "chimera";
    case PipelineOrder::DualPipe:
      return "dualpipe";
  }
  return "";
}

}  // namespace weftc
