#pragma once
// Reads the tokens of MLIR text, and bounds the nesting and the size of what is read.
#include "dtc/Support/NonCopyable.h"
#include "mlir/MlirLexer.h"
#include "mlir/MlirTree.h"

namespace dtc {

class MlirTokens {
public:
  MlirTokens(std::string_view source, MlirTree& tree, Diagnostics& diags)
      : lex_(source), tree_(tree), diags_(diags) {}

  [[nodiscard]] const MlirToken& tok() const { return lex_.peek(); }
  [[nodiscard]] MlirToken second() const { return lex_.second(); } // the token after tok()
  [[nodiscard]] MlirLexer ahead() const { return lex_; }           // a copy, to look further
  [[nodiscard]] SourceRange since(uint32_t begin) const { return {begin, lastEnd_}; }
  [[nodiscard]] std::string_view textSince(uint32_t begin) const { return lex_.between(begin, lastEnd_); }
  MlirToken take() {
    lastEnd_ = tok().end;
    return lex_.next();
  }
  bool accept(char c);
  bool acceptWord(std::string_view w);

  // False after a report.
  bool expect(char c);
  bool expectWord(std::string_view w);
  bool unexpected(std::string_view wanted);
  bool fail(SourceRange where, std::string_view why); // "cannot parse this: " and the reason
  [[nodiscard]] bool failed() const { return diags_.hasErrors(); }
  bool countNode(); // of those created, whose number bounds the memory
  // Increments the nesting depth for its lifetime; false where that is too deep.
  class Deeper : NonCopyable {
  public:
    explicit Deeper(MlirTokens& t) : t_(t) { ++t_.depth_; }
    ~Deeper() { --t_.depth_; }
    bool allowed();

  private:
    MlirTokens& t_;
  };

protected:
  MlirLexer lex_;
  MlirTree& tree_;
  Diagnostics& diags_;
  uint32_t lastEnd_ = 0;

private:
  int depth_ = 0;
  size_t nodes_ = 0;
};

} // namespace dtc
