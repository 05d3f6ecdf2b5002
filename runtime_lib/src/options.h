// The command line of an emitted program.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "link.h"

namespace weft {

/// The parsed command line, with the defaults of flags that are not given.
struct Options {
  std::map<std::string, std::string> inputs;  // file of each named input; "{i}" stands for the number of the invocation
  std::map<std::string, std::string> data;    // of a training: the file of each input's samples
  std::map<std::string, std::string> eval_data;  // the same of its evaluations
  int eval_every = 0;                            // steps between two; 0: only after the last step
  int64_t steps = 0;                             // the last step; 0: `epochs` determines it
  int epochs = 0, every = 0, keep = 0;           // checkpoints: `every` so many steps; the newest `keep` stay, 0: all
  bool shuffles = false;
  uint64_t shuffle_seed = 0;
  std::string checkpoint, resume, log;
  std::string arch, output_dir, trace, load_state, save_state, weights, root;
  bool random_inputs = false;
  uint64_t seed = 0;
  int iterations = 1, warmup = 0;
  bool is_timed = false;  // --iterations or --warmup was given: print the latency table
  int threads = 0;        // 0: cores / ranks
  bool binds = false;     // each thread to a core of its own
  double timeout = 60;
  int stall_rank = -1;
  std::string stall_step;
  LinkSpeed link;
  bool measures_overlap = false;
  bool serves = false;
  std::string socket;  // of --serve; empty: standard input and output
  int sessions = 256;
  double session_timeout = 0;              // seconds without a request after which a session ends; 0: never
  double client_timeout = 600;             // the same of a client's connection
  std::map<std::string, double> settings;  // of a generation (sampling.h), by name
  bool check = false;                      // every slice of the weights, whatever its size
  bool ml_dtypes = false;                  // bf16 is written as numpy.save writes arrays of ml_dtypes
  bool json = false, info = false, help = false, poison = false, check_nan = false, no_graph = false,
       ranks_as_threads = false;
  bool no_generate = false;

  /// Whether a training is asked for, and not single invocations.
  bool trains() const {
    return !data.empty() || !eval_data.empty() || steps > 0 || epochs > 0 || !resume.empty() || !checkpoint.empty() ||
           !log.empty();
  }
};

/// Throws Failure (usage) for flags that do not exist or have a wrong value.
Options parse_options(int argc, const char* const* argv);

/// The text of --help.
std::string help_text(const char* program);

}  // namespace weft
