#pragma once
// Parses the meshes of a module, and the signatures of its functions, before any body: names may be used before
// their declaration.
#include "text/AttrParser.h"
#include "text/TypeInference.h"
#include <deque>
#include <unordered_set>

namespace dtc {

class DeclarationParser : TokenReader {
public:
  DeclarationParser(const TokenReader& in, GivenSizes& sizes, TypeParser& types, AttrParser& attrs,
                    FunctionNames& functions, const ParseOptions& options)
      : TokenReader(in), generics_(in), sizes_(sizes), types_(types), attrs_(attrs), functions_(functions),
        options_(options) {}

  // A function that is parsed because it is called.
  struct Instance {
    FunctionOnCall* of = nullptr;
    SourceRange call; // the first
    StrId name;
    GenericBinding binding;
    std::string text; // of the binding
    size_t depth = 0; // of generic functions that call each other
  };
  struct Body {
    FuncId func;
    size_t firstToken = 0;
    MeshId mesh;
    bool sound = false;     // its signature has no error
    std::vector<StrId> own; // sizes that each call binds, which the command line therefore cannot
    const Instance* instance = nullptr;
  };
  void meshes();     // of the whole text
  void signatures(); // then those of all functions, except for those that the given sizes skip
  // Parsing a body may append others.
  [[nodiscard]] const std::deque<Body>& bodies() const { return bodies_; }
  // Before a body: the instance that it belongs to, or null.
  void enterBody(const Instance* instance) { caller_ = instance; }
  // FunctionNames::instance
  bool instance(FunctionOnCall&, std::span<const TypeId> given, SourceRange call, FuncId& out);
  // Says of the errors after the first `errors` which instance has them.
  void noteInstance(const Instance&, size_t errors);

private:
  // Types, sharding and attributes of an argument or a result.
  struct Typed {
    TypeId type, globalType;
    ShardingId sharding;
    SourceRange range; // without attributes
    AttrList attrs;
  };
  bool mesh();
  bool meshAxis(Mesh&, std::unordered_set<StrId>& names); // `names`: of the axes so far
  bool meshDevices(Mesh&, SourceRange nameRange);
  bool overrideSizes(Mesh&, SourceRange nameRange);
  [[nodiscard]] bool atImport() const { return atWord("import") && at(Tok::String, 1); }
  bool parsedOnCall();
  bool parseInstance(const Instance&);
  bool gradientOf(FuncId);
  bool signature();
  bool argument(Function&);
  bool result(Function&);
  // `first`: its first token; `flags`: the attributes that only an argument or only a result has.
  bool typed(size_t first, std::span<const char* const> flags, std::string_view owner, Typed&);
  bool functionAttrs(Function&);
  void skipToBody();
  [[nodiscard]] MeshId meshOfHead(size_t firstToken) const;
  // "(" element { "," element } ")". After an element that fails, continues after the ")", so that the rest of
  // the signature and the body are parsed normally; false if there is no such bracket.
  template <class Fn> bool list(std::string_view what, Fn&& element) {
    const size_t close = tok().match;
    if (!expect(Tok::LParen, what)) return false;
    const size_t first = in_.pos;
    if (commaList(Tok::RParen, "')'", element)) return true;
    in_.quiet = true;
    if (close < first || tokens()[close].kind != Tok::RParen) return false;
    in_.pos = close + 1;
    return true;
  }

  Generics generics_;
  GivenSizes& sizes_;
  TypeParser& types_;
  AttrParser& attrs_;
  FunctionNames& functions_;
  const ParseOptions& options_;
  std::unordered_map<size_t, size_t> meshEnds_; // first token of a mesh -> the token after it
  std::deque<Body> bodies_;
  std::deque<Instance> instances_;
  const Instance* instance_ = nullptr; // whose signature is parsed
  const Instance* caller_ = nullptr;   // whose body is parsed
};

} // namespace dtc
