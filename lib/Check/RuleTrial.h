#pragma once
// One op on one mesh with one set of values: what each device computes, and what it should.
#include "dtc/Eval/Eval.h"
#include "dtc/Ops/Samples.h"

namespace dtc {

// Small: finite values whose sums and products are exact. Special: NaN and infinities in what is cut or pending (floats),
// the whole range (integers, which wrap).
enum class TrialValues : uint8_t { Small, Special };

// A 1-D mesh of n devices in the sample's own tables.
struct TrialMesh {
  Mesh mesh;
  MeshId id;
};
[[nodiscard]] TrialMesh addTrialMesh(Module&, int64_t n);
[[nodiscard]] std::string placementText(const Placement&);

class RuleTrial {
public:
  // `operands` has one placement per argument of the sample's function (its literals are replicated).
  RuleTrial(OpSample&, const TrialMesh&, std::span<const Placement> operands, TrialValues, uint64_t seed);
  // Nothing where the op cannot run on the whole values (then the combination says nothing).
  [[nodiscard]] bool runs() const { return runs_; }
  // Does every result have this placement? "" or what is wrong, with values.
  [[nodiscard]] std::string check(const Placement&);
  // A placement per result; those without one are not compared.
  [[nodiscard]] std::string check(std::span<const std::optional<Placement>> results);

private:
  using Tensors = std::vector<Tensor>;
  void makeOperand(size_t argument, const Placement&, uint64_t seed);
  using ResultPlacements = std::vector<Placement>;
  [[nodiscard]] std::string runDevices(const ResultPlacements&);
  [[nodiscard]] Result<Tensors> runLocal(int64_t device, const ResultPlacements&);
  [[nodiscard]] std::vector<Tensor> offsetsFor(int64_t device, const Placement& result);
  [[nodiscard]] double reassociation(size_t result) const;
  [[nodiscard]] std::string compare(size_t result, const Placement&);
  [[nodiscard]] TypeId localType(const Placement&, TypeId global, int64_t device);
  [[nodiscard]] Sharding shardingOf(const Placement&, size_t rank) const;

  OpSample& s_;
  const TrialMesh& mesh_;
  Module& m_;
  Diagnostics quiet_;
  OpQuery query_;                            // of the whole op
  std::vector<Placement> operandPlacements_; // per operand of the op, literals too
  std::vector<Tensors> locals_;              // [operand][device]
  Tensors globals_, want_;
  std::vector<Tensors> got_; // [device][result], for gotFor_
  ResultPlacements gotFor_;
  bool haveGot_ = false, runs_ = false, exact_ = true, special_ = false;
};

} // namespace dtc
