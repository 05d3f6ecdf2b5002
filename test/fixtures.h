// The models and schedules of test/fixtures.
#pragma once
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace weftc::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Those whose names begin with `fail_`, or the others.
inline std::vector<std::string> fixture_names(bool failing) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_TEST_DIR "/fixtures"))
    if (entry.path().extension() == ".onnxtxt" && entry.path().stem().string().starts_with("fail_") == failing)
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Fixture {
  std::string model, yaml;
};
inline Fixture read_fixture(const std::string& name) {
  const std::filesystem::path folder = WEFT_TEST_DIR "/fixtures";
  return {read_file(folder / (name + ".onnxtxt")), read_file(folder / (name + ".yaml"))};
}

}  // namespace weftc::test
