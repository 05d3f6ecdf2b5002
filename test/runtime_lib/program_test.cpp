// Whole programs as processes (programs.cpp): start, launchers, states, traces, faults, and the exit code of each.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../larger.h"
#include "runtime_lib/src/checksum.h"
#include "runtime_lib/src/npy.h"
#include "runtime_lib/src/report.h"
#include "runtime_lib/src/tensors.h"
#include "test/runtime_lib/packed_mlp.h"
#include "test/runtime_lib/program_run.h"

using namespace weft;
using namespace weft::test;

namespace {

double mlp_error(const NpyFile& x, const NpyFile& y) {
  const float *in = reinterpret_cast<const float*>(x.data()), *out = reinterpret_cast<const float*>(y.data());
  double error = 0;
  for (int64_t m = 0; m < kMlpRows; ++m)
    for (int64_t n = 0; n < kMlpWidth; ++n) {
      double want = in[m * kMlpWidth + n];
      for (int64_t h = 0; h < kMlpHidden; ++h) {
        double sum = 0;
        for (int64_t k = 0; k < kMlpWidth; ++k)
          sum += double(in[m * kMlpWidth + k]) * mlp_weight(1, k * kMlpHidden + h);
        want += 0.5 * sum * std::erfc(-sum / std::sqrt(2.0)) * mlp_weight(2, h * kMlpWidth + n);
      }
      error = larger(error, std::fabs(want - double(out[m * kMlpWidth + n])));
    }
  return error;
}

}  // namespace

TEST_CASE("programs: sizes for people") {
  CHECK(size_text(0) == "0 bytes");
  CHECK(size_text(1023) == "1023 bytes");
  CHECK(size_text(1536) == "1.5 KiB");
  CHECK(size_text(int64_t{1} << 20) == "1.0 MiB");
  CHECK(size_text(int64_t{1} << 60) == "1048576.0 TiB");
}

TEST_CASE("program: an MLP on 1, 2 and 4 ranks, as processes and as threads") {
  const Folder folder;
  std::vector<float> x;
  for (int64_t i = 0; i < kMlpRows * kMlpWidth; ++i) x.push_back(mlp_weight(3, i) * 4);
  write_floats(folder / "x.npy", {kMlpRows, kMlpWidth}, x);
  for (const int ranks : {1, 2, 4}) {
    write_whole_file(folder / "w.bin", packed_weights(ranks));
    for (const char* how : {"", " --ranks-as-threads", " --threads 3 --poison --iterations 20 --warmup 3"}) {
      const Finished done =
          run("mlp" + std::to_string(ranks), "--weights " + folder / "w.bin" + " --input x=" + folder / "x.npy" +
                                                 " --output-dir " + folder / "out/of" + how);
      CHECK_MESSAGE(done.code == 0, done.text);
      CHECK(mlp_error(NpyFile(folder / "x.npy", DType::F32), NpyFile(folder / "out/of/y.npy", DType::F32)) < 1e-5);
    }
  }
}

TEST_CASE("program: a slow link gives the same bits, and what overlaps can be measured") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const std::string flags = "--random-inputs 1 --weights " + folder / "w.bin";
  const Finished quick = run("mlp2", flags + " --output-dir " + folder / "quick");
  const Finished slow = run("mlp2", flags + " --link 100KB/s,20ms --output-dir " + folder / "slow");
  CHECK(quick.code == 0);
  CHECK(slow.code == 0);
  CHECK(slow.seconds > 0.04);  // a barrier before and after
  CHECK(read_whole_file(folder / "quick/y.npy") == read_whole_file(folder / "slow/y.npy"));
  CHECK(!read_whole_file(folder / "slow/y.npy").empty());

  const Finished both = run("mlp2", flags + " --link 1GB/s,5ms --overlap --iterations 3 --json");
  CHECK(both.code == 0);
  const char* key = "\"communication_ms\": ";
  REQUIRE(contains(both, key));
  CHECK(atof(both.text.c_str() + both.text.find(key) + strlen(key)) > 10);  // the barriers of communication alone
  CHECK(contains(both, "\"hidden\": "));
  CHECK(contains(both, "\"received_bytes\": 256"));  // half of the sum: the other rank's part of it
  for (const char* flag : {"--output-dir", "--save-state"})
    CHECK(run("mlp2", flags + " --overlap " + flag + " " + folder.path).code == 2);
}

/// An executable with weights and a manifest in it, as `model` in the folder.
static std::string packed_program(const Folder& folder) {
  const std::string model = folder / "model", image = folder / "image";
  write_whole_file(image, image_of(2, R"({"steps": [{"name": "proj", "schedule": "s.yaml:4:3"}]})"));
  REQUIRE(shell("", "objcopy --add-section .weft=" + image + " --set-section-alignment .weft=4096 $P " + model).code ==
          0);
  return model;
}

