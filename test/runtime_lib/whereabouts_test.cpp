// Who holds up whom, from what streams wait for.
#include "runtime_lib/src/whereabouts.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "runtime_lib/src/manifest.h"
#include "runtime_lib/src/wait.h"

using namespace weft;

namespace {

constexpr const char* kManifest = R"({"steps": [
  {"name": "h", "block": "a_forward", "turn": "micro_batch", "nodes": [{"op": "Relu", "name": "h"}]},
  {"name": "h.send", "block": "a_forward", "turn": "micro_batch", "nodes": [{"op": "Relu", "name": "h"}]},
  {"name": "x.next", "block": "states_of_p0", "nodes": [{"op": "Add", "name": "x2"}]}]})";
constexpr WorldShape kThreeRanks{.ranks = 3, .streams = 2};
constexpr Stream kNames[] = {{"compute", true}, {"send"}};

/// Three ranks of two streams, of which all but rank 1 wait for others.
struct Waiting {
  Waiting() : memory(static_cast<char*>(aligned_alloc(kPage, size_t(World::bytes_of(kThreeRanks)))), free) {
    memset(memory.get(), 0, size_t(World::bytes_of(kThreeRanks)));
    world = std::make_unique<World>(kThreeRanks, memory.get());
    world->manifest = kManifest;
    for (const int rank : {0, 2})
      put(rank, 0, "after h", 1, Awaited::OwnRank), put(rank, 1, "h.send", 1, Awaited::OtherRanks);
  }
  void put(int rank, int stream, const char* name, int64_t index, Awaited awaited) const {
    world->set_status(rank, stream, name, index);
    world->set_awaited(rank, stream, awaited);
  }
  std::unique_ptr<char, void (*)(void*)> memory;
  std::unique_ptr<World> world;
};

}  // namespace

TEST_CASE("whereabouts: the rank that waits for no other is named first") {
  const Waiting ranks;
  const World& world = *ranks.world;
  CHECK(who_holds_up(world) == "");  // rank 1 has not begun
  CHECK(whereabouts(world, 1) == "at its start");
  ranks.put(1, 0, "h", 3, Awaited::Nothing);
  CHECK(who_holds_up(world) ==
        "rank 1 waits for no other, and is still in h [3] (Relu h; block a_forward, micro-batch 3)");
  const Program program{.streams = kNames};
  const std::string lines = describe_streams(world, program);
  CHECK_MESSAGE(
      lines.starts_with(
          "\n  rank 1, compute: h [3] (Relu h; block a_forward, micro-batch 3)\n  rank 0, compute: after h [1] "),
      lines);
  ranks.put(1, 0, "after h", 3, Awaited::Nothing);
  CHECK(whereabouts(world, 1) == "after h [3] (Relu h; block a_forward, micro-batch 3)");
  ranks.put(1, 0, "x.next", 0, Awaited::Nothing);
  CHECK(whereabouts(world, 1) == "in x.next (Add x2; block states_of_p0)");
  ranks.put(1, 0, kEnd.data(), 0, Awaited::Nothing);
  CHECK(whereabouts(world, 1) == "at the end of the iteration");
}

TEST_CASE("whereabouts: of a rank that waits, its transfer says more than what waits for that") {
  const Waiting ranks;
  CHECK(whereabouts(*ranks.world, 2) == "in h.send [1] (Relu h; block a_forward, micro-batch 1)");
}

TEST_CASE("whereabouts: a process that is stopped is named before one that computes") {
  const Waiting ranks;
  ranks.put(1, 0, "h", 3, Awaited::Nothing);
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  ranks.world->rank(2).pid.store(child);
  const std::string who = who_holds_up(*ranks.world);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK_MESSAGE(who.starts_with("rank 2 is silent: its process "), who);
  CHECK_MESSAGE(who.ends_with(" in h.send [1] (Relu h; block a_forward, micro-batch 1)"), who);
}

TEST_CASE("whereabouts: the name of a long step is cut, and found again") {
  const std::string name(100, 'n');
  const std::string manifest =
      R"({"steps": [{"name": ")" + name + R"(", "block": "b", "nodes": [{"op": "Relu", "name": "r"}]}]})";
  const Waiting ranks;
  ranks.world->manifest = manifest;
  ranks.put(1, 0, name.c_str(), 0, Awaited::Nothing);
  CHECK(whereabouts(*ranks.world, 1).ends_with("n (Relu r; block b)"));
}
