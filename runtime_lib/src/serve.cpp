// A request goes through the ranks in three steps, between barriers of all of them:
//
//   rank 0 reads a request and puts its arrays on the board     the others wait, however long
//   each rank takes its parts; runs, unless somebody complains  the invocation
//   the outputs are assembled on rank 0, which answers          or the complaint is the answer
//
// States belong to a session. Those of the session that ran last lie in the program's buffers, those of the others beside.
#include "serve.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "channel.h"
#include "checks.h"
#include "nearest.h"
#include "npy.h"
#include "request_board.h"
#include "tensors.h"

namespace weft {

namespace {

int64_t board_offset(const Executable& executable) {
  return round_up(RequestBoard(executable).bytes(), kPage);
}

RequestBoard board_of(const Executable& executable, const World& world) {
  return RequestBoard(executable, world.staging() + world.shape.staging_bytes - board_offset(executable));
}

bool is_state_output(const Executable& executable, const char* name) {
  return std::any_of(executable.states.begin(), executable.states.end(),
                     [&](const State& state) { return std::string_view(state.output) == name; });
}

using Phase = RequestBoard::Phase;

/// The states of sessions on one rank.
class Sessions {
 public:
  explicit Sessions(States& states) : states_(states) {}

  /// Puts the states of a session into the buffers; of a new one, and of -1, their start values. Returns how many
  /// requests it has answered.
  uint32_t enter(int session) {
    if (session >= 0 && session == current_) return kept_[session].answered;
    if (current_ >= 0) kept_[current_].parts = states_.take();
    current_ = session;
    if (session < 0) return states_.reset(), 0;
    Session& entered = kept_[session];
    if (entered.parts.empty())
      states_.reset();
    else
      states_.put(entered.parts);
    entered.parts.clear();
    return entered.answered;
  }
  void note_answered() {
    if (current_ >= 0) ++kept_[current_].answered;
  }
  void close(int session) {
    kept_.erase(session);
    if (current_ == session) current_ = -1;
  }

 private:
  struct Session {
    uint32_t answered = 0;
    std::vector<Part> parts;  // empty: in the buffers, or at the start
  };
  States& states_;
  std::map<int, Session> kept_;
  int current_ = -1;
};

/// What rank 0 does beside: it reads requests, checks them, and answers.
class Clerk {
 public:
  Clerk(const RankBase& rank, const RequestBoard& board, const Options& options)
      : rank_(rank), board_(board), most_sessions_(options.sessions), channel_(options.socket, most_bytes()) {
    for (int i = 0; i < options.sessions; ++i) free_.push_back(options.sessions - 1 - i);
    if (!options.socket.empty())
      fprintf(stderr, "%s: %d rank%s, serving at unix:%s\n", rank.executable.name, rank.executable.world,
              rank.executable.world == 1 ? "" : "s", options.socket.c_str());
  }

  /// Waits for a request that the ranks can do something about, and puts it on the board.
  void post_next() {
    for (;;) {
      const std::optional<IncomingMessage> message = channel_.next([this] { look_around(); });
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

  void answer(const std::string& arrays) { channel_.answer(kOk, arrays); }
  /// A session whose states the request has left half done ends.
  void refuse(std::string complaint, bool ends_session) {
    if (ends_session && !session_.empty()) {
      complaint += text("; session '%s' is closed", session_.c_str());
      forget(session_);
    }
    channel_.answer(kWrongInput, complaint);
  }
  void forget_session() { forget(session_); }
  void finish() { channel_.finish(); }

 private:
  /// The longest message that fits the inputs, whatever the width of its numbers.
  uint64_t most_bytes() const {
    uint64_t bytes = 1 << 16;
    for (const Port* port : board_.ports())
      bytes += uint64_t(port_bytes(*port) / element_bytes(port->dtype) * 8 + 4096) + strlen(port->name);
    return bytes;
  }

  /// While nobody asks for anything: a rank that has gone does not come back.
  void look_around() {
    constexpr int kPatience = 3;  // for who started the ranks, to say what became of it
    if (rank_.world.has_failed()) throw Failure{rank_.world.failure(), ""};
    const int gone = rank_.world.gone_rank();
    if (gone >= 0 && ++turns_without_ > kPatience)
      fail(kEnvironment, "rank %d ended without a word: it was killed", gone);
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
      if (known == numbers_.end()) fail(kWrongInput, "there is no session '%s'", request.session.c_str());
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
      if (!board_.is_given(p) && !is_state_input(rank_.executable, port.name))
        fail(kWrongInput, "input '%s' (%s, %s) is missing", port.name, dtype_name(port.dtype),
             shape_text(file_shape(port)).c_str());
    }
  }

  void give_array(const NamedArray& array, const std::string& session, bool session_begins) const {
    const size_t p = port_of(array.name);
    const Port& port = *board_.ports()[p];
    if (board_.is_given(p)) fail(kWrongInput, "'%s' is given twice", port.name);
    if (!session_begins && is_state_input(rank_.executable, port.name))
      fail(kWrongInput, "'%s' is a state: it is given with the first request of a session, and '%s' has begun", port.name,
           session.c_str());
    const std::string source = text("array '%s'", port.name);
    const NpyArray elements(array.npy, port.dtype, source);
    check_shape(port, elements.shape(), source);
    board_.give(p, elements.shape(), elements.data());
  }

  size_t port_of(const std::string& name) const {
    std::vector<std::string> names;
    for (const Port* port : board_.ports()) {
      if (name == port->name) return names.size();
      names.emplace_back(port->name);
    }
    fail(kWrongInput, "there is no input '%s'%s; there are: %s", name.c_str(), did_you_mean(name, names).c_str(),
         list_text(names).c_str());
  }

  const RankBase& rank_;
  const RequestBoard& board_;
  const int most_sessions_;
  Channel channel_;
  std::map<std::string, int> numbers_;
  std::vector<int> free_;
  std::string session_;  // of the request on the board; empty: none that is kept
  int turns_without_ = 0;
};

/// One rank of a server.
class Server {
 public:
  Server(RankBase& rank, const Options& options)
      : rank_(rank), board_(board_of(rank.executable, rank.world)), inputs_(rank, options), states_(rank, options),
        sessions_(states_) {
    for (const Port* port : distinct_ports(rank.executable, &Program::outputs))
      if (!is_state_output(rank.executable, port->name)) outputs_.push_back(port);
    if (rank.rank == 0) clerk_.emplace(rank, board_, options);
  }

