// A launcher's environment, as a table; and the command line.
#include "runtime_lib/src/launch.h"

#include <doctest/doctest.h>

#include <map>

#include "runtime_lib/src/manifest.h"
#include "runtime_lib/src/options.h"
#include "runtime_lib/src/root.h"

using namespace weft;

namespace {

using Table = std::map<std::string, std::string>;

/// As long as the table lives.
Environment from(const Table& table) {
  return [&](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  };
}

std::string launcher_text(const Table& table) {
  try {
    const std::optional<Launched> launched = find_launcher(from(table));
    if (!launched) return "none";
    if (launched->machines == Machines::Several)
      return text("%d of %d on several machines", launched->rank, launched->size);
    return text("%d of %d in %s%s", launched->rank, launched->size, launched->job.c_str(),
                launched->machines == Machines::Unsaid ? "?" : "");
  } catch (const Failure& failure) {
    return text("exit %d", failure.code);
  }
}

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  return parse_options(int(arguments.size()), arguments.data());
}

int code_of(std::vector<const char*> arguments) {
  try {
    parse(std::move(arguments));
  } catch (const Failure& failure) {
    return failure.code;
  }
  return kOk;
}

}  // namespace

TEST_CASE("launch: environments of launchers") {
  struct Row {
    Table table;
    const char* expected;
  };
  const Row rows[] = {
      {{}, "none"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "a/b@1"}},
       "1 of 4 in Open_MPI-a_b_1"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}}, "exit 6"},
      {{{"OMPI_COMM_WORLD_SIZE", "4"}}, "exit 6"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
       "1 of 4 on several machines"},
      {{{"OMPI_COMM_WORLD_RANK", "x"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "exit 6"},
      {{{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}, "exit 6"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "j"}}, "0 of 2 in PMI-j"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "j"}, {"MPI_LOCALNRANKS", "1"}},
       "0 of 2 on several machines"},
      {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "j"}, {"SLURM_STEP_NUM_NODES", "2"}},
       "0 of 2 on several machines"},
      {{{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}},
       "3 of 4 in Slurm-9-0"},
      {{{"SLURM_JOB_ID", "9"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}, "none"},  // inside a batch script
      {{{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "3"}}, "exit 6"},
      {{{"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_NNODES", "2"}},
       "1 of 4 on several machines"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}},
       "1 of 2 in torchrun-29500"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}, {"MASTER_PORT", "29500"}},
       "1 of 2 on several machines"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
       "1 of 2 in torchrun-29500?"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}},
       "1 of 2 in "},  // exit 6 where they wait for each other: bad_ranks_check.py
      {{{"RANK", "1"}}, "exit 6"},
      {{{"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}, "exit 6"},
      // Leftover variables of another launcher do not name the job, and do not count as half-set variables.
      {{{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"PMIX_NAMESPACE", "j"},
        {"MASTER_PORT", "29500"},
        {"WORLD_SIZE", "2"},
        {"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "0"}},
       "1 of 2 in Open_MPI-j"},
      {{{"OMPI_COMM_WORLD_RANK", "1"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}}, "exit 6"},
      {{{"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"WORLD_SIZE", "2"},
        {"MASTER_PORT", "29500"}},
       "1 of 2 in Slurm-9-0"},
      // torchrun inside a step of one task; a step of one task alone is no launch.
      {{{"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"},
        {"RANK", "1"},
        {"WORLD_SIZE", "2"},
        {"MASTER_PORT", "29500"}},
       "1 of 2 in torchrun-29500"},
      {{{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}, "none"},
      {{{"SLURM_JOB_ID", "9"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_STEP_NUM_TASKS", "2"}},
       "0 of 2 in Slurm-9-0"},
  };
  for (const Row& row : rows) CHECK(launcher_text(row.table) == row.expected);
}

TEST_CASE("launch: srun speaks PMI to its ranks, or does not") {
  const Table plain = {{"SLURM_JOB_ID", "9"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}};
  Table pmix = plain, pmi2 = plain;
  pmix["PMIX_RANK"] = "1";
  pmi2.insert({{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}});
  CHECK(find_launcher(from(plain))->is_bare_srun);
  CHECK_FALSE(find_launcher(from(pmix))->is_bare_srun);
  CHECK_FALSE(find_launcher(from(pmi2))->is_bare_srun);
}

TEST_CASE("launch: where rank 0 is") {
  const auto root_text = [](const char* flag, const Table& table) {
    try {
      return find_root(flag, Launched{1, 2, "", ""}, from(table)).text();
    } catch (const Failure& failure) {
      return text("exit %d", failure.code);
    }
  };
  struct Row {
    const char* flag;
    Table table;
    const char* expected;
  };
  const Table slurm = {{"SLURM_JOB_ID", "1002"}, {"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NODELIST", "gpu[07-09,12],b1"}};
  const Row rows[] = {
      {"a.b:12", slurm, "a.b:12"},
      {"10.0.0.1:65535", {}, "10.0.0.1:65535"},
      {"[fe80::1%eth0]:80", {}, "[fe80::1%eth0]:80"},
      {"fe80::1:80", {}, "exit 2"},
      {"[fe80::1]", {}, "exit 2"},
      {"[fe80::1:80", {}, "exit 2"},
      {"a:b:1", {}, "exit 2"},
      {":80", {}, "exit 2"},
      {"a", {}, "exit 2"},
      {"a:", {}, "exit 2"},
      {"a:0", {}, "exit 2"},
      {"a:65536", {}, "exit 2"},
      {"a:1x", {}, "exit 2"},
      {"", {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}, "n1:29500"},
      {"", {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}}, "[::1]:29500"},
      {"", {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}, "n1:29501"},
      {"", {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "False"}}, "n1:29500"},
      {"", {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "x"}}, "exit 6"},
      {"", {{"MASTER_ADDR", "n1"}}, "exit 6"},
      {"", {{"MASTER_PORT", "29500"}}, "exit 6"},
      {"", {}, "exit 6"},
      {"", slurm, "gpu07:24035"},
      {"", {{"SLURM_JOB_ID", "1002"}, {"SLURM_JOB_NODELIST", "x"}}, "x:24032"},
      {"", {{"SLURM_JOB_ID", "1002"}, {"SLURM_JOB_NODELIST", "x["}}, "exit 6"},
      {"", {{"SLURM_JOB_NODELIST", "x"}}, "exit 6"},
  };
  for (const Row& row : rows) CHECK(root_text(row.flag, row.table) == row.expected);
  CHECK(first_node("a1,a2") == "a1");
  CHECK(first_node("rack[2,4]n[001-128]-ib,z") == "rack2n001-ib");
}

TEST_CASE("launch: the command line") {
  const Options o = parse({"--input", "x=a=b.npy", "--input=y=c.npy", "--threads=3", "--timeout", "0.5",
                           "--random-inputs", "7", "--stall", "1:a:b", "--json"});
  CHECK(o.inputs.at("x") == "a=b.npy");
  CHECK(o.inputs.at("y") == "c.npy");
  CHECK(o.threads == 3);
  CHECK(o.timeout == 0.5);
  CHECK(o.seed == 7);
  CHECK(o.stall_rank == 1);
  CHECK(o.stall_step == "a:b");
  CHECK(o.json);
  CHECK(!o.is_timed);
  CHECK(parse({"--iterations", "5"}).is_timed);
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"--input", "x"},
                                             {"--input", "=f"},
                                             {"--input", "x="},
                                             {"--input", "x=a", "--input", "x=b"},
                                             {"--input"},
                                             {"--threads", "0"},
                                             {"--threads", "1.5"},
                                             {"--threads", "many"},
                                             {"--threads", "0x10"},
                                             {"--threads="},
                                             {"--output-dir", ""},
                                             {"--timeout", "-1"},
                                             {"--timeout", "inf"},
                                             {"--random-inputs", "18446744073709551616"},
                                             {"--random-inputs", " 3"},
                                             {"--stall", ":x"},
                                             {"--iterations", "0"},
                                             {"--json=1"},
                                             {"--random-inputs", "-3"},
                                             {"--stall", "1"},
                                             {"--stall", "x:y"},
                                             {"--root", "a"},
                                             {"--iteration"},
                                             {"x.npy"}})
    CHECK(code_of(wrong) == kUsage);
  CHECK(help_text("p").find("--save-state DIR") != std::string::npos);
}

TEST_CASE("launch: a step's line of the schedule comes from the manifest") {
  const char* manifest = R"({"name": "b", "steps": [
    {"name": "a", "nodes": [{"op": "MatMul", "name": "b"}]},
    {"name": "b \"q\"", "nodes": [{"op": "Add", "name": "a"}], "schedule": "s.yaml:9:5"},
    {"schedule": "s.yaml:3:1", "name": "c"}],
    "buffers": [{"name": "a", "schedule": "no"}]})";
  CHECK(schedule_line(manifest, "a") == "");
  CHECK(schedule_line(manifest, "b \"q\"") == "s.yaml:9:5");
  CHECK(schedule_line(manifest, "c") == "s.yaml:3:1");
  CHECK(schedule_line("", "c") == "");
  CHECK(schedule_line("{\"steps\": [{\"name\": \"c", "c") == "");
}

