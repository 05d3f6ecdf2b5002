// Answers requests with ranks that stay alive. All ranks run this, for any source of requests (serve.h: messages of
// clients; library.cpp: calls of a program).
//
//   rank 0 puts the arrays of a request on the board            the others wait, however long
//   each rank takes its parts; runs, unless somebody complains  the invocation
//   the outputs are assembled on rank 0                         or the complaint is the answer
//
// States belong to a session. The states of the session that ran last lie in the program's buffers; those of other
// sessions are stored outside.
#pragma once
#include "options.h"
#include "request_board.h"

namespace weft {

/// The source of rank 0's requests, which gets their results.
struct Customer {
  virtual ~Customer() = default;
  /// Waits for a request for the ranks, and puts it on the board.
  virtual void post_next(const RequestBoard& board) = 0;
  /// Called with an output of the invocation.
  virtual void take(const Port& port, const WholeTensor& tensor) = 0;
  /// Called with tokens of a generation in progress, one for each row. False: nobody wants the rest.
  virtual bool tell(const Port&, const std::vector<int64_t>&) { return true; }
  /// Called when the request on the board is done.
  virtual void finish() = 0;
  /// Called when the request is wrong. `ends_session`: it left the session's states inconsistent.
  virtual void refuse(const std::string& complaint, bool ends_session) = 0;
};

/// The request board, which lies after the staging memory of outputs in the world's memory.
RequestBoard board_of(const Executable& executable, const World& world);
int64_t request_board_bytes(const Executable& executable);

/// Answers requests until one asks to stop. All ranks call it; `customer` is rank 0's.
void answer_requests(RankBase& rank, const Options& options, Customer* customer);

/// Used while rank 0 is idle: throws Failure if another rank has failed or gone.
class LookOut {
 public:
  explicit LookOut(const World& world) : world_(world) {}
  void look();

 private:
  const World& world_;
  int turns_without_ = 0;
};

}  // namespace weft
