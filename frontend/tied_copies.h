// Copies that an exporter has made of a parameter: a program that looks up tokens by an embedding and multiplies with
// its transpose has one parameter, and its file may have two initialisers.
#pragma once
#include <string>
#include <vector>

#include "frontend/onnx_model.h"

namespace weftc {

struct TiedCopy {
  std::string copy, original;
  std::vector<int64_t> order;  // dim i of the copy is dim order[i] of the original; empty: a reshape
};

/// Initialisers that hold the elements of another one, as far as the file tells that they mean the same parameter: by
/// what the exporter notes of them, or where it says nothing, by a matrix that is the transpose of one, or a copy of
/// one under a name that exporters invent. Layers that begin alike stay apart.
std::vector<TiedCopy> find_tied_copies(OnnxModel& model);

/// The bytes of the copy, from those of an original whose dims are `dims` and whose elements have `width` bytes.
std::vector<std::byte> bytes_of_copy(const TiedCopy& tie, std::span<const std::byte> original, const Dims& dims,
                                     size_t width);

}  // namespace weftc
