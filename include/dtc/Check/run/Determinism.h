#pragma once
// `dtc check FILE --determinism` (cli.md): the same bits from every run for which they are guaranteed.
//
// Guaranteed are equal bits of one program on one mesh and one backend: in each run, after each load, on any
// number of threads. With a fixed order of reductions they are guaranteed on every mesh too. Two backends may
// round differently.
#include "dtc/IR/Module.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/Result.h"

namespace dtc {

struct DeterminismRow {
  std::string how; // "cpu, 3 threads, second run"
  bool pass = true;
  std::string where; // "%y[0, 3]: 0x3f800000, first 0x3f800001"
};

struct DeterminismReport {
  std::string function;
  std::vector<DeterminismRow> rows; // each compared with the first run of its backend
  [[nodiscard]] bool pass() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string json() const;
};

// The same program, possibly on a mesh of other sizes; the first one is the program as written.
struct DeterminismVariant {
  std::string name; // "mesh pod=dp:3,tp:1", or ""
  Module module;
  FuncId function;
};

struct DeterminismOptions {
  std::vector<std::string> backends = {"evaluator", "cpu", "cuda-emu"}; // and "cuda"
  std::vector<int> threads = {1, 2, 3};                                 // of the CPU backend
  int optLevel = 1;
  bool fixedOrder = false; // all variants are compared with the first, else each with itself
};

// On random inputs. Errors: Input where the function cannot be run (sizes not bound); diagnostics where a pass refuses it.
[[nodiscard]] Result<DeterminismReport> checkDeterminism(std::vector<DeterminismVariant>,
                                                         const DeterminismOptions&, Diagnostics&);

} // namespace dtc
