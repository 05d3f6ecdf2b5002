// Targets of what executables read: arrays, messages of servers, files of weights, flags, variables of launchers.
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "runtime_lib/src/channel.h"
#include "runtime_lib/src/checksum.h"
#include "runtime_lib/src/failure.h"
#include "runtime_lib/src/image_file.h"
#include "runtime_lib/src/launch.h"
#include "runtime_lib/src/manifest.h"
#include "runtime_lib/src/npy.h"
#include "runtime_lib/src/options.h"
#include "runtime_lib/src/root.h"
#include "test/fuzz/target.h"

namespace weftc::fuzz {

namespace {

/// Calls what may refuse its input; a failure that says it is a bug is one.
template <class Body>
void may_fail(Body body) {
  try {
    body();
  } catch (const weft::Failure& failure) {
    if (failure.code == weft::kBug) throw std::runtime_error(failure.text);
  }
}

void read_array(std::string_view npy, weft::DType dtype) {
  const weft::NpyArray array(npy, dtype, "x.npy");
  // The last element lies inside of what was sent.
  const int64_t bytes = weft::tensor_bytes(dtype, array.shape());
  volatile char last = bytes > 0 ? array.data()[bytes - 1] : '\0';
  static_cast<void>(last);
}

/// The first byte chooses the type that the program wants.
void run_npy(std::string_view bytes) {
  if (bytes.empty()) return;
  constexpr int kTypes = static_cast<int>(weft::DType::U2) + 1;
  const auto dtype = static_cast<weft::DType>(static_cast<uint8_t>(bytes[0]) % kTypes);
  may_fail([&] { read_array(bytes.substr(1), dtype); });
}

void run_request(std::string_view bytes) {
  if (bytes.size() < weft::MessageHead::kBytes || !weft::can_begin_message(bytes)) return;
  may_fail([&] {
    const weft::MessageHead head = weft::parse_head(bytes);
    const weft::Request request = weft::parse_request(head.word, bytes.substr(weft::MessageHead::kBytes));
    for (const weft::NamedArray& array : request.arrays) may_fail([&] { read_array(array.npy, weft::DType::F32); });
  });
}

/// Does what the connection waits for, as long as there is something, and answers each message with itself.
void serve(weft::Connection& connection, int client) {
  for (int idle = 0; idle < 2 && !connection.is_over(); ++idle) {
    char dropped[4096];
    while (read(client, dropped, sizeof dropped) > 0) idle = 0;
    pollfd awaited = connection.awaited();
    if (poll(&awaited, 1, 0) > 0) connection.proceed(), idle = 0;
    while (const std::optional<weft::IncomingMessage> message = connection.message())
      connection.answer(message->word, message->bytes);
  }
}

/// A client that sends the bytes in pieces as long as the first byte says, and goes: then the connection is over.
void run_channel(std::string_view bytes) {
  constexpr size_t kMost = 1 << 15;  // less than a socket holds unread
  if (bytes.size() < 2 || bytes.size() > kMost) return;
  const size_t piece = 1 + static_cast<uint8_t>(bytes[0]) * size_t{64};
  bytes.remove_prefix(1);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) return;
  weft::Connection connection(ends[0], ends[0], kMost / 2);
  for (size_t at = 0; at < bytes.size() && !connection.is_over(); at += piece) {
    const std::string_view part = bytes.substr(at, piece);
    if (write(ends[1], part.data(), part.size()) < 0) break;
    serve(connection, ends[1]);
  }
  shutdown(ends[1], SHUT_WR);
  serve(connection, ends[1]);
  close(ends[1]);
  if (!connection.is_over()) throw std::runtime_error("a connection whose client has gone is not over");
}

/// Gives a file of weights the checksum that its other bytes ask for: random ones never have it.
std::string with_checksum(std::string_view bytes) {
  std::string out(bytes);
  weft::Footer footer;
  if (out.size() < sizeof footer) return out;
  char* const at = out.data() + out.size() - sizeof footer;
  std::memcpy(&footer, at, sizeof footer);
  const auto lies_inside = [&](uint64_t offset, uint64_t length) {
    return offset <= out.size() && length <= out.size() - offset;
  };
  if (footer.checksums > out.size() || !lies_inside(footer.manifest_offset, footer.manifest_bytes) ||
      !lies_inside(footer.checksums_offset, footer.checksums * sizeof(weft::Checksum)))
    return out;
  uint32_t crc = weft::crc32c(0, out.data() + footer.manifest_offset, footer.manifest_bytes);
  crc = weft::crc32c(crc, out.data() + footer.checksums_offset, footer.checksums * sizeof(weft::Checksum));
  footer.zero = 0;
  footer.crc = weft::crc32c(crc, &footer, offsetof(weft::Footer, crc));
  std::memcpy(at, &footer, sizeof footer);
  return out;
}

void run_weights(std::string_view bytes) {
  for (const std::string& content : {std::string(bytes), with_checksum(bytes)}) {
    const int file = memfd_create("weights", MFD_CLOEXEC);
    if (file < 0 || write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
      throw std::runtime_error("no temporary file");
    const std::string path = "/proc/self/fd/" + std::to_string(file);
    may_fail([&] { weft::ImageFile(path, true, path); });
    may_fail([&] { weft::schedule_line(weft::ImageFile("", true, path).manifest(), "x"); });
    close(file);
  }
}

/// NAME=VALUE a line.
void run_environment(std::string_view bytes) {
  std::map<std::string, std::string, std::less<>> table;
  std::istringstream lines{std::string(bytes)};
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find('=');
    // No variable holds a zero.
    if (at != std::string::npos) table[line.substr(0, at)] = line.substr(at + 1).c_str();
  }
  const weft::Environment environment = [&](const char* name) {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  };
  may_fail([&] {
    if (const std::optional<weft::Launched> launched = weft::find_launcher(environment))
      weft::find_root("", *launched, environment);
  });
  may_fail([&] { weft::find_parent(environment); });
}

/// An argument a line.
void run_options(std::string_view bytes) {
  std::vector<std::string> words = {"program"};
  std::istringstream lines{std::string(bytes)};
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  may_fail([&] { weft::parse_options(static_cast<int>(arguments.size()), arguments.data()); });
}

constexpr FuzzTarget kTargets[] = {
    {"npy", "arrays that a program is given", run_npy, nullptr},
    {"request", "messages of servers", run_request, nullptr},
    {"channel", "a client of a server, byte by byte", run_channel, nullptr},
    {"weights", "files of weights, and the manifest in them", run_weights, nullptr},
    {"environment", "variables of launchers", run_environment, nullptr},
    {"options", "flags of a program", run_options, nullptr},
};

}  // namespace

std::span<const FuzzTarget> runtime_targets() { return {kTargets, std::size(kTargets)}; }

}  // namespace weftc::fuzz
