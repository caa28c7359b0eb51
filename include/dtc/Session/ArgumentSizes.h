#pragma once
// Symbolic sizes (`f32[B, 512]`): inferred from the shapes of arguments, and the check that all are bound.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

// Infers the symbolic sizes of a function from the shapes of its arguments.
class ArgumentSizes {
public:
  ArgumentSizes(const Module& m, FuncId f) : m_(m), f_(f) {}

  // `where`: the origin of the shape in messages, such as a file. A shape of another rank is ignored: it is
  // reported when the argument is set. A dim that is a product of several symbols determines none of them.
  // Error (Input): it conflicts with an earlier shape, or a dim is not a multiple of its factor.
  [[nodiscard]] Status add(size_t argument, std::span<const int64_t> shape, const std::string& where);
  // By name.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> sizes() const;

private:
  struct Found {
    int64_t size = 0;
    std::string where;
  };
  [[nodiscard]] Status addDim(Dim d, int64_t size, const std::string& where, ValueId v);
  const Module& m_;
  FuncId f_;
  std::map<std::string, Found> found_;
};

// The type of an argument or result as the user writes it: the global one.
[[nodiscard]] const Type& globalTypeOf(const Module&, const FuncArg&);
[[nodiscard]] const Type& globalTypeOf(const Module&, const FuncResult&);

// Error (Usage): some symbolic sizes are unbound; the message lists each with its location.
[[nodiscard]] Status requireSizes(const Module&, FuncId entry,
                                  std::string_view how = "bind each with --dim NAME=SIZE, or with an input "
                                                         "file for an argument whose shape contains it");

} // namespace dtc
