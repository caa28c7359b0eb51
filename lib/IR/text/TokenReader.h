#pragma once
// The position in a text that its parsers share, and what all of them read: punctuation, names, numbers and
// lists. An error is reported at its location, once: not in lines that the lexer has reported.
#include "dtc/Support/Suggest.h"
#include "text/Lexer.h"
#include "text/Parsed.h"
#include <unordered_map>

namespace dtc {

// A hint for a word that is not a dtype.
[[nodiscard]] std::string dtypeHint(std::string_view word);

struct TokenStream {
  std::string_view text;
  LexedText lexed;
  size_t pos = 0;
  size_t blockEnd = 0;  // index of the "}" of the block being parsed
  bool snippet = false; // statements without a block, see parseSnippet
  bool quiet = false;   // an error occurred that had already been reported
  struct NameList {     // the tokens of `%a, %b`, and whether '=' follows
    size_t first = 1, last = 0;
    bool defined = false;
  };
  NameList names; // the last that atStatement scanned
  struct Place {  // to continue after a text elsewhere has been parsed
    size_t pos, blockEnd;
    bool quiet;
  };
  [[nodiscard]] Place place() const { return {pos, blockEnd, quiet}; }
  void restore(const Place& p) { pos = p.pos, blockEnd = p.blockEnd, quiet = p.quiet; }
  // index of a token -> the keyword that it stands for; it has been reported
  std::unordered_map<size_t, std::string_view> mistyped;
};

// The base of the parsers of one text.
class TokenReader {
public:
  TokenReader(TokenStream& in, Module& m, Diagnostics& diags) : in_(in), m_(m), diags_(diags) {}

  [[nodiscard]] bool lexed(std::string_view text); // replaces the stream's text; false after an error
  [[nodiscard]] const Token& tok(size_t ahead = 0) const {
    return tokens()[std::min(in_.pos + ahead, tokens().size() - 1)];
  }
  [[nodiscard]] const std::vector<Token>& tokens() const { return in_.lexed.tokens; }
  [[nodiscard]] std::string_view text(const Token& t) const {
    return in_.text.substr(t.begin, t.end - t.begin);
  }
  [[nodiscard]] bool at(Tok kind, size_t ahead = 0) const { return tok(ahead).kind == kind; }
  [[nodiscard]] bool atWord(std::string_view word, size_t ahead = 0) const {
    return at(Tok::Word, ahead) && (text(tok(ahead)) == word || keywordAt(in_.pos + ahead) == word);
  }
  // The keyword that a mistyped word at this index stands for.
  [[nodiscard]] std::string_view keywordAt(size_t index) const {
    if (in_.mistyped.empty()) return {};
    auto it = in_.mistyped.find(index);
    return it == in_.mistyped.end() ? std::string_view() : it->second;
  }
  [[nodiscard]] bool atName(size_t ahead = 0) const; // a Word that is not reserved
  [[nodiscard]] bool atDotted() const {
    return at(Tok::Word) && text(tok()).find('.') != std::string_view::npos;
  }
  [[nodiscard]] bool atLiteral() const {
    return at(Tok::Int) || at(Tok::Float) || atWord("true") || atWord("false");
  }
  [[nodiscard]] bool atAttrs() const { return at(Tok::LBrace) && at(Tok::Word, 1) && at(Tok::Equal, 2); }
  [[nodiscard]] bool atSharding() const;
  [[nodiscard]] bool atStatement() const; // `%a, %b = …`
  // A statement, the end of the block (`return`, `yield`, "}"), or an op on a new line.
  [[nodiscard]] bool atNextStatement() const;
  [[nodiscard]] SourceRange since(size_t firstToken) const {
    return {tokens()[firstToken].begin, tokens()[in_.pos ? in_.pos - 1 : 0].end};
  }

  bool accept(Tok kind) { return at(kind) ? ++in_.pos, true : false; }
  bool acceptWord(std::string_view word) { return atWord(word) ? ++in_.pos, true : false; }
  [[nodiscard]] bool expect(Tok kind, std::string_view what) { return accept(kind) || unexpected(what); }
  [[nodiscard]] bool expectName(std::string_view what, ParsedName& out);
  // The name in a Value or Symbol.
  [[nodiscard]] bool expectName(Tok kind, std::string_view what, ParsedName& out);
  // The literal `word`, of the kind and at the location of `t`, as a value of this dtype. Takes no token.
  [[nodiscard]] bool number(std::string_view word, const Token& t, DType, Attr& out);
  [[nodiscard]] bool number(const Token& t, DType d, Attr& out) { return number(text(t), t, d, out); }
  [[nodiscard]] bool literal(Attr& out); // without a dtype; floats are read as f64

  void step();           // over one token, or a pair of brackets with its contents
  void skipToTopLevel(); // to a mesh or a function
  // element { "," element } close, after the opening bracket; an element that fails is skipped.
  template <class Fn> bool commaList(Tok close, std::string_view closeText, Fn&& element) {
    bool ok = true;
    if (accept(close)) return true;
    for (;;) {
      size_t start = in_.pos;
      if (!element()) {
        ok = false;
        skipElement(close, start);
      }
      if (accept(close)) return ok;
      if (!at(Tok::Comma)) {
        ok = false;
        // `%x: f32[4] %w: f32[4]` in a function signature
        if (close == Tok::RParen && at(Tok::Value) && at(Tok::Colon, 1)) {
          missingComma();
          continue;
        }
        unexpected("',' or " + std::string(closeText));
        skipElement(close, start);
        if (accept(close)) return false;
        if (!at(Tok::Comma)) return false;
      }
      ++in_.pos;
    }
  }

  bool unexpected(std::string_view what, std::string_view hint = {}); // always false
  void missingComma();                                                // before this token
  // `what` is not a value of this dtype; always false.
  bool wrongKind(SourceRange range, std::string_view what, DType, std::string_view hint = {});
  [[nodiscard]] std::string found(const Token&) const;
  [[nodiscard]] bool suppressed() const;
  template <class... Args> bool error(const DiagKind& kind, SourceRange range, const Args&... args) {
    if (suppressed())
      in_.quiet = true;
    else
      diags_.error(kind, range, args...);
    return false;
  }

protected:
  TokenStream& in_;
  Module& m_;
  Diagnostics& diags_;

private:
  void skipElement(Tok close, size_t start);
};

} // namespace dtc
