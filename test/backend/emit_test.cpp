// Refusals of the emitter and the toolchain, and equal bytes for equal plans.
#include "test/backend/one_plan.h"

using namespace weftc;
using namespace weftc::test;

namespace {

KernelCase adding() {
  KernelCase c("adding");
  c.output(c.op(OpKind::Add, {c.reals("x", {64}), c.weight("w", {64})}));
  return c;
}

std::string ids(const Diags& diags) {
  std::string text;
  for (const Diagnostic& d : diags.all()) text += d.id + " ";
  return text;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("emit: the same plan gives the same executable in another folder, and with precompiled headers") {
  std::string first;
  const TestFolder headers;
  for (int round = 0; round < 3; ++round) {
    std::vector<KernelCase> cases;
    cases.push_back(adding());
    const std::unique_ptr<PlanOfCases> made = plan_of(cases);
    Diags diags;
    const TestFolder folder;
    BuildOptions options = build_options(folder.path, folder.path + "/x");
    if (round == 2) options.precompiled = headers.path;
    REQUIRE(build_executable({&made->plan}, emit(made->plan, diags), options, diags) == BuildResult::Built);
    const std::string bytes = bytes_of(folder.path + "/x");
    if (round) CHECK(bytes == first);
    first = bytes;
  }
  // One folder for the flags of kernels and one for those of the program.
  size_t made = 0;
  for (const auto& folder : std::filesystem::directory_iterator(headers.path))
    made += std::filesystem::exists(folder.path() / "weft" / "kernel.h.gch");
  CHECK(made == 2);
}

TEST_CASE("emit: a scatter whose result is used in the same kernel is refused") {
  KernelCase c("scattered");
  const ValueId x = c.reals("x", {8}), at = c.ints("at", {3}, 0, 7), u = c.reals("u", {3});
  c.output(c.op(OpKind::Neg, {c.op(OpKind::ScatterElements, {x, at, u},
                                   {{"axis", int64_t{0}}, {"reduction", std::string("none")}})}));
  std::vector<KernelCase> cases;
  cases.push_back(std::move(c));
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Diags diags;
  CHECK(emit(made->plan, diags).empty());
  CHECK(ids(diags) == "kernel-scatter-unsupported ");
  CHECK(diags.exit_code() == 3);
}

TEST_CASE("emit: few elements of many functions are work for all threads, few that are only added are not") {
  for (const bool has_functions : {false, true}) {
    KernelCase c("few");
    ValueId y = c.reals("x", {4096});
    for (int i = 0; i < 3; ++i) y = c.op(has_functions ? OpKind::Tanh : OpKind::Neg, {y});
    c.output(y);
    std::vector<KernelCase> cases;
    cases.push_back(std::move(c));
    const std::unique_ptr<PlanOfCases> made = plan_of(cases);
    Diags diags;
    bool uses_team = false;
    for (const SourceFile& file : emit(made->plan, diags))
      uses_team |= file.path == "kernels/pointwise.cpp" && file.text.find("team.parallel(") != std::string::npos;
    CHECK(uses_team == has_functions);
  }
}

TEST_CASE("emit: slices that do not nest are refused (reshard-unsupported)") {
  std::vector<KernelCase> cases;
  cases.push_back(adding());
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Plan& plan = made->plan;
  plan.places[0].mesh = {{"tp", 3}};
  CollectiveStep what{};
  what.kind = OpKind::AllToAll, what.axes = {0}, what.place = PlaceId{0}, what.mesh = plan.places[0].mesh;
  what.from = what.to = BufferId{0};
  what.from_type = what.to_type = {DType::F32, shape_of({18}), {}};
  what.from_type.layout.set(0, AxisState::sliced(0, 2));
  what.to_type.layout.set(0, AxisState::sliced(0, 3));
  Step step;
  step.name = "moved", step.what = what;
  plan.blocks[0].steps.push_back(std::move(step));
  Diags diags;
  CHECK(emit(plan, diags).empty());
  CHECK(ids(diags) == "reshard-unsupported ");
}

TEST_CASE("toolchain: a failing compiler is reported with its log (toolchain-failed)") {
  std::vector<KernelCase> cases;
  cases.push_back(adding());
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Diags diags;
  std::vector<SourceFile> files = emit(made->plan, diags);
  for (SourceFile& file : files)
    if (file.path.starts_with("kernels/")) file.text += "\n#error broken\n";
  const TestFolder folder;
  CHECK(build_executable({&made->plan}, files, build_options(folder.path, folder.path + "/x"), diags) ==
        BuildResult::ToolchainFailed);
  CHECK(ids(diags) == "toolchain-failed ");
  CHECK(diags.text().find("broken") != std::string::npos);
}

TEST_CASE("toolchain: an output that cannot be written is reported (file-unwritable)") {
  std::vector<KernelCase> cases;
  cases.push_back(adding());
  const std::unique_ptr<PlanOfCases> made = plan_of(cases);
  Diags diags;
  const std::vector<SourceFile> files = emit(made->plan, diags);
  BuildOptions options = build_options("/proc/none", "/proc/none/x");
  CHECK(build_executable({&made->plan}, files, options, diags) == BuildResult::FileFailed);
  CHECK(ids(diags) == "file-unwritable ");
  const TestFolder folder;
  options.output = folder.path, options.runtime_dir = folder.path + "/none";
  Diags copies;
  CHECK(write_source_folder({&made->plan}, files, options, copies) == BuildResult::FileFailed);
  CHECK(ids(copies) == "file-unwritable ");
}
