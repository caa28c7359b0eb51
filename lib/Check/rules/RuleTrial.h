#pragma once
// One op on one mesh with one set of values: the actual result of each device, and the expected one.
#include "dtc/Eval/Eval.h"
#include "dtc/IR/Homomorphism.h"
#include "rules/TrialTensors.h"

namespace dtc {

// A 1-D mesh of n devices in the sample's own tables.
struct TrialMesh {
  Mesh mesh;
  MeshId id;
};
[[nodiscard]] TrialMesh addTrialMesh(Module&, int64_t n);
[[nodiscard]] std::string placementText(const Placement&);

struct TrialOptions {
  // Promised: the relation of docs/sharding.md, "Infinities and NaN". Strict: the same infinities and NaN
  // everywhere, except where sums or products overflow.
  NonFinite nonFinite = NonFinite::Promised;
  bool asWritten = false; // attributes keep the global sizes
};

class RuleTrial {
public:
  // `operands` has one placement per argument of the sample's function (its literals are replicated).
  RuleTrial(OpSample&, const TrialMesh&, std::span<const Placement> operands, TrialValues, uint64_t seed,
            TrialOptions = {});
  // Nothing where the op cannot run on the global values (the combination is then undecided).
  [[nodiscard]] bool runs() const { return runs_; }
  // Checks that every result has this placement: "", or the difference with values.
  [[nodiscard]] std::string check(const Placement&);
  // A placement per result; results without one are not compared.
  [[nodiscard]] std::string check(std::span<const std::optional<Placement>> results);
  // True if an element passed because nothing is promised of it.
  [[nodiscard]] bool usedTheException() const { return excepted_; }

private:
  RuleTrial(const RuleTrial& of, Precision); // the same values, computed in f64
  using Tensors = std::vector<Tensor>;
  void makeOperand(size_t argument, const Placement&, uint64_t seed, uint64_t trial);
  using ResultPlacements = std::vector<Placement>;
  [[nodiscard]] std::string runDevices(const ResultPlacements&);
  [[nodiscard]] Result<Tensors> runLocal(int64_t device, const ResultPlacements&);
  [[nodiscard]] std::vector<Tensor> offsetsFor(int64_t device, const Placement& result);
  [[nodiscard]] double reassociation(size_t result) const;
  [[nodiscard]] std::string compare(size_t result, const Placement&);
  [[nodiscard]] std::string exactCompare(size_t result, const Placement&);
  [[nodiscard]] bool isArithmetic(const Placement& result) const;
  [[nodiscard]] bool unpromised(size_t result, const Placement&, const Tensor& got, int64_t i);
  [[nodiscard]] bool overflows(size_t result, const Placement&, int64_t device, int64_t i, bool finite);
  [[nodiscard]] Tensor heldBy(size_t result, const Placement&, int64_t device, bool wanted) const;
  [[nodiscard]] TypeId localType(const Placement&, TypeId global, int64_t device);
  [[nodiscard]] Sharding shardingOf(const Placement&, size_t rank) const;

  OpSample& s_;
  const TrialMesh& mesh_;
  Module& m_;
  Diagnostics quiet_;
  OpQuery query_;                            // of the global op
  std::vector<Placement> operandPlacements_; // per operand of the op, including literals
  std::vector<Tensors> locals_;              // [operand][device]
  Tensors globals_, want_;
  std::vector<Tensors> got_; // [device][result], for gotFor_
  ResultPlacements gotFor_;
  bool haveGot_ = false, runs_ = false, exact_ = true, excepted_ = false;
  TrialValues values_;
  TrialOptions options_;
  Precision precision_ = Precision::Rd;
  std::vector<double> near_;
  std::vector<bool> compared_, gotCompared_; // by result: the others have the shapes that the op returns
  std::optional<std::vector<std::vector<bool>>> unpromised_; // by result and element, computed on demand
  std::unique_ptr<RuleTrial> exactly_;                       // the same in f64, computed on demand
};

} // namespace dtc
