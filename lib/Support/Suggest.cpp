#include "dtc/Support/Suggest.h"

#include "dtc/Support/Diagnostics.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cctype>

namespace dtc {

namespace {

std::string lowered(std::string_view word) {
  std::string out(word);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// The import names of frameworks with aliases of their own in the table.
struct Framework {
  std::string_view prefix, name;
};
constexpr Framework kFrameworks[] = {{"jax.numpy", "jnp"},
                                     {"np", "jnp"},
                                     {"numpy", "jnp"},
                                     {"jax.lax", "lax"},
                                     {"mhlo", "stablehlo"},
                                     {"aten", "torch"},
                                     {"f", "torch"},
                                     {"functional", "torch"},
                                     {"torch.nn.functional", "torch"},
                                     {"nn.functional", "torch"}};

// "jax.numpy.var" as "jnp.var".
std::string qualified(std::string_view word) {
  const size_t dot = word.rfind('.');
  if (dot == std::string_view::npos) return std::string(word);
  for (const Framework& f : kFrameworks)
    if (f.prefix == word.substr(0, dot)) return std::string(f.name) + std::string(word.substr(dot));
  return std::string(word);
}

// The name after the last dot: "stablehlo.dot" is "dot".
std::string_view bare(std::string_view word) {
  const size_t dot = word.rfind('.');
  return dot == std::string_view::npos ? word : word.substr(dot + 1);
}

// "'mul'", "%x"
std::string shown(std::string_view prefix, std::string_view name) {
  if (!prefix.empty()) return std::string(prefix) + std::string(name);
  return "'" + std::string(name) + "'";
}

bool isKnown(std::string_view name, const std::vector<std::string_view>& known) {
  return std::find(known.begin(), known.end(), name) != known.end();
}

// The first of "dims|dim" that is known; empty if none is.
std::string_view firstKnown(std::string_view names, const std::vector<std::string_view>& known) {
  while (!names.empty()) {
    const size_t end = std::min(names.find('|'), names.size());
    if (std::string_view name = names.substr(0, end); isKnown(name, known)) return name;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return {};
}

std::string translated(Vocabulary vocabulary, std::string_view word,
                       const std::vector<std::string_view>& known, std::string_view prefix) {
  // A framework's own row precedes one of the bare name: torch.permute differs from other permutes.
  const std::string full = qualified(lowered(word)), wanted(bare(full));
  for (const std::string& name : {full, wanted}) {
    for (const Alias& a : aliasTable()) {
      if (a.vocabulary != vocabulary || name != a.elsewhere) continue;
      std::string_view here = firstKnown(a.here, known);
      if (here.empty() && *a.here) continue;
      if (*a.how) return std::string("; write ") + a.how;
      return "; dtc calls it " + shown(prefix, here);
    }
    if (name == wanted) break;
  }
  if (wanted != word && isKnown(wanted, known)) return "; dtc calls it " + shown(prefix, wanted);
  return "";
}

const std::string kOnly = "; the only one is ", kOneOf = "; expected one of: ";

} // namespace

std::string suggestion(Vocabulary vocabulary, std::string_view word,
                       const std::vector<std::string_view>& known, std::string_view prefix) {
  if (std::string text = translated(vocabulary, word, known, prefix); !text.empty()) return text;
  if (std::string_view near = nearestWord(bare(word), known); !near.empty())
    return "; did you mean " + shown(prefix, near) + "?";
  constexpr size_t kFew = 12, kShown = 100;
  const std::string list =
      joined(known, ", ", [&](std::string_view k) { return std::string(prefix) + std::string(k); });
  if (known.empty() || known.size() > kFew || list.size() > kShown) return "";
  return (known.size() == 1 ? kOnly : kOneOf) + list;
}

bool listsWords(std::string_view suggestion) {
  return suggestion.starts_with(kOnly) || suggestion.starts_with(kOneOf);
}

std::string unknownWord(std::string_view kind, std::string_view word,
                        const std::vector<std::string_view>& known) {
  return "unknown " + std::string(kind) + " '" + std::string(word) + "'" +
         suggestion(kind == "op" ? Vocabulary::Op : Vocabulary::Choice, word, known);
}

} // namespace dtc
