// The text form of graphs. Tests read and write it, and --print-ir-after prints it.
//
//   module "mlp" file "mlp.onnx" seed 0
//   place @all [0, 1] {tp: 2}
//   length seq <= 64
//   state "past" -> "present"
//   generate {logits = "logits", past = "past", room = 64, tokens = "ids"}
//   pipeline ["embed", "far"] micro-batches 2 order [0 0, 0 1, 1 0, 1 1]    of a training also ["a_update" stage 0
//                                                                              update after], or `before`
//   constant #0 "w" f32[64, 2] = ...
//   graph {
//     %x = Input() : f32[2, 64] @all
//     %w = Constant() {value = #0} : f32[64, 2] [tp: S(1,1)] @all
//     %h = MatMul(%x, %w) : f32[2, 2] [tp: S(1,1)] @all "h/MatMul" from 0 by 0
//     return %h "y"
//   }
//   origin 0 "h/MatMul" "MatMul" 17                        then `backward` or `update`, of a training
//   transform 0 "fuse into h" at "s.yaml":12:3
//
// An op is: results = Record(operands, _ for none) {attributes} : a type for each result @place block N port N
// mechanism WORD "name" from origins by transform {region} {region}. Parts with their default are omitted: a name equal
// to the first result's, no place, no block, no port (of an Input), mechanism streams (of a Chunk), no origins. A
// region may begin with its time axes, `time {t: 4}`. Names are quoted if they have characters other than
// A-Za-z0-9_./:-. An extent of run-time length is `seq * 2<=128`: the length, as a polynomial of named ones, and its
// bound. Constants, origins and transforms are numbered by their first mention.
#pragma once
#include <optional>
#include <string>

#include "ir/module.h"

namespace weftc {

struct PrintOptions {
  bool constants = true;  // values of constants up to 16 elements; larger ones are always `...`
};
/// The whole module: places, constants, graph with regions, outputs, states. Deterministic.
std::string print_module(const Module& module, const PrintOptions& options = {});
/// One op on one line (regions without their ops), for messages.
std::string print_op(const Module& module, const Graph& graph, const Op& op);
/// Reads the output of print_module (constants printed as `...` come back as zeros). Nothing after reporting. `name` is
/// the file's name in messages.
std::optional<Module> parse_module(const std::string& name, const std::string& text, Diags& diags);

}  // namespace weftc
