// Answering requests with ranks that stay: what all ranks do, whoever the requests come from (serve.h: messages of
// clients; library.cpp: calls of a program).
//
//   rank 0 puts the arrays of a request on the board            the others wait, however long
//   each rank takes its parts; runs, unless somebody complains  the invocation
//   the outputs are assembled on rank 0                         or the complaint is the answer
//
// States belong to a session. Those of the session that ran last lie in the program's buffers, those of the others
// beside.
#pragma once
#include "options.h"
#include "request_board.h"

namespace weft {

/// Who gives rank 0 requests, and gets what comes of them.
struct Customer {
  virtual ~Customer() = default;
  /// Waits for a request that the ranks can do something about, and puts it on the board.
  virtual void post_next(const RequestBoard& board) = 0;
  /// An output of the invocation.
  virtual void take(const Port& port, const WholeTensor& tensor) = 0;
  /// Tokens of a generation that goes on, one of each row. False: nobody wants the rest.
  virtual bool tell(const Port&, const std::vector<int64_t>&) { return true; }
  /// The request on the board is done.
  virtual void finish() = 0;
  /// It is wrong. A session whose states it has left half done is over.
  virtual void refuse(const std::string& complaint, bool ends_session) = 0;
};

/// The board of ranks whose world has room for it behind the memory in which outputs are assembled.
RequestBoard board_of(const Executable& executable, const World& world);
int64_t request_board_bytes(const Executable& executable);

/// Answers requests until one asks to stop. All ranks call it; `customer` is rank 0's.
void answer_requests(RankBase& rank, const Options& options, Customer* customer);

/// While rank 0 has nothing to do: throws Failure where another rank has failed or gone.
class LookOut {
 public:
  explicit LookOut(const World& world) : world_(world) {}
  void look();

 private:
  const World& world_;
  int turns_without_ = 0;
};

}  // namespace weft
