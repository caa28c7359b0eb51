#pragma once
// The parser of MLIR's types, attributes and locations.
#include "mlir/MlirTokens.h"

namespace dtc {

class MlirAttributeParser : public MlirTokens {
public:
  using MlirTokens::MlirTokens;
  // nullptr or false after a report
  const MlirType* type();
  bool attribute(MlirAttr& out, bool withType);
  bool dictionary(std::vector<MlirNamedAttr>& out); // at '{'
  bool typeList(std::vector<const MlirType*>& out); // "(t, t)" or "t"
  bool location(uint32_t& out);                     // at `loc`
  bool bodyOf(std::string_view& out);               // balanced text, at '<', '[' or '{'

private:
  bool tensorType(MlirType& t);
  bool elementText(std::string_view& out);
  bool numberAttr(MlirAttr& out);
  bool listAttr(MlirAttr& out);
  bool wordAttr(MlirAttr& out);
  bool dialectAttr(MlirAttr& out);
  bool denseAttr(MlirAttr& out);
  bool attributeBody(MlirAttr& out);
  bool locationBody(uint32_t out);
  bool locationParts(uint32_t out, char closer);
  bool fileLocation(uint32_t out);
};

} // namespace dtc
