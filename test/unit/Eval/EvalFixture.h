#pragma once
// Programs as text, run by the reference evaluators.
#include "dtc/Eval/Eval.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"

namespace dtc::test {

inline Tensor tensor(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  Tensor t(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i) t.setFloat(static_cast<int64_t>(i), values[i]);
  return t;
}
inline Tensor f32(std::vector<int64_t> shape, std::vector<double> values) {
  return tensor(DType::F32, std::move(shape), std::move(values));
}
inline Tensor i32(std::vector<int64_t> shape, std::vector<double> values) {
  return tensor(DType::I32, std::move(shape), std::move(values));
}
inline std::vector<double> valuesOf(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.numElements(); ++i) v.push_back(t.getFloat(i));
  return v;
}

struct Program {
  Module m{standardOps()};
  explicit Program(const std::string& text) {
    Diagnostics diags;
    SourceText source{"test.dt", text};
    bool ok = parseModule(source, standardOps(), m, diags);
    EXPECT_TRUE(ok) << renderDiagnostics(diags, source, false);
  }
  [[nodiscard]] FuncId main() const { return m.order.back(); }

  std::vector<Tensor> run(std::vector<Tensor> args, Precision precision = Precision::Rd) {
    auto r = evaluate(m, main(), args, {.precision = precision});
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
    return r.ok() ? *r : std::vector<Tensor>(m[main()].results.size());
  }
  std::string errorOf(std::vector<Tensor> args) {
    auto r = evaluate(m, main(), args, {});
    return r.ok() ? "no error" : r.error().message;
  }
  // An spmd function on the shards of global arguments; returns the assembled results.
  std::vector<Tensor> runSpmd(std::vector<Tensor> args, std::vector<std::vector<Tensor>>* shards = nullptr) {
    const Function& f = m[main()];
    const Mesh& mesh = m.shardings.mesh(MeshId(0));
    std::vector<std::vector<Tensor>> local(static_cast<size_t>(mesh.numDevices()));
    for (size_t d = 0; d < local.size(); ++d)
      for (size_t i = 0; i < args.size(); ++i) {
        ShardingId s = m[f.args[i].value].sharding;
        local[d].push_back(s.valid() ? takeShard(args[i], m.shardings[s], mesh, static_cast<int64_t>(d))
                                     : args[i]);
      }
    auto r = evaluateSpmd(m, main(), local, {});
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().message);
    std::vector<Tensor> out;
    if (!r.ok()) return std::vector<Tensor>(f.results.size());
    for (size_t i = 0; i < f.results.size(); ++i) {
      std::vector<Tensor> parts;
      for (auto& device : *r) parts.push_back(device[i]);
      const FuncResult& result = f.results[i];
      out.push_back(result.sharding.valid() ? assemble(parts, m.shardings[result.sharding], mesh,
                                                       m.types[result.globalType].staticShape())
                                            : parts[0]);
    }
    if (shards) *shards = *r;
    return out;
  }
};

// 0, 1, 2, … with alternating signs: no two elements are equal, no sum is 0 by luck.
inline Tensor counted(DType dtype, std::vector<int64_t> shape, double start = 1) {
  Tensor t(dtype, std::move(shape));
  for (int64_t i = 0; i < t.numElements(); ++i)
    t.setFloat(i, (i % 3 == 1 && (isFloat(dtype) || isSignedInt(dtype)) ? -1 : 1) *
                      (start + static_cast<double>(i)));
  return t;
}

} // namespace dtc::test
