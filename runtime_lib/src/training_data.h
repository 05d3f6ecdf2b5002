// The data of a training: samples of .npy files, a fixed number per step. Their order depends on a seed alone, not on
// the number of ranks.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "npy.h"
#include "options.h"
#include "ports.h"
#include "tensors.h"

namespace weft {

/// A permutation of 0 .. count - 1 for each epoch, without a table: a Feistel network with Philox draws as rounds,
/// applied until the result is below `count`.
int64_t shuffled(int64_t index, int64_t count, uint64_t seed, int64_t epoch);

/// The files with the samples of inputs, the flag that names them, and their order.
struct Samples {
  const char* flag;
  const std::map<std::string, std::string>& files;
  bool shuffles = false;
  uint64_t seed = 0;
  bool are_all_taken = false;  // including those that do not fill a batch
};

/// Samples that fill a batch, each of them equally often: a mean over the batch is the mean over them.
struct Stretch {
  int64_t first = 0, count = 0;
};

class TrainingData {
 public:
  /// Opens the files; inputs without one are those of --input. Throws Failure (wrong input) if one is missing or fits
  /// no input, or if they have different numbers of samples, or too few.
  TrainingData(const Executable& executable, const Options& options, const Samples& samples);

  /// Batches of an epoch; samples that do not fill a batch are left out.
  int64_t steps_per_epoch() const { return samples_ / batch_; }
  int64_t samples() const { return samples_; }
  int64_t batch() const { return batch_; }
  /// Elements of a batch of the input that is cut out of one text; 0 without such an input.
  int64_t tokens() const;
  /// The inputs of step `step` (from 0); overwritten by the next call.
  std::vector<WholeTensor> batch_of(int64_t step);
  /// Adds the samples to the checksums of a rank's files.
  void add_to(FileSums& sums) const;
  /// All samples, in order: whole batches, then the largest parts of one that divide it.
  std::vector<Stretch> stretches() const;
  /// A batch of these samples alone; overwritten by the next call.
  std::vector<WholeTensor> batch_of(const Stretch& stretch);

 private:
  struct Source {
    const Port& port;
    std::string file;
    FileMapping mapping;
    NpyHeader header;
    bool is_text = false;  // one row of tokens, of which each window is a sample
    std::vector<char> batch;

    Source(const Port& p, const std::string& f) : port(p), file(f), mapping(f), header(parse_npy(mapping.bytes(), f)) {}
    int64_t sample_elements() const;
    int64_t samples() const;
    void read(int64_t sample, int64_t to);
  };
  void open(const Port& port, const Samples& samples);
  template <class SampleOf>
  std::vector<WholeTensor> filled(const SampleOf& sample_of);

  std::vector<std::unique_ptr<Source>> sources_;
  int64_t samples_ = -1, batch_ = 0;
  bool shuffles_;
  uint64_t seed_;
};

}  // namespace weft
