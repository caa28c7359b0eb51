#pragma once
// The parser of MLIR text (MlirTree.h).
#include "dtc/Support/NonCopyable.h"
#include "mlir/MlirLexer.h"
#include "mlir/MlirTree.h"

namespace dtc {

class MlirParser {
public:
  MlirParser(std::string_view source, MlirTree& tree, Diagnostics& diags)
      : lex_(source), tree_(tree), diags_(diags) {}
  bool file();

  // --- types and attributes (MlirAttributes.cpp); nullptr or false after a report ---
  const MlirType* type();
  bool attribute(MlirAttr& out, bool withType);
  bool dictionary(std::vector<MlirNamedAttr>& out); // at '{'
  bool typeList(std::vector<const MlirType*>& out); // "(t, t)" or "t"
  bool location(uint32_t& out);                     // at `loc`

private:
  // --- the file, functions, regions (MlirParser.cpp) ---
  bool alias();
  bool resources();
  bool resourceBlobs();
  bool moduleOp();
  bool genericModule();
  bool function(MlirOp& op);
  bool functionArgs(MlirOp& op);
  bool functionResults(MlirOp& op);
  bool genericFunction(MlirOp& op);
  bool region(MlirRegion& out); // at '{'
  bool regionBody(MlirRegion& out);
  bool blockHeader(MlirRegion& out);
  bool statement(MlirOp& op);
  bool results(MlirOp& op);
  bool genericOp(MlirOp& op);
  bool genericRegions(MlirOp& op);
  bool operandList(MlirOp& op, char closer);
  bool use(MlirUse& out);
  bool signature(MlirOp& op, bool generic);
  bool trailingLoc(MlirOp& op);
  bool resultTypes(MlirOp& op, bool arrow);

  // --- pretty forms (MlirPretty.cpp) ---
  bool prettyOp(MlirOp& op);
  bool prettyItem(MlirOp& op, bool& ended);
  bool prettyWord(MlirOp& op);
  bool parenthesised(MlirOp& op);
  bool parenthesisedItem(MlirOp& op);
  bool prettyValue(const MlirOp& op, MlirAttr& out);
  bool bracketList(MlirAttr& out);
  bool raw(MlirAttr& out);
  bool braces(MlirOp& op);
  bool isDictionary() const;
  bool prettyRegion(MlirOp& op);
  bool afterSignature(MlirOp& op);
  bool reducerArgs(MlirOp& op);
  bool shortReducer(MlirOp& op);

  // --- details of types and attributes ---
  bool tensorType(MlirType& t);
  bool elementText(std::string_view& out);
  bool bodyOf(std::string_view& out); // at '<'
  bool numberAttr(MlirAttr& out);
  bool listAttr(MlirAttr& out);
  bool wordAttr(MlirAttr& out);
  bool dialectAttr(MlirAttr& out);
  bool denseAttr(MlirAttr& out);
  bool attributeBody(MlirAttr& out);
  bool locationBody(uint32_t out);
  bool locationParts(uint32_t out, char closer);
  bool fileLocation(uint32_t out);

  // --- tokens ---
  [[nodiscard]] const MlirToken& tok() const { return lex_.peek(); }
  bool unexpected(std::string_view wanted);
  bool expect(char c);
  bool expectWord(std::string_view w);
  [[nodiscard]] SourceRange since(uint32_t begin) const { return {begin, lastEnd_}; }
  MlirToken take() {
    lastEnd_ = tok().end;
    return lex_.next();
  }
  bool accept(char c);
  bool acceptWord(std::string_view w);
  // Increments the nesting depth for its lifetime; false where that is too deep.
  class Deeper : NonCopyable {
  public:
    explicit Deeper(MlirParser& p) : p_(p) { ++p_.depth_; }
    ~Deeper() { --p_.depth_; }
    bool allowed();

  private:
    MlirParser& p_;
  };
  // Counts the nodes created, which bounds the memory.
  bool countNode();

  MlirLexer lex_;
  MlirTree& tree_;
  Diagnostics& diags_;
  int depth_ = 0;
  size_t nodes_ = 0;
  uint32_t lastEnd_ = 0;
  std::vector<MlirArg> pending_; // arguments named before a pretty op's region
  size_t starts_ = 0;            // of `reduce(%a init: %b)`: how many pairs
  std::vector<MlirUse> inits_;   // the %b of those
  std::string_view reducer_;     // of `applies stablehlo.add`
  SourceRange reducerRange_;
};

// Maps the attribute names of the pretty form to the generic ones, and names unnamed ones (MlirNames.cpp).
void normalizePretty(MlirOp& op);

inline constexpr DiagKind kMlirUnexpected{"mlir-syntax", "expected {0}, found {1}"};
inline constexpr DiagKind kMlirDeep{"too-deep", "nested too deep (more than {0} levels)"};
inline constexpr DiagKind kMlirLong{"text-too-long", "the text has too many ops and attributes"};
inline constexpr DiagKind kMlirText{"mlir-syntax", "cannot parse this: {0}"};

} // namespace dtc
