// Annotations of shardings, and PyTorch's functional collectives, which local programs have.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Ops/OpFunctions.h"

#include <algorithm>

namespace dtc {
namespace aten::distributed {
namespace {

Expr sharded(ImportContext& c, Expr x) {
  const std::string text = c.text("sharding", "");
  Module& m = c.module;
  if (m.shardings.numMeshes() == 0) c.fail("needs a mesh, which the file does not have");
  Sharding s;
  Diagnostics diags;
  if (!parseSharding(text, m, MeshId(0), s, diags) || s.dims.size() != x.rank())
    c.fail("needs a sharding of rank " + std::to_string(x.rank()) + ", but has '" + text.substr(0, 80) + "'");
  const Expr y = ops::shard(x);
  m[y].sharding = m.shardings.intern(std::move(s));
  return y;
}

ImportResults shard(ImportContext& c) { return sharded(c, c.tensor("x")); }

// A sharding that is computed again, in the backward pass.
ImportResults shardAgain(ImportContext& c) {
  return ops::recomputed(c.b, ops::Values({c.tensor("x")}),
                         [&](Builder& in, std::span<const ValueId> starts) {
                           return std::vector<ValueId>{sharded(c, Expr(in, starts[0]))};
                         });
}

// --- collectives; read/Placement.h says where the axes of a group come from ---

AttrId axesOf(ImportContext& c) {
  const ImportAttribute* a = c.attribute("dtc.axes");
  const auto* names = a ? std::get_if<std::vector<std::string>>(a) : nullptr;
  if (!names)
    c.fail("is over the process group \"" + c.text("group_name", "").substr(0, 40) +
           "\", whose mesh axes the file does not say: write it with dtc.torch.export_local");
  std::vector<AxisRef> axes;
  for (const std::string& name : *names) axes.push_back({c.module.strings.intern(name), 0});
  return axesAttr(c.module, axes);
}

int64_t groupSize(ImportContext& c) {
  int64_t out = 1;
  const ImportAttribute* a = c.attribute("dtc.axes");
  if (const auto* names = a ? std::get_if<std::vector<std::string>>(a) : nullptr)
    for (const std::string& name : *names)
      out *= c.module.shardings.mesh(MeshId(0)).axisSize({c.module.strings.intern(name), 0});
  return out;
}

std::string reductionOf(ImportContext& c) {
  std::string name = c.text("reduce_op", "");
  std::ranges::transform(name, name.begin(), [](char l) { return l >= 'A' && l <= 'Z' ? l - 'A' + 'a' : l; });
  const auto kind = name == "product" ? PendingKind::Prod : parsePendingKind(name);
  if (!kind) c.fail("has the reduction '" + name.substr(0, 40) + "'");
  return std::string(pendingName(*kind));
}

Expr reduced(ImportContext& c, Expr x) {
  const std::string op = reductionOf(c);
  return ops::all_reduce(x, {.axes = axesOf(c), .op = op});
}

Expr gathered(ImportContext& c, Expr x) { return ops::all_gather(x, {.axes = axesOf(c), .dim = 0}); }

Expr scattered(ImportContext& c, Expr x) {
  const std::string op = reductionOf(c);
  return ops::reduce_scatter(x, {.axes = axesOf(c), .dim = 0, .op = op});
}

Expr sent(ImportContext& c, Expr x) {
  return ops::broadcast_from(x, {.axes = axesOf(c), .root = c.integer("src")});
}

using Collective = Expr (*)(ImportContext&, Expr);
template <Collective f> ImportResults one(ImportContext& c) { return f(c, c.tensor("input")); }
template <Collective f> ImportResults several(ImportContext& c) {
  std::vector<Expr> out;
  for (const Expr& x : c.tensors("inputs")) out.push_back(f(c, x));
  return out;
}

// The i-th of n equal parts of dim 0 goes to device i, which has the parts of all devices in dim 0.
ImportResults exchanged(ImportContext& c) {
  const Expr x = c.tensor("input");
  const AttrId axes = axesOf(c);
  const int64_t n = groupSize(c), rows = staticDims(c.b, x.dims()).at(0);
  if (rows % n != 0)
    c.fail("sends " + std::to_string(rows) + " rows to " + std::to_string(n) + " devices: not divisible");
  for (const char* key : {"output_split_sizes", "input_split_sizes"})
    for (int64_t size : c.ints(key, {}))
      if (size != rows / n) c.fail("has unequal split sizes, which are not supported");
  Dims parts = x.dims();
  parts[0] = Dim(rows / n);
  parts.insert(parts.begin(), Dim(n));
  const Expr y = ops::all_to_all(reshapeTo(x, parts), {.axes = axes, .split_dim = 0, .concat_dim = 1});
  return reshapeTo(y, x.dims());
}

ImportResults moved(ImportContext& c) {
  const Expr x = c.tensor("input");
  return ops::all_to_all(x, {.axes = axesOf(c),
                             .split_dim = dim(c, "shard_dim", x.rank()),
                             .concat_dim = dim(c, "gather_dim", x.rank())});
}

ImportResults waited(ImportContext& c) { return c.tensor("tensor"); }

constexpr ImportRow kRows[] = {
    {"dtc.shard", shard},
    {"dtc.shard_again", shardAgain},
    {"_c10d_functional.all_reduce", one<reduced>},
    {"_c10d_functional.all_reduce_coalesced", several<reduced>},
    {"_c10d_functional.all_gather_into_tensor", one<gathered>},
    {"_c10d_functional.all_gather_into_tensor_coalesced", several<gathered>},
    {"_c10d_functional.reduce_scatter_tensor", one<scattered>},
    {"_c10d_functional.reduce_scatter_tensor_coalesced", several<scattered>},
    {"_c10d_functional.broadcast", one<sent>},
    {"_c10d_functional.all_to_all_single", exchanged},
    {"_c10d_functional.wait_tensor", waited},
    {"_dtensor.shard_dim_alltoall", moved},
};

} // namespace
} // namespace aten::distributed

ImportRows torchDistributedRows() { return aten::distributed::kRows; }

} // namespace dtc
