#include "mlir/MlirTokens.h"

namespace dtc {

static constexpr size_t kMaxNodes = 16u << 20;

static constexpr DiagKind kMlirUnexpected{"mlir-syntax", "expected {0}, found {1}"};
static constexpr DiagKind kMlirDeep{"too-deep", "nested too deep (more than {0} levels)"};
static constexpr DiagKind kMlirLong{"text-too-long", "the text has too many ops and attributes"};
static constexpr DiagKind kMlirText{"mlir-syntax", "cannot parse this: {0}"};

static std::string shown(const MlirToken& t, std::string_view source) {
  if (t.kind == MlirTok::End) return "the end of the text";
  std::string_view text = source.substr(t.begin, std::min<size_t>(t.end - t.begin, 40));
  return "'" + std::string(text) + "'";
}

bool MlirTokens::fail(SourceRange where, std::string_view why) { return diags_.fail(kMlirText, where, why); }

bool MlirTokens::unexpected(std::string_view wanted) {
  return diags_.fail(kMlirUnexpected, tok().range(), wanted, shown(tok(), lex_.source()));
}

bool MlirTokens::accept(char c) {
  if (!tok().is(c)) return false;
  take();
  return true;
}

bool MlirTokens::acceptWord(std::string_view w) {
  if (!tok().isWord(w)) return false;
  take();
  return true;
}

bool MlirTokens::expect(char c) { return accept(c) || unexpected(std::string("'") + c + "'"); }
bool MlirTokens::expectWord(std::string_view w) {
  return acceptWord(w) || unexpected("'" + std::string(w) + "'");
}

bool MlirTokens::Deeper::allowed() {
  if (t_.depth_ <= kMlirMaxNesting) return true;
  return t_.diags_.fail(kMlirDeep, t_.tok().range(), kMlirMaxNesting);
}

bool MlirTokens::countNode() {
  if (++nodes_ <= kMaxNodes) return true;
  return diags_.fail(kMlirLong, tok().range());
}

} // namespace dtc
