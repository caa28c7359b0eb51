#pragma once
// Well-known models as programs: GPT, Llama, Mixtral and stacks of feed-forward blocks, of any size, annotated
// with the common parallelization strategies.
#include "dtc/Support/DType.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// --parallel: the mesh, in the order written. The name of an axis determines its use.
//   dp    the batch is sharded                                  (data parallel)
//   fsdp  as dp, and weights are sharded, gathered when used    (ZeRO-3, https://arxiv.org/abs/1910.02054)
//   ep    as dp, and experts are sharded                        (expert parallel, https://arxiv.org/abs/2006.16668)
//   cp    positions are sharded                                 (context parallel)
//   tp    heads, inner dims, vocabulary are sharded             (Megatron-LM, https://arxiv.org/abs/1909.08053)
//   pp    blocks are assigned to stages, an attribute of ops    (pipeline)
// `sp` has no size: between blocks, positions are sharded over tp (sequence parallel,
// https://arxiv.org/abs/2205.05198).
struct ModelParallel {
  struct Axis {
    std::string name;
    int64_t size = 1;
  };
  std::vector<Axis> axes;
  bool sequence = false; // sp
  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] int64_t size(std::string_view name) const; // 1 if there is no such axis
};

// "dp=2,tp=4,sp"; an invalid text is a usage error.
[[nodiscard]] Result<ModelParallel> parseModelParallel(std::string_view text);

enum class ModelMode : uint8_t {
  Forward, // logits (mlp: the output)
  Loss,    // mean cross entropy against labels (mlp: mean squared error against a target)
  Train,   // the loss, and each weight and state of the optimizer after one step
};

// What the backward part computes again, in `recompute` blocks.
enum class ModelRecompute : uint8_t {
  None,
  Attention, // the attention of each block, without its projections
  Block,     // each block, from its input
};

// How attention gets the keys of other devices if cp shards positions.
enum class ModelContext : uint8_t {
  Priced,  // as the compiler finds cheapest
  Ring,    // shards of keys and values are passed around (https://arxiv.org/abs/2310.01889)
  Gather,  // all keys and values are gathered
  Ulysses, // heads are sharded instead of positions (https://arxiv.org/abs/2309.14509)
};

// Sizes of 0 are unset: modelSpec fills them in.
struct ModelSpec {
  std::string family;
  int64_t layers = 0, hidden = 0, heads = 0, kvHeads = 0, ffn = 0, vocab = 0, seq = 0, batch = 0;
  double ropeBase = 10000.0;
  int64_t experts = 0, topK = 0; // of a mixture of experts
  double capacity = 0;           // rows per expert, as a multiple of an even share; 0: no row is dropped
  DType dtype = DType::F32;      // of weights and activations
  ModelMode mode = ModelMode::Forward;
  ModelRecompute recompute = ModelRecompute::None;
  bool loop = false; // one `for` over stacked weights instead of one copy of the block per layer
  ModelParallel parallel;
  ModelContext context = ModelContext::Priced;
  // What dp shards besides the batch (https://arxiv.org/abs/1910.02054): 1: the state of the optimizer; 2: and
  // gradients of micro-batches; 3: and weights, as fsdp does.
  int64_t zero = 0;
  // of Train
  std::string optimizer = "sgd";
  double learningRate = 0;    // 0: the optimizer's usual one
  double clipNorm = 0;        // of all gradients together; 0: not clipped
  bool masterWeights = false; // weights are f32, and converted to `dtype` in every step
  int64_t microbatches = 1;   // the gradients of so many parts of the batch are added up
};

// An optimizer of the library, by its function (docs/optimizers.md).
struct ModelOptimizer {
  const char* name;
  std::vector<const char*> state; // tensors like the weight
  double learningRate;
  std::vector<double> more; // the arguments after the rate
  bool countsSteps = false;
};
[[nodiscard]] const std::vector<ModelOptimizer>& modelOptimizers();

struct ModelFamily {
  const char* name;
  const char* summary;
  std::vector<const char*> sizes; // the values of --size
};
[[nodiscard]] const std::vector<ModelFamily>& modelFamilies();

// `wanted`, with unset values filled in from the published size of that name ("tiny" if empty). Usage errors:
// an unknown family or size; inconsistent sizes (heads that do not divide the hidden size, …).
[[nodiscard]] Result<ModelSpec> modelSpec(const ModelSpec& wanted, std::string_view size);

// The program, as the printer writes it. `spec` comes from modelSpec.
[[nodiscard]] std::string modelText(const ModelSpec& spec);

} // namespace dtc
