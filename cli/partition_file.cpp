// Reads the contest's form from events of JSON: as a tree, a file of 30 MB would take gigabytes.
#include "cli/partition_file.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/json_events.h"

namespace weftc {

namespace {

constexpr size_t kMostErrors = 20;  // that one file is told
constexpr int64_t kMostUsage = int64_t{1} << 50, kMostTime = int64_t{1} << 40;
constexpr size_t kMostChoices = 65535;

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};

/// The text, compressed or not; nullopt if it ends early or cannot be read.
std::optional<std::string> read_compressed(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_character_file(path, ignored)) return {};  // which may have no end
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
  if (!file) return {};
  std::string text;
  constexpr size_t kPart = 1 << 20;
  for (;;) {
    const size_t size = text.size();
    text.resize(size + kPart);
    const int count = gzread(file.get(), text.data() + size, kPart);
    text.resize(size + static_cast<size_t>(std::max(count, 0)));
    int error = Z_OK;
    gzerror(file.get(), &error);
    if (count < 0 || error == Z_BUF_ERROR) return {};
    if (count == 0) return text;
  }
}

/// A list of lists of numbers, and the position of each.
struct Rows {
  std::vector<std::vector<int64_t>> rows;
  std::vector<size_t> at;
  size_t begin = 0;
  bool is_given = false;
};

struct Contents {
  std::string name;
  Rows intervals, node_costs, usages, edge_nodes, edge_costs;
  std::optional<int64_t> limit;
};

class ContestReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ContestReader(std::string_view text, Contents& contents) : text_(text), contents_(contents) {}

  bool run() { return read_json_events(text_, reached_, *this); }
  const std::string& why() const { return why_; }
  size_t where() const { return where_; }

 private:
  size_t token() const {
    const size_t at = text_.find_first_not_of(" \t\r\n,:", ended_);
    return at == std::string_view::npos ? text_.size() : at;
  }
  void end_token() { ended_ = static_cast<size_t>(reached_ - text_.data()); }
  bool refuse(std::string why) {
    where_ = token();
    why_ = std::move(why);
    return false;
  }

  /// The keys of the objects that are open: "problem.nodes.costs".
  std::string path() const { return join(keys_, "."); }
  Rows* rows_here() {
    const std::string at = path();
    if (at == "problem.nodes.intervals") return &contents_.intervals;
    if (at == "problem.nodes.costs") return &contents_.node_costs;
    if (at == "problem.nodes.usages") return &contents_.usages;
    if (at == "problem.edges.nodes") return &contents_.edge_nodes;
    if (at == "problem.edges.costs") return &contents_.edge_costs;
    return nullptr;
  }
  bool unexpected() {
    if (rows_ || (!keys_.empty() && rows_here()))
      return refuse(format("'{}' is a list of lists of whole numbers", keys_.back()));
    if (keys_.empty()) return refuse("an object with 'problem' is expected");
    if (keys_.back() == "usage_limit") return refuse("'usage_limit' is a whole number from 0 on");
    if (keys_.back() == "name") return refuse("'name' is a string");
    return refuse(format("'{}' is an object", keys_.back()));
  }

  /// A number, or the largest in place of one that is larger: as a cost it forbids, as a limit it would be another one.
  bool number(int64_t value, bool is_cut = false) {
    if (rows_ && depth_ == 2) {
      if (value < 0) return refuse(format("{} is below 0", value));
      rows_->rows.back().push_back(value);
      end_token();
      return true;
    }
    if (path() != "problem.usage_limit" || value < 0) return unexpected();
    if (is_cut) return refuse(format("'usage_limit' is over {}", INT64_MAX));
    contents_.limit = value;
    return end_value();
  }
  bool end_value() {
    end_token();
    keys_.pop_back();
    return true;
  }

  bool null() override { return unexpected(); }
  bool boolean(bool) override { return unexpected(); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<int64_t>(std::min<number_unsigned_t>(value, INT64_MAX)), value > INT64_MAX);
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (std::isfinite(value) && value != std::floor(value)) return refuse(format("{} is no whole number", text));
    if (std::abs(value) >= 9e18) return number(value > 0 ? INT64_MAX : -1, true);
    return number(static_cast<int64_t>(value));
  }
  bool string(string_t& value) override {
    if (path() != "problem.name") return unexpected();
    contents_.name = value;
    return end_value();
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    const std::string at = path();
    if (!at.empty() && at != "problem" && at != "problem.nodes" && at != "problem.edges") return unexpected();
    end_token();
    ++objects_;
    given_.emplace_back();
    return true;
  }
  bool key(string_t& value) override {
    static const std::vector<std::vector<std::string>> known = {
        {"problem"}, {"name", "nodes", "edges", "usage_limit"}, {"intervals", "costs", "usages"}, {"nodes", "costs"}};
    const std::vector<std::string>& here = known[path() == "problem.edges" ? 3 : keys_.size()];
    if (std::count(here.begin(), here.end(), value) == 0)
      return refuse(format("there is no key '{}' here{}", printable(value), did_you_mean(value, here)));
    if (std::count(given_.back().begin(), given_.back().end(), value) > 0)
      return refuse(format("'{}' is given twice", value));
    given_.back().push_back(value);
    keys_.push_back(value);
    end_token();
    return true;
  }
  bool end_object() override {
    end_token();
    given_.pop_back();
    if (!keys_.empty()) keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) rows_ = rows_here();
    if (!rows_ || depth_ == 2) return unexpected();
    if (++depth_ == 2)
      rows_->rows.emplace_back(), rows_->at.push_back(token());
    else
      rows_->begin = token(), rows_->is_given = true;
    end_token();
    return true;
  }
  bool end_array() override {
    end_token();
    if (--depth_ > 0) return true;
    rows_ = nullptr;
    keys_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    where_ = position > 0 ? position - 1 : 0;
    why_ = json_reason(error.what());
    return false;
  }

  const std::string_view text_;
  Contents& contents_;
  const char* reached_ = nullptr;
  size_t ended_ = 0, where_ = 0;
  std::string why_;
  std::vector<std::string> keys_;
  std::vector<std::vector<std::string>> given_;  // keys, by open object
  Rows* rows_ = nullptr;                         // of the list that is open
  int depth_ = 0, objects_ = 0;
};

