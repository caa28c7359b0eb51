#pragma once
// Whole programs, sharded, through the standard pipeline to the kernels of a backend, against the evaluator on one device.
#include "dtc/Support/Tensor.h"
#include <string>
#include <vector>

namespace dtc {

struct ProgramRun {
  std::string text;
  std::vector<Tensor> arguments;
  bool exact = true; // the evaluator's bits; else within the bounds of --check
  int optLevel = 1;
  bool fixedOrder = false;
};
// Runs @main on "cpu" or "cuda-emu" and reports each result that differs as a test failure.
void expectLikeEvaluator(const ProgramRun& run, const std::string& backend);

} // namespace dtc
