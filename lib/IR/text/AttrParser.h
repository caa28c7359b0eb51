#pragma once
// Parses attributes and checks them against their specification.
#include "text/Mistakes.h"
#include "text/TypeParser.h"

namespace dtc {

class AttrParser : TokenReader {
public:
  AttrParser(const TokenReader& in, TypeParser& types, const GivenSizes& sizes, Mistakes& mistakes)
      : TokenReader(in), types_(types), sizes_(sizes), mistakes_(mistakes) {}

  // "{a = 1, …}", at its "{". `common` attributes are not listed in hints; `owner` is the subject of errors.
  bool attrs(std::vector<ParsedAttr>& written, std::span<const AttrSpec> specs,
             std::span<const AttrSpec> common, std::string_view owner, AttrList& out);
  // Those of an op, with mesh axes resolved in local text.
  bool ofOp(Statement&);
  // Parses the elements of a `value` again, once the result's dtype is known, so that they are rounded only
  // once.
  bool typeValues(const Statement&, OpId, TypeId);

private:
  bool attr(AttrId&);
  bool list(AttrId&);
  bool word(AttrId&);
  bool numberOrSize(AttrId&);
  bool size(AttrId&);
  bool fit(std::vector<ParsedAttr>&, std::span<const AttrSpec>, std::span<const AttrSpec> common,
           std::string_view owner, AttrList& out);
  AttrId adapted(AttrId, AttrType);
  bool isCommonWord(const ParsedAttr&, std::string_view owner);
  bool localAxes(Statement&);

  TypeParser& types_;
  const GivenSizes& sizes_;
  Mistakes& mistakes_;
  std::optional<DType> elementType_; // in typeValues
};

} // namespace dtc
