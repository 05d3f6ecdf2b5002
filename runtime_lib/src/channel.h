// The connections of a server: standard input and output, or the clients of a Unix socket. Messages of one client are
// answered in order, those of several clients in turns. Malformed messages are answered here.
#pragma once
#include <poll.h>

#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "request.h"
#include "wait.h"

namespace weft {

/// A received message, valid until it is answered.
struct IncomingMessage {
  uint32_t word;
  std::string_view bytes;  // after the head
};

/// One client.
class Connection {
 public:
  /// Reads from one descriptor and writes to the other; a socket is both, and is closed at the end.
  Connection(int in, int out, uint64_t most_bytes);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The next whole message; nullopt before it has arrived, or while an answer is being sent.
  std::optional<IncomingMessage> message();
  /// Whether message() has something to do, which may be a refusal.
  bool has_turn() const;
  void answer(uint32_t code, std::string_view bytes);
  /// Sends the beginning of an answer at once.
  void answer_in_part(uint32_t code, std::string_view bytes);
  /// Gives the same answer to all messages received, even partly, and to a client that has sent nothing. It accepts
  /// nothing more.
  void dismiss(uint32_t code, const std::string& why);
  /// Accepts messages that have arrived completely, and nothing more.
  void take_no_more() { takes_no_more_ = true; }
  /// Dismisses a client that has sent more.
  void refuse_rest(uint32_t code, const std::string& why);

  /// The event that it waits for: room to send its answer, or data to read. Descriptor -1: no event.
  pollfd awaited() const;
  /// Handles that event.
  void proceed();
  /// Called when the other end has closed.
  void hang_up() { has_hung_up_ = in_ == out_; }
  bool has_hung_up() const { return has_hung_up_ || is_lost_; }
  bool is_sending() const { return !is_sent() && !is_lost_; }
  /// Whether it is finished.
  bool is_over() const { return is_lost_ || (is_sent() && (!fault_.empty() || (has_ended_ && received_.empty()))); }
  bool is_lost() const { return is_lost_; }
  /// Why the boundaries of messages are lost; empty: they are not.
  const std::string& fault() const { return fault_; }
  /// When bytes were last received or sent.
  int64_t moved_ns() const { return moved_ns_; }
  /// Whether it has ever sent a whole message.
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
  size_t sent_ = 0, taken_ = 0;  // bytes sent of the queue; bytes received that the unanswered message uses
  uint64_t skipped_ = 0;         // bytes still to come of a message that was refused
  bool has_ended_ = false, is_lost_ = false, has_hung_up_ = false, has_asked_ = false, takes_no_more_ = false;
  int64_t moved_ns_;
};

/// `client_timeout`: for how many seconds a client of a socket may neither send nor receive anything; 0: for ever.
struct ChannelOptions {
  std::string socket = {};  // a path; empty: standard input and output
  uint64_t most_bytes = 0;  // of a message
  double client_timeout = 0;
};

/// All clients. They take turns: each turn polls all of them, however much one of them has sent.
class Channel {
 public:
  explicit Channel(const ChannelOptions& options);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The next message; nullopt if none arrives within a tenth of a second.
  std::optional<IncomingMessage> next();
  /// Whether no message will come: standard input has ended, or all messages before drain() are answered.
  bool is_over();
  /// Answers the message that next() gave last.
  void answer(uint32_t code, std::string_view bytes);
  /// Begins the answer of a message that is being worked on. False: its client has gone.
  bool answer_in_part(uint32_t code, std::string_view bytes);
  /// Polls all clients while a message is being processed. False: the client that sent the message has gone.
  bool look();
  /// Accepts no more clients and messages. The socket's file is removed.
  void drain();
  /// Sends pending answers, and refuses unanswered messages.
  void finish();
  /// The inode number of the socket's file while it exists; else 0.
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
  std::optional<Patience> draining_;  // with clients that do not read their answers
  uint64_t node_ = 0;                 // the number of the socket's file
  bool has_room_ = true;              // for another client: false if there was no descriptor for the last one
  std::list<Connection> connections_;
  Connection* current_ = nullptr;
};

}  // namespace weft
