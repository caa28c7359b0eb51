#pragma once
// The sizes of a function are its own: each call binds the names in the types of the callee's arguments, as N and M of
// f32[N, M] by f32[32, 64]. A name that no argument determines is a size of the whole module.
#include "dtc/IR/Module.h"
#include <functional>

namespace dtc {

struct SizeBinding {
  std::vector<std::pair<StrId, Dim>> sizes; // in the order in which the arguments name them
  // Each name stands for itself: caller and callee speak of the same sizes.
  [[nodiscard]] bool isIdentity(const DimTable&) const;
};

// Why a call does not fit: at which argument, and for a size that two arguments tell differently also the first of them.
struct SizeMismatch {
  size_t argument = 0;
  std::optional<size_t> first;
  StrId name;      // of that size …
  Dim before, now; // … from `first` and from `argument`
  std::string why; // of other mismatches of sizes: "7 is not a multiple of 2"; "" where the types differ
};

// Binds the callee's own sizes; `given` is the type of each operand (an invalid one says nothing). Nothing where they do
// not fit.
[[nodiscard]] std::optional<SizeBinding> bindSizes(Module&, const Function& callee,
                                                   std::span<const TypeId> given, SizeMismatch&);
// The names that each call binds, in the order in which the arguments name them.
[[nodiscard]] std::vector<StrId> ownSizes(const Module&, const Function&);

// What a size or a type of the callee is in the call; nothing (invalid) where it has no such form: a product that
// overflows, a multiple of a device's piece.
[[nodiscard]] std::optional<Dim> sizeInCall(Module&, Dim, const SizeBinding&, MeshId);
[[nodiscard]] TypeId typeInCall(Module&, TypeId, const SizeBinding&, MeshId);
// The mesh of the callee's local types; invalid in global text.
[[nodiscard]] MeshId meshOfCall(const Module&, const Function& callee);

// "@adam's M is 64 from %w1 and 32 from %g1", where the mismatch is one of sizes; `operandText` names an operand.
[[nodiscard]] std::string mismatchText(const Module&, const Function& callee, const SizeMismatch&,
                                       const std::function<std::string(size_t)>& operandText);

} // namespace dtc
