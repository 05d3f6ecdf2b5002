// The part of each rank in answering requests.
#include "service.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "generator.h"
#include "inputs.h"
#include "text_length.h"

namespace weft {

namespace {

using Phase = RequestBoard::Phase;

bool is_state_output(const Executable& executable, const char* name) {
  return std::any_of(executable.states.begin(), executable.states.end(),
                     [&](const State& state) { return std::string_view(state.output) == name; });
}

/// The state of a session between requests, on one rank.
struct Session {
  uint32_t invocations = 0;
  Text text = {};           // of a generation
  std::vector<Part> parts;  // states; empty: in the buffers, or at the start
};

/// The sessions of one rank.
class Sessions {
 public:
  explicit Sessions(States& states) : states_(states) {}

  /// Puts the states of a session into the buffers; of a new one, and of -1, their start values.
  Session& enter(int session) {
    if (session >= 0 && session == current_) return kept_[session];
    if (current_ >= 0) kept_[current_].parts = states_.take();
    current_ = session;
    if (session < 0) kept_.erase(session);
    Session& entered = kept_[session];
    if (entered.parts.empty())
      states_.reset();
    else
      states_.put(entered.parts);
    entered.parts.clear();
    return entered;
  }
  void close(int session) {
    kept_.erase(session);
    if (current_ == session) current_ = -1;
  }

 private:
  States& states_;
  std::map<int, Session> kept_;
  int current_ = -1;
};

/// One rank that answers requests.
class Server {
 public:
  Server(RankBase& rank, const Options& options, Customer* customer)
      : rank_(rank),
        options_(options),
        board_(board_of(rank.executable, rank.world)),
        inputs_(rank, options),
        states_(rank, options),
        generator_(rank.executable.generation == nullptr
                       ? nullptr
                       : std::make_unique<Generator>(rank, inputs_, states_, options)),
        sessions_(states_),
        customer_(customer) {
    for (const Port* port : distinct_ports(rank.executable, &Program::outputs))
      if (!is_state_output(rank.executable, port->name)) outputs_.push_back(port);
  }

  void run() {
    rank_.await_others();  // all have read what states begin as
    rank_.file_sums.check();
    for (;;) {
      if (customer_ != nullptr) customer_->post_next(board_);
      rank_.await_others();
      const Order order = board_.order();
      if (order.kind == Order::Kind::Stop) return;
      if (order.kind == Order::Kind::Run)
        answer(order.session);
      else if (order.kind == Order::Kind::Save)
        save(order.session);
      else
        close(order.session);
    }
  }

 private:
  void close(int session) {
    sessions_.close(session);
    rank_.barrier();  // all have read the order
    if (customer_ != nullptr) customer_->finish();
  }

  /// Gives the customer a session's states and, in a generation, the tokens that are still to be fed.
  void save(int number) {
    const Session& session = sessions_.enter(number);
    for (const Port* port : distinct_ports(rank_.executable, &Program::inputs))
      if (is_state_input(rank_.executable, port->name))
        gather_tensor(
            rank_, *port, &Program::inputs, [&](const WholeTensor& tensor) { customer_->take(*port, tensor); },
            &states_);
    rank_.barrier();  // all have read the order
    if (customer_ == nullptr) return;
    if (const std::vector<int64_t>& unfed = session.text.unfed; !unfed.empty()) {
      const Port& port = generator_->ports().generated;
      const std::vector<int64_t> shape = {int64_t(unfed.size()), 1};
      customer_->take(port, {port.name, shape, integers(port.dtype, unfed).data()});
    }
    customer_->finish();
  }

  void answer(int number) {
    for (const Phase phase : {Phase::Load, Phase::Run}) *board_.complaint(phase, rank_.rank) = '\0';
    Session& session = sessions_.enter(number);
    rank_.invocation = session.invocations;
    const bool begins = session.invocations == 0;
    try {
      load(session);
    } catch (const Failure& failure) {
      if (failure.code != kWrongInput) throw;
      snprintf(board_.complaint(Phase::Load, rank_.rank), RankBase::kComplaintBytes, "%s", failure.text.c_str());
    }
    rank_.barrier();
    if (is_refused(Phase::Load, number, begins)) return;
    const Generated generated = invoke(session);
    if (is_refused(Phase::Run, number, true)) return;
    session.invocations = rank_.invocation;
    if (generator_)
      give_text(generated);
    else
      gather();
  }

