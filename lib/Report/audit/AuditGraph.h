#pragma once
// A partitioned program as audits see it, independent of the language it was read from.
#include "dtc/Report/audit/Audit.h"

namespace dtc {

struct AuditNode {
  static constexpr uint32_t kNone = 0xffffffffu;
  // The node reads only this device's part of operand `operand` along `dim`.
  struct Slice {
    size_t operand = 0, dim = 0;
    int64_t size = 0; // along dim
  };
  std::vector<uint32_t> operands;
  uint32_t block = 0;        // computation or region; nodes of one are in order
  std::vector<int64_t> dims; // of the (first) result
  int64_t bytes = 0;         // of all results
  std::vector<Slice> slices;
  bool onlySlices = false;     // its result is exactly the slice, without further computation
  bool forwards = false;       // forwards its first operand: copies, ends of asynchronous ops
  std::optional<size_t> part;  // extracts one of several results: which
  bool escapes = false;        // is returned or yielded
  uint32_t collective = kNone; // in the report
  std::optional<size_t> dim,
      split;             // collective: the dim that is gathered or sharded; all_to_all: concat, split
  std::string reduction; // reduction: equal texts denote equal functions
  std::string devices;   // collective: its groups as written
  bool repeats = false;  // collective: its program computes values again instead of keeping them
};

struct AuditGraph {
  std::vector<AuditNode> nodes;
  AuditReport report;
};

// Fills bytes and times of a collective from its kind, group and operand.
void priceCollective(AuditCollective&);
void findAlternatives(AuditGraph&);
// Used by findAlternatives: several collectives that form one change of sharding, planned anew.
void findChains(AuditGraph&);

} // namespace dtc