  void run() {
    for (;;) {
      if (clerk_) clerk_->post_next();
      rank_.await_others();
      const Order order = board_.order();
      if (order.kind == Order::Kind::Stop) break;
      if (order.kind == Order::Kind::Run)
        answer(order.session);
      else
        close(order.session);
    }
    if (clerk_) clerk_->finish();
  }

 private:
  void close(int session) {
    sessions_.close(session);
    rank_.barrier();  // all have read the order
    if (!clerk_) return;
    clerk_->forget_session();
    clerk_->answer("");
  }

  void answer(int session) {
    for (const Phase phase : {Phase::Load, Phase::Run}) *board_.complaint(phase, rank_.rank) = '\0';
    rank_.invocation = sessions_.enter(session);
    const bool begins = rank_.invocation == 0;
    try {
      load();
    } catch (const Failure& failure) {
      if (failure.code != kWrongInput) throw;
      snprintf(board_.complaint(Phase::Load, rank_.rank), RankBase::kComplaintBytes, "%s", failure.text.c_str());
    }
    rank_.barrier();
    if (is_refused(Phase::Load, session, begins)) return;
    rank_.iterate();
    if (is_refused(Phase::Run, session, true)) return;
    sessions_.note_answered();
    gather();
  }

  /// The arrays on the board go into this rank's buffers.
  void load() {
    if (rank_.options.poison) rank_.poison(states_.ranges());
    std::vector<WholeTensor> states;
    for (size_t p = 0; p < board_.ports().size(); ++p) {
      if (!board_.is_given(p)) continue;
      if (is_state_input(rank_.executable, board_.ports()[p]->name))
        states.push_back(board_.tensor(p));
      else
        inputs_.give(board_.tensor(p));
    }
    if (!states.empty()) states_.give(states);
    inputs_.upload(states_.lengths(inputs_));
  }

  bool is_refused(Phase phase, int session, bool ends_session) {
    const std::string complaint = board_.first_complaint(phase);
    if (complaint.empty()) return false;
    if (ends_session) sessions_.close(session);
    if (clerk_) clerk_->refuse(complaint, ends_session);
    return true;
  }

  void gather() {
    std::string arrays;
    for (const Port* port : outputs_)
      gather_tensor(rank_, *port, &Program::outputs, [&](const WholeTensor& tensor) {
        append_array(arrays, tensor.name, port->dtype, tensor.shape, tensor.elements);
      });
    if (clerk_) clerk_->answer(arrays);
  }

  RankBase& rank_;
  const RequestBoard board_;
  Inputs inputs_;
  States states_;
  Sessions sessions_;
  std::vector<const Port*> outputs_;
  std::optional<Clerk> clerk_;  // on rank 0
};

}  // namespace

int64_t request_board_bytes(const Executable& executable) { return board_offset(executable); }

char* complaint_of(const Executable& executable, const World& world, int rank) {
  return board_of(executable, world).complaint(Phase::Run, rank);
}

void serve_requests(RankBase& rank, const Options& options) { Server(rank, options).run(); }

}  // namespace weft
