// A run-time length as an expression of C++.
#pragma once
#include <functional>
#include <string>

#include "ir/length.h"

namespace weftc {

/// "past + seq * 2", with the expressions that `name_of` gives for the named lengths, by their texts.
std::string length_expression(const Length& length, const std::function<std::string(const std::string&)>& name_of);
/// A rank's part of a length at a coordinate, in blocks of that size (L8).
std::string part_expression(const std::string& length, int64_t block, const std::string& coordinate);

}  // namespace weftc
