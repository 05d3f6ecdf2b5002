// Machine files: what each key becomes, how figures are written, and what is refused.
#include "frontend/machine_file.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "ir/base/quantity.h"

using namespace weftc;

namespace {

const std::string kMachineRank =
    "rank: {f32: 67TOP/s, f64: 34TOP/s, f16: 989TOP/s, memory: 3350GB/s, capacity: 80GB, step: 2us, function: 16}\n";
const std::string kMachineHead = "machine: a test\ntarget: cuda\narchs: [sm_90]\nranks: 16\n";
const std::string kMachineNccl = "nccl: {cpu: amd, LL: {latency: 1.1}, Simple: {bandwidth: 0.9}}\n";
const std::string kMachineLevels =
    "network:\n- {name: nvlink, ranks: 8, link: nvlink, bandwidth: 370GB/s, multicast: true}\n"
    "- {name: cards, ranks: 16, link: network, bandwidth: 400Gbit/s}\n";

std::optional<Machine> machine_of(const std::string& text) {
  Diags diags;
  std::optional<Machine> machine = read_machine_text("m.yaml", text, diags);
  INFO(diags.text());
  REQUIRE(machine);
  return machine;
}

/// "id line:column" of the first message.
std::string machine_fault(const std::string& text) {
  Diags diags;
  if (read_machine_text("m.yaml", text, diags)) return "";
  const Diagnostic& first = diags.all().front();
  return first.id + " " + std::to_string(first.loc.line) + ":" + std::to_string(first.loc.column);
}

std::string host_with(const std::string& level) {
  return "machine: h\ntarget: host\narchs: [native]\nranks: 4\n" + kMachineRank +
         "network:\n- {name: memory, ranks: 4, bandwidth: 10GB/s" + level + "}\n";
}

}  // namespace

