// Each rank reads the prompt by itself, as it reads its inputs.
#include "generations.h"

#include "checks.h"
#include "generator.h"
#include "inputs.h"
#include "npy.h"
#include "text_length.h"

namespace weft {

namespace {

/// The inputs, states and generator of one rank.
struct TextSource {
  TextSource(RankBase& r, const Options& o)
      : rank(r),
        options(o),
        inputs(r, o),
        states(r, o),
        generator(r, inputs, states, o),
        sampling(with_settings(r.executable.generation->sampling, o.settings)) {}

  Generated generate(int iteration) {
    const Port& port = generator.ports().prompt;
    const NpyFile prompt(input_file(options.inputs.at(port.name), iteration), port.dtype);
    rank.file_sums.add(port.name, prompt.shape(), {prompt.data(), size_t(tensor_bytes(port.dtype, prompt.shape()))});
    rank.meet_with_files();
    states.reset();
    rank.invocation = 0;
    inputs.load(iteration);
    text = {};
    generator.begin(text, {port.name, prompt.shape(), prompt.data()}, sampling);
    return generator.run(text, [] { return false; });  // a complaint has ended the program
  }

  RankBase& rank;
  const Options& options;
  Inputs inputs;
  States states;
  Generator generator;
  const Sampling sampling;
  Text text;
};

}  // namespace

void run_generations(RankBase& rank, const Options& options, RunReport& report) {
  TextSource source(rank, options);
  for (int i = 0; i < options.warmup; ++i) source.generate(0);
  rank.clear_trace();
  for (int i = 0; i < options.iterations; ++i) {
    Generated text = source.generate(i);
    report.prompt_ms.push_back(text.prompt_ms);
    report.latency_ms.insert(report.latency_ms.end(), text.token_ms.begin(), text.token_ms.end());
    report.text = std::move(text);
  }
  if (rank.rank != 0) return;
  if (counts_tokens(*rank.executable.generation)) write_text_length(options, source.text.past);
  if (options.output_dir.empty()) return;
  const Port& port = source.generator.ports().generated;
  make_folder(options.output_dir);
  write_npy(options.output_dir + "/" + port.name + ".npy", port.dtype, report.text->shape(),
            report.text->elements(port.dtype).data());
}

}  // namespace weft
