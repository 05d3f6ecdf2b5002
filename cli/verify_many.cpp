// `weft verify-many`: a list of cases in batches, each in a process of its own, so that a case that takes the compiler
// down is one failed case. test/verify_many.py has the protocol.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <list>

#include "cli/case_batch.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/process.h"

namespace weftc {

namespace {

using Clock = std::chrono::steady_clock;
using Numbers = std::vector<size_t>;

constexpr size_t kBatchCases = 96;
// How long a process may work on one case, or on building a group, without a word.
constexpr std::chrono::seconds kCaseSeconds(120), kBuildSeconds(900);

/// A case a line: name, model, data folder and flags, separated by tabs.
std::vector<ManyCase> read_list(const std::string& path, Diags& diags) {
  std::vector<ManyCase> cases;
  const std::optional<std::string> text = read_file(path);
  if (!text) diags.error("list-file", Loc::in_file(path), "the list cannot be read");
  int number = 0;
  for (const std::string& line : split(text.value_or(""), '\n')) {
    ++number;
    if (line.empty()) continue;
    std::vector<std::string> fields = split(line, '\t');
    if (fields.size() < 3) {
      diags.error("list-line", Loc::text(path, number, 1, line),
                  "name, model and data folder are expected, with tabs between them");
      continue;
    }
    cases.push_back({fields[0], fields[1], fields[2], {}});
    for (size_t i = 3; i < fields.size(); ++i)
      for (const std::string& flag : split(fields[i], ' '))
        if (!flag.empty()) cases.back().flags.push_back(flag);
  }
  return cases;
}

/// A process at work on a batch.
struct Worker {
  pid_t pid = 0;
  int pipe = -1;
  Numbers left;               // cases without an answer
  size_t current = SIZE_MAX;  // at work on this one; none while it builds
  Clock::time_point deadline;
  std::string pending;  // an unfinished line
};

/// Keeps as many worker processes busy as --jobs says.
class Pool {
 public:
  Pool(const Options& options, const std::vector<ManyCase>& cases) : options_(options), cases_(cases) {}
  void run();

 private:
  void start(const Numbers& batch);
  [[noreturn]] void work(const Numbers& batch, int pipe) const;
  void read_from(Worker& worker);
  void take_line(Worker& worker, const std::string& line);
  void end(Worker& worker, bool late);
  void print(size_t number, const std::string& status, const std::string& detail) const;

  const Options& options_;
  const std::vector<ManyCase>& cases_;
  std::deque<Numbers> waiting_;
  std::list<Worker> workers_;
};

void Pool::print(size_t number, const std::string& status, const std::string& detail) const {
  std::printf("%s\n", json_object({{"case", json_string(cases_[number].name)},
                                   {"status", json_string(status)},
                                   {"detail", json_string(printable(detail))}})
                          .c_str());
  std::fflush(stdout);
}

/// The child process. It says lines: "B number" (begins a case), "G" (builds a group), "R number status detail"
/// (a result).
void Pool::work(const Numbers& batch, int pipe) const {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setenv("LC_ALL", "C", 1);  // messages of the C++ compiler are quoted in one line of ASCII
  const auto say = [pipe](const std::string& line) {
    for (size_t done = 0; done < line.size();) {
      const ssize_t n = write(pipe, line.data() + done, line.size() - done);
      if (n <= 0) _exit(1);
      done += static_cast<size_t>(n);
    }
  };
  std::vector<ManyCase> cases;
  for (const size_t number : batch) cases.push_back(cases_[number]);
  const BatchReport report{[&](size_t i) { say(format("B {}\n", batch[i])); }, [&] { say("G\n"); },
                           [&](size_t i, const CaseResult& result) {
                             say(format("R {} {} {}\n", batch[i], result.status, printable(result.detail)));
                           }};
  try {
    run_batch(options_, cases, report);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    _exit(kBug);
  }
  _exit(0);
}

/// Forks a worker for a batch.
void Pool::start(const Numbers& batch) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    work(batch, ends[1]);
  }
  close(ends[1]);
  workers_.push_back({pid, ends[0], batch, SIZE_MAX, Clock::now() + kCaseSeconds, ""});
}

