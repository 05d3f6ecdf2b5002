// The orders of pipelines that have names in the literature.
#pragma once
#include <string_view>

namespace weftc {

enum class PipelineOrder { GPipe, OneFOneB, Interleaved, ZbH1, ZbV, Chimera, DualPipe };
constexpr PipelineOrder kPipelineOrders[] = {
    PipelineOrder::GPipe, PipelineOrder::OneFOneB, PipelineOrder::Interleaved, PipelineOrder::ZbH1,
    PipelineOrder::ZbV,   PipelineOrder::Chimera,  PipelineOrder::DualPipe};
/// The user's name: "1f1b".
std::string_view name_of(PipelineOrder order);
/// True for orders with a split backward pass: gradients of weights are blocks of their own.
constexpr bool splits_backward(PipelineOrder order) {
  return order == PipelineOrder::ZbH1 || order == PipelineOrder::ZbV || order == PipelineOrder::DualPipe;
}

}  // namespace weftc
