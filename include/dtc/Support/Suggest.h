#pragma once
// "Did you mean": suggestions for unknown names. A name of PyTorch, jnp, lax or StableHLO is translated by a
// table (lib/Support/Aliases.cpp); for any other the nearest known name is suggested, or all if there are
// few.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// The kind of name.
enum class Vocabulary : unsigned char {
  Op,
  DType,
  Attribute, // of an op
  Keyword,   // of the language
  Choice,    // verbs and values of flags
  Plain,     // user-defined names
};

// A name used by other frameworks. `here` is dtc's name for it; alternatives are separated by '|', and the
// first that is known in the context is used. `how`: the text to write, if a name is not enough; may be
// empty.
struct Alias {
  Vocabulary vocabulary;
  std::string_view elsewhere;
  const char* here;
  const char* how;
};
[[nodiscard]] std::span<const Alias> aliasTable();

// The suffix of "unknown op 'multiply'": "; dtc calls it 'mul'", "; did you mean 'relu'?", "; expected
// one of: a, b", or nothing. `prefix` is prepended to each name ("%", "@").
[[nodiscard]] std::string suggestion(Vocabulary, std::string_view word,
                                     const std::vector<std::string_view>& known,
                                     std::string_view prefix = "");
// Whether this suggestion lists the known words.
[[nodiscard]] bool listsWords(std::string_view suggestion);

// "unknown pass 'propagat'; did you mean 'propagate'?": the message for a word that is none of `known`.
[[nodiscard]] std::string unknownWord(std::string_view kind, std::string_view word,
                                      const std::vector<std::string_view>& known);

} // namespace dtc