TEST_CASE("program: weights and manifest in the executable") {
  const Folder folder;
  const std::string model = packed_program(folder), run_it = model + " --random-inputs 1 ";
  CHECK(shell("mlp2", run_it).code == 0);
  CHECK(contains(shell("mlp2", run_it + "--info"), "\"schedule\": \"s.yaml:4:3\""));
  const Finished stalled = shell("mlp2", run_it + "--stall 1:proj --timeout 0.3");
  CHECK(stalled.code == 124);
  const std::string bytes = read_whole_file(model);
  for (const size_t cut : {size_t{1}, size_t{64}, size_t{5000}}) {
    write_whole_file(model, bytes.substr(0, bytes.size() - cut));
    const Finished done = shell("mlp2", run_it);
    CHECK(done.code == 6);
    CHECK_MESSAGE(contains(done, "the executable is damaged: it does not end as it was written, so it was cut"),
                  done.text);
  }
}

TEST_CASE("program: weights stay where tools for executables rewrite it, or the message says what has gone") {
  const Folder folder;
  const std::string model = packed_program(folder), flags = " --random-inputs 1 --output-dir ";
  REQUIRE(shell("mlp2", model + flags + folder / "whole").code == 0);
  for (const char* tool : {"strip", "strip -g", "objcopy", "strip --remove-section=.comment"}) {
    const Finished done = shell("mlp2", std::string(tool) + " " + model + " && " + model + flags + folder / "stripped");
    CHECK_MESSAGE(done.code == 0, tool << ": " << done.text);
    CHECK(read_whole_file(folder / "stripped/y.npy") == read_whole_file(folder / "whole/y.npy"));
  }
  const Finished bare = shell("mlp2", "objcopy -R .weft " + model + " && " + model + " --random-inputs 1");
  CHECK(bare.code == 1);
  CHECK_MESSAGE(contains(bare, "the executable carries no weights (a tool may have removed its section .weft)"),
                bare.text);
}

TEST_CASE("program: a byte of the weights that changed is found, and its slice is named") {
  const Folder folder;
  const std::string weights = packed_weights(2), flags = "--random-inputs 1 --weights " + folder / "w.bin";
  const size_t slice = packed_slices(2).size() / 2, table = 2 * slice, step = weights.size() / 37;
  for (size_t at = 0; at < weights.size(); at += at < table ? step : 3) {
    std::string changed = weights;
    changed[at] = char(changed[at] ^ 4);
    write_whole_file(folder / "w.bin", changed);
    const Finished done = run("mlp2", flags);
    CHECK_MESSAGE(done.code == 6, "byte " << at << ": " << done.text);
    const char* wanted = at < slice   ? "slice 0 of weight segment 0 over tp"
                         : at < table ? "slice 1 of weight segment 0 over tp"
                                      : "is damaged: ";
    CHECK_MESSAGE(contains(done, wanted), done.text);
  }
  write_whole_file(folder / "w.bin", weights.substr(0, slice));
  const Finished cut = run("mlp2", flags);
  CHECK(cut.code == 6);
  CHECK_MESSAGE(contains(cut, "w.bin is damaged: it does not end as weights do, so it was cut"), cut.text);
  write_whole_file(folder / "w.bin", weights);
  CHECK(run("mlp2", flags + " --check").code == 0);
}

TEST_CASE("checksum: the instruction and the table agree with the standard's example") {
  const std::string digits = "123456789", text = packed_slices(1).substr(0, 1003);
  CHECK(crc32c(0, digits.data(), digits.size()) == 0xe3069283u);
  CHECK(crc32c_by_table(0, digits.data(), digits.size()) == 0xe3069283u);
  CHECK(crc32c(0, text.data(), text.size()) == crc32c_by_table(0, text.data(), text.size()));
  CHECK(crc32c(crc32c(0, text.data(), 500), text.data() + 500, 503) == crc32c(0, text.data(), text.size()));
}

TEST_CASE("program: two stages with micro-batches") {
  const Folder folder;
  write_floats(folder / "x.npy", {4, 6}, some_floats(24));
  const Finished done = run(
      "staged", "--input x=" + folder / "x.npy" + " --output-dir " + folder.path + " --iterations 30 --poison --json");
  CHECK_MESSAGE(done.code == 0, done.text);
  CHECK(contains(done, "\"latency_ms\": {\"median\": "));
  const std::vector<float> y = read_floats(folder / "y.npy", {4, 6});
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == 10 * float(i) + 1);
}

