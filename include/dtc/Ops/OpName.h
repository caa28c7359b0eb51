#pragma once
// Names of ops and of attributes, in code that cannot use Expr because its operands are not checked: a
// misspelled name does not compile.
#include "dtc/Ops/OpFunctions.h"
#include <algorithm>

namespace dtc {
namespace detail {
void unknownName(); // not constant: names this function in the compiler's message
}

template <const auto& known> class CheckedName {
public:
  constexpr CheckedName() = default; // none
  consteval CheckedName(const char* name) : text_(name) {
    if (std::ranges::find(known, std::string_view(name)) == std::end(known)) detail::unknownName();
  }
  constexpr explicit CheckedName(const OpRecord& record) : text_(record.name) {}
  [[nodiscard]] constexpr explicit operator bool() const { return text_; }
  constexpr operator std::string_view() const { return text_ ? text_ : ""; }

private:
  const char* text_ = nullptr;
};
using OpName = CheckedName<ops::kOpNames>;
using AttributeName = CheckedName<ops::kAttributeNames>;

} // namespace dtc
