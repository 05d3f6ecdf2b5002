// The template engine. Lines are split once and control lines recorded; blocks are rendered recursively with the names
// visible in them.
#include "backend/render.h"

#include <set>

#include "backend/template_text.h"
#include "ir/base/check.h"
#include "ir/base/text.h"

namespace weftc {

Params& Params::set(const std::string& name, std::string text) {
  texts[name] = std::move(text);
  return *this;
}

namespace {

struct Line {
  std::string_view text;
  std::vector<std::string> words;  // of a control line
};

/// One level of names: the parameters, and the name of a `for` item.
struct Level {
  const Params* params;
  std::string item;  // "" outside a for
  const Level* outer;
};

bool is_name(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// One template. It also records every name that a line uses, for the check that all parameters are used.
class Renderer {
 public:
  explicit Renderer(std::string_view text) {
    for (const std::string& line : split(text, '\n')) {
      kept_.push_back(line);
      const std::string_view trimmed = trim(line);
      if (!trimmed.starts_with("//@ ")) continue;
      for (std::string& word : split(trimmed.substr(4), ' '))
        if (!word.empty()) words_[kept_.size() - 1].push_back(std::move(word));
    }
    for (size_t at = 0; at < kept_.size(); ++at) note_names(at);
    if (!kept_.empty() && kept_.back().empty()) kept_.pop_back();
  }

  std::string run(const Params& params) {
    const Level level{&params, "", nullptr};
    std::string out;
    block(0, kept_.size(), level, out);
    for (const auto& [name, text] : params.texts)
      WEFT_CHECK(used_.contains(name), "template does not use '" + name + "'");
    for (const auto& [name, list] : params.lists)
      WEFT_CHECK(used_.contains(name), "template does not use '" + name + "'");
    return out;
  }

 private:
  void note_names(size_t at) {
    const auto words = words_.find(at);
    if (words != words_.end() && words->second.size() > 1) used_.insert(words->second.back());
    for (size_t i = kept_[at].find('$'); i != std::string::npos; i = kept_[at].find('$', i + 1)) {
      size_t end = i + 1;
      while (end < kept_[at].size() && is_name(kept_[at][end])) ++end;
      used_.insert(kept_[at].substr(i + 1, end - i - 1));
    }
  }

  /// The line after the matching `end`.
  size_t end_of(size_t at) const {
    int depth = 0;
    for (; at < kept_.size(); ++at) {
      const auto words = words_.find(at);
      if (words == words_.end()) continue;
      if (words->second[0] == "for" || words->second[0] == "if")
        ++depth;
      else if (words->second[0] == "end" && --depth == 0)
        return at + 1;
      WEFT_CHECK(depth > 0, "template: 'end' without a beginning");
    }
    check_failed(__FILE_NAME__, __LINE__, "template: a block has no end");
  }

  // The text of a name, searched from the innermost `for` outwards; null for an unknown name.
  const std::string* text_of(const std::string& name, const Level& level) {
    const size_t dot = name.find('.');
    for (const Level* l = &level; l; l = l->outer) {
      if (dot == std::string::npos ? !l->item.empty() : l->item != name.substr(0, dot)) continue;
      const auto at = l->params->texts.find(dot == std::string::npos ? name : name.substr(dot + 1));
      if (at == l->params->texts.end()) continue;
      return &at->second;
    }
    return nullptr;
  }

  const std::vector<Params>& list_of(const std::string& name, const Level& level) {
    const size_t dot = name.find('.');
    for (const Level* l = &level; l; l = l->outer) {
      if (dot == std::string::npos ? !l->item.empty() : l->item != name.substr(0, dot)) continue;
      const auto at = l->params->lists.find(dot == std::string::npos ? name : name.substr(dot + 1));
      if (at == l->params->lists.end()) continue;
      return at->second;
    }
    check_failed(__FILE_NAME__, __LINE__, "template: no list '" + name + "'");
  }

  bool holds(const std::string& name, const Level& level) {
    const std::string* text = text_of(name, level);
    return text ? !text->empty() : !list_of(name, level).empty();
  }

  // Renders the lines [from, to): control lines decide how often their blocks appear.
  void block(size_t from, size_t to, const Level& level, std::string& out) {
    for (size_t at = from; at < to;) {
      const auto words = words_.find(at);
      if (words == words_.end()) {
        line(kept_[at++], level, out);
        continue;
      }
      const size_t after = end_of(at);
      const std::vector<std::string>& w = words->second;
      if (w[0] == "if") {
        if (holds(w[1], level)) block(at + 1, after - 1, level, out);
      } else {
        for (const Params& item : list_of(w[3], level)) block(at + 1, after - 1, Level{&item, w[1], &level}, out);
      }
      at = after;
    }
  }

  // Fills the placeholders of one line.
  void line(const std::string& text, const Level& level, std::string& out) {
    std::string filled;
    bool placeholder = false, blank = true;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '$' || i + 1 == text.size() || !is_name(text[i + 1])) {
        filled += text[i];
        blank &= text[i] == ' ';
        continue;
      }
      std::string name;
      while (i + 1 < text.size() &&
             (is_name(text[i + 1]) || (text[i + 1] == '.' && i + 2 < text.size() && is_name(text[i + 2]))))
        name += text[++i];
      const std::string* value = text_of(name, level);
      // "$name.field" may also be "$name" followed by ".field".
      if (!value && name.find('.') != std::string::npos) {
        const size_t dot = name.find('.');
        i -= name.size() - dot;
        name.resize(dot);
        value = text_of(name, level);
      }
      WEFT_CHECK(value, "template: no value for '" + name + "'");
      placeholder = true;
      blank &= value->empty();
      append_indented(*value, filled);
    }
    if (!(placeholder && blank)) out += filled + "\n";
  }

  static void append_indented(const std::string& value, std::string& line) {
    const size_t start = line.rfind('\n') == std::string::npos ? 0 : line.rfind('\n') + 1;
    const std::string indent(line.find_first_not_of(' ', start) == std::string::npos ? line.size() - start : 0, ' ');
    for (size_t i = 0; i < value.size(); ++i) {
      if (value[i] == '\n' && i + 1 == value.size()) break;
      line += value[i];
      if (value[i] == '\n' && value[i + 1] != '\n' && value[i + 1] != '#') line += indent;
    }
  }

  std::vector<std::string> kept_;
  std::map<size_t, std::vector<std::string>> words_;
  std::set<std::string> used_;
};

}  // namespace

std::string render(std::string_view text, const Params& params) { return Renderer(text).run(params); }

std::string render_file(std::string_view name, const Params& params) {
  const std::string_view text = template_text(name);
  WEFT_CHECK(!text.empty(), "no template '" + std::string(name) + "'");
  return render(text, params);
}

}  // namespace weftc
