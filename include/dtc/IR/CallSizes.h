#pragma once
// Symbolic sizes are local to a function: each call binds the names in the types of the callee's arguments,
// e.g. N and M of f32[N, M] to 32 and 64 for f32[32, 64]. A name that no argument determines is a size of the
// module.
#include "dtc/IR/Module.h"
#include <functional>

namespace dtc {

struct SizeBinding {
  std::vector<std::pair<StrId, Dim>> sizes; // in the order in which the arguments name them
  // Whether each name is bound to itself, so that caller and callee share their sizes.
  [[nodiscard]] bool isIdentity(const DimTable&) const;
};

// Why a call does not match its callee: the argument, and for a size with two conflicting bindings the
// argument that bound it first.
struct SizeMismatch {
  size_t argument = 0;
  std::optional<size_t> first;
  StrId name;      // of the conflicting size
  Dim before, now; // bound by `first` and by `argument`
  std::string why; // other size mismatches: "7 is not a multiple of 2"; "" if the types differ
};

// Binds the callee's own sizes. `given` holds the type of each operand; an invalid type is skipped. Empty if
// they do not match.
[[nodiscard]] std::optional<SizeBinding> bindSizes(Module&, const Function& callee,
                                                   std::span<const TypeId> given, SizeMismatch&);
// The names that each call binds, in argument order.
[[nodiscard]] std::vector<StrId> ownSizes(const Module&, const Function&);

// A size or a type of the callee in terms of the caller. Empty (invalid) if it cannot be expressed: the size
// overflows, or is a multiple of a shard's size.
[[nodiscard]] std::optional<Dim> sizeInCall(Module&, Dim, const SizeBinding&, MeshId);
[[nodiscard]] TypeId typeInCall(Module&, TypeId, const SizeBinding&, MeshId);
// The mesh of the callee's local types; invalid in global text.
[[nodiscard]] MeshId meshOfCall(const Module&, const Function& callee);

// "@adam's M is 64 from %w1 and 32 from %g1" for conflicting sizes; `operandText` names an operand.
[[nodiscard]] std::string mismatchText(const Module&, const Function& callee, const SizeMismatch&,
                                       const std::function<std::string(size_t)>& operandText);

} // namespace dtc
