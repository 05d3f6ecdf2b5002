// Combinations are counted like the digits of a number, the last dim fastest, so that the first variant that takes some
// lengths is the smallest.
#include "cli/variants.h"

#include <algorithm>

#include "ir/base/naming.h"

namespace weftc {

namespace {

/// As many programs are compiled, one after another.
constexpr size_t kMostVariants = 16;

/// The dims that have several values, each once, ascending. Nothing after reporting one that is given in two ways.
std::vector<DimRequest> open_dims(const std::vector<DimRequest>& dims, Diags& diags) {
  std::vector<DimRequest> open;
  for (const DimRequest& dim : dims) {
    for (const DimRequest& other : dims) {
      if (&other == &dim) break;
      const bool differs = other.values != dim.values || other.bounded != dim.bounded;
      if (other.name != dim.name || !differs || (dim.values.size() == 1 && other.values.size() == 1)) continue;
      diags.error("variant-conflict", dim.loc, "dim '{}' is given twice with different values", printable(dim.name))
          .note(other.loc, "the other values");
      return {};
    }
    const auto same = [&](const DimRequest& known) { return known.name == dim.name; };
    if (dim.values.size() < 2 || std::any_of(open.begin(), open.end(), same)) continue;
    open.push_back(dim);
    std::sort(open.back().values.begin(), open.back().values.end());
  }
  return open;
}

VariantRequest combination(const std::vector<DimRequest>& open, const std::vector<DimRequest>& dims, size_t number) {
  VariantRequest out;
  for (size_t d = open.size(); d-- > 0;) {
    DimRequest one = open[d];
    one.values = {open[d].values[number % open[d].values.size()]};
    number /= open[d].values.size();
    out.of_variant.insert(out.of_variant.begin(), std::move(one));
  }
  std::vector<std::string> names, spaces;
  for (const DimRequest& dim : out.of_variant) {
    names.push_back(format("{}{}{}", dim.name, dim.bounded ? "<=" : "=", dim.values[0]));
    spaces.push_back(format("{}_{}", dim.name, dim.values[0]));
  }
  out.name = join(names, ", ");
  if (!spaces.empty()) out.space = identifier(join(spaces, "_"));
  out.dims = out.of_variant;
  for (const DimRequest& dim : dims)
    if (dim.values.size() < 2) out.dims.push_back(dim);
  return out;
}

}  // namespace

std::vector<VariantRequest> variants_of(const std::vector<DimRequest>& dims, Diags& diags) {
  const std::vector<DimRequest> open = open_dims(dims, diags);
  if (!diags.ok()) return {};
  size_t count = 1;
  for (const DimRequest& dim : open) count = std::min<size_t>(count * dim.values.size(), 1'000'000);
  if (count > kMostVariants) {
    diags.error("too-many-variants", open.back().loc, "the values of all dims make {} variants; {} is the most", count,
                kMostVariants);
    return {};
  }
  std::vector<VariantRequest> variants;
  Names spaces;
  for (size_t i = 0; i < count; ++i) {
    variants.push_back(combination(open, dims, i));
    if (count > 1) variants.back().space = spaces.unique(variants.back().space);
  }
  return variants;
}

/// Whether any numbers may be put in place of its names.
static bool is_polynomial(const Length& length) {
  return std::ranges::all_of(length.terms(), [](const Length::Term& term) {
    return std::ranges::all_of(term.factors,
                               [](const auto& factor) { return factor->kind == LengthSymbol::Kind::Named; });
  });
}

bool is_excluded(const VariantRequest& variant, const std::vector<LengthRelation>& relations) {
  const auto of_variant = [&](const LengthSymbol& symbol) {
    for (const DimRequest& dim : variant.of_variant)
      if (Length::named(dim.name, symbol.high).text() == symbol.text)
        return dim.bounded ? Length::named(dim.name, dim.values[0]) : Length(dim.values[0]);
    return Length(std::make_shared<const LengthSymbol>(symbol));
  };
  return std::any_of(relations.begin(), relations.end(), [&](const LengthRelation& relation) {
    if (!is_polynomial(relation.right - relation.left)) return false;
    const Length left = substitute(relation.left, of_variant), right = substitute(relation.right, of_variant);
    const Length room = right - left;
    // Lengths that a branch takes for each other keep their bounds; the variants of equal bounds take what fits.
    const bool differs = as_name(left) && as_name(right) && left.high() != right.high();
    return room.high() < 0 || ((room.low() > 0 || differs) && !relation.may_be_less);
  });
}

void report_for(const VariantRequest& variant, const Diags& found, Diags& diags) {
  if (variant.name.empty()) return diags.append(found);
  bool is_left_out = false;
  for (const Diagnostic& one : found.all()) {
    if (one.severity == Diagnostic::Severity::Note) {
      if (!is_left_out) Diags::Report(diags).note(one.loc, "{}", one.message);
      continue;
    }
    const bool is_warning = one.severity == Diagnostic::Severity::Warning;
    is_left_out = is_warning && std::any_of(diags.all().begin(), diags.all().end(), [&](const Diagnostic& known) {
                    return known.id == one.id && known.message.ends_with(": " + one.message);
                  });
    if (is_left_out) continue;
    const std::string text = format("for {}: {}", printable(variant.name), one.message);
    if (is_warning)
      diags.warning(one.id, one.loc, "{}", text);
    else
      diags.error(one.id, one.loc, "{}", text);
  }
}

}  // namespace weftc