TEST_CASE("program: random inputs do not depend on the number of ranks") {
  const Folder folder;
  std::vector<std::vector<float>> results;
  for (const int ranks : {1, 2, 4}) {
    write_whole_file(folder / "w.bin", packed_weights(ranks));
    const Finished done = run("mlp" + std::to_string(ranks),
                              "--weights " + folder / "w.bin" + " --random-inputs 5 --output-dir " + folder.path);
    CHECK_MESSAGE(done.code == 0, done.text);
    results.push_back(read_floats(folder / "y.npy", {kMlpRows, kMlpWidth}));
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    CHECK(std::fabs(results[1][i] - results[0][i]) < 1e-5);
    CHECK(std::fabs(results[2][i] - results[0][i]) < 1e-5);
  }
}

TEST_CASE("program: wrong inputs and wrong use") {
  const Folder folder;
  write_floats(folder / "wide.npy", {3, 3}, some_floats(9));
  write_whole_file(folder / "w.bin", packed_weights(1));
  const auto check = [](const std::string& arguments, int code, const char* part) {
    const Finished done = run("cache", arguments);
    CHECK(done.code == code);
    CHECK_MESSAGE(contains(done, part), done.text);
  };
  check("", 1, "input 'x' (f32, <=2x3) is missing");
  check("--input z=f.npy", 1, "there is no input 'z'; there are: x");
  check("--random-inputs 1 --input past=f.npy", 1, "f.npy: No such file");
  check("--input x=" + folder / "none.npy", 1, "No such file");
  check("--input x=" + folder / "wide.npy", 1, "shape 3x3; 'x' is <=2x3");
  check("--random-inputs 1 --load-state " + folder.path, 1, "past.npy: No such file");
  check("--random-inputs 1 --load-state nowhere", 1, "--load-state nowhere: No such file");
  check("--random-inputs 1 --load-state " + folder / "wide.npy", 1, "wide.npy: not a folder");
  check("--random-inputs 1 --output-dir /dev/null/x", 1, "cannot make the folder");
  check("--random-inputs 1 --output-dir " + folder / "wide.npy", 1, "cannot write there: Not a directory");
  check("--random-inputs 1 --trace " + folder.path, 1, "cannot write there: Is a directory");
  check("--random-inputs 1 --trace nowhere/t.json", 1, "cannot write there: No such file");
  check("--random-inputs 1 --iteration 3", 2, "unknown argument '--iteration' (did you mean '--iterations'?)");
  check("--random-inputs 1 --stall 0:cta", 2,
        "this rank has no such step (did you mean 'cat'?); there are: cat, count");
  check("--random-inputs 1 --stall 1:cat", 2, "there is no rank 1; the program has 1");
  check("--iterations 0", 2, "--iterations 0");
  check("--random-inputs 1 --json > /dev/full", 6, "cannot write to standard output");
  check("--info > /dev/full", 6, "cannot write to standard output");
  check("--random-inputs 1 --trace /dev/full", 6, "cannot write /dev/full");
  check("--random-inputs 1 --load-state ''", 2, "--load-state needs a value: DIR");
  check("--random-inputs 1 --link fast", 2, "--link fast: BANDWIDTH[,LATENCY] is expected");
  check("--random-inputs 1 --link 1GB/s,50", 2, "--link 1GB/s,50: BANDWIDTH[,LATENCY] is expected");
  check("--random-inputs 1 --overlap", 2, "no stream beside that of its computation");
  check("--frobnicate", 2, "unknown argument '--frobnicate'");
  check("-h", 0, "--random-inputs SEED");
  check("--help", 0, "--random-inputs SEED");
  const Finished stateless =
      run("mlp1", "--random-inputs 1 --weights " + folder / "w.bin" + " --load-state " + folder.path);
  CHECK(stateless.code == 2);
  CHECK_MESSAGE(contains(stateless, "the program has no states"), stateless.text);
  const Finished none = run("mlp2", "--random-inputs 1");
  CHECK(none.code == 1);
  CHECK(contains(none, "the weights are missing"));
  const Finished foreign = run("mlp2", "--random-inputs 1 --weights " + folder / "w.bin");
  CHECK(foreign.code == 1);
  CHECK_MESSAGE(contains(foreign, "which the program needs: they are another program's"), foreign.text);
}

TEST_CASE("program: a pipe or a device is no input, and nobody waits for one") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(1));
  REQUIRE(shell("", "mkfifo " + folder / "pipe").code == 0);
  for (const std::string& file : {folder / "pipe", std::string("/dev/zero")}) {
    const Finished done = run("mlp1", "--weights " + folder / "w.bin" + " --input x=" + file);
    CHECK(done.code == 1);
    CHECK_MESSAGE(contains(done, "not a file"), done.text);
  }
  CHECK(run("mlp1", "--random-inputs 1 --weights " + folder / "pipe").code == 6);
}