/// Assembles the problem. Inconsistencies are reported at their list.
class ContestChecks {
 public:
  ContestChecks(const std::string& file, const std::string& text, Diags& diags)
      : file_(file), text_(text), diags_(diags) {}

  PartitionProblem problem(Contents& contents) {
    PartitionProblem problem;
    if (!contents.limit) complain(0, "'usage_limit' is missing: a whole number from 0 on");
    problem.limit = contents.limit.value_or(0);
    const std::pair<const char*, const Rows*> all[] = {{"nodes.intervals", &contents.intervals},
                                                       {"nodes.costs", &contents.node_costs},
                                                       {"nodes.usages", &contents.usages},
                                                       {"edges.nodes", &contents.edge_nodes},
                                                       {"edges.costs", &contents.edge_costs}};
    for (const auto& [name, rows] : all)
      if (!rows->is_given) complain(0, format("'{}' is missing: a list of lists of whole numbers", name));
    if (contents.node_costs.is_given && contents.node_costs.rows.empty())
      complain(contents.node_costs.begin, "the problem has no nodes: there is nothing to choose");
    check_count("intervals", contents.intervals, contents.node_costs, "costs of nodes");
    check_count("usages", contents.usages, contents.node_costs, "costs of nodes");
    check_count("costs", contents.edge_costs, contents.edge_nodes, "pairs of nodes");
    if (errors_ > 0) return problem;
    for (size_t i = 0; i < contents.node_costs.rows.size(); ++i) add_node(contents, i, problem);
    for (size_t i = 0; i < contents.edge_nodes.rows.size() && errors_ == 0; ++i) add_edge(contents, i, problem);
    return problem;
  }
  bool ok() const { return errors_ == 0; }
  void complain(size_t at, const std::string& why) {
    if (++errors_ <= kMostErrors) diags_.error("partition-form", json_place(file_, text_, at), "{}", why);
  }

