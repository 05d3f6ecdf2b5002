// Calls of a device's library (cuBLAS) instead of Weft's own kernels. Such a kernel has no function in the program: its
// step calls the library through the runtime:
//
//   r.contract({.m = 16, .n = 3072, .k = 768, .a = {768, 1}, .b = {3072, 1}, .y = {3072, 1},
//               .epilogue = weft::Epilogue::BiasGelu}, r[x], r[w], r[bias], r[y]);
#include "backend/kernel_text.h"
#include "backend/print.h"

namespace weftc {

namespace {

/// An extent of the product: a number, or the argument that holds it.
std::string extent_text(const CallSite& site, const LibraryProduct::Extent& extent) {
  if (!extent.run) return std::to_string(extent.bound);
  return site.argument({Argument::Kind::Extent, static_cast<int>(*extent.run)});
}

/// "{768, 1, 98304}": the strides of rows, columns, and the batch's dimensions from the inner one.
std::string strides_text(const LibraryProduct::Operand& operand) {
  std::vector<std::string> strides = {std::to_string(operand.row), std::to_string(operand.column)};
  for (size_t d = operand.batch.size(); d-- > 0;) strides.push_back(std::to_string(operand.batch[d]));
  return "{" + join(strides, ", ") + "}";
}

/// "r[x] + r.coordinate(kTp) * 64": the address of the operand's first element.
std::string address_text(const KernelContext& context, const CallSite& site, const LibraryProduct::Operand& operand) {
  IndexExpr first = operand.first;
  for (int axis = 0; axis < static_cast<int>(context.kernel.mesh.size()); ++axis) {
    const std::string variable = context.coordinate_name(axis);
    for (const AtomPtr& atom : variables_of(first)) {
      if (atom->text != variable) continue;
      const Argument::Kind kind = context.is_time_axis(axis) ? Argument::Kind::Chunk : Argument::Kind::Coordinate;
      first = substitute(first, variable, index_variable(site.argument({kind, axis}), atom->low, atom->high));
      break;
    }
  }
  return text_of(address(site.operand(operand.parameter), first));
}

/// "BiasGelu"; empty without an epilogue.
std::string epilogue_name(const LibraryProduct& product) {
  const std::string bias = product.bias ? "Bias" : "";
  if (product.activation == Activation::None) return bias;
  return bias + (product.activation == Activation::Relu ? "Relu" : "Gelu");
}

}  // namespace

std::string library_call(const KernelContext& context, const LibraryProduct& product, const CallSite& site) {
  std::vector<std::string> fields = {".m = " + extent_text(site, product.m), ".n = " + extent_text(site, product.n),
                                     ".k = " + extent_text(site, product.k), ".a = " + strides_text(product.a),
                                     ".b = " + strides_text(product.b),      ".y = " + strides_text(product.y)};
  if (!product.batch.empty()) fields.push_back(".batch = " + std::to_string(product.batch.back()));
  if (product.batch.size() > 1) fields.push_back(".outer = " + std::to_string(product.batch.front()));
  if (const std::string epilogue = epilogue_name(product); !epilogue.empty())
    fields.push_back(".epilogue = weft::Epilogue::" + epilogue);
  const auto address = [&](const LibraryProduct::Operand& operand) { return address_text(context, site, operand); };
  const std::vector<std::string> arguments = {"{" + join(fields, kComma) + "}", address(product.a), address(product.b),
                                              product.bias ? address(*product.bias) : "nullptr", address(product.y)};
  return "r.contract(" + join(arguments, kComma) + ");";
}

}  // namespace weftc