TEST_CASE("launch: where a rank is says nodes, block and micro-batch") {
  const char* manifest = R"({"steps": [
    {"name": "h", "block": "c_forward", "turn": "micro_batch", "nodes": [{"op": "Relu", "name": "h"}, {"op": "Add", "name": "h2"}]},
    {"name": "loss", "block": "d_start", "nodes": [{"op": "Not", "name": "loss"}]},
    {"name": "loss", "block": "d_forward", "turn": "micro_batch", "nodes": [{"op": "Not", "name": "loss"}]},
    {"name": "w.next", "block": "c_update", "nodes": [{"op": "Sub", "name": "w.next"}]},
    {"name": "alone", "nodes": []}]})";
  CHECK(with_facts(manifest, "h [2]") == "h [2] (Relu h, Add h2; block c_forward, micro-batch 2)");
  CHECK(with_facts(manifest, "h") == "h (Relu h, Add h2; block c_forward, micro-batch 0)");
  CHECK(with_facts(manifest, "loss") == "loss (Not loss; block d_start or block d_forward, micro-batch 0)");
  CHECK(with_facts(manifest, "loss [1]") == "loss [1] (Not loss; block d_forward, micro-batch 1)");
  CHECK(with_facts(manifest, "w.next [3]") == "w.next [3] (Sub w.next; block c_update)");
  CHECK(with_facts(manifest, "after h [2]") == "after h [2] (Relu h, Add h2; block c_forward, micro-batch 2)");
  CHECK(with_facts(manifest, "alone") == "alone");
  CHECK(with_facts(manifest, "end of the iteration") == "end of the iteration");
  CHECK(with_facts("", "h [2]") == "h [2]");
}
