#pragma once
// The words of MLIR text, one at a time: types have a lexical form of their own (2x3xf32), so that no list of words could
// be made beforehand. Also the reader of attribute bodies: a lexer over a part of the text.
#include "dtc/Support/Diagnostics.h"
#include <optional>

namespace dtc {

enum class MlirTok : uint8_t {
  End,
  Bad,
  Word,   // stablehlo.add, dims, i32: letters, digits, _ $ .
  Value,  // %0 or %arg0#1: text is without % and #
  Symbol, // @main, @"a b": text is what is between
  Hash,   // #loc3, #stablehlo.dot
  Bang,   // !stablehlo.token
  Block,  // ^bb0
  Int,    // 12, -3, 0x1F
  Float,  // 1.0, -2.5e-3
  String, // "…": text is what is between the quotes, escapes kept
  Arrow,  // ->
  Punct,  // one character
};

struct MlirToken {
  MlirTok kind = MlirTok::End;
  uint32_t begin = 0, end = 0;
  std::string_view text;
  uint32_t number = 0; // Value: what follows #
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
  MlirToken next();                       // takes the word at hand
  [[nodiscard]] MlirToken second() const; // the word after the one at hand
  [[nodiscard]] bool atEnd() const { return current_.kind == MlirTok::End; }
  bool accept(char c);
  bool acceptWord(std::string_view w);
  // Goes to an offset of the source.
  void seek(uint32_t offset);
  [[nodiscard]] std::string_view source() const { return source_; }
  [[nodiscard]] std::string_view between(uint32_t begin, uint32_t end) const {
    return source_.substr(begin, end - begin);
  }
  // The words at hand begin with an opening bracket: goes behind the one that closes it; the text between. Nothing where
  // none does, or where it is nested too deep.
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
  uint32_t after_ = 0; // where the next word is looked for
};

// "a\"b\41": the text between the quotes of a String with its escapes undone.
[[nodiscard]] std::string unescapeMlir(std::string_view quoted);
// An Int's value; wraps nothing: empty where it passes 64 bits. Values past 2^63-1 come as the int64 of the same bits.
[[nodiscard]] std::optional<int64_t> mlirInteger(std::string_view text);

inline constexpr int kMlirMaxNesting = 256;

} // namespace dtc
