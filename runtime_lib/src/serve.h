// --serve: requests are answered, one after another, until their input ends. All ranks call serve_requests; rank 0 reads
// the requests and sends the answers.
#pragma once
#include "options.h"
#include "rank_base.h"

namespace weft {

/// Bytes of shared memory that ranks need to hand requests on.
int64_t request_board_bytes(const Executable& executable);
/// Where this rank notes what is wrong with a request, once it runs.
char* complaint_of(const Executable& executable, const World& world, int rank);

void serve_requests(RankBase& rank, const Options& options);

}  // namespace weft