 private:
  void check_count(const char* name, const Rows& rows, const Rows& others, const char* what) {
    if (rows.rows.size() == others.rows.size()) return;
    complain(rows.begin, format("there are {} '{}' for {} {}", rows.rows.size(), name, others.rows.size(), what));
  }

  void add_node(Contents& contents, size_t i, PartitionProblem& problem) {
    const std::vector<int64_t>& interval = contents.intervals.rows[i];
    PartitionProblem::Node node;
    node.costs = std::move(contents.node_costs.rows[i]);
    node.usage = std::move(contents.usages.rows[i]);
    const size_t at_costs = contents.node_costs.at[i], at_usage = contents.usages.at[i], at = contents.intervals.at[i];
    if (node.costs.empty()) complain(at_costs, format("node {} has no strategy", i));
    if (node.costs.size() > kMostChoices) complain(at_costs, format("node {} has over {} strategies", i, kMostChoices));
    if (node.usage.size() != node.costs.size())
      complain(at_usage, format("node {} has {} usages for {} strategies", i, node.usage.size(), node.costs.size()));
    if (std::any_of(node.usage.begin(), node.usage.end(), [](int64_t usage) { return usage > kMostUsage; }))
      complain(at_usage, format("a usage of node {} is over {}", i, kMostUsage));
    if (interval.size() != 2)
      complain(at, format("the interval of node {} has {} numbers, not 2", i, interval.size()));
    else if (interval[0] > interval[1])
      complain(at, format("the interval of node {} ends at {}, before it begins at {}", i, interval[1], interval[0]));
    else if (interval[1] > kMostTime)
      complain(at, format("the interval of node {} ends after {}", i, kMostTime));
    else
      node.first = interval[0], node.last = interval[1];
    problem.nodes.push_back(std::move(node));
  }

  void add_edge(Contents& contents, size_t i, PartitionProblem& problem) {
    const std::vector<int64_t>& ends = contents.edge_nodes.rows[i];
    const auto count = static_cast<int64_t>(problem.nodes.size());
    if (ends.size() != 2 || ends[0] >= count || ends[1] >= count) {
      complain(contents.edge_nodes.at[i], format("edge {} is two nodes from 0 to {}", i, count - 1));
      return;
    }
    PartitionProblem::Edge edge{static_cast<int>(ends[0]), static_cast<int>(ends[1]),
                                std::move(contents.edge_costs.rows[i])};
    const size_t entries = problem.nodes[edge.a].costs.size() * problem.nodes[edge.b].costs.size();
    if (edge.costs.size() != entries)
      complain(contents.edge_costs.at[i],
               format("edge {} has {} costs for {} pairs of strategies", i, edge.costs.size(), entries));
    problem.edges.push_back(std::move(edge));
  }

  const std::string& file_;
  const std::string& text_;
  Diags& diags_;
  size_t errors_ = 0;
};

}  // namespace

std::optional<std::string> read_problem_text(const std::string& file, Diags& diags) {
  std::optional<std::string> text = read_compressed(file);
  if (!text)
    diags.error("problem-file", Loc::in_file(file), "the problems cannot be read{}",
                file.ends_with(".gz") ? ": this is no gzip file, or it ends early" : "");
  return text;
}

bool is_partition(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n", kKey = "\"problem\"";
  const size_t open = text.find_first_not_of(kBlanks);
  if (open == std::string_view::npos || text[open] != '{') return false;
  const size_t key = text.find_first_not_of(kBlanks, open + 1);
  return key != std::string_view::npos && text.substr(key).starts_with(kKey);
}

std::optional<PartitionCase> read_partition(const std::string& file, const std::string& text, Diags& diags) {
  Contents contents;
  ContestChecks checks(file, text, diags);
  ContestReader reader(text, contents);
  if (!reader.run()) {
    checks.complain(reader.where(), reader.why());
    return {};
  }
  PartitionCase result{contents.name, checks.problem(contents)};
  if (!checks.ok()) return {};
  return result;
}

}  // namespace weftc
