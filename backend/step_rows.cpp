// Loops whose rows threads share, as steps. Each thread runs all trips for its rows, or a chain of kernels for one
// block of rows after the other.
#include <algorithm>

#include "backend/kernel_context.h"
#include "backend/print.h"
#include "backend/steps.h"

namespace weftc {

/// Whether a kernel of the body would share its work with a team.
bool StepText::takes_team(const LoopStep& loop) const {
  return std::any_of(loop.body.begin(), loop.body.end(), [&](const Step& step) {
    const auto* launch = std::get_if<LaunchStep>(&step.what);
    if (!launch) return false;
    const std::vector<Argument>& arguments = kernels_[launch->kernel.index].arguments;
    return std::any_of(arguments.begin(), arguments.end(),
                       [](const Argument& argument) { return argument.kind == Argument::Kind::Team; });
  });
}

/// Each thread runs all trips for its rows, as one step: threads may be in different trips.
StepText::Lines StepText::shared_loop(const Step& s, const LoopStep& trips) {
  ++loops_;
  shared_ = &trips;
  Lines lines = waits(s);
  lines.push_back("// No row needs another one: each thread takes some of them through all trips.");
  lines.push_back("r.team().share(" + trips.rows->axes[0].count.text() + kComma + std::to_string(SharedRows::kTile) +
                  kComma + "[&](int64_t row, int64_t rows) {");
  Lines own;
  for (BufferId id : trips.rows->own)
    if (id != trips.iteration)
      own.push_back(std::string("    ") + memory_type(plan_.buffer(id).type.dtype) + " " + names_.buffers[id.index] +
                    "[" + count_text(plan_.buffer(id).dims()) + "];");
  if (!own.empty()) {
    lines.push_back("  struct {");
    append(lines, own);
    lines.push_back("  } own;");
  }
  if (takes_team(trips)) lines.push_back("  weft::Team& alone = weft::Team::alone();");
  lines.push_back("  " + trip_head(trips));
  for (const Step& inner : trips.body) {
    const Lines made = leaf(inner);
    for (const std::string& line : made)
      for (const std::string& part : broken(line, 108)) lines.push_back("    " + part);
  }
  lines.push_back("  }");
  lines.push_back("});");
  shared_ = nullptr;
  --loops_;
  append(lines, raises(s));
  return wrapped(s, lines);
}

/// A product in C++: constant factors are multiplied into one number, which is omitted if it is 1.
struct Product {
  int64_t number = 1;
  std::vector<std::string> names;

