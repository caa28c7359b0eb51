#pragma once
// The per-device sizes of a local type (ir.md).
#include "dtc/IR/Module.h"

namespace dtc {

// The mesh of an spmd function: its {mesh = @m}, else that of its shardings, else the module's only mesh;
// invalid if there is none (the function then runs on one device).
[[nodiscard]] MeshId meshOfFunction(const Module& m, FuncId f);
// The mesh of local text in a block: that of the enclosing `local` region, else the function's.
[[nodiscard]] MeshId meshOfBlock(const Module& m, BlockId b);
// As a value: a mesh without axes (one device) if there is none.
[[nodiscard]] Mesh meshValueOf(const Module& m, FuncId f);

// The sizes of a local type on the device at `coordinate`; a sharded dim n/axes has the size of that device's
// shard. Empty if a symbol is unbound.
[[nodiscard]] std::optional<std::vector<int64_t>> shapeAt(const Module& m, TypeId type, const Mesh& mesh,
                                                          int64_t coordinate);
// The same for one dim.
[[nodiscard]] std::optional<int64_t> dimAt(const Module& m, Dim d, const Mesh& mesh, int64_t coordinate);
// The same with ceil(n/k) for every shard: the allocated size of a buffer.
[[nodiscard]] std::optional<std::vector<int64_t>> largestShape(const Module& m, TypeId type,
                                                               const Mesh& mesh);
[[nodiscard]] std::optional<int64_t> largestDim(const Module& m, Dim d, const Mesh& mesh);
// The bytes of that shape; also empty if they exceed 2^63-1.
[[nodiscard]] std::optional<int64_t> largestBytes(const Module& m, TypeId type, const Mesh& mesh);

// The local type of a shard (ir.md). The sharding must be closed and valid for the type.
[[nodiscard]] TypeId localTypeOf(Module&, TypeId global, const Sharding&);
// Attributes of local text: a list of axes, a list of sizes, a size.
[[nodiscard]] AttrId axesAttr(Module&, std::span<const AxisRef>);
[[nodiscard]] AttrId sizesAttr(Module&, std::span<const Dim>);
[[nodiscard]] AttrId sizeAttr(Module&, Dim);

} // namespace dtc
