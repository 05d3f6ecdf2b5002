// Calls of a device's library in place of kernels of our own.
#include "backend/kernel_text.h"

namespace weftc {

namespace {

/// An extent of the product: a number, or the argument that holds it.
std::string extent_text(KernelContext& context, const LibraryProduct::Extent& extent) {
  return extent.run ? "{{" + context.extent_argument(*extent.run) + "}}" : std::to_string(extent.bound);
}

/// "{768, 1, 98304}": the strides of rows, columns, and the batch's dimensions from the inner one.
std::string strides_text(const LibraryProduct::Operand& operand) {
  std::vector<std::string> strides = {std::to_string(operand.row), std::to_string(operand.column)};
  for (size_t d = operand.batch.size(); d-- > 0;) strides.push_back(std::to_string(operand.batch[d]));
  return "{" + join(strides, ", ") + "}";
}

/// "{{0}} + {{tp_index}} * 64": where the operand's first element is.
std::string address_text(KernelContext& context, const LibraryProduct::Operand& operand) {
  IndexExpr first = operand.first;
  for (int axis = 0; axis < static_cast<int>(context.kernel.mesh.size()); ++axis) {
    const std::string name = context.coordinate_name(axis);
    for (const AtomPtr& atom : variables_of(first)) {
      if (atom->text != name) continue;
      context.coordinate(axis);
      first = substitute(first, name, index_variable("{{" + name + "}}", atom->low, atom->high));
      break;
    }
  }
  const std::string text = first.text(), base = "{{" + std::to_string(operand.parameter) + "}}";
  return text == "0" ? base : base + " + " + text;
}

std::string epilogue_text(const LibraryProduct& product) {
  std::string name = product.bias ? "Bias" : "";
  if (product.activation != Activation::None) name += product.activation == Activation::Relu ? "Relu" : "Gelu";
  return name.empty() ? "" : ", .epilogue = weft::Epilogue::" + name;
}

}  // namespace

std::string write_library_call(KernelContext& context, const LibraryProduct& product) {
  std::string call = "r.contract({.m = " + extent_text(context, product.m) +
                     ", .n = " + extent_text(context, product.n) + ", .k = " + extent_text(context, product.k) +
                     ", .a = " + strides_text(product.a) + ", .b = " + strides_text(product.b) +
                     ", .y = " + strides_text(product.y);
  if (!product.batch.empty()) call += ", .batch = " + std::to_string(product.batch.back());
  if (product.batch.size() > 1) call += ", .outer = " + std::to_string(product.batch.front());
  return call + epilogue_text(product) + "}, " + address_text(context, product.a) + ", " +
         address_text(context, product.b) + ", " + (product.bias ? address_text(context, *product.bias) : "nullptr") +
         ", " + address_text(context, product.y) + ");";
}

}  // namespace weftc
