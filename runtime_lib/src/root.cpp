// Finding the address of rank 0 from the command line or the environment (root.h has the order).
#include "root.h"

#include <charconv>
#include <cstring>

namespace weft {

namespace {

constexpr int kPorts = 65535;

/// The number in the word; -1 if it is not a number or too large.
int number_of(std::string_view word) {
  int out = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && out >= 0 ? out : -1;
}

int port_of(const char* what, const std::string& word, int code) {
  const int port = number_of(word);
  if (port < 1 || port > kPorts)
    fail(code, "%s: '%s' is no port; a number from 1 to %d is expected", what, word.c_str(), kPorts);
  return port;
}

/// A port that all ranks of a Slurm job compute alike. It lies below the ports that systems assign by
/// themselves (from 32768 on), and differs from step to step.
int port_of_job(const Environment& env, const char* job) {
  constexpr int kFirst = 20000, kCount = 12000, kSteps = 16;
  const char* step = env("SLURM_STEP_ID");
  const int64_t number = std::max(0, number_of(job)), part = step == nullptr ? 0 : std::max(0, number_of(step));
  return kFirst + int((number * kSteps + part) % kCount);
}

/// torchrun's agent itself listens at MASTER_PORT if it keeps the store; then the next port is used, which is
/// free.
bool agent_listens(const Environment& env) {
  const char* word = env("TORCHELASTIC_USE_AGENT_STORE");
  return word != nullptr && strcasecmp(word, "true") == 0;
}

}  // namespace

std::string Root::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Root parse_root(const char* what, const std::string& text, int code) {
  const bool is_bracketed = text.starts_with('[');
  const size_t close = text.find(']');
  const size_t colon = is_bracketed ? (close == std::string::npos ? close : close + 1) : text.find(':');
  const bool is_pair = colon != std::string::npos && colon < text.size() && text[colon] == ':' &&
                       text.find(':', colon + 1) == std::string::npos;
  const std::string host = !is_pair ? "" : is_bracketed ? text.substr(1, close - 1) : text.substr(0, colon);
  if (host.empty())
    fail(code, "%s %s: HOST:PORT is expected, an IPv6 address in brackets: [ADDRESS]:PORT", what, text.c_str());
  return {host, port_of(what, text.substr(colon + 1), code), what};
}

std::string first_node(const std::string& list) {
  std::string out;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      out += list[i];
      continue;
    }
    const size_t close = list.find(']', i);
    if (close == std::string::npos) return "";
    out += list.substr(i + 1, list.find_first_of("-,]", i) - i - 1);
    i = close;
  }
  return out;
}

Root find_root(const std::string& flag, const Launched& launched, const Environment& env) {
  if (!flag.empty()) return parse_root("--root", flag, kUsage);
  const char *host = env("MASTER_ADDR"), *port = env("MASTER_PORT");
  if (host != nullptr && port != nullptr && *host != '\0')
    return {host, port_of("MASTER_PORT", port, kEnvironment) + (agent_listens(env) ? 1 : 0),
            "MASTER_ADDR and MASTER_PORT"};
  if (host != nullptr || port != nullptr)
    fail(kEnvironment, "%s is set, but %s is not: the ranks on other machines cannot find rank 0",
         host != nullptr ? "MASTER_ADDR" : "MASTER_PORT", host != nullptr ? "MASTER_PORT" : "MASTER_ADDR");
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    const char *list = env(name), *job = env("SLURM_JOB_ID");
    if (list == nullptr || job == nullptr) continue;
    const std::string node = first_node(list);
    if (node.empty()) fail(kEnvironment, "%s is '%s'; a list of nodes is expected", name, list);
    return {node, port_of_job(env, job), name};
  }
  fail(kEnvironment,
       "rank %d of %d cannot find rank 0, which is on another machine: give --root HOST:PORT, or set MASTER_ADDR and "
       "MASTER_PORT",
       launched.rank, launched.size);
}

}  // namespace weft