TEST_CASE("program: what cannot be written whole is not written at all, and what was there stays") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(1));
  const std::string limited = "trap '' XFSZ; ulimit -f 1; $P --random-inputs 1 --weights " + folder / "w.bin";
  write_whole_file(folder / "y.npy", "as it was");
  write_whole_file(folder / "t.json", "as it was");
  const Finished output = shell("mlp1", limited + " --output-dir " + folder.path);
  CHECK(output.code == 6);
  CHECK_MESSAGE(contains(output, ("cannot write " + folder / "y.npy: File too large").c_str()), output.text);
  const Finished trace = shell("mlp1", limited + " --trace " + folder / "t.json");
  CHECK(trace.code == 6);
  CHECK_MESSAGE(contains(trace, "t.json"), trace.text);
  CHECK(read_whole_file(folder / "y.npy") == "as it was");
  CHECK(read_whole_file(folder / "t.json") == "as it was");
  CHECK(shell("", "ls " + folder.path).text == "t.json\nw.bin\ny.npy\n");
  CHECK(run("mlp1", "--random-inputs 1 --weights " + folder / "w.bin" + " --trace /dev/null").code == 0);
}

TEST_CASE("program: a stalled rank ends all in time, and the report says who is where") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  for (const char* how : {"", " --ranks-as-threads"}) {
    const Finished done =
        run("mlp2", "--random-inputs 1 --timeout 2 --stall 1:proj --weights " + folder / "w.bin" + how);
    CHECK(done.code == 124);
    CHECK_MESSAGE(contains(done, "mlp: error: rank 1 waits for no other, and is still in proj; rank "), done.text);
    CHECK_MESSAGE(contains(done, "ranks are in:\n  rank 1, compute: proj\n"), done.text);
    CHECK(contains(done, "waited 2 s"));
    CHECK(done.seconds < 10);
  }
}

TEST_CASE("program: a rank whose process is stopped is named where the others run out of time") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const Finished done =
      shell("mlp2", "$P --random-inputs 1 --iterations 1000000 --timeout 0.5 --weights " + folder / "w.bin" +
                        " & parent=$!; sleep 0.6; kill -STOP $(pgrep -P $parent | tail -n 1); wait $parent");
  CHECK(done.code == 124);
  CHECK_MESSAGE(contains(done, "waited 0.5 s for "), done.text);
  CHECK_MESSAGE(contains(done, "mlp: error: rank 1 is silent: its process "), done.text);
  CHECK(done.seconds < 10);
}

TEST_CASE("report: what is hidden is told only where the rounds agree") {
  RunReport report{.latency_ms = {6, 6, 6, 6}, .computation_ms = {5, 5, 5, 5}, .communication_ms = {2, 2, 2, 2}};
  CHECK(
      overlap_text(report) ==
      "alone: computation 5.000 ms, communication 2.000 ms; hidden: 50 % of the shorter (half of the rounds: 50 to 50 "
      "%)\n");
  report.communication_ms = {0.01, 0.01, 0.01, 0.01};
  report.latency_ms = {5.1, 5.06, 4.9, 5.07};
  CHECK(overlap_text(report).find("hidden: not measurable (half of the rounds: -") != std::string::npos);
  report.latency_ms = {5.064, 5.064, 5.064, 5.064};  // steadily slower by more than there is to hide
  CHECK(overlap_text(report).find("hidden: not measurable (half of the rounds: -540 to -540 %)") != std::string::npos);
}

TEST_CASE("program: a killed rank ends all with exit 6, and is named") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  const Finished done =
      shell("mlp2", "$P --random-inputs 1 --timeout 30 --stall 1:proj --weights " + folder / "w.bin" +
                        " & parent=$!; sleep 0.6; kill -9 $(pgrep -P $parent | tail -n 1); wait $parent");
  CHECK(done.code == 6);
  CHECK_MESSAGE(contains(done, "rank 1 was killed by signal 9"), done.text);
  CHECK(contains(done, "in proj"));
  CHECK(done.seconds < 10);
}

TEST_CASE("program: the trace holds every step of every rank") {
  const Folder folder;
  write_whole_file(folder / "w.bin", packed_weights(2));
  CHECK(run("mlp2", "--random-inputs 1 --weights " + folder / "w.bin" + " --trace " + folder / "t.json").code == 0);
  const std::string trace = read_whole_file(folder / "t.json");
  int steps = 0;
  for (size_t at = 0; (at = trace.find("\"ph\": \"X\"", at)) != std::string::npos; ++at) ++steps;
  CHECK(steps == 8);
  CHECK(trace.find("\"transform\": \"shard proj.weight\"") != std::string::npos);
  CHECK(trace.find("\"name\": \"rank 1\"") != std::string::npos);
}
