// The typed ids of the IR.
#pragma once
#include "ir/base/id.h"

namespace weftc {

using OpId = Id<struct OpTag>;
using ValueId = Id<struct ValueTag>;
using ConstantId = Id<struct ConstantTag>;
using PlaceId = Id<struct PlaceTag>;
using OriginId = Id<struct OriginTag>;        // a node of the imported model
using TransformId = Id<struct TransformTag>;  // an entry of the schedule
using KernelId = Id<struct KernelTag>;
using BufferId = Id<struct BufferTag>;
using SignalId = Id<struct SignalTag>;
using WeightId = Id<struct WeightTag>;

}  // namespace weftc
