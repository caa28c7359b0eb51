#pragma once
// The tokens of MLIR text, produced on demand: types have a lexical form of their own (2x3xf32), so that the
// text cannot be tokenized in advance. Also reads attribute bodies: a lexer over a part of the text.
#include "dtc/Support/Diagnostics.h"
#include <optional>

namespace dtc {

enum class MlirTok : uint8_t {
  End,
  Bad,
  Word,   // stablehlo.add, dims, i32: letters, digits, _ $ .
  Value,  // %0 or %arg0#1: text is without % and #
  Symbol, // @main, @"a b": text is the name, without quotes
  Hash,   // #loc3, #stablehlo.dot
  Bang,   // !stablehlo.token
  Block,  // ^bb0
  Int,    // 12, -3, 0x1F
  Float,  // 1.0, -2.5e-3
  String, // "…": text is the content of the quotes, escapes kept
  Arrow,  // ->
  Punct,  // one character
};

struct MlirToken {
  MlirTok kind = MlirTok::End;
  uint32_t begin = 0, end = 0;
  std::string_view text;
  uint32_t number = 0; // Value: the part after #
  [[nodiscard]] SourceRange range() const { return {begin, end}; }
  [[nodiscard]] bool is(char c) const { return kind == MlirTok::Punct && text[0] == c; }
  [[nodiscard]] bool isWord(std::string_view w) const { return kind == MlirTok::Word && text == w; }
};

class MlirLexer {
public:
  // Reads `part`, which lies within `source`; ranges are offsets in `source`.
  MlirLexer(std::string_view source, std::string_view part);
  explicit MlirLexer(std::string_view source) : MlirLexer(source, source) {}

  [[nodiscard]] const MlirToken& peek() const { return current_; }
  MlirToken next();                       // consumes the current token
  [[nodiscard]] MlirToken second() const; // the token after the current one
  [[nodiscard]] bool atEnd() const { return current_.kind == MlirTok::End; }
  bool accept(char c);
  bool acceptWord(std::string_view w);
  // Continues at an offset of the source.
  void seek(uint32_t offset);
  [[nodiscard]] std::string_view source() const { return source_; }
  [[nodiscard]] std::string_view between(uint32_t begin, uint32_t end) const {
    return source_.substr(begin, end - begin);
  }
  // If the current token is an opening bracket, skips past the matching one and returns the text between.
  // Nothing where it is not, or where the nesting is too deep.
  std::optional<std::string_view> skipBalanced();

private:
  [[nodiscard]] MlirToken lex(uint32_t& at) const;
  [[nodiscard]] MlirToken lexValue(uint32_t& at) const;
  [[nodiscard]] MlirToken lexNumber(uint32_t& at) const;
  [[nodiscard]] MlirToken lexString(uint32_t& at) const;
  [[nodiscard]] MlirToken make(MlirTok kind, uint32_t begin, uint32_t end, uint32_t textBegin,
                               uint32_t textEnd) const;
  std::string_view source_;
  uint32_t end_;
  MlirToken current_;
  uint32_t after_ = 0; // where the next token is looked for
};

// The content of a String token with its escapes decoded: "a\"b\41".
[[nodiscard]] std::string unescapeMlir(std::string_view quoted);
// The value of an Int; nothing where it exceeds 64 bits. Values above 2^63-1 are returned as the int64 of the
// same bits.
[[nodiscard]] std::optional<int64_t> mlirInteger(std::string_view text);

inline constexpr int kMlirMaxNesting = 256;

} // namespace dtc
