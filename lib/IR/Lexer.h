#pragma once
// Words of a `.dt` text (ir.md §2.1). All of a text is cut into words at once; brackets know their partners, so that the
// parser can step over what it does not understand.
#include "dtc/Support/Diagnostics.h"
#include <vector>

namespace dtc {

enum class Tok : uint8_t {
  Word,   // NAME or a reserved word, `_` among them
  Value,  // %ID
  Symbol, // @ID
  Int,
  Float,
  String,
  LBrace,
  RBrace,
  LBracket,
  RBracket,
  LParen,
  RParen,
  Comma,
  Equal,
  Colon,
  Bar,
  Star,
  Slash,
  Question,
  DotDot,
  Arrow,
  Broken, // already reported
  End,
};

struct Token {
  uint32_t begin = 0, end = 0;
  uint32_t match = 0; // of an opening bracket: the index of the closing one
  Tok kind = Tok::End;
  bool firstOnLine = false;
  [[nodiscard]] SourceRange range() const { return {begin, end}; }
};

struct LexedText {
  std::vector<Token> tokens; // ends with End
  // Index ranges of tokens between brackets that do not fit; what the parser finds wrong there is not news.
  std::vector<std::pair<uint32_t, uint32_t>> broken;
};

inline constexpr size_t kMaxTextBytes = 256u << 20;
inline constexpr size_t kMaxTokens = 64u << 20;
inline constexpr size_t kMaxNesting = 256; // ir.md §2.1

// False where the text cannot be read at all (too long, too deep).
[[nodiscard]] bool lex(std::string_view text, LexedText& out, Diagnostics& diags);

// The text between the quotes of a String token with its escapes undone; the lexer has checked them.
[[nodiscard]] std::string unescape(std::string_view quoted);

} // namespace dtc
