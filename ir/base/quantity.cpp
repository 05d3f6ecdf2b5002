// One table of units for each kind of quantity.
#include "ir/base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

#include "ir/base/text.h"

namespace weftc {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr double kKi = 1024;
constexpr Unit kBytes[] = {{"", 1},     {"B", 1},    {"KiB", kKi}, {"MiB", kKi* kKi}, {"GiB", kKi* kKi* kKi},
                           {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9},  {"TB", 1e12},      {"TiB", kKi* kKi* kKi* kKi}};
constexpr Unit kByteRates[] = {{"B/s", 1},    {"KB/s", 1e3},  {"MB/s", 1e6},
                               {"GB/s", 1e9}, {"TB/s", 1e12}, {"Gbit/s", 1e9 / 8}};
constexpr Unit kSeconds[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
constexpr Unit kOperations[] = {{"OP/s", 1}, {"KOP/s", 1e3}, {"MOP/s", 1e6}, {"GOP/s", 1e9}, {"TOP/s", 1e12}};

std::span<const Unit> units_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::Bytes:
      return kBytes;
    case Quantity::ByteRate:
      return kByteRates;
    case Quantity::Seconds:
      return kSeconds;
    case Quantity::Operations:
      return kOperations;
  }
  return {};
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Quantity quantity) {
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number)) return {};
  const std::string_view unit = trim(std::string_view(end, static_cast<size_t>(last - end)));
  for (const Unit& known : units_of(quantity))
    if (unit == known.name) return number * known.factor;
  return {};
}

std::string quantity_text(double number, Quantity quantity) {
  if (quantity == Quantity::Bytes) {
    const auto bytes = static_cast<int64_t>(std::llround(number));
    constexpr std::pair<const char*, int64_t> kWhole[] = {{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}};
    for (const auto& [name, unit] : kWhole)
      if (bytes > 0 && bytes % unit == 0) return std::to_string(bytes / unit) + name;
    return std::to_string(bytes) + "B";
  }
  // The largest unit of the table that the number reaches, or else the smallest: units ascend.
  const Unit* chosen = nullptr;
  for (const Unit& unit : units_of(quantity))
    if (unit.name != "Gbit/s" && (!chosen || number >= unit.factor)) chosen = &unit;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number / chosen->factor);
  return text + std::string(chosen->name);
}

const char* example_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::Bytes:
      return "a size such as 70GiB, 512MiB or 1000000";
    case Quantity::ByteRate:
      return "a rate such as 900GB/s or 400Gbit/s";
    case Quantity::Seconds:
      return "a time such as 3us";
    case Quantity::Operations:
      return "a rate such as 67TOP/s";
  }
  return "";
}

}  // namespace weftc
