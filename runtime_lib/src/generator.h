// The loop over tokens: each rank feeds the program a prompt, and then the tokens that it chooses from the logits.
// Every rank chooses from the same bits in the same way, so that all continue with the same token.
//
//   prompt -> inputs of the next tokens -> invocation -> logits of the last token, in memory that all ranks share
//                       ^                                      |
//                       +---------------- token <--------------+
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "generated_text.h"
#include "inputs.h"
#include "sampling.h"
#include "text_ports.h"

namespace weft {

/// The generation of one rank.
class Generator {
 public:
  Generator(RankBase& rank, Inputs& inputs, States& states, const Options& options);

  const TextPorts& ports() const { return ports_; }
  /// Loads the first tokens of a prompt that continues the text, whose states are in the buffers. Throws Failure (wrong
  /// input), with nothing changed, for a prompt that cannot continue it.
  void begin(const Text& text, const WholeTensor& prompt, const Sampling& sampling);
  /// All ranks call it. Generates the tokens after that prompt. `is_refused` returns whether a rank has complained,
  /// which ends the text. `tell` gets each row's new token if another one follows.
  Generated run(Text& text, const std::function<bool()>& is_refused,
                const std::function<void(const std::vector<int64_t>&)>& tell = {});

 private:
  int64_t past(int64_t counted) const;
  void check(const Text& text, int64_t batch, int64_t length) const;
  void take_rows(const Text& text, const WholeTensor& prompt);
  void load_next();
  void give(const Port* port, const std::vector<int64_t>& shape, const std::function<int64_t(int64_t)>& element);
  bool feed_rest(const std::function<bool()>& is_refused);
  std::optional<PortView> shared_part(const Executable& variant, int rank) const;
  int64_t next_count(int64_t left) const;
  void share_logits() const;
  bool choose(bool is_first);
  bool is_over() const;
  std::vector<int64_t> last_tokens() const;

  RankBase& rank_;
  Inputs& inputs_;
  States& states_;
  const Generation& generation_;
  const TextPorts ports_;
  const Port *tokens_, *positions_, *mask_;      // nullptr: no such input
  std::vector<std::optional<PortView>> logits_;  // by variant: the part that this rank shares
  int64_t vocabulary_;
  const int64_t start_;  // tokens that states of a fixed size hold at first

  // The current prompt.
  Sampling sampling_;
  std::vector<std::vector<int64_t>> rows_;  // tokens to feed, followed by those chosen
  int64_t past_ = 0;                        // tokens that the states hold
  int64_t first_ = 0, count_ = 0;           // the range of the rows' tokens that is loaded
};

}  // namespace weft
