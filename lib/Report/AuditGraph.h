#pragma once
// What an audit sees of a partitioned program, whichever language it was read from; private to lib/Report.
#include "dtc/Report/Audit.h"
#include "dtc/Sharding/Reshard.h"

namespace dtc {

struct AuditNode {
  static constexpr uint32_t kNone = 0xffffffffu;
  // The node reads of operand `operand` only this device's part along `dim`.
  struct Slice {
    size_t operand = 0, dim = 0;
    int64_t size = 0; // along dim
  };
  std::vector<uint32_t> operands;
  uint32_t block = 0;        // computation or region; nodes of one stand in order
  std::vector<int64_t> dims; // of the (first) result
  int64_t bytes = 0;         // of all results
  std::vector<Slice> slices;
  bool onlySlices = false;     // what it gives is the slice, and nothing is computed of it
  bool forwards = false;       // gives its first operand on: copies, ends of asynchronous ops
  std::optional<size_t> part;  // of what gives one of several results on: which
  bool escapes = false;        // is returned or yielded
  uint32_t collective = kNone; // in the report
  std::optional<size_t> dim,
      split;             // of a collective: the dim that grows or is cut; all_to_all: concat, split
  std::string reduction; // of one that reduces: equal texts reduce alike
  std::string devices;   // of a collective: its groups as they are written
};

struct AuditGraph {
  std::vector<AuditNode> nodes;
  AuditReport report;
};

// Fills bytes and times of a collective from its kind, group and operand.
void priceCollective(AuditCollective&);
void findAlternatives(AuditGraph&);
// Of findAlternatives: several collectives that are one change of sharding, planned anew.
void findChains(AuditGraph&);

} // namespace dtc
