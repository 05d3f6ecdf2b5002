// The pass pipeline. The runner cleans up, verifies, times and dumps after every row.
#include <iterator>

#include "passes/passes.h"

namespace weftc {

namespace {
constexpr Pass kPipeline[] = {
    {"bind-states", "state pairs name an input and an output", bind_states, Form::Imported},
    {"infer-types", "every value has dtype and shape; operands that shapes depend on are attributes", infer_types,
     Form::Typed},
    {"bind-generation", "the loop over tokens knows its inputs, its logits and the state that grows", bind_generation,
     Form::Typed},
    {"fold-constants", "no op has only constant operands, but for views that kernels read", fold_constants,
     Form::Typed},
    {"differentiate", "derivatives are computed by ops like all others: no Gradient is left", differentiate,
     Form::Typed},
    {"recompute", "the backward pass reads those values of the forward pass that the schedule lets it keep", recompute,
     Form::Typed},
    {"simplify", "no rule of passes/simplify fires", simplify, Form::Typed},
    {"narrow-weights", "products on the host read weights of few bits as the model stores them", narrow_weights,
     Form::Typed},
    {"decompose", "composite ops are primitives", decompose, Form::Decomposed},
    {"lower-precision", "operands of contractions have the precision that the schedule asks for", lower_precision,
     Form::Decomposed},
    {"relate-lengths", "what the model demands of its run-time lengths is known", relate_lengths, Form::Decomposed},
    {"assign-places", "every op has a place; Transfers take values between them", assign_places, Form::Decomposed},
    {"bind-collectives", "collectives that the model brings have one operand and know their axes of the mesh",
     bind_collectives, Form::Decomposed},
    {"apply-layouts", "every value has the layout asked for; reshards are explicit collectives", apply_layouts,
     Form::Laid},
    {"fold-weights", "no weight is computed by kernels, or read through a view that keeps it from being packed",
     fold_weights, Form::Laid},
    {"apply-transforms", "the schedule's splits, reorders, fusions and overlaps are in the graph", apply_transforms,
     Form::Scheduled},
    {"divide-late", "no product multiplies rows that are divided before it, where dividing its result is less work",
     divide_late, Form::Scheduled},
    {"turn-products", "no product is transposed by the kernel that computes it, where a transposed operand saves that",
     turn_products, Form::Scheduled},
    {"scatter-updates", "a parameter less a multiple of what is scattered into zeros is scattered into",
     scatter_updates, Form::Scheduled},
    {"factor-gradients", "a gradient is multiplied once where the factor needs several values of the forward pass",
     factor_gradients, Form::Scheduled},
    {"fuse-loops", "a loop over steps whose body is element-wise stands in a region that becomes one kernel",
     fuse_loops, Form::Scheduled},
    {"lay-in-memory", "what is read from memory outside of kernels has a buffer, results of regions their own",
     lay_in_memory, Form::Stored},
    {"fuse-regions", "every op that computes stands in a region that becomes one kernel", fuse_regions, Form::Fused},
};
}  // namespace

std::span<const Pass> pipeline() { return {kPipeline, std::size(kPipeline)}; }

}  // namespace weftc
