// --serve: requests are answered, one after another, until their input ends. All ranks call serve_requests; rank 0
// reads the requests and sends the answers.
#pragma once
#include "options.h"
#include "rank_base.h"

namespace weft {

void serve_requests(RankBase& rank, const Options& options);

}  // namespace weft