  /// One invocation, or all invocations of a generation.
  Generated invoke(Session& session) {
    if (generator_)
      return generator_->run(
          session.text, [this] { return !board_.first_complaint(Phase::Run).empty(); },
          [this](const std::vector<int64_t>& tokens) { tell(tokens); });
    rank_.iterate();
    fetch_lengths(rank_);
    states_.advance();
    ++rank_.invocation;
    return {};
  }

  /// Where the customer has gone, the next invocation of the generation is its last.
  void tell(const std::vector<int64_t>& tokens) const {
    if (customer_ == nullptr || customer_->tell(generator_->ports().generated, tokens)) return;
    snprintf(board_.complaint(Phase::Run, rank_.rank), RankBase::kComplaintBytes, "the client has gone");
  }

  /// The arrays on the board go into this rank's buffers.
  void load(Session& session) {
    if (rank_.options.poison) rank_.poison(states_.ranges());
    if (!generator_) inputs_.expect(announced());
    std::vector<WholeTensor> states;
    for (size_t p = 0; p < board_.inputs(); ++p) {
      if (!board_.is_given(p)) continue;
      if (is_state_input(rank_.executable, board_.ports()[p]->name))
        states.push_back(board_.tensor(p));
      else
        inputs_.give(board_.tensor(p));
    }
    if (!states.empty()) check_given_states(states[0].name), states_.give(states);
    if (!generator_) return inputs_.upload(states_);
    const Sampling asked = with_settings(rank_.executable.generation->sampling, options_.settings);
    generator_->begin(session.text, board_.tensor(board_.prompt()), with_settings(asked, board_.settings()));
  }

  /// Refuses given states that do not tell the length of their text. Only saved files (--load-state) store it.
  void check_given_states(const char* name) const {
    if (generator_ == nullptr || !counts_tokens(*rank_.executable.generation)) return;
    const Generation& generation = *rank_.executable.generation;
    const char* asks = generation.positions != nullptr ? generation.positions : generation.mask;
    if (asks != nullptr)
      fail(kWrongInput, "'%s': states of a fixed size do not say how many tokens they hold, which '%s' depends on",
           name, asks);
  }

  std::vector<Announced> announced() const {
    std::vector<Announced> out;
    for (size_t p = 0; p < board_.inputs(); ++p)
      if (const char* name = board_.ports()[p]->name; board_.is_given(p) && !is_state_input(rank_.executable, name))
        out.push_back({name, board_.tensor(p).shape});
    return out;
  }

  bool is_refused(Phase phase, int session, bool ends_session) {
    const std::string complaint = board_.first_complaint(phase);
    if (complaint.empty()) return false;
    if (ends_session) sessions_.close(session);
    if (customer_ != nullptr) customer_->refuse(complaint, ends_session);
    return true;
  }

  void gather() {
    for (const Port* port : outputs_)
      gather_tensor(rank_, *port, &Program::outputs,
                    [&](const WholeTensor& tensor) { customer_->take(*port, tensor); });
    if (customer_ != nullptr) customer_->finish();
  }

  void give_text(const Generated& generated) {
    const Port& port = generator_->ports().generated;
    if (customer_ == nullptr) return;
    customer_->take(port, {port.name, generated.shape(), generated.elements(port.dtype).data()});
    customer_->finish();
  }

  RankBase& rank_;
  const Options& options_;
  const RequestBoard board_;
  Inputs inputs_;
  States states_;
  const std::unique_ptr<Generator> generator_;  // nullptr: a request is an invocation
  Sessions sessions_;
  std::vector<const Port*> outputs_;
  Customer* const customer_;  // of rank 0
};

}  // namespace

RequestBoard board_of(const Executable& executable, const World& world) {
  return RequestBoard(executable, world.staging() + world.shape.staging_bytes - request_board_bytes(executable));
}

int64_t request_board_bytes(const Executable& executable) { return round_up(RequestBoard(executable).bytes(), kPage); }

void answer_requests(RankBase& rank, const Options& options, Customer* customer) {
  Server(rank, options, customer).run();
}

void LookOut::look() {
  constexpr int kPatience = 3;  // for the process that started the ranks, which reports it
  if (world_.has_failed()) throw Failure{world_.failure(), ""};
  const int gone = world_.gone_rank();
  if (gone >= 0 && ++turns_without_ > kPatience)
    fail(kEnvironment, "rank %d ended without a word: it was killed", gone);
}

}  // namespace weft
