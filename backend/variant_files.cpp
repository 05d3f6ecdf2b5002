// A variant has the sources that emit() writes, in its folder.
#include "backend/variant_files.h"

#include "backend/dialects/target_dialect.h"
#include "backend/level_files.h"
#include "backend/program_names.h"
#include "backend/render.h"
#include "ir/base/naming.h"

namespace weftc {

namespace {

std::string dims_text(const Variant& variant) {
  std::vector<std::string> rows;
  for (const DimRequest& dim : variant.dims)
    rows.push_back(format("{{}, {}{}}", string_literal(dim.name), dim.values[0], dim.bounded ? ", true" : ""));
  return join(rows, ", ");
}

std::string program_text(const std::vector<Variant>& variants, ProgramForm form) {
  const Plan& plan = *variants.front().plan;
  const std::string name = ProgramNames(plan).program;
  std::vector<std::string> names;
  Params params;
  for (const Variant& variant : variants) {
    names.push_back(variant.name);
    params.list("variants")
        .emplace_back()
        .set("space", variant.space)
        .set("literal", string_literal(variant.name))
        .set("dims", dims_text(variant));
  }
  params.set("summary", comment_text(format("{} for {}.", name, join(names, "; "))));
  params.set("header", dialect_of(plan.target).program_header).set("name", name).set("literal", string_literal(name));
  set_entry(params, plan.target, form);
  return render_file("variants.cpp", params);
}

/// manifest.json: the manifests of all variants, by name.
std::string joined_manifests(const std::vector<Variant>& variants) {
  std::vector<std::string> rows;
  for (const Variant& variant : variants)
    rows.push_back(format("{}: {}", json_string(variant.name), manifest_text(*variant.plan)));
  return "{\"variants\": {\n" + join(rows, ",\n") + "}}\n";
}

}  // namespace

std::vector<SourceFile> emit_variants(const std::vector<Variant>& variants, Diags& diags, ProgramForm form) {
  std::vector<SourceFile> files = {{"program.cpp", program_text(variants, form)}};
  for (const Variant& variant : variants)
    for (SourceFile& file : emit(*variant.plan, diags, ProgramForm::Variant, variant.space)) {
      if (file.path == "CMakeLists.txt" || file.path == "manifest.json") continue;
      files.push_back({variant.space + "/" + file.path, std::move(file.text)});
    }
  if (!diags.ok()) return {};
  for (SourceFile& file : level_files(*variants.front().plan, form)) files.push_back(std::move(file));
  files.push_back({"CMakeLists.txt", cmake_text(*variants.front().plan, files)});
  files.push_back({"manifest.json", joined_manifests(variants)});
  return files;
}

}  // namespace weftc
