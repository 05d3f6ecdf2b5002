// Run-time lengths for requests that Weft makes up itself, as `verify` does where nobody gives data.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "ir/module.h"

namespace weftc {

/// A number for each named length of the inputs and states: below its bound, so that elements that lie as if the length
/// were its bound show, and such that what the model demands of its lengths holds where that can be found.
std::map<std::string, int64_t> request_lengths(const Module& module);

/// How many such requests can follow each other, `most` at most: a state that grows changes a length, and what the
/// model demands may hold no longer.
size_t request_count(const Module& module, std::map<std::string, int64_t> lengths, size_t most);

}  // namespace weftc
