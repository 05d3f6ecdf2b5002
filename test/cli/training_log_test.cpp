// Logs of trainings: figures by step, what a resumed run writes again, and charts of them.
#include "cli/training_log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "cli/training_log_page.h"
#include "ir/base/output_file.h"
#include "ir/base/text.h"

using namespace weftc;

namespace {

struct LogFile {
  const std::string path =
      (std::filesystem::temp_directory_path() / format("weft_log_{}.jsonl", static_cast<int>(getpid()))).string();
  Diags diags;
  std::optional<TrainingLog> log;

  explicit LogFile(const std::string& text) {
    REQUIRE(write_file(path, text).empty());
    log = read_training_log(path, diags);
  }
  ~LogFile() { std::filesystem::remove(path); }
};

std::string step_lines(int first, int last, double loss) {
  std::string text;
  for (int step = first; step <= last; ++step) text += format("{\"step\": {}, \"loss\": {}}\n", step, loss / step);
  return text;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("training log: figures by step, the loss first, evaluations after") {
  const LogFile file(
      "{\"step\": 1, \"accuracy\": 0.5, \"loss\": 3}\n{\"step\": 2, \"accuracy\": 0.75, \"loss\": 1}\n"
      "{\"step\": 2, \"eval_loss\": 2, \"eval_samples\": 8}\n{\"step\": 3, \"accuracy\": 1, \"loss\": null}\n");
  REQUIRE(file.log);
  std::vector<std::string> names;
  for (const Series& series : file.log->series) names.push_back(series.name);
  CHECK(join(names, " ") == "loss accuracy eval_loss eval_samples");
  CHECK(file.log->steps == 3);
  CHECK(file.log->not_finite == 1);
  CHECK(file.log->find("loss")->lowest().step == 2);
  CHECK(file.log->find("accuracy")->highest().value == 1);
  CHECK(file.log->find("eval_loss")->figure() == "loss");
}

TEST_CASE("training log: steps that are made again count once; a line that is being written does not") {
  const LogFile file(step_lines(1, 6, 2) + step_lines(4, 8, 40) + "{\"step\": 9, \"lo");
  REQUIRE(file.log);
  const std::vector<Series::Point>& points = file.log->find("loss")->points;
  REQUIRE(points.size() == 8);
  CHECK(points[2].value == doctest::Approx(2. / 3));
  CHECK(points[3].value == 10);
}

TEST_CASE("training log: what is none is refused with its line") {
  CHECK(LogFile(step_lines(1, 2, 1) + "[1]\n").diags.text().find(":3:1: error: this is no line of a log") !=
        std::string::npos);
  CHECK(LogFile("{\"step\": 1.5, \"loss\": 1}\n").diags.text().find("[log-line]") != std::string::npos);
  CHECK(LogFile("{\"loss\": 1}\n").diags.text().find("[log-line]") != std::string::npos);
  CHECK(LogFile("\n").diags.text().find("[log-empty]") != std::string::npos);
  Diags diags;
  CHECK(!read_training_log("/nowhere/loss.jsonl", diags));
  CHECK(diags.text().find("[log-file]") != std::string::npos);
}

TEST_CASE("training log: a page with a chart of each figure, of many steps means with their range") {
  const LogFile file(step_lines(1, 2000, 5) + "{\"step\": 2000, \"eval_loss\": 1, \"eval_samples\": 8}\n");
  REQUIRE(file.log);
  const std::string page = training_log_page({*file.log, *file.log});
  CHECK(count_of(page, "<svg") == 1);
  CHECK(count_of(page, "<polyline") == 4);
  CHECK(count_of(page, "<polygon") == 2);
  CHECK(count_of(page, "<circle") == 2);
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.size() < 100000);
}
