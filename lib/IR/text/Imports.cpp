#include "dtc/IR/text/Imports.h"

#include "text/Lexer.h"

namespace dtc {

std::vector<ImportStatement> importsOf(std::string_view text) {
  std::vector<ImportStatement> out;
  if (text.find("import") == std::string_view::npos) return out;
  LexedText lexed;
  Diagnostics ignored; // parsing reports them
  if (!lex(text, lexed, ignored)) return out;
  const std::vector<Token>& tokens = lexed.tokens;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const Token &word = tokens[i], &name = tokens[i + 1];
    if (word.match > i) i = word.match; // over the blocks of functions
    if (word.kind != Tok::Word || text.substr(word.begin, word.end - word.begin) != "import") continue;
    if (name.kind == Tok::String)
      out.push_back({unescape(text.substr(name.begin + 1, name.end - name.begin - 2)), name.range()});
  }
  return out;
}

} // namespace dtc
