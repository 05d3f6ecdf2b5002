// Where a server's requests come from and its answers go: standard input and output, or the clients of a Unix socket.
// Messages of one client are answered in order, those of several in turns; what is no message is answered here.
#pragma once
#include <poll.h>

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "request.h"

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
  Connection(int in, int out, uint64_t most_bytes) : in_(in), out_(out), most_bytes_(most_bytes) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The next whole message; nothing before it has come, or while an answer is on its way.
  std::optional<IncomingMessage> message();
  void answer(uint32_t code, std::string_view bytes);

  /// What it waits for: its answer is taken, or else it says more. Nothing: descriptor -1.
  pollfd awaited() const;
  /// Does what was waited for.
  void proceed();
  bool is_sending() const { return !is_sent() && !is_lost_; }
  /// Nothing will come of it any more.
  bool is_over() const { return is_lost_ || (is_sent() && (!fault_.empty() || (has_ended_ && received_.empty()))); }
  bool is_lost() const { return is_lost_; }
  /// Why no more messages can be told apart; empty: they can.
  const std::string& fault() const { return fault_; }

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
  bool has_ended_ = false, is_lost_ = false;
};

/// All clients.
class Channel {
 public:
  /// `socket`: the path of a Unix socket to make; empty: standard input and output. Longer messages than `most_bytes`
  /// are refused.
  Channel(const std::string& socket, uint64_t most_bytes);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// The next message; nothing when standard input has ended. `idle` is called several times a second meanwhile.
  std::optional<IncomingMessage> next(const std::function<void()>& idle);
  /// Answers the message that next() gave last.
  void answer(uint32_t code, std::string_view bytes);
  /// Sends what is still to be sent.
  void finish();

 private:
  void listen_at(const std::string& path);
  void wait();
  void accept_one();
  void check_standard_streams() const;

  const std::string path_;
  const uint64_t most_bytes_;
  int listener_ = -1;
  uint64_t node_ = 0;     // the number of the socket's file
  bool has_room_ = true;  // for another client: false after one for which there was no descriptor
  std::list<Connection> connections_;
  Connection* current_ = nullptr;
};

}  // namespace weft