  bool is_one() const { return number == 1 && names.empty(); }
  std::string text() const {
    std::vector<std::string> factors = names;
    if (number != 1 || names.empty()) factors.insert(factors.begin(), std::to_string(number));
    return join(factors, " * ");
  }
};

/// Multiplies by the number of blocks of an axis.
static void multiply(Product& product, const SharedRows& rows, size_t a) {
  const RowAxis& axis = rows.axes[a];
  if (axis.in_one_block()) return;
  if (axis.count.is_constant())
    product.number *= axis.blocks();
  else
    product.names.push_back(axis.block == 1 ? row_words(a, rows.axes.size()).all
                                            : row_words(a, rows.axes.size()).blocks);
}

/// "const int64_t all_rows = *r[seq], row_blocks = (all_rows + 119) / 120;" for each axis with a run-time number of
/// rows.
StepText::Lines StepText::rows_of_run(const SharedRows& rows) const {
  Lines lines;
  for (size_t a = 0; a < rows.axes.size(); ++a) {
    const RowAxis& axis = rows.axes[a];
    if (axis.count.is_constant()) continue;
    const RowWords& words = row_words(a, rows.axes.size());
    std::string line = std::string("const int64_t ") + words.all + " = " + *length(axis.count, shared_place());
    if (axis.block > 1 && !axis.in_one_block())
      line += kComma + std::string(words.blocks) + " = (" + words.all + " + " + std::to_string(axis.block - 1) +
              ") / " + std::to_string(axis.block);
    lines.push_back(line + ";");
  }
  return lines;
}

/// "const int64_t row = block % 13 * 120, rows = std::min<int64_t>(120, 1500 - row);" for each axis.
StepText::Lines StepText::block_of_rows(const SharedRows& rows) const {
  Lines lines;
  Product inside;  // blocks of the inner axes
  for (size_t a = rows.axes.size(); a-- > 0;) {
    const RowAxis& axis = rows.axes[a];
    if (axis.in_one_block()) continue;
    const RowWords& words = row_words(a, rows.axes.size());
    std::string number = "block";
    if (!inside.is_one())
      number += " / " + (inside.names.size() + (inside.number != 1) > 1 ? "(" + inside.text() + ")" : inside.text());
    const bool is_outermost = std::all_of(rows.axes.begin(), rows.axes.begin() + static_cast<long>(a),
                                          [](const RowAxis& outer) { return outer.in_one_block(); });
    Product own;
    multiply(own, rows, a);
    if (!is_outermost) number += " % " + own.text();
    if (axis.block > 1) number += " * " + std::to_string(axis.block);
    const std::string block = std::to_string(axis.block);
    const bool is_even = axis.block == 1 || (axis.count.is_constant() && axis.count.constant() % axis.block == 0);
    const std::string left = all_rows(a) + " - " + words.first;
    const std::string taken = is_even ? block : "std::min<int64_t>(" + block + kComma + left + ")";
    lines.insert(lines.begin(), std::string("const int64_t ") + words.first + " = " + number + kComma + words.count +
                                    " = " + taken + ";");
    multiply(inside, rows, a);
  }
  return lines;
}

/// Memory of a thread for its blocks of rows: values between kernels, and panels that it keeps.
StepText::Lines StepText::memory_of_thread(const LoopStep& kernels) {
  Lines lines, replacing;
  for (const BufferId id : kernels.rows->own) {
    const std::string type = memory_type(plan_.buffer(id).type.dtype), &name = names_.buffers[id.index];
    if (const BufferId other = replaced(id))
      replacing.push_back(type + "* const " + name + " = " + pointer(other) + ";  // which is read no more");
    else
      lines.push_back("const weft::Scratch<" + type + "> " + name + "(" +
                      std::to_string(block_elements(plan_, *kernels.rows, id)) + ");");
  }
  append(lines, replacing);
  panels_.clear();
  for (const Step& inner : kernels.body) {
    const auto* launch = std::get_if<LaunchStep>(&inner.what);
    const int64_t bytes = launch ? kept_bytes_of(plan_.kernel(launch->kernel).strategy) : 0;
    if (!bytes || panels_.contains(launch->kernel.index)) continue;
    const std::string name = names_.taken.unique(names_.kernels[launch->kernel.index] + "_panels");
    panels_[launch->kernel.index] = name;
    lines.push_back("weft::KeptPanels " + name + "(" + std::to_string(bytes) + ");");
  }
  return lines;
}

/// Each thread runs all kernels for a block of rows, as one step.
StepText::Lines StepText::chain(const Step& s, const LoopStep& kernels) {
  shared_ = &kernels;
  Product blocks;
  for (size_t a = 0; a < kernels.rows->axes.size(); ++a) multiply(blocks, *kernels.rows, a);
  Lines lines = waits(s);
  lines.push_back(
      "// No row needs another one: a thread takes a block of them through all kernels, then the next block.");
  append(lines, rows_of_run(*kernels.rows));
  lines.push_back("r.team().parallel(" + blocks.text() + ", 1, [&](int64_t begin, int64_t end) {");
  for (const std::string& line : memory_of_thread(kernels)) lines.push_back("  " + line);
  if (takes_team(kernels)) lines.push_back("  weft::Team& alone = weft::Team::alone();");
  lines.push_back("  for (int64_t block = begin; block < end; ++block) {");
  for (const std::string& line : block_of_rows(*kernels.rows)) lines.push_back("    " + line);
  for (const Step& inner : kernels.body)
    for (const std::string& line : leaf(inner))
      for (const std::string& part : broken(line, 108)) lines.push_back("    " + part);
  lines.push_back("  }");
  lines.push_back("});");
  shared_ = nullptr;
  append(lines, raises(s));
  return wrapped(s, lines);
}

}  // namespace weftc
