// One record per line: key, milliseconds, ratio with its interval, whether it is final, a description.
#include "cli/tune/trial_records.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "cli/build.h"
#include "cli/process.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

constexpr size_t kRecordFields = 7;
constexpr const char* kRecordsHead =
    "# What `weft tune` measured: key, milliseconds, ratio to what it was compared with and its 95 % interval, "
    "whether\n"
    "# that is final, what it is. A later run takes these figures as they are; without this file it measures all "
    "again.\n";

/// The number that is the whole text; nothing for any other text.
std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return text.empty() || end != text.c_str() + text.size() || !(number > 0) ? std::nullopt : std::optional(number);
}

std::optional<std::pair<std::string, TrialRecord>> record_of(const std::string& line) {
  const std::vector<std::string> fields = split(line, '\t');
  if (line.starts_with("#") || fields.size() != kRecordFields) return {};
  double numbers[4];
  for (size_t i = 0; i < 4; ++i) {
    const std::optional<double> number = number_of(fields[1 + i]);
    if (!number) return {};
    numbers[i] = *number;
  }
  return std::pair{fields[0], TrialRecord{numbers[0], {numbers[1], numbers[2], numbers[3]}, fields[5] == "final"}};
}

/// The runtime library as it is compiled, and the headers that emitted kernels include.
std::string runtime_text(const Options& options) {
  namespace fs = std::filesystem;
  Diags ignored;
  const std::optional<RuntimeLibrary> runtime = find_runtime(options.target, ignored);
  if (!runtime) return "";
  std::vector<std::string> files = {runtime->library};
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runtime->folder + "/include", error))
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::vector<std::string> texts;
  for (const std::string& file : files) texts.push_back(read_file(file).value_or(""));
  return trial_key(texts);
}

}  // namespace

TrialRecords::TrialRecords(std::string path) : path_(std::move(path)) {
  for (const std::string& line : split(read_file(path_).value_or(""), '\n'))
    if (const auto record = record_of(line)) records_[record->first] = record->second;
}

std::optional<TrialRecord> TrialRecords::find(const std::string& key) const {
  const auto at = records_.find(key);
  return at == records_.end() ? std::nullopt : std::optional(at->second);
}

bool TrialRecords::add(const std::string& key, const TrialRecord& record, const std::string& what) {
  records_[key] = record;
  const bool is_new = !std::filesystem::exists(path_);
  std::FILE* file = std::fopen(path_.c_str(), "a");
  if (!file) return false;
  if (is_new) std::fputs(kRecordsHead, file);
  std::fprintf(file, "%s\t%.6g\t%.6g\t%.6g\t%.6g\t%s\t%s\n", key.c_str(), record.ms, record.ratio.mean,
               record.ratio.low, record.ratio.high, record.is_final ? "final" : "first", printable(what).c_str());
  return std::fclose(file) == 0;
}

std::string processor_line() {
  const std::string text = read_file("/proc/cpuinfo").value_or("");
  const size_t at = text.find("model name");
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

std::string machine_text(const Options& options) {
  constexpr double kSeconds = 60;
  const std::string compiler = find_compiler(options.target);
  const std::string version = compiler.empty() ? "" : run_program({compiler, "--version"}, kSeconds).out;
  return join({version, runtime_text(options), processor_line(), std::to_string(std::thread::hardware_concurrency()),
               join(options.target.archs, ","), join(options.run_args, " ")},
              "\n");
}

std::string trial_key(const std::vector<std::string>& texts) {
  char text[24];
  std::snprintf(text, sizeof text, "%016zx", std::hash<std::string>()(join(texts, "\n\x1f")));
  return text;
}

std::string processor_name() {
  const std::string line = processor_line();
  const size_t colon = line.find(':');
  return colon == std::string::npos ? "a processor without a name" : std::string(trim(line.substr(colon + 1)));
}

}  // namespace weftc
