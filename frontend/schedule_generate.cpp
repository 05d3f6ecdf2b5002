// The `generate:` section of a schedule: `{tokens: input_ids, logits: logits, max_new: 256, end: 50256}`.
#include "frontend/schedule_sections.h"

namespace weftc {

namespace {

constexpr int64_t kMostTokens = 1'000'000'000;

/// Reads names and numbers into a request.
class GenerateReader {
 public:
  explicit GenerateReader(YamlValues& values) : values_(values) {}

  GenerateRequest read(const YamlNode& node) {
    request_.loc = node.loc;
    Sampling& sampling = request_.sampling;
    values_.keys(node, "generate",
                 {{"tokens", name("tokens", request_.tokens), true},
                  {"logits", name("logits", request_.logits), true},
                  {"positions", name("positions", request_.positions)},
                  {"mask", name("mask", request_.mask)},
                  {"max_new",
                   [&](const YamlNode& n) {
                     request_.max_new_loc = n.loc;
                     integer(n, "max_new", 1, kMostTokens, sampling.max_new);
                   },
                   true},
                  {"end",
                   [&](const YamlNode& n) {
                     request_.end_loc = n.loc;
                     request_.end = values_.integers(n, "end", 0, INT64_MAX).value_or(std::vector<int64_t>());
                   }},
                  {"temperature", [&](const YamlNode& n) { number(n, "temperature", 1e6, sampling.temperature); }},
                  {"top_k", [&](const YamlNode& n) { integer(n, "top_k", 0, kMostTokens, sampling.top_k); }},
                  {"top_p", [&](const YamlNode& n) { number(n, "top_p", 1, sampling.top_p); }},
                  {"seed", [&](const YamlNode& n) { integer(n, "seed", 0, UINT32_MAX, sampling.seed); }}});
    return request_;
  }

 private:
  std::function<void(const YamlNode&)> name(const std::string& what, GenerateRequest::Name& into) {
    return [this, what, &into](const YamlNode& node) { into = {values_.word(node, what).value_or(""), node.loc}; };
  }
  void integer(const YamlNode& node, const std::string& what, int64_t least, int64_t most, int64_t& into) {
    into = values_.integer(node, what, least, most).value_or(into);
  }
  void number(const YamlNode& node, const std::string& what, double most, double& into) {
    into = values_.number(node, what, 0, most).value_or(into);
  }

  YamlValues& values_;
  GenerateRequest request_;
};

}  // namespace

GenerateRequest read_generate(YamlValues& values, const YamlNode& node) { return GenerateReader(values).read(node); }

}  // namespace weftc
