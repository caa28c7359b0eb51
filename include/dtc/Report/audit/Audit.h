#pragma once
// audit: the collectives of a program that has been partitioned by dtc or by another compiler: the bytes and
// time of each, and the plan that dtc would use instead where the program itself determines it.
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

struct AuditCollective {
  CollectiveKind kind = CollectiveKind::None;
  std::string name; // in the text: "all-reduce.3", "%y"
  std::string dtype;
  std::vector<std::vector<int64_t>> groups;       // of devices; permute: empty
  std::vector<std::pair<int64_t, int64_t>> pairs; // permute: source, destination
  int64_t groupSize = 1;                          // of the largest group
  int64_t operandBytes = 0;                       // on one device
  int64_t bytesReceived = 0;                      // per device and execution
  double seconds = 0, latencySeconds = 0;         // per execution, on the nominal machine
  std::optional<int64_t> count; // executions in one run; nothing where iteration counts are unknown
  int64_t counted = 1;          // in sums: an unknown iteration count counts once
  std::string op, location;     // in the user's program: "jit(step)/dot_general", "model.py:12"
  std::string line;             // in the audited text: "step.hlo:31:14"
};

// A finding: the alternative to some collectives.
struct AuditFinding {
  std::string rule;         // "slice-of-all-reduce"
  std::vector<size_t> of;   // the collectives concerned
  std::string why, instead; // "every device reads only its shard of the result", "reduce_scatter"
  int64_t bytesBefore = 0, bytesAfter = 0; // received per device and execution
  double secondsBefore = 0, secondsAfter = 0;
};

struct AuditReport {
  std::string format; // "hlo", "stablehlo", "dt"
  int64_t devices = 1;
  std::vector<AuditCollective> collectives; // in program order
  std::vector<AuditFinding> findings;
  // Received per device in one run; `less` with all non-overlapping findings applied.
  int64_t bytesSaved = 0;
};

// XLA's HLO text. Nothing after reporting an error.
[[nodiscard]] std::optional<AuditReport> auditXlaHlo(SourceText, Diagnostics&);
// Local text: `spmd` functions.
[[nodiscard]] AuditReport auditModule(Module& local);

[[nodiscard]] std::string auditText(const AuditReport&);
[[nodiscard]] std::string auditJson(const AuditReport&); // docs/cli.md documents the fields

} // namespace dtc
