#pragma once
// One op on one mesh with one set of values: what each device computes, and what it should.
#include "TrialTensors.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/Homomorphism.h"

namespace dtc {

// A 1-D mesh of n devices in the sample's own tables.
struct TrialMesh {
  Mesh mesh;
  MeshId id;
};
[[nodiscard]] TrialMesh addTrialMesh(Module&, int64_t n);
[[nodiscard]] std::string placementText(const Placement&);

struct TrialOptions {
  // Promised: the relation of docs/sharding.md, "Infinities and NaN". Strict: the same infinities and NaN everywhere, but where
  // sums or products overflow.
  NonFinite nonFinite = NonFinite::Promised;
  bool asWritten = false; // sizes in attributes stay the whole op's
};

class RuleTrial {
public:
  // `operands` has one placement per argument of the sample's function (its literals are replicated).
  RuleTrial(OpSample&, const TrialMesh&, std::span<const Placement> operands, TrialValues, uint64_t seed,
            TrialOptions = {});
  // Nothing where the op cannot run on the whole values (then the combination says nothing).
  [[nodiscard]] bool runs() const { return runs_; }
  // Does every result have this placement? "" or what is wrong, with values.
  [[nodiscard]] std::string check(const Placement&);
  // A placement per result; those without one are not compared.
  [[nodiscard]] std::string check(std::span<const std::optional<Placement>> results);
  // Did an element pass because nothing is promised of it?
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
  OpQuery query_;                            // of the whole op
  std::vector<Placement> operandPlacements_; // per operand of the op, literals too
  std::vector<Tensors> locals_;              // [operand][device]
  Tensors globals_, want_;
  std::vector<Tensors> got_; // [device][result], for gotFor_
  ResultPlacements gotFor_;
  bool haveGot_ = false, runs_ = false, exact_ = true, excepted_ = false;
  TrialValues values_;
  TrialOptions options_;
  Precision precision_ = Precision::Rd;
  std::vector<double> near_;
  std::vector<bool> compared_, gotCompared_; // by result: the others are of whatever shape the op gives
  std::optional<std::vector<std::vector<bool>>> unpromised_; // by result and element, once they are asked for
  std::unique_ptr<RuleTrial> exactly_;                       // the same in f64, once it is asked for
};

} // namespace dtc