TEST_CASE("a machine with NCCL and two levels") {
  const Machine m = *machine_of(kMachineHead + kMachineRank + kMachineNccl + kMachineLevels);
  CHECK(m.name() == "a test");
  CHECK(m.is_device);
  CHECK(m.archs == std::vector<std::string>{"sm_90"});
  CHECK(m.ranks == 16);
  CHECK(m.memory == 80'000'000'000);
  CHECK(m.ceilings.f16 == 989e12);
  CHECK(m.ceilings.memory == 3350e9);
  CHECK(m.ceilings.step == doctest::Approx(2e-6));
  CHECK(m.ceilings.function == 16);
  CHECK(m.ceilings.chunked == 1);
  CHECK(m.ceilings.scalar == m.ceilings.f32 / 2);
  CHECK(m.ceilings.link == 370e9);
  CHECK(m.uses_nccl);
  CHECK(m.has_amd_host);
  CHECK(m.nccl[0].latency == 1.1);
  CHECK(m.nccl[2].bandwidth == 0.9);
  REQUIRE(m.levels.size() == 2);
  CHECK(m.levels[0].link == Link::NvLink);
  CHECK(m.levels[0].multicast);
  CHECK(m.levels[1].ranks == 16);
  CHECK(m.levels[1].bandwidth == 50e9);
}

TEST_CASE("a machine whose network was measured") {
  const Machine m = *machine_of(host_with(
      ", latency: 1us, all-reduce: {2: [[4B, 2us], [1MiB, 1ms]], 4: [[0B, 3us]]}, broadcast: {2: [[1KB, 5us]]}"));
  CHECK_FALSE(m.uses_nccl);
  CHECK(m.ceilings.latency == doctest::Approx(1e-6));
  REQUIRE(m.levels[0].curves.size() == 3);
  CHECK(m.levels[0].curves[0].points[1].bytes == 1 << 20);
  CHECK(m.levels[0].curves[0].points[1].seconds == doctest::Approx(1e-3));
  CHECK(m.levels[0].curves[1].ranks == 4);
  CHECK(m.levels[0].curves[2].kind == OpKind::Broadcast);
}

TEST_CASE("figures with units") {
  CHECK(parse_quantity("1.5GB", Quantity::Bytes) == 1.5e9);
  CHECK(parse_quantity("2 KiB", Quantity::Bytes) == 2048);
  CHECK(parse_quantity("12", Quantity::Bytes) == 12);
  CHECK(parse_quantity("10Gbit/s", Quantity::ByteRate) == 1.25e9);
  CHECK(*parse_quantity("3us", Quantity::Seconds) == doctest::Approx(3e-6));
  CHECK(parse_quantity("67TOP/s", Quantity::Operations) == 67e12);
  for (const char* wrong : {"", "GB/s", "-1GB/s", "1GB", "1gb/s", "1e9GB/s", "inf", "nanGB/s", "1.2.3GB/s", "1GB/s x"})
    CHECK_FALSE(parse_quantity(wrong, Quantity::ByteRate));
}

TEST_CASE("clock cycles: as given, else those of a core") {
  const std::string text = host_with(", latency: 1us");
  CHECK(machine_of(text)->ceilings.scalar == 3e9);
  const size_t at = text.find("function");
  CHECK(machine_of(std::string(text).insert(at, "scalar: 2GOP/s, "))->ceilings.scalar == 2e9);
}

TEST_CASE("wrong machine files, with their positions") {
  const std::string all = kMachineHead + kMachineRank + kMachineNccl + kMachineLevels;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = all;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return machine_fault(text.replace(at, from.size(), to));
  };
  CHECK(machine_fault("").starts_with("machine-nothing"));
  CHECK(machine_fault("- 1\n").starts_with("schedule-kind"));
  CHECK(with("ranks: 16\n", "ranks: 16\nrangs: 4\n") == "unknown-key 5:1");
  CHECK(with("machine: a test\n", "").starts_with("missing-key"));
  CHECK(with("target: cuda", "target: cpu") == "schedule-word 2:9");
  CHECK(with("f64: 34TOP/s, ", "").starts_with("missing-key 5:"));
  CHECK(with("34TOP/s", "34GB/s") == "machine-quantity 5:27");
  CHECK(with("370GB/s", "0GB/s") == "machine-quantity 8:53");
  CHECK(with("370GB/s", "-3GB/s") == "machine-quantity 8:53");
  CHECK(with("80GB", "0.5B") == "schedule-bytes 5:79");
  CHECK(with("80GB", "15.6GiB") == "");
  CHECK(with("80GB", "0") == "schedule-bytes 5:79");
  CHECK(with("80GB", "99999999999999999999") == "schedule-bytes 5:79");
  CHECK(with("80GB", "80 bananas") == "schedule-bytes 5:79");
  CHECK(with("80GB", "1.001GB") == "");
  CHECK(with("[sm_90]", "[]") == "machine-archs 3:8");
  CHECK(with("sm_90", "sm_12") == "machine-arch 3:9");
  CHECK(with("ranks: 16\n", "ranks: 32\n") == "machine-size 4:8");
  CHECK(with("name: cards, ranks: 16", "name: cards, ranks: 20").starts_with("machine-ranks 9:24"));
  CHECK(with("name: cards, ranks: 16", "name: cards, ranks: 8").starts_with("machine-ranks 9:24"));
  CHECK(with("link: network, ", "").starts_with("machine-level 9:3"));
  CHECK(with("{latency: 1.1}", "{latency: 0}").starts_with("schedule-number-range"));
  CHECK(machine_fault("machine: m\ntarget: cuda\narchs: [sm_80]\nranks: 4\n" + kMachineRank + kMachineNccl +
                      "network:\n- {name: a, ranks: 2, link: network, bandwidth: 1GB/s}\n"
                      "- {name: b, ranks: 4, link: pcie, bandwidth: 1GB/s}\n")
            .starts_with("machine-link 9:"));
  CHECK(machine_fault(host_with("")).starts_with("machine-level 7:3"));
  CHECK(machine_fault(host_with(", latency: soon")).starts_with("machine-quantity"));
  const std::string curve = ", latency: 1us, all-reduce: {2: ";
  CHECK(machine_fault(host_with(curve + "[]}")).starts_with("machine-curve 7:"));
  CHECK(machine_fault(host_with(curve + "[[4B]]}")).starts_with("machine-point 7:"));
  CHECK(machine_fault(host_with(curve + "[[0.5B, 1us]]}")).starts_with("schedule-bytes 7:"));
  CHECK(machine_fault(host_with(curve + "[[4B, 1us], [4B, 2us]]}")).starts_with("machine-curve-order 7:"));
  CHECK(machine_fault("machine: h\ntarget: host\narchs: [x86-64-v9]\nranks: 1\n" + kMachineRank + "network: []\n") ==
        "machine-host-arch 3:9");
}

TEST_CASE("the sample machines are machines") {
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator("samples/machines")) {
    if (entry.path().extension() != ".yaml") continue;
    Diags diags;
    CHECK(read_machine(entry.path().string(), diags));
    INFO(diags.text());
    CHECK(diags.ok());
    ++machines;
  }
  CHECK(machines >= 6);
}
