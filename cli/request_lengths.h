// Run-time lengths for generated requests, such as those of `verify` without data.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "ir/module.h"

namespace weftc {

/// A number for each named length of the inputs and states. It is below the bound, so that code that uses the bound as
/// the length gives visible errors. The numbers satisfy the model's relations if such numbers are found.
std::map<std::string, int64_t> request_lengths(const Module& module);

/// How many such requests can follow each other, up to `most`. A state that grows changes a length, after which the
/// model's relations may not hold any more.
size_t request_count(const Module& module, std::map<std::string, int64_t> lengths, size_t most);

}  // namespace weftc
