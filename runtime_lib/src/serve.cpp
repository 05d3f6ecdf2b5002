// Requests as messages: rank 0 reads them from a channel, checks them and puts them on the board.
#include "serve.h"

#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "channel.h"
#include "checks.h"
#include "npy.h"
#include "service.h"

namespace weft {

namespace {

/// What rank 0 does beside: it reads requests, checks them, and answers.
class Clerk final : public Customer {
 public:
  Clerk(const RankBase& rank, const Options& options)
      : rank_(rank),
        board_(board_of(rank.executable, rank.world)),
        look_out_(rank.world),
        most_sessions_(options.sessions),
        channel_(options.socket, most_bytes()) {
    for (int i = 0; i < options.sessions; ++i) free_.push_back(options.sessions - 1 - i);
    if (!options.socket.empty())
      fprintf(stderr, "%s: %d rank%s, serving at unix:%s\n", rank.executable.name, rank.executable.world,
              rank.executable.world == 1 ? "" : "s", options.socket.c_str());
  }

  void post_next(const RequestBoard&) override {
    for (;;) {
      const std::optional<IncomingMessage> message = channel_.next([this] { look_out_.look(); });
      if (!message) return post({Order::Kind::Stop, -1});
      try {
        session_.clear();
        return post(parse_request(message->word, message->bytes));
      } catch (const Failure& failure) {
        if (failure.code != kWrongInput) throw;
        channel_.answer(kWrongInput, failure.text);
      }
    }
  }

  void take(const Port& port, const WholeTensor& tensor) override {
    append_array(arrays_, tensor.name, port.dtype, tensor.shape, tensor.elements);
  }
  void finish() override {
    if (board_.order().kind == Order::Kind::Close) forget(session_);
    channel_.answer(kOk, arrays_);
    arrays_.clear();
  }
  void refuse(const std::string& complaint, bool ends_session) override {
    std::string answer = complaint;
    if (ends_session && !session_.empty()) {
      answer += text("; session '%s' is closed", session_.c_str());
      forget(session_);
    }
    channel_.answer(kWrongInput, answer);
  }
  /// Sends what is still to be sent.
  void leave() { channel_.finish(); }

 private:
  /// The widest element of a file that fits: a number of 8 bytes, or a string of that many code points.
  static int64_t most_file_bytes(DType dtype) {
    return dtype == DType::String ? String::kMost * int64_t{sizeof(char32_t)} : 8;
  }
  /// The longest message that fits the inputs, whatever the width of its numbers.
  uint64_t most_bytes() const {
    uint64_t bytes = 1 << 16;
    for (const Port* port : board_.ports())
      bytes += uint64_t(port_bytes(*port) / element_bytes(port->dtype) * most_file_bytes(port->dtype) + 4096) +
               strlen(port->name);
    return bytes;
  }

  void post(const Order& order) const { board_.order() = order; }

  void post(const Request& request) {
    board_.clear();
    if (request.verb == Verb::Stop) {
      channel_.answer(kOk, "");
      return post({Order::Kind::Stop, -1});
    }
    const auto known = numbers_.find(request.session);
    if (request.verb == Verb::Close) {
      if (known == numbers_.end())
        fail(kWrongInput, "there is no session '%s'%s", request.session.c_str(),
             rank_.executable.states.empty() ? ": the program has no states" : "");
      session_ = request.session;
      return post({Order::Kind::Close, known->second});
    }
    const bool begins = request.session.empty() || known == numbers_.end();
    give_arrays(request, begins);
    const bool is_kept = !request.session.empty() && !rank_.executable.states.empty();
    post({Order::Kind::Run, is_kept ? number_of(request.session) : -1});
    if (is_kept) session_ = request.session;
  }

  int number_of(const std::string& session) {
    if (const auto known = numbers_.find(session); known != numbers_.end()) return known->second;
    if (free_.empty())
      fail(kWrongInput, "session '%s': %d sessions are open, the most of this server (--sessions); close one",
           session.c_str(), most_sessions_);
    const int number = free_.back();
    free_.pop_back();
    return numbers_[session] = number;
  }

  void forget(const std::string& session) {
    const auto known = numbers_.find(session);
    free_.push_back(known->second);
    numbers_.erase(known);
  }

  void give_arrays(const Request& request, bool session_begins) const {
    for (const NamedArray& array : request.arrays) give_array(array, request.session, session_begins);
    for (size_t p = 0; p < board_.ports().size(); ++p) {
      const Port& port = *board_.ports()[p];
      if (!board_.is_given(p) && board_.is_required(p))
        fail(kWrongInput, "input '%s' (%s, %s) is missing", port.name, dtype_name(port.dtype),
             port_shape_text(port).c_str());
    }
  }

  void give_array(const NamedArray& array, const std::string& session, bool session_begins) const {
    const size_t p = board_.find(array.name);
    const Port& port = *board_.ports()[p];
    if (board_.is_given(p)) fail(kWrongInput, "'%s' is given twice", port.name);
    if (!session_begins && is_state_input(rank_.executable, port.name))
      fail(kWrongInput, "'%s' is a state: it is given with the first request of a session, and '%s' has begun",
           port.name, session.c_str());
    const std::string source = text("array '%s'", port.name);
    const NpyArray elements(array.npy, port.dtype, source);
    check_shape(port, elements.shape(), source);
    board_.give(p, elements.shape(), elements.data());
  }

  const RankBase& rank_;
  const RequestBoard board_;
  LookOut look_out_;
  const int most_sessions_;
  Channel channel_;
  std::map<std::string, int> numbers_;
  std::vector<int> free_;
  std::string session_;  // of the request on the board; empty: none that is kept
  std::string arrays_;   // of the answer
};

}  // namespace

void serve_requests(RankBase& rank, const Options& options) {
  std::optional<Clerk> clerk;
  if (rank.rank == 0) clerk.emplace(rank, options);
  answer_requests(rank, options, clerk ? &*clerk : nullptr);
  if (clerk) clerk->leave();
}

}  // namespace weft
