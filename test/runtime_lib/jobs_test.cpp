// Jobs whose ranks a launcher starts, here as environment variables: how they meet, and how they end where they do not.
#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "test/runtime_lib/packed_mlp.h"
#include "test/runtime_lib/program_run.h"

using namespace weft;
using namespace weft::test;

TEST_CASE("program: ranks of a launcher say where one of them was killed") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const std::string rank = "MASTER_PORT=" + std::to_string(getpid() + 1) + " WORLD_SIZE=2 RANK=";
  const std::string flags = " $P --random-inputs 1 --timeout 30 --weights " + folder / "w.bin";
  const Finished done = shell("mlp2", rank + "1" + flags + " --stall 1:proj & victim=$!; " + rank + "0" + flags +
                                          " & other=$!; sleep 0.6; kill -9 $victim; wait $other");
  CHECK(done.code == 6);
  CHECK_MESSAGE(contains(done, "mlp: error: rank 1 ended without a word: it was killed in proj"), done.text);
  CHECK(done.seconds < 10);
}

TEST_CASE("program: ranks of a launcher meet in shared memory") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const std::string run_it = " $P --random-inputs 1 --iterations 5 --weights " + folder / "w.bin";
  const std::string job = "MASTER_PORT=" + std::to_string(getpid()) + " WORLD_SIZE=2";
  const Finished both = shell("mlp2", job + " RANK=1" + run_it + " & " + job + " RANK=0" + run_it + " && wait $!");
  CHECK_MESSAGE(both.code == 0, both.text);
  CHECK(contains(both, "mlp: 2 ranks"));
  CHECK(shell("mlp2", "RANK=0" + run_it).code == 6);
  CHECK(shell("mlp2", "RANK=0 WORLD_SIZE=3 MASTER_PORT=1" + run_it).code == 6);
  // The name of Open MPI's job does not depend on what else is set, nor on scripts between mpirun and the ranks.
  const std::string mpi = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=";
  const Finished wrapped = shell("mlp2", mpi + "1 MASTER_PORT=5 sh -c '" + run_it + "; exit $?' & " + mpi +
                                             "0 MASTER_PORT=6" + run_it + " && wait $!");
  CHECK_MESSAGE(wrapped.code == 0, wrapped.text);
  const std::string step = "SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=";
  CHECK(shell("mlp2", step + "1" + run_it).code == 0);  // starts its ranks itself
  const Finished hint = shell("mlp2", step + "3" + run_it);
  CHECK(hint.code == 6);
  CHECK_MESSAGE(contains(hint, "started 3 ranks; the program has 2: start it with srun -n 2"), hint.text);
  const Finished alone = shell("mlp2", job + " RANK=0" + run_it + " --timeout 0.3");
  CHECK(alone.code == 124);
  CHECK_MESSAGE(contains(alone, "waited 0.3 s for ranks that did not come: 1"), alone.text);
}

namespace {

/// Two ranks that a launcher starts with different command lines; the code is rank 0's.
Finished run_pair(const std::string& first, const std::string& second) {
  static int job = 0;
  const std::string rank = "MASTER_PORT=" + std::to_string(getpid()) + std::to_string(++job) + " WORLD_SIZE=2 RANK=";
  return shell("mlp2", rank + "1 " + second + " & " + rank + "0 " + first + "; code=$?; wait $!; exit $code");
}

}  // namespace

TEST_CASE("program: ranks that do not agree say so at once, both of them") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  std::string image = packed_slices(2);
  image[5] = char(image[5] ^ 1);
  write_whole_file(folder / "v.bin", image_of(2, "", image));
  const std::string one = "$P --random-inputs 1 --weights " + folder / "w.bin";
  struct Row {
    std::string second;
    int code;
    const char* said;
  };
  const Row rows[] = {
      {"$P --random-inputs 1 --weights " + folder / "v.bin", 6, "rank 1 runs another program than rank 0"},
      {one + " --output-dir " + folder.path, 2, "give all ranks the same --output-dir"},
      {one + " --iterations 2", 2, "give all ranks the same --iterations"},
      {"$P --random-inputs 2 --weights " + folder / "w.bin", 2, "give all ranks the same --random-inputs"},
  };
  for (const Row& row : rows) {
    const Finished both = run_pair(one + " --timeout 20", row.second + " --timeout 20");
    CHECK_MESSAGE(contains(both, row.said), both.text);
    CHECK_MESSAGE(both.code == row.code, both.text);
    CHECK(both.seconds < 5);
  }
}

TEST_CASE("program: ranks that read different files for one input say so") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  std::vector<float> x = some_floats(kMlpRows * kMlpWidth);
  write_floats(folder / "x.npy", {kMlpRows, kMlpWidth}, x);
  x.back() += 1;
  write_floats(folder / "z.npy", {kMlpRows, kMlpWidth}, x);
  const std::string flags = "$P --timeout 20 --weights " + folder / "w.bin" + " --input x=" + folder.path;
  CHECK(run_pair(flags + "/x.npy", flags + "/x.npy").code == 0);
  const Finished both = run_pair(flags + "/x.npy", flags + "/z.npy");
  CHECK(both.code == 1);
  CHECK_MESSAGE(contains(both, "rank 1 has read another file for 'x' than rank 0"), both.text);
}

TEST_CASE("program: a job whose ranks do not come together leaves no memory after") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const std::string list = "ls /dev/shm 2>/dev/null | grep weft- | sort";
  const std::string before = shell("", list).text;
  const std::string rank = "MASTER_PORT=" + std::to_string(getpid() + 7) + " WORLD_SIZE=2 RANK=0 $P --random-inputs 1 ";
  for (const char* signal : {"TERM", "KILL"}) {
    const std::string end = std::string("; sleep 0.3; kill -") + signal + " $!; wait $!";
    shell("mlp2", rank + "--weights " + folder / "w.bin" + " & sleep 0" + end);
  }
  CHECK(shell("", list).text == before);
}

TEST_CASE("program: a job that was stopped for longer than its time-out goes on") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const Finished done = shell(
      "mlp2", "set -m; $P --random-inputs 1 --iterations 20000 --timeout 1.5 --weights " + folder / "w.bin" +
                  " & parent=$!; sleep 0.3; kill -STOP -- -$parent; sleep 3; kill -CONT -- -$parent; wait $parent");
  CHECK_MESSAGE(done.code == 0, done.text);
}
