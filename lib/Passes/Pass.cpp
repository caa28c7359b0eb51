#include "dtc/Passes/Pass.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "dtc/Target/Target.h"

namespace dtc {
constexpr DiagKind kPassOption{"pass-option", "{0}: expected {1} = {2}, got '{3}'{4}"};

static bool takes(const PassOption& o, const std::string& value) {
  if (value.empty() && !*o.fallback) return true; // treated as not given
  for (const char* word : o.words)
    if (value == word) return true;
  if (const auto n = parseNumber<int64_t>(value); n && o.min && *n >= *o.min) return true;
  if (o.isTarget && targetNamed(value)) return true;
  if (o.isBytes && parseBytes(value)) return true;
  const auto isNameChar = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  if (o.isName) return !value.empty() && std::ranges::all_of(value, isNameChar);
  const auto dtype = o.isDType ? parseDType(value) : std::nullopt;
  return dtype && isFloat(*dtype);
}

std::string valuesText(const PassOption& o) {
  std::vector<std::string> all(o.words.begin(), o.words.end());
  if (o.min) all.push_back("an integer of at least " + std::to_string(*o.min));
  if (o.isTarget) all.push_back("cpu, " + cudaArchList());
  if (o.isBytes) all.push_back("bytes such as 8GiB");
  if (o.isName) all.push_back("the name of an axis");
  if (o.isDType) all.push_back("a float dtype such as bf16 or f32");
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    text += (i == 0 ? "" : i + 1 == all.size() ? " or " : ", ") + all[i];
  return text;
}

bool checkOptions(const PassInfo& pass, const PassOptions& options, Diagnostics& diags) {
  bool good = true;
  for (const PassOption& o : pass.options) {
    const auto given = options.values.find(o.name);
    if (given == options.values.end() || takes(o, given->second)) continue;
    const std::vector<std::string_view> words(o.words.begin(), o.words.end());
    std::string nearest = suggestion(Vocabulary::Plain, given->second, words);
    if (listsWords(nearest)) nearest.clear(); // the message lists them already
    diags.error(kPassOption, {}, pass.name, o.name, valuesText(o), given->second, nearest);
    good = false;
  }
  return good;
}

bool PassOptions::flag(const char* name, bool fallback) const {
  return word(name, fallback ? "true" : "false") == "true";
}

std::string_view PassOptions::word(const char* name, std::string_view fallback) const {
  const auto given = values.find(name);
  return given == values.end() || given->second.empty() ? fallback : std::string_view(given->second);
}

std::optional<int64_t> PassOptions::integer(const char* name) const {
  return parseNumber<int64_t>(word(name, ""));
}

std::optional<int64_t> PassOptions::bytes(const char* name) const { return parseBytes(word(name, "")); }

std::optional<DType> PassOptions::dtype(const char* name) const { return parseDType(word(name, "")); }

} // namespace dtc
