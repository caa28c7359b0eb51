#pragma once
// The rendezvous of each rank, in order, and their validation: ranks that do not issue the same collectives in
// the same order would deadlock.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/infer/Varying.h"
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct RankRendezvous {
  uint32_t number = 0;                  // shared by all members; each rank reaches a number once
  std::span<const int64_t> coordinates; // the expected members, in group order
  std::string what;                     // kind, types and attributes: must be equal on all ranks
  OpId op;
};
using RankSchedule = std::vector<RankRendezvous>;

// The rank at `coordinate` is blocked at `op`.
struct RankMismatch {
  enum Kind : uint8_t {
    Waits,    // for the rank at `other`, which is at `otherOp`, or has finished if that is invalid
    Differs,  // the rank at `other` issues another collective for this rendezvous, in `otherOp`
    Stranger, // it is not a member of its own group
  } kind = Waits;
  int64_t coordinate = 0, other = 0;
  OpId op, otherOp;
};

// Simulates all ranks, one schedule per device; empty if all of them finish. Linear in the total length.
[[nodiscard]] std::optional<RankMismatch> validateRanks(std::span<const RankSchedule> ranks);

// Whether devices wait for each other at the op: a collective that sends, its start, or a host op.
[[nodiscard]] bool isRendezvous(const OpRecord&);

// Reads the schedules of all devices of a program from its text: a loop body once, both branches of a `cond`
// in sequence. Control flow that contains a rendezvous with devices of another function is a rendezvous
// itself, at its begin and at its end.
class RankReader {
public:
  RankReader(const Module&, FuncId entry);

  // A predicate or bound that may differ between two members of a rendezvous inside its control flow.
  struct Divergence {
    OpId control;
    ValueId decides;
    OpId rendezvous;
    int64_t coordinates[2] = {0, 0};
  };
  [[nodiscard]] std::optional<Divergence> read();
  [[nodiscard]] const std::vector<RankSchedule>& ranks() const { return ranks_; } // by device coordinate

private:
  using Coordinates = std::vector<int64_t>;
  struct Decision {
    OpId control;
    ValueId value;
    std::vector<AxisRef> axes; // along which it varies
  };
  [[nodiscard]] std::optional<Divergence> block(BlockId);
  [[nodiscard]] std::optional<Divergence> control(OpId);
  [[nodiscard]] std::optional<Divergence> rendezvous(OpId);
  // The devices of this function, and those of others that share a rendezvous inside the op's blocks.
  [[nodiscard]] Coordinates partners(OpId, OpId& rendezvous);
  void addPartners(BlockId, Coordinates&, OpId& rendezvous);
  // By device: the number of its group.
  [[nodiscard]] const std::vector<uint32_t>& groupsOf(OpId);
  [[nodiscard]] uint32_t numberOf(const Coordinates& group);
  [[nodiscard]] std::string constantText(ValueId) const;
  [[nodiscard]] std::vector<ValueId> decisionsOf(OpId) const;
  void add(int64_t coordinate, uint32_t group, const std::string& what, OpId);

  const Module& m_;
  DevicePrograms programs_;
  Mesh mesh_;
  std::vector<RankSchedule> ranks_;
  // of the current function
  FuncId func_;
  Coordinates own_;
  const Varying* varying_ = nullptr;
  std::vector<Decision> decisions_;
  std::map<Coordinates, uint32_t> groups_;
  std::vector<const Coordinates*> members_; // by number of the group
  // By device, for the `axes` and the `sends` of an op.
  std::map<std::pair<AttrId, AttrId>, std::vector<uint32_t>> groupsOfAxes_;
  std::vector<std::map<uint32_t, uint32_t>> issued_;          // by device: rendezvous so far, by group
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_; // of a group, and the count within it
};

} // namespace dtc
