#include "frontend/machine_writer.h"

#include <algorithm>
#include <cstdio>

#include "frontend/machine_file.h"
#include "ir/base/quantity.h"
#include "ir/base/text.h"

namespace weftc {

namespace {

/// Prints a number to four digits.
std::string plain(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

std::string rank_text(const Machine& machine) {
  const Ceilings& c = machine.ceilings;
  const auto rate = [](double number) { return quantity_text(number, Quantity::Operations); };
  return format(
      "rank:\n  f32: {}\n  f64: {}\n  f16: {}\n  memory: {}\n  capacity: {}\n  step: {}\n  function: {}\n  chunked: "
      "{}\n",
      rate(c.f32), rate(c.f64), rate(c.f16), quantity_text(c.memory, Quantity::ByteRate),
      quantity_text(static_cast<double>(machine.memory), Quantity::Bytes), quantity_text(c.step, Quantity::Seconds),
      plain(c.function), plain(c.chunked));
}

std::string points_text(const TimeCurve& curve) {
  std::vector<std::string> points;
  for (const TimeCurve::Point& point : curve.points)
    points.push_back("[" + quantity_text(point.bytes, Quantity::Bytes) + ", " +
                     quantity_text(point.seconds, Quantity::Seconds) + "]");
  return "[" + join(points, ", ") + "]";
}

/// The curves of a level, with a line for each number of ranks, grouped by kinds in the order of their first
/// occurrence.
std::string curves_text(const NetworkLevel& level) {
  std::vector<OpKind> kinds;
  for (const TimeCurve& curve : level.curves)
    if (std::ranges::find(kinds, curve.kind) == kinds.end()) kinds.push_back(curve.kind);
  std::string text;
  for (const OpKind kind : kinds) {
    text += "    " + curve_word(kind) + ":\n";
    for (const TimeCurve& curve : level.curves)
      if (curve.kind == kind) text += format("      {}: {}\n", curve.ranks, points_text(curve));
  }
  return text;
}

std::string level_text(const NetworkLevel& level) {
  return format("  - name: {}\n    ranks: {}\n    bandwidth: {}\n    latency: {}\n", level.name, level.ranks,
                quantity_text(level.bandwidth, Quantity::ByteRate), quantity_text(level.latency, Quantity::Seconds)) +
         curves_text(level);
}

}  // namespace

std::string machine_text_of(const Machine& machine, const std::string& source) {
  std::string text = "# " + source + "\n";
  text += format("machine: \"{}\"\ntarget: host\narchs: [{}]\nranks: {}\n", machine.name(), join(machine.archs, ", "),
                 machine.ranks);
  text += rank_text(machine);
  text += machine.levels.empty() ? "network: []\n" : "network:  # of curves: what a rank sends, and the time\n";
  for (const NetworkLevel& level : machine.levels) text += level_text(level);
  return text;
}

}  // namespace weftc
