// Requests as messages: rank 0 reads them from a channel, checks them and puts them on the board.
#include "serve.h"

#include <cstdio>
#include <cstring>
#include <optional>

#include "channel.h"
#include "checks.h"
#include "generated_text.h"
#include "npy.h"
#include "service.h"
#include "session_names.h"

namespace weft {

namespace {

/// Rank 0's customer of a server: it reads requests, checks them, and answers.
class Clerk final : public Customer {
 public:
  Clerk(const RankBase& rank, const Options& options)
      : rank_(rank),
        board_(board_of(rank.executable, rank.world)),
        look_out_(rank.world),
        sessions_(options.sessions, options.session_timeout),
        channel_({options.socket, most_bytes(), options.client_timeout}) {
    rank.world.socket_node().store(channel_.node());
    if (!options.socket.empty())
      fprintf(stderr, "%s: %d rank%s, serving at unix:%s\n", rank.executable.name, rank.executable.world,
              rank.executable.world == 1 ? "" : "s", options.socket.c_str());
  }

  void post_next(const RequestBoard&) override {
    for (;;) {
      drain_if_asked();
      if (const std::optional<int> late = sessions_.next_late()) return post_end_of_late(*late);
      const std::optional<IncomingMessage> message = channel_.next();
      if (!message && channel_.is_over()) return post({Order::Kind::Stop, -1});
      if (!message) look_out_.look();
      if (message && is_posted(*message)) return;
    }
  }

  bool tell(const Port& port, const std::vector<int64_t>& tokens) override {
    drain_if_asked();
    if (verb_ != Verb::Stream) return channel_.look();
    std::string part;
    append_array(part, port.name, port.dtype, {int64_t(tokens.size()), 1}, integers(port.dtype, tokens).data());
    return channel_.look() && channel_.answer_in_part(kMoreFollow, part);
  }
  void take(const Port& port, const WholeTensor& tensor) override {
    append_array(arrays_, tensor.name, port.dtype, tensor.shape, tensor.elements);
  }
  void finish() override {
    if (board_.order().kind == Order::Kind::Close) sessions_.forget(session_);
    if (board_.order().kind == Order::Kind::Run && !session_.empty()) sessions_.note_use(session_);
    if (is_asked_) channel_.answer(kOk, arrays_);
    arrays_.clear();
  }
  void refuse(const std::string& complaint, bool ends_session) override {
    std::string answer = complaint;
    if (ends_session && !session_.empty()) {
      answer += text("; session '%s' is closed", session_.c_str());
      sessions_.forget(session_);
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
  /// The longest message that fits the inputs, for any width of its numbers.
  uint64_t most_bytes() const {
    uint64_t bytes = 1 << 16;
    for (const Port* port : board_.ports())
      bytes += uint64_t(port_bytes(*port) / element_bytes(port->dtype) * most_file_bytes(port->dtype) + 4096) +
               strlen(port->name);
    return bytes;
  }

  /// After a signal to end, the server answers pending requests and accepts no more.
  void drain_if_asked() {
    if (rank_.world.end_asked().load() == 0) return;
    channel_.drain();
    rank_.world.socket_node().store(0);
  }

  void post(const Order& order) {
    is_asked_ = true;
    board_.order() = order;
  }

  /// Nobody has asked for this one.
  void post_end_of_late(int session) {
    session_ = sessions_.name_of(session);
    board_.clear();
    post({Order::Kind::Close, session});
    is_asked_ = false;
  }

  /// False if the message is already answered, because it is wrong or needs no work of the ranks.
  bool is_posted(const IncomingMessage& message) {
    try {
      session_.clear();
      return post(parse_request(message.word, message.bytes));
    } catch (const Failure& failure) {
      if (failure.code != kWrongInput) throw;
      channel_.answer(kWrongInput, failure.text);
      return false;
    }
  }

  bool post(const Request& request) {
    board_.clear();
    verb_ = request.verb;
    switch (request.verb) {
      case Verb::Stop:
        channel_.answer(kOk, "");
        return post({Order::Kind::Stop, -1}), true;
      case Verb::List:
        channel_.answer(kOk, sessions_.list());
        return false;
      case Verb::Close:
      case Verb::Save: {
        const int known = known_session(request.session);
        session_ = request.session;
        return post({request.verb == Verb::Save ? Order::Kind::Save : Order::Kind::Close, known}), true;
      }
      case Verb::Stream:
        if (rank_.executable.generation == nullptr)
          fail(kWrongInput, "verb 6 (run and stream) is for programs that generate");
        [[fallthrough]];
      case Verb::Run:
        return post_run(request), true;
    }
    return false;
  }

  int known_session(const std::string& session) const {
    const std::optional<int> known = sessions_.number_of(session);
    if (!known)
      fail(kWrongInput, "there is no session '%s'%s", session.c_str(),
           rank_.executable.states.empty() ? ": the program has no states" : "");
    return *known;
  }

  void post_run(const Request& request) {
    if (!request.session.empty()) sessions_.check_late(request.session);
    const bool begins = request.session.empty() || !sessions_.number_of(request.session);
    give_arrays(request, begins);
    const bool is_kept = !request.session.empty() && !rank_.executable.states.empty();
    post({Order::Kind::Run, is_kept ? sessions_.open(request.session) : -1});
    if (is_kept) session_ = request.session;
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
  SessionNames sessions_;
  Channel channel_;
  std::string session_;    // of the request on the board; empty: none that is kept
  Verb verb_ = Verb::Run;  // of it
  bool is_asked_ = true;   // somebody waits for its answer
  std::string arrays_;     // of the answer
};

}  // namespace

void serve_requests(RankBase& rank, const Options& options) {
  std::optional<Clerk> clerk;
  if (rank.rank == 0) clerk.emplace(rank, options);
  answer_requests(rank, options, clerk ? &*clerk : nullptr);
  if (clerk) clerk->leave();
}

}  // namespace weft
