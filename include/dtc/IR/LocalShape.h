#pragma once
// What a local type (ir.md §2.3) is in numbers on one device.
#include "dtc/IR/Module.h"

namespace dtc {

// The mesh of an spmd function: its {mesh = @m}, else that of its shardings, else the module's only one; invalid where
// there is none (the function runs on one device).
[[nodiscard]] MeshId meshOfFunction(const Module& m, FuncId f);
// The mesh that local text in a block is written for: that of the `local` region around, else the function's.
[[nodiscard]] MeshId meshOfBlock(const Module& m, BlockId b);
// The same as a value: a mesh without axes (one device) where there is none.
[[nodiscard]] Mesh meshValueOf(const Module& m, FuncId f);

// The sizes of a local type on the device at `place`: a cut dim n/axes is that device's piece. Nothing where a symbol is
// not bound.
[[nodiscard]] std::optional<std::vector<int64_t>> shapeAt(const Module& m, TypeId type, const Mesh& mesh,
                                                          int64_t place);
// The same for one dim.
[[nodiscard]] std::optional<int64_t> dimAt(const Module& m, Dim d, const Mesh& mesh, int64_t place);
// The same with ceil(n/k) for every piece: what a buffer is allocated for.
[[nodiscard]] std::optional<std::vector<int64_t>> largestShape(const Module& m, TypeId type,
                                                               const Mesh& mesh);
[[nodiscard]] std::optional<int64_t> largestDim(const Module& m, Dim d, const Mesh& mesh);
// The bytes of that shape; nothing also where they pass 2^63-1.
[[nodiscard]] std::optional<int64_t> largestBytes(const Module& m, TypeId type, const Mesh& mesh);

// The local type of a piece (ir.md §2.3); the sharding is closed and valid on the type.
[[nodiscard]] TypeId localTypeOf(Module&, TypeId global, const Sharding&);
// Attributes of local text: a list of axes, of sizes, one size.
[[nodiscard]] AttrId axesAttr(Module&, std::span<const AxisRef>);
[[nodiscard]] AttrId sizesAttr(Module&, std::span<const Dim>);
[[nodiscard]] AttrId sizeAttr(Module&, Dim);

} // namespace dtc
