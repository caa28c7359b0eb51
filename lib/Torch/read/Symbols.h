#pragma once
// Symbolic sizes of an exported program: SymPy's srepr strings,
// "Mul(Integer(2), Symbol('s77', positive=True, integer=True))".
#include "dtc/Import/graph/Graph.h"
#include <map>
#include <set>
#include <string_view>

namespace dtc {

class TorchSymbols {
public:
  // `bound`: the values of symbols that --dim gives. `renamed`: the names that symbols have instead of their own.
  TorchSymbols(Module& m, std::map<std::string, int64_t, std::less<>> bound,
               std::map<std::string, std::string> renamed = {})
      : m_(m), bound_(std::move(bound)), renamed_(std::move(renamed)) {}

  // A number, a product of symbols, or else the expression as text, "s17 + s77". Strings that are not such
  // expression are returned as text, too.
  [[nodiscard]] ImportInt read(std::string_view srepr);
  // Nothing if it overflows.
  [[nodiscard]] std::optional<Dim> product(Dim a, Dim b) { return m_.dims.mul(a, b); }
  // The symbols that expressions had so far, except those that the program computes (u0).
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }

private:
  Module& m_;
  std::map<std::string, int64_t, std::less<>> bound_;
  std::map<std::string, std::string> renamed_;
  std::set<std::string> names_;
};

} // namespace dtc
