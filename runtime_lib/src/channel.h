// Where a server's requests come from and its answers go: standard input and output, or the clients of a Unix socket.
// Messages of one client are answered in order, those of several in turns; what is no message is answered here.
#pragma once
#include <poll.h>

#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "request.h"
#include "wait.h"

namespace weft {

/// A message as it came, for as long as it is not answered.
struct IncomingMessage {
  uint32_t word;
  std::string_view bytes;  // behind the head
};

/// One client.
class Connection {
 public:
  /// Reads from one descriptor and writes to the other; a socket is both, and is closed at the end.
  Connection(int in, int out, uint64_t most_bytes);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The next whole message; nothing before it has come, or while an answer is on its way.
  std::optional<IncomingMessage> message();
  /// True where message() has something to do, be it that it refuses what has come.
  bool has_turn() const;
  void answer(uint32_t code, std::string_view bytes);
  /// The beginning of an answer, which goes at once.
  void answer_in_part(uint32_t code, std::string_view bytes);
  /// The same answer to all that has come, also in part, and to a client that has said nothing; nothing more is taken.
  void dismiss(uint32_t code, const std::string& why);
  /// Takes what has come whole, and nothing more.
  void take_no_more() { takes_no_more_ = true; }
  /// Dismisses a client that has sent more.
  void refuse_rest(uint32_t code, const std::string& why);

  /// What it waits for: its answer is taken, or else it says more. Nothing: descriptor -1.
  pollfd awaited() const;
  /// Does what was waited for.
  void proceed();
  /// Nobody is at the other end.
  void hang_up() { has_hung_up_ = in_ == out_; }
  bool has_hung_up() const { return has_hung_up_ || is_lost_; }
  bool is_sending() const { return !is_sent() && !is_lost_; }
  /// Nothing will come of it any more.
  bool is_over() const { return is_lost_ || (is_sent() && (!fault_.empty() || (has_ended_ && received_.empty()))); }
  bool is_lost() const { return is_lost_; }
  /// Why no more messages can be told apart; empty: they can.
  const std::string& fault() const { return fault_; }
  /// When bytes last came or went.
  int64_t moved_ns() const { return moved_ns_; }
  /// It has sent a whole message some time.
  bool has_asked() const { return has_asked_; }

 private:
  bool is_sent() const { return sent_ == queued_.size(); }
  void read_some();
  void write_some();
  bool skip();
  std::optional<IncomingMessage> refuse(const std::string& why);
  std::optional<IncomingMessage> give_up(const std::string& why);

  const int in_, out_;
  const uint64_t most_bytes_;
  std::string received_, queued_, fault_;
  size_t sent_ = 0, taken_ = 0;  // of what is queued; of what was received, by the message that is not answered yet
  uint64_t skipped_ = 0;         // bytes still to come of a message that was refused
  bool has_ended_ = false, is_lost_ = false, has_hung_up_ = false, has_asked_ = false, takes_no_more_ = false;
  int64_t moved_ns_;
};

/// Of a socket: where it lies, and for how many seconds a client may neither say nor take anything; 0: for ever.
struct ChannelOptions {
  std::string socket = {};  // a path; empty: standard input and output
  uint64_t most_bytes = 0;  // of a message
  double client_timeout = 0;
};

/// All clients. They take turns: each turn looks at all of them, however much one of them has sent.
class Channel {
 public:
  explicit Channel(const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The next message; nothing where none comes within a tenth of a second.
  std::optional<IncomingMessage> next();
  /// No message will come any more: standard input has ended, or all that had come before drain() is answered.
  bool is_over();
  /// Answers the message that next() gave last.
  void answer(uint32_t code, std::string_view bytes);
  /// Begins the answer of a message that is being worked on. False: its client has gone.
  bool answer_in_part(uint32_t code, std::string_view bytes);
  /// While a message is being worked on: looks at all clients. False: the one who has asked has gone.
  bool look();
  /// Takes no more clients and no more messages than have come. The socket's file is removed.
  void drain();
  /// Sends what is still to be sent, and refuses what nobody has answered.
  void finish();
  /// The number of the socket's file while it is there; 0: there is none.
  uint64_t node() const { return node_; }

 private:
  void listen_at(const std::string& path);
  void stop_listening();
  void wait(int milliseconds);
  void accept_one();
  void dismiss_silent();
  bool dismiss_idlest();
  bool has_turn() const;
  bool is_sending() const;
  std::optional<IncomingMessage> take_turn();
  void check_standard_streams() const;

  const ChannelOptions options_;
  int listener_ = -1;
  std::optional<Patience> draining_;  // with those that do not take their answers
  uint64_t node_ = 0;                 // the number of the socket's file
  bool has_room_ = true;              // for another client: false after one for which there was no descriptor
  std::list<Connection> connections_;
  Connection* current_ = nullptr;
};

}  // namespace weft
