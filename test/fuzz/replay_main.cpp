// The targets without an engine: cases that were kept, and seeded changes of them. Each case runs in a process of its
// own, so that one finding does not hide the next.
//
//     fuzz_replay run TARGET FILE...
//     fuzz_replay mutate TARGET FIRST COUNT FOLDER FILE...   seeds FIRST .. FIRST + COUNT; findings go to FOLDER
//     fuzz_replay list
//
// A line a finding, on standard output; exit code 1 if there was one.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "test/fuzz/target.h"

using namespace weftc::fuzz;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#elif defined(__clang__)
constexpr bool kIsSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif
constexpr unsigned kSeconds = 60;
constexpr rlim_t kBytes = rlim_t{4} << 30;

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Runs the case in a process of its own; "" or how that ended.
std::string ending_of(const FuzzTarget& target, const std::string& bytes) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    // The address sanitizer reserves terabytes.
    const rlimit limit = {kBytes, kBytes};
    if (!kIsSanitized) setrlimit(RLIMIT_AS, &limit);
    const rlimit no_dump = {0, 0};
    setrlimit(RLIMIT_CORE, &no_dump);
    run_case(target, bytes);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "no end after 60 s" : strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(status));
}

int run_files(const FuzzTarget& target, const std::vector<std::string>& files) {
  int findings = 0;
  for (const std::string& file : files) {
    const std::string ending = ending_of(target, read_file(file));
    if (ending.empty()) continue;
    std::printf("%s: %s\n", file.c_str(), ending.c_str());
    ++findings;
  }
  return findings > 0;
}

/// A case of the seed: several changes, one upon the other, of one of the files.
std::string case_of(const FuzzTarget& target, uint32_t seed, const std::vector<std::string>& files) {
  Random random(seed);
  std::string bytes = read_file(files[random() % files.size()]);
  for (uint32_t rounds = 1 + random() % 3; rounds > 0; --rounds) bytes = target.mutate(bytes, random);
  return bytes;
}

int mutate_files(const FuzzTarget& target, uint32_t first, uint32_t count, const std::string& folder,
                 const std::vector<std::string>& files) {
  int findings = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    const std::string bytes = case_of(target, seed, files);
    const std::string ending = ending_of(target, bytes);
    if (ending.empty()) continue;
    const std::string kept = folder + "/" + target.name + "-" + std::to_string(seed);
    std::ofstream(kept, std::ios::binary) << bytes;
    std::printf("%s: %s\n", kept.c_str(), ending.c_str());
    ++findings;
  }
  return findings > 0;
}

void list_targets() {
  for (const std::span<const FuzzTarget> targets : {compiler_targets(), runtime_targets()})
    for (const FuzzTarget& target : targets)
      std::printf("%s\t%s\t%s\n", target.name, target.mutate ? "structure" : "raw", target.what);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "list") return list_targets(), 0;
  const FuzzTarget* target = words.size() < 2 ? nullptr : find_target(words[1]);
  if (target && words[0] == "run") return run_files(*target, {words.begin() + 2, words.end()});
  if (target && target->mutate && words[0] == "mutate" && words.size() > 5) {
    const auto first = static_cast<uint32_t>(std::stoul(words[2])), count = static_cast<uint32_t>(std::stoul(words[3]));
    return mutate_files(*target, first, count, words[4], {words.begin() + 5, words.end()});
  }
  std::fprintf(stderr, "usage: fuzz_replay list | run TARGET FILE... | mutate TARGET FIRST COUNT FOLDER FILE...\n");
  return 2;
}
