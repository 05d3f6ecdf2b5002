# Writes OUTPUT, a C++ file that holds every template of DIR (NAMES, relative paths) as text:
#   cmake -DNAMES=a;b -DDIR=... -DOUTPUT=... -P embed.cmake
set(entries "")
foreach(name IN LISTS NAMES)
  file(READ "${DIR}/${name}" text HEX)
  string(LENGTH "${text}" hex_digits)
  math(EXPR size "${hex_digits} / 2")
  # Bytes, not a literal: no delimiter that a template could contain, no limit on length.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${text}")
  string(MAKE_C_IDENTIFIER "kText_${name}" identifier)
  string(APPEND arrays "constexpr char ${identifier}[] = {${bytes}'\\0'};\n")
  string(APPEND entries "    {\"${name}\", {${identifier}, ${size}}},\n")
endforeach()
file(WRITE "${OUTPUT}.new" "#include \"backend/template_text.h\"

namespace weftc {
namespace {
${arrays}
struct Entry {
  std::string_view name;
  std::string_view text;
};
constexpr Entry kEntries[] = {
${entries}    {{}, {}},
};
}  // namespace

std::string_view template_text(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (!entry.name.empty() && entry.name == name) return entry.text;
  }
  return {};
}
}  // namespace weft
")
file(RENAME "${OUTPUT}.new" "${OUTPUT}")
