#pragma once
// Tokens of a `.dt` text (ir.md). The text is tokenized at once; brackets are matched, so that the
// parser can skip what it cannot parse.
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
  Ellipsis, // ...
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
  // Index ranges of tokens between mismatched brackets; parse errors there are not reported.
  std::vector<std::pair<uint32_t, uint32_t>> broken;
};

inline constexpr size_t kMaxTextBytes = 256u << 20;
inline constexpr size_t kMaxTokens = 64u << 20;
inline constexpr size_t kMaxNesting = 256; // ir.md

// False if the text cannot be tokenized (too long, too deep).
[[nodiscard]] bool lex(std::string_view text, LexedText& out, Diagnostics& diags);

// The contents of a String token with escapes resolved; the lexer has validated them.
[[nodiscard]] std::string unescape(std::string_view quoted);

} // namespace dtc
