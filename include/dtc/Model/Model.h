#pragma once
// Known models as programs: GPT, Llama and stacks of feed-forward blocks, of any size, with the annotations of the usual
// ways to spread them over devices. Text only: whoever wants the canonical form parses it and prints the module.
#include "dtc/Support/DType.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// What --parallel says: the mesh, in the order written, and what each axis is for, which its name says.
//   dp    each device of it takes other sequences               (data parallel)
//   fsdp  the same, and weights are cut over it, gathered at use (ZeRO-3, https://arxiv.org/abs/1910.02054)
//   cp    each device takes other positions                     (context parallel)
//   tp    heads, inner dims and the vocabulary are cut           (Megatron-LM, https://arxiv.org/abs/1909.08053)
//   pp    blocks are numbered by stages, which ops carry         (pipeline)
// `sp` has no size: between blocks, positions are cut over tp    (sequence parallel, https://arxiv.org/abs/2205.05198).
struct ModelParallel {
  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  std::vector<Axis> axes;
  bool sequence = false; // sp
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] int64_t size(std::string_view name) const; // 1 where there is no such axis
};

// "dp=2,tp=4,sp"; what is wrong in it is a usage error.
[[nodiscard]] Result<ModelParallel> parseModelParallel(std::string_view text);

enum class ModelMode : uint8_t {
  Forward, // logits (mlp: the output)
  Loss,    // mean cross entropy against labels (mlp: mean squared error against a target)
  Train,   // the loss and each weight after one step of gradient descent
};

// Sizes that are 0 mean nothing yet: modelSpec fills them in.
struct ModelSpec {
  std::string family;
  int64_t layers = 0, hidden = 0, heads = 0, kvHeads = 0, ffn = 0, vocab = 0, seq = 0, batch = 0;
  double ropeBase = 10000.0;
  DType dtype = DType::F32; // of weights and activations
  ModelMode mode = ModelMode::Forward;
  bool loop = false; // one `for` over stacked weights instead of a copy of the block for each layer
  ModelParallel parallel;
};

struct ModelFamily {
  const char* name;
  const char* summary;
  std::vector<const char*> sizes; // what --size takes
};
[[nodiscard]] const std::vector<ModelFamily>& modelFamilies();

// `wanted`, with what it leaves open filled in from the published size of that name ("tiny" where empty). Usage errors: no
// such family or size; sizes that do not fit each other (heads that do not divide the hidden size, …).
[[nodiscard]] Result<ModelSpec> modelSpec(const ModelSpec& wanted, std::string_view size);

// The program. `spec` is one that modelSpec has made.
[[nodiscard]] std::string modelText(const ModelSpec& spec);

} // namespace dtc
