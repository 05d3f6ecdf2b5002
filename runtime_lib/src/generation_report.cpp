// The prompt rate is the median generation's. The decoding rate counts every token after the first.
#include "generation_report.h"

#include <numeric>

#include "failure.h"
#include "latency.h"
#include "manifest.h"

namespace weft {

namespace {

double tokens_per_second(const Generated& text, double tokens, double ms) {
  return ms > 0 ? 1000 * tokens * double(text.batch) / ms : 0;
}

double prompt_rate(const RunReport& report) {
  return tokens_per_second(*report.text, double(report.text->prompt_tokens), latency_of(report.prompt_ms).median);
}

double decoding_rate(const RunReport& report) {
  return tokens_per_second(*report.text, double(report.latency_ms.size()),
                           std::accumulate(report.latency_ms.begin(), report.latency_ms.end(), 0.0));
}

std::string row_text(const Generated& text, int64_t row, const char* separator) {
  const int64_t length = text.shape()[1];
  std::string out;
  for (int64_t i = 0; i < length; ++i)
    out += (i > 0 ? separator : "") + std::to_string(text.tokens[size_t(row * length + i)]);
  return out;
}

}  // namespace

std::string generation_text(const RunReport& report) {
  if (!report.text) return "";
  const Generated& generated = *report.text;
  std::string out;
  for (int64_t b = 0; b < generated.batch; ++b) out += row_text(generated, b, " ") + "\n";
  out += text("prompt: %ld tokens in %.3f ms, %.1f tokens/s\n", long(generated.prompt_tokens),
              latency_of(report.prompt_ms).median, prompt_rate(report));
  if (report.latency_ms.empty()) return out;
  return out + text("decoding: %.3f ms a token (median), %.1f tokens/s\n", latency_of(report.latency_ms).median,
                    decoding_rate(report));
}

std::string generation_json(const RunReport& report) {
  if (!report.text) return "";
  std::string rows;
  for (int64_t b = 0; b < report.text->batch; ++b)
    rows += (b > 0 ? ", [" : "[") + row_text(*report.text, b, ", ") + "]";
  return text(
             ", \"prompt\": {\"tokens\": %ld, \"ms\": %.6g, \"tokens_per_second\": %.6g}, "
             "\"decoding\": {\"tokens\": %zu, \"tokens_per_second\": %.6g}, \"tokens\": [",
             long(report.text->prompt_tokens), latency_of(report.prompt_ms).median, prompt_rate(report),
             report.latency_ms.size(), decoding_rate(report)) +
         rows + "]";
}

std::string generation_info(const Executable& executable) {
  if (executable.generation == nullptr) return "";
  const Generation& g = *executable.generation;
  std::string end;
  for (const int64_t token : g.end) end += (end.empty() ? "" : ", ") + std::to_string(token);
  const auto name = [](const char* given) { return given == nullptr ? "null" : json_string(given); };
  return text(
      " \"generation\": {\"tokens\": %s, \"logits\": %s, \"positions\": %s, \"mask\": %s, \"room\": %ld, "
      "\"end\": [%s], \"max_new\": %ld, \"temperature\": %.10g, \"top_k\": %ld, \"top_p\": %.10g, "
      "\"seed\": %ld},\n",
      name(g.tokens).c_str(), name(g.logits).c_str(), name(g.positions).c_str(), name(g.mask).c_str(), long(g.room),
      end.c_str(), long(g.sampling.max_new), g.sampling.temperature, long(g.sampling.top_k), g.sampling.top_p,
      long(g.sampling.seed));
}

}  // namespace weft
