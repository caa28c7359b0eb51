#pragma once
// "Did you mean": the one place that answers an unknown name. A name of torch, jnp, lax or StableHLO is translated by a
// table (lib/Support/Aliases.cpp); any other is answered with the nearest known name, or with all where they are few.
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// What a word is a name of.
enum class Vocabulary : unsigned char {
  Op,
  DType,
  Attribute, // of an op
  Keyword,   // of the text
  Choice,    // verbs and values of flags
  Plain,     // names of the user's own
};

// One name that other frameworks use. `here` is what dtc calls it; several names are separated by '|', and the first that
// is known where the word is used counts. `how`: what to write, where a name alone does not say it; may be empty.
struct Alias {
  Vocabulary vocabulary;
  const char* elsewhere;
  const char* here;
  const char* how;
};
[[nodiscard]] std::span<const Alias> aliasTable();

// What follows "unknown op 'multiply'": "; dtc calls it 'mul'", "; did you mean 'relu'?", "; there are a, b", or
// nothing. `prefix` is put before each name that is shown ("%", "@").
[[nodiscard]] std::string suggestion(Vocabulary, std::string_view word,
                                     const std::vector<std::string_view>& known,
                                     std::string_view prefix = "");

} // namespace dtc
