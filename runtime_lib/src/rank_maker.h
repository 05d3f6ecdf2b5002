// Makes ranks for the command line or a library's caller, for any way of starting them.
#pragma once
#include "image_file.h"
#include "options.h"
#include "rank_base.h"

namespace weft {

/// The memory that the ranks of a program share.
WorldShape world_shape(const Executable& executable, const Options& options);

std::unique_ptr<RankBase> make_rank(Target& target, const Executable& executable, const Options& options,
                                    ImageFile& file, World& world, int rank);

}  // namespace weft
