#pragma once
// The parser of lib/IR. One class over several files: Parser.cpp (meshes, functions, names), ParseType.cpp (types,
// shardings), ParseAttr.cpp (attributes), ParseLiteral.cpp (numbers and their dtypes), ParseStatement.cpp (ops),
// ParseRegion.cpp (ops with blocks, calls), ParseMistakes.cpp (what newcomers write instead).
//
// Three walks over the words: meshes, function heads, bodies; so that a name may be used before its line. Whatever is wrong
// is reported where it stands, and the values that it should have defined become *poisoned* (no type): nothing more is
// said about them.
#include "Lexer.h"
#include "dtc/IR/Text.h"
#include "dtc/Support/Suggest.h"
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace dtc {

struct ParsedType {
  TypeId id; // invalid: none written
  SourceRange range;
};

struct ParsedAxis {
  AxisRef axis;
  SourceRange range;
};

// A sharding as written. In mesh style it can be understood only where the rank is known.
struct ParsedSharding {
  bool present = false, meshStyle = false;
  SourceRange range;
  Sharding sharding; // its mesh; in dim style all of it
  std::vector<Placement> placements;
  std::vector<ParsedAxis> axes; // every axis that it names, in the order written
};

struct ParsedResult {
  ParsedType type;
  ParsedSharding sharding;
};

struct ParsedName {
  StrId name;
  SourceRange range;
};

struct ParsedOperand {
  ValueId value;
  SourceRange range;
};

struct ParsedBind {
  ParsedName name;
  ParsedOperand start;
  ParsedType type;
  ParsedSharding sharding;
};

struct ParsedAttr {
  ParsedName name;
  AttrId value;
  SourceRange valueRange;
  size_t firstToken = 0; // of the value
};

struct SizeMismatch; // dtc/IR/CallSizes.h

struct Statement {
  std::vector<ParsedName> names;
  SourceRange opRange;
  std::string_view opName;
  const OpRecord* record = nullptr;
  OpKind kind = kNoOpKind;
  std::vector<ParsedOperand> operands;
  ParsedName callee;
  ParsedName loopIndex;
  std::vector<ParsedBind> binds;
  bool hasBinds = false;
  std::vector<ParsedAttr> attrs;
  AttrList attrList;
  std::vector<ParsedResult> results;
  SourceRange resultsRange;
};

class Parser {
public:
  Parser(Module& m, Diagnostics& diags, const ParseOptions& options)
      : m_(m), diags_(diags), options_(options) {}

  bool module(); // of m_.source
  bool lonelySharding(std::string_view text, MeshId mesh, Sharding& out);
  // Statements up to a `yield`, appended to `out`; names stand for `bindings`. `none` may be yielded.
  bool snippet(std::string_view text, BlockId parent,
               std::span<const std::pair<std::string_view, ValueId>> bindings, std::vector<OpId>& out,
               std::vector<ValueId>& yields);

private:
  // --- words (Parser.cpp) ---
  const Token& tok(size_t ahead = 0) const { return tokens()[std::min(pos_ + ahead, tokens().size() - 1)]; }
  const std::vector<Token>& tokens() const { return lexed_.tokens; }
  std::string_view text(const Token& t) const { return src_.substr(t.begin, t.end - t.begin); }
  bool at(Tok kind, size_t ahead = 0) const { return tok(ahead).kind == kind; }
  bool atWord(std::string_view word, size_t ahead = 0) const {
    return at(Tok::Word, ahead) && (text(tok(ahead)) == word || keywordAt(pos_ + ahead) == word);
  }
  // What a mistyped keyword at this index stands for; it has been reported.
  std::string_view keywordAt(size_t index) const {
    if (mistyped_.empty()) return {};
    auto it = mistyped_.find(index);
    return it == mistyped_.end() ? std::string_view() : it->second;
  }
  bool accept(Tok kind) { return at(kind) ? ++pos_, true : false; }
  bool acceptWord(std::string_view word) { return atWord(word) ? ++pos_, true : false; }
  bool expect(Tok kind, std::string_view what);
  bool atName(size_t ahead = 0) const; // a Word that is no reserved one
  bool atDotted() const { return at(Tok::Word) && text(tok()).find('.') != std::string_view::npos; }
  bool expectName(std::string_view what, ParsedName& out);
  bool unexpected(std::string_view what, std::string_view hint = {}); // always false
  std::string found(const Token&) const;
  bool suppressed() const;
  SourceRange since(size_t firstToken) const {
    return {tokens()[firstToken].begin, tokens()[pos_ ? pos_ - 1 : 0].end};
  }
  template <class... Args> bool error(const DiagKind& kind, SourceRange range, const Args&... args) {
    if (suppressed())
      quiet_ = true;
    else
      diags_.error(kind, range, args...);
    return false;
  }
  Diagnostic& report(const DiagKind& kind, SourceRange range, auto&&... args) {
    return diags_.error(kind, range, args...);
  }

  // --- what newcomers write instead (ParseMistakes.cpp); each reports and is false, or true where it can go on ---
  void mistypedKeywords();
  bool mistypedTerminator(bool isFunction);
  bool atNextStatement() const;
  bool missingBefore(std::string_view what);
  bool noOpHere(std::string_view expected);
  bool operandsInParentheses(const Statement&);
  bool missingComma();
  bool commaBeforeArgument();
  bool misplacedAttributes();
  bool shardingWithoutColon();
  bool dtypeAsOperand();
  std::string operandHint() const;
  std::string blockHint() const;
  bool atStatement(size_t ahead) const;
  std::string lineText(size_t first, size_t end) const;

  // --- meshes and functions (Parser.cpp) ---
  void meshes();
  bool mesh();
  bool meshAxis(Mesh&, std::unordered_set<StrId>& seen);
  bool meshDevices(Mesh&, SourceRange nameRange);
  bool overrideSizes(Mesh&, SourceRange nameRange);
  void functionHeads();
  bool functionHead();
  bool argument(Function&);
  bool result(Function&);
  void skipToBody();
  void skipElement(Tok close, size_t start);
  // element { "," element } close, after the opening bracket; an element that fails is stepped over.
  template <class Fn> bool commaList(Tok close, std::string_view closeText, Fn&& element) {
    bool ok = true;
    if (accept(close)) return true;
    for (;;) {
      size_t start = pos_;
      if (!element()) {
        ok = false;
        skipElement(close, start);
      }
      if (accept(close)) return ok;
      if (!at(Tok::Comma)) {
        if (close == Tok::RParen && commaBeforeArgument()) {
          ok = false;
          continue;
        }
        unexpected("',' or " + std::string(closeText));
        ok = false;
        skipElement(close, start);
        if (accept(close)) return false;
        if (!at(Tok::Comma)) return false;
      }
      ++pos_;
    }
  }
  // "(" element { "," element } ")" of a function's head. After an element that fails it goes on behind the ")", so that
  // the rest of the head and the body are read as usual; false where there is no such bracket.
  template <class Fn> bool signatureList(std::string_view what, Fn&& element) {
    const size_t close = tok().match;
    if (!expect(Tok::LParen, what)) return false;
    const size_t first = pos_;
    if (commaList(Tok::RParen, "')'", element)) return true;
    quiet_ = true;
    if (close < first || tokens()[close].kind != Tok::RParen) return false;
    pos_ = close + 1;
    return true;
  }
  struct Body;
  void functionBody(const Body&);
  void scanCalls();
  bool inSkippedFunction() const;
  std::optional<int64_t> boundSize(StrId);
  void bindModuleSizes(Function&, Body&);
  MeshId meshOfHead(size_t firstToken) const;
  void step();
  void skipToTopLevel();
  void verifySoundFunctions();

  // --- names in scope (Scope.cpp) ---
  struct Binding {
    ValueId value;
    uint32_t serial = 0; // place in undo_; visible where it is at least visibleFrom_
  };
  struct Scope {
    size_t undo, visibleFrom;
  };
  Scope enterScope(bool isolated);
  void leaveScope(Scope);
  Binding& slot(StrId); // valid until the next call
  ValueId lookup(StrId) const;
  bool isOutside(StrId) const;
  bool define(const ParsedName&, ValueId);
  void definePoisoned(const std::vector<ParsedName>&);
  std::vector<std::string_view> visibleNames() const;

  // --- types and shardings (ParseType.cpp) ---
  bool type(ParsedType&, bool required);
  bool atType() const;
  bool dims(Type&, SourceRange);
  bool dim(Dim&);
  bool size(DimExpr&);
  bool cut(DimExpr&, SourceRange);
  bool axis(AxisRef&);
  bool axisSizes(AxisRef&);
  bool axisList(std::vector<AxisRef>&); // after "("; takes ")"
  bool atSharding() const;
  bool sharding(ParsedSharding&);
  bool dimStyle(Sharding&);
  bool dimSharding(DimSharding&);
  bool shardingParts(DimSharding&);
  bool clauses(Sharding&);
  bool meshStyle(ParsedSharding&);
  bool placement(Placement&);
  bool sub(int64_t& out, std::string_view what, int64_t least);
  bool finishSharding(const ParsedSharding&, TypeId globalType, ShardingId&);
  bool checkAxis(const AxisRef&, const Mesh&, SourceRange);
  bool checkAxes(const ParsedSharding&, const Mesh&);

  // --- attributes (ParseAttr.cpp) ---
  bool atAttrs() const;
  bool attrs(std::vector<ParsedAttr>&);
  bool attr(AttrId&);
  bool attrList(AttrId&);
  bool attrWord(AttrId&);
  bool attrNumber(AttrId&);
  bool attrSize(AttrId&);
  bool fitAttrs(std::vector<ParsedAttr>&, std::span<const AttrSpec>, std::span<const AttrSpec> common,
                std::string_view owner, AttrList& out);
  AttrId adapted(AttrId, AttrType);
  bool localAxes(Statement&);
  bool typeValueAttrs(Statement&, OpId, TypeId);

  // --- literals (ParseLiteral.cpp) ---
  bool atLiteral() const;
  bool literal(Attr&); // as written
  bool number(const Token&, DType, Attr& out);
  bool number(std::string_view word, const Token&, DType, Attr& out);
  std::optional<DType> likeOperands(const Statement&, size_t operand) const;
  bool typeOperandLiterals(Statement&);
  bool typeLiteral(ValueId, DType, std::string_view forWhat);
  bool isUntyped(ValueId v) const; // a literal or symbol whose dtype is not known yet
  bool poisoned(ValueId) const;

  // --- statements (ParseStatement.cpp) ---
  bool block(BlockId, bool isFunction);
  bool terminator(BlockId, bool isFunction);
  void statement(BlockId);
  bool statementBody(BlockId, Statement&);
  bool resultNames(Statement&);
  bool findRecord(Statement&);
  bool operands(BlockId, Statement&);
  bool atOperand(const Statement&) const;
  bool operand(BlockId, ParsedOperand&);
  bool operandList(BlockId, std::vector<ParsedOperand>&);
  bool indexed(BlockId, ParsedOperand&);
  bool opAttrs(Statement&);
  bool resultTypes(Statement&);
  void recover(size_t start);
  OpId makeOp(BlockId, const Statement&, uint32_t regions);
  bool anyPoisoned(const Statement&) const;
  ValueId poison();
  bool inferred(const Statement&, OpId, std::vector<TypeId>&);
  void addResults(OpId, uint32_t count);
  bool giveResults(Statement&, OpId, const std::vector<TypeId>&);
  bool checkWritten(const Statement&, size_t i, TypeId inferred);
  bool literalReturns(BlockId);

  // --- ops with blocks and calls (ParseRegion.cpp) ---
  bool calleeOperands(BlockId, Statement&);
  bool callStatement(BlockId, Statement&);
  bool misfit(const Statement&, const Function&, const SizeMismatch&);
  bool gradientTypes(Statement&, const Function&, std::vector<TypeId>&);
  bool loopBounds(BlockId, Statement&);
  bool bound(BlockId, ParsedOperand&);
  bool binds(BlockId, Statement&);
  bool bindTypes(Statement&, std::vector<TypeId>& argTypes, std::vector<ShardingId>& argShardings);
  bool localArg(const ParsedBind&, ShardingId, TypeId& type);
  MeshId meshOfBinds(const Statement&) const;
  bool regionStatement(BlockId, Statement&);
  bool regionBlocks(Statement&, OpId, const std::vector<TypeId>&, const std::vector<ShardingId>&);
  bool regionResults(Statement&, OpId, std::vector<TypeId>&);
  bool stackedType(const Statement&, OpId, TypeId element, TypeId& out);
  bool typeYields(Statement&, OpId);
  std::optional<DType> yieldType(const Statement&, OpId, uint32_t region, size_t i) const;

  Module& m_;
  Diagnostics& diags_;
  const ParseOptions& options_;
  std::string_view src_;
  LexedText lexed_;
  size_t pos_ = 0;
  struct Body {
    FuncId func;
    size_t firstToken;
    MeshId mesh;
    bool sound;                  // its head has no error
    std::vector<StrId> own = {}; // sizes that each call binds, so that the command line does not
  };
  std::vector<Body> bodies_;
  std::vector<FuncId> sound_; // bodies without an error
  std::unordered_map<StrId, FuncId> functions_;
  std::unordered_map<StrId, SourceRange> meshRanges_;
  std::unordered_map<size_t, size_t> meshEnds_; // first word of a mesh -> the word after it
  std::unordered_set<std::string> unknownOps_;
  // Where the command line gives sizes: functions that others call, and those that call the entry.
  std::unordered_set<StrId> called_, skipped_;
  const std::vector<StrId>* ownSizes_ = nullptr;          // of the function that is being read
  bool keepSizes_ = false;                                // while the head of a called function is read
  std::unordered_map<size_t, std::string_view> mistyped_; // index of a word -> the keyword that it stands for
  FuncId func_;
  MeshId localMesh_;    // of the spmd function or `local` block that is being read
  size_t blockEnd_ = 0; // index of the "}" of the block that is being read
  bool inSnippet_ = false;
  std::vector<ParsedAxis>* axes_ = nullptr; // where those of the sharding go that is being read
  bool quiet_ = false;                      // something was wrong that had been said already
  std::optional<DType> elementType_; // while the value of a `constant` is read: what its numbers become
  std::vector<Binding> scope_;       // by StrId
  std::vector<std::pair<StrId, Binding>>
      fewNames_; // instead, of a snippet: the module may hold a million names
  std::vector<std::pair<StrId, Binding>> undo_;
  size_t visibleFrom_ = 0;
};

} // namespace dtc
