#include "report/SourceIndex.h"

#include "explain/ExplainGroups.h"

#include <algorithm>
#include <map>

namespace dtc {

SourceIndex::SourceIndex(const SourceText& source) : source_(source) {
  begins_.push_back(0);
  for (size_t i = 0; i + 1 < source.text.size(); ++i)
    if (source.text[i] == '\n') begins_.push_back(static_cast<uint32_t>(i + 1));
  for (size_t l = 0; l < begins_.size(); ++l)
    if (const std::string_view line = text(l); line.starts_with("func ") || line.starts_with("spmd func "))
      functions_.push_back(static_cast<int>(l));
}

int SourceIndex::functionOf(int line) const {
  const auto after = std::ranges::upper_bound(functions_, line);
  return after == functions_.begin() ? -1 : *(after - 1);
}

int SourceIndex::atOffset(uint32_t offset) const {
  if (offset > source_.text.size()) return -1;
  return static_cast<int>(std::ranges::upper_bound(begins_, offset) - begins_.begin()) - 1;
}

std::string_view SourceIndex::text(size_t line) const {
  const size_t end = line + 1 < begins_.size() ? begins_[line + 1] : source_.text.size();
  std::string_view text = std::string_view(source_.text).substr(begins_[line], end - begins_[line]);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

std::string SourceIndex::resultAt(SourceRange statement, const std::string& path) const {
  const int line = at(statement);
  if (line < 0) return "";
  std::string_view names = text(static_cast<size_t>(line));
  names = names.substr(0, std::min(names.find(" = "), names.size()));
  if (names.find(',') == names.npos || names.find_first_not_of(' ') != names.find('%')) return "";
  for (size_t at = names.find('%'); at != names.npos; at = names.find('%', at + 1)) {
    const std::string name(names.substr(at, names.find_first_of(", ", at) - at));
    if (path == name || path.ends_with("_" + name.substr(1))) return name;
  }
  return "";
}

ReportValue SourceIndex::files() const {
  ReportValue out = ReportValue::array();
  out.push_back({{"name", source_.name}, {"first", 0}});
  for (const SourceText::Imported& i : source_.imported)
    out.push_back({{"name", i.name}, {"first", atOffset(i.begin)}});
  return out;
}

std::string SourceLayer::name() const {
  std::string out = prefix;
  if (const size_t at = out.rfind('#'); at != std::string::npos) out.replace(at, 1, std::to_string(number));
  return out;
}

namespace {

// Statements of one layer, at least: names such as ln1_w and ln2_w are not layers.
constexpr size_t kFewestStatements = 3;
constexpr int kMaxUnnamed = 32; // lines between two of a layer

// Also a line of which nothing is known, such as a closing brace.
bool isNumber(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// "blocks_#" and 0 for blocks_0_h; nothing if the first number ends the name.
std::optional<std::pair<std::string, int64_t>> layerOf(const LineFacts& facts) {
  const bool user = !facts.userPath.empty();
  const NamePattern pattern = patternOf(user ? facts.userPath : facts.name);
  const size_t at = pattern.text.find('#');
  if (at == std::string::npos || at == 0 || (at + 1 == pattern.text.size() && !user)) return std::nullopt;
  return std::pair(pattern.text.substr(0, at + 1), pattern.numbers[0]);
}

// Lines without a name of their own ("%0") between two of a layer belong to it.
void addUnnamed(const std::vector<LineFacts>& facts, SourceLayer& layer) {
  std::vector<int> lines;
  for (const int line : layer.lines) {
    const int last = lines.empty() ? line : lines.back();
    bool unnamed = line - last <= kMaxUnnamed;
    for (int l = last + 1; l < line; ++l) unnamed = unnamed && isNumber(facts[static_cast<size_t>(l)].name);
    for (int l = last + 1; l < line && unnamed; ++l) lines.push_back(l);
    lines.push_back(line);
  }
  layer.lines = std::move(lines);
}

// Without the blanks that align columns, which depend on the lengths of names.
std::string squeezed(const std::string& text) {
  std::string out;
  for (char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  return out;
}

} // namespace

void nameLines(const SourceIndex& index, std::vector<LineFacts>& lines) {
  for (size_t l = 0; l < lines.size(); ++l) {
    if (!lines[l].name.empty()) continue;
    const std::string_view text = index.text(l);
    const size_t at = text.find_first_not_of(" ->(");
    if (at == std::string_view::npos || text[at] != '%') continue;
    const size_t end = text.find_first_of(" ,:=)", at);
    lines[l].name = text.substr(at + 1, end == std::string_view::npos ? end : end - at - 1);
    lines[l].statement = text.find(" = ") != std::string_view::npos;
  }
}

SourceLayers layersOf(const SourceIndex& index, const std::vector<LineFacts>& facts) {
  std::map<std::pair<std::string, int64_t>, std::vector<int>> found;
  std::map<std::string, std::set<int64_t>> numbers;
  std::map<std::string, size_t> statements;
  for (size_t l = 0; l < facts.size(); ++l)
    if (const auto layer = layerOf(facts[l])) {
      found[*layer].push_back(static_cast<int>(l));
      numbers[layer->first].insert(layer->second);
      statements[layer->first] += facts[l].statement;
    }
  SourceLayers out;
  out.of.assign(facts.size(), -1);
  for (auto& [key, lines] : found) {
    const size_t count = numbers[key.first].size();
    const size_t own = statements[key.first];
    if (count < 2 || (own > 0 && own < kFewestStatements * count) || lines.size() < kFewestStatements)
      continue;
    out.layers.push_back({key.first, key.second, std::move(lines)});
  }
  for (SourceLayer& layer : out.layers) addUnnamed(facts, layer);
  std::ranges::sort(out.layers, {}, [](const SourceLayer& l) { return std::pair(l.lines[0], l.number); });
  std::map<std::string, int> first;
  for (size_t i = 0; i < out.layers.size(); ++i) {
    std::string signature = out.layers[i].prefix;
    for (int l : out.layers[i].lines) {
      out.of[static_cast<size_t>(l)] = static_cast<int>(i);
      signature += "\n" + squeezed(patternOf(index.text(static_cast<size_t>(l))).text) + "\n" +
                   facts[static_cast<size_t>(l)].shape;
    }
    const auto [it, isNew] = first.emplace(std::move(signature), static_cast<int>(i));
    if (!isNew) out.layers[i].equalTo = it->second;
  }
  return out;
}

} // namespace dtc
