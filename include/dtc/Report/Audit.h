#pragma once
// audit: the collectives of a program that is partitioned already, by dtc or by another compiler: what each moves and costs,
// and what dtc's planner would do instead where the program itself shows that.
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

struct AuditCollective {
  std::string kind; // "all_reduce", as dtc calls it
  std::string name; // in the text: "all-reduce.3", "%y"
  std::string dtype;
  std::vector<std::vector<int64_t>> groups;       // of devices; permute: empty
  std::vector<std::pair<int64_t, int64_t>> pairs; // permute: from, to
  int64_t groupSize = 1;                          // of the largest
  int64_t operandBytes = 0;                       // on one device
  int64_t bytesReceived = 0;                      // per device, of one time
  double seconds = 0, latencySeconds = 0;         // of one time, on the nominal machine
  std::optional<int64_t> count;                   // times in one run; nothing where trips are not known
  std::string op, place;                          // the user's own: "jit(step)/dot_general", "model.py:12"
  std::string line;                               // in the text that was read: "step.hlo:31:14"
};

// What could be done instead.
struct AuditFinding {
  std::string rule;         // "slice-of-all-reduce"
  std::vector<size_t> of;   // which collectives
  std::string why, instead; // "every device reads only its piece of the result", "reduce_scatter"
  int64_t bytesBefore = 0, bytesAfter = 0; // received per device, of one time
  double secondsBefore = 0, secondsAfter = 0;
};

struct AuditReport {
  std::string format; // "hlo", "stablehlo", "dt"
  int64_t devices = 1;
  std::vector<AuditCollective> collectives; // in program order
  std::vector<AuditFinding> findings;
  // Received per device in one run, less with all findings that do not speak of the same collectives.
  int64_t bytesSaved = 0;
};

// XLA's HLO text. Nothing after what is wrong was reported.
[[nodiscard]] std::optional<AuditReport> auditXlaHlo(SourceText, Diagnostics&);
// Local text: `spmd` functions.
[[nodiscard]] AuditReport auditModule(Module& local);

[[nodiscard]] std::string auditText(const AuditReport&);
[[nodiscard]] std::string auditJson(const AuditReport&); // docs/cli.md says what is in it

} // namespace dtc
