// Copies of a parameter that an exporter has made. A program that looks up tokens in an embedding and multiplies with
// its transpose has one parameter, but its file may have two initialisers.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

struct TiedCopy {
  std::string copy, original;
  std::vector<int64_t> order;  // dim i of the copy is dim order[i] of the original; empty: a reshape
};

/// Finds initialisers with the elements of another one, if the file shows that both are the same parameter. The
/// exporter's notes decide. Without them, a matrix must be the transpose of another, or a copy of one under a name that
/// exporters invent. Layers with equal initial values stay separate.
std::vector<TiedCopy> find_tied_copies(OnnxModel& model);

/// The bytes of the copy, from the bytes of an original with dims `dims` and elements of `width` bytes.
std::vector<std::byte> bytes_of_copy(const TiedCopy& tie, std::span<const std::byte> original, const Dims& dims,
                                     size_t width);

}  // namespace weftc