/// Handles a line of a worker, and extends its deadline.
void Pool::take_line(Worker& worker, const std::string& line) {
  worker.current = SIZE_MAX;
  worker.deadline = Clock::now() + (line == "G" ? kBuildSeconds : kCaseSeconds);
  if (line == "G") return;
  const std::vector<std::string> words = split(line, ' ');
  const size_t number = std::stoul(words[1]);
  if (words[0] == "B") {
    worker.current = number;
    return;
  }
  const size_t detail = words[0].size() + words[1].size() + words[2].size() + 3;
  print(number, words[2], line.substr(std::min(detail, line.size())));
  worker.left.erase(std::find(worker.left.begin(), worker.left.end(), number));
}

void Pool::read_from(Worker& worker) {
  char block[4096];
  const ssize_t n = read(worker.pipe, block, sizeof block);
  if (n <= 0) return end(worker, false);
  worker.pending.append(block, static_cast<size_t>(n));
  for (size_t newline; (newline = worker.pending.find('\n')) != std::string::npos;) {
    take_line(worker, worker.pending.substr(0, newline));
    worker.pending.erase(0, newline + 1);
  }
}

/// A worker ended, or took too long. Its cases without an answer go on in another process, without the one that
/// was to blame; if that one is not known, each in a process of its own.
void Pool::end(Worker& worker, bool late) {
  if (late) kill(worker.pid, SIGKILL);
  int status = 0;
  waitpid(worker.pid, &status, 0);
  close(worker.pipe);
  worker.pipe = -1;
  if (worker.left.empty()) return;
  const std::string why = late                  ? "took too long"
                          : WIFSIGNALED(status) ? format("the compiler died of signal {}", WTERMSIG(status))
                                                : "the compiler ended";
  size_t guilty = worker.current;
  if (guilty == SIZE_MAX && worker.left.size() == 1) guilty = worker.left[0];
  Numbers others;
  for (const size_t number : worker.left)
    if (number != guilty) others.push_back(number);
  if (guilty != SIZE_MAX) {
    print(guilty, "failed", why);
    if (!others.empty()) waiting_.push_back(others);
  } else {
    for (const size_t number : others) waiting_.push_back({number});
  }
}

/// Deals the cases out in batches and waits for the workers.
void Pool::run() {
  const size_t jobs = static_cast<size_t>(options_.jobs);
  const size_t size = std::clamp<size_t>((cases_.size() + jobs - 1) / jobs, 1, kBatchCases);
  for (size_t from = 0; from < cases_.size(); from += size) {
    waiting_.emplace_back();
    for (size_t i = from; i < std::min(from + size, cases_.size()); ++i) waiting_.back().push_back(i);
  }
  while (!waiting_.empty() || !workers_.empty()) {
    for (; workers_.size() < jobs && !waiting_.empty(); waiting_.pop_front()) start(waiting_.front());
    std::vector<pollfd> pipes;
    for (const Worker& worker : workers_) pipes.push_back({worker.pipe, POLLIN, 0});
    poll(pipes.data(), pipes.size(), 1000);
    size_t i = 0;
    for (Worker& worker : workers_) {
      if (pipes[i++].revents != 0)
        read_from(worker);
      else if (Clock::now() > worker.deadline)
        end(worker, true);
    }
    workers_.remove_if([](const Worker& worker) { return worker.pipe < 0; });
  }
}

}  // namespace

int run_verify_many(const Options& options) {
  Diags diags;
  const std::vector<ManyCase> cases = read_list(options.list, diags);
  if (!diags.ok()) return finish(diags);
  Pool(options, cases).run();
  return 0;
}

}  // namespace weftc
