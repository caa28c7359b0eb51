#pragma once
// Attributes, types and locations of MLIR bytecode as text.
#include "vhlo/Bytecode.h"

#include <span>

namespace dtc {

class BcText {
public:
  // The text may have at most `limit` bytes in all, and attributes a nesting of kMaxNesting.
  BcText(const Bytecode& bc, size_t limit) : bc_(bc), limit_(limit), types_(bc.types.size()) {}
  static constexpr int kMaxNesting = 64;

  std::string out;

  void type(uint32_t t) { out += typeText(t); }
  void attr(uint32_t a);
  void symbol(std::string_view name); // @name
  void quoted(std::string_view text); // "text"
  void dictionary(const BcNode& d);   // {name = value, ...}
  void entries(const BcNode& d);      // without the braces
  void loc(uint32_t a);               // " loc(#loc7)", or nothing where it is unknown
  void locations();                   // the definitions of all that were used

  [[nodiscard]] std::string attrText(uint32_t a); // on its own
  [[nodiscard]] std::string_view typeText(uint32_t t);
  [[nodiscard]] std::string_view stringOf(uint32_t a) const;   // of a string or symbol, else empty
  [[nodiscard]] std::vector<int64_t> intsOf(uint32_t a) const; // of a tensor of integers
  [[nodiscard]] bool ok() const { return why_.empty(); }
  [[nodiscard]] const std::string& why() const { return why_; }
  bool fail(std::string why);
  // False, after failing, if the text is too long.
  bool withinLimit();

private:
  struct Nested;
  void element(std::string_view type, std::string_view bytes);
  void integer(const BcNode& n);
  void real(const BcNode& n);
  void tensor(const BcNode& n);
  void elements(std::string_view type, const std::vector<int64_t>& dims, size_t dim, std::string_view& bytes,
                size_t bytesEach);
  void hex(std::string_view bytes);
  void array(const BcNode& n);
  void meshPart(const BcNode& n);
  void intList(std::span<const int64_t> ints);
  void listOf(std::span<const uint32_t> attrs);
  void locText(uint32_t a);
  void locRef(uint32_t a);
  std::string makeType(const BcNode& t);
  std::string shape(const BcNode& t);

  const Bytecode& bc_;
  size_t limit_;
  std::vector<std::string> types_; // made on demand
  std::vector<uint32_t> locs_;     // of ops
  int depth_ = 0;
  std::string why_;
};

} // namespace dtc
