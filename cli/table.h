// Columns for people.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ir/base/text.h"

namespace weftc {

/// A number by a pattern of printf.
inline std::string fixed(double value, const char* pattern) {
  char text[40];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// A table's cells, row by row.
using TableRows = std::vector<std::vector<std::string>>;

/// Rows of cells as aligned lines, indented by two blanks; the last column is not padded.
inline std::string table_text(const TableRows& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i) {
      line += " " + row[i];
      if (i + 1 < row.size()) line.append(widths[i] - row[i].size() + 1, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

/// "512 bytes", "12.3 KiB".
inline std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  char text[40];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

/// At most `most` names; if there are more, the last entry says how many are left out.
inline std::string few_of(std::vector<std::string> names, size_t most) {
  if (names.size() > most) {
    const size_t left_out = names.size() - (most - 1);
    names.resize(most - 1);
    names.push_back(std::to_string(left_out) + " more");
  }
  return join(names, ", ");
}

}  // namespace weftc
