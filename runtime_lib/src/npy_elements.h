// Conversion of .npy elements that differ from a port's: in Fortran order, or of another width of the same kind.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "npy_header.h"
#include "weft/numeric.h"

namespace weft {

/// The form in which bfloat16, which NumPy lacks, is written: its bits as unsigned integers, or two bytes without a
/// type (`|V2`), as numpy.save writes arrays of ml_dtypes. Both can be read.
enum class Bfloat16Form { Bits, MlDtypes };

/// The type in .npy files for this type, such as "<f4".
const char* npy_type(DType dtype, Bfloat16Form form = Bfloat16Form::Bits);

/// Bytes of an element of the file; throws Failure (wrong input), which names `file`, if its elements cannot become
/// `dtype`: integers (and bool) become integers of any width, floats become floats.
int64_t npy_element_bytes(const NpyHeader& header, DType dtype, const std::string& file);

/// Whether the elements are already stored as `dtype` in C order.
bool is_stored_as(const NpyHeader& header, DType dtype);

/// The elements as `dtype` in C order. Throws Failure (wrong input) that names the first one that would not keep its
/// value.
std::vector<char> converted_elements(const NpyHeader& header, std::string_view elements, DType dtype,
                                     const std::string& file);

}  // namespace weft
