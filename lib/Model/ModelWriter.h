#pragma once
// Builds a model as a module: arguments with their shardings, and named values. Shared by the families.
#include "TrainStep.h"
#include "dtc/Model/Model.h"
#include "dtc/Ops/OpFunctions.h"
#include <functional>

namespace dtc {

using Axes = std::vector<AxisRef>;   // of one dim, major to minor; empty: not sharded
using ShardAxes = std::vector<Axes>; // one per dim

class ModelWriter {
public:
  explicit ModelWriter(const ModelSpec&);
  ModelWriter(const ModelWriter&) = delete; // Builders refer to its members
  ModelWriter& operator=(const ModelWriter&) = delete;

  [[nodiscard]] const ModelSpec& spec() const { return spec_; }

  // --- how dims are sharded ---
  // The given axes that --parallel has.
  [[nodiscard]] Axes axes(std::initializer_list<std::string_view> names);
  [[nodiscard]] Axes batchAxes() { return axes({"dp", "fsdp", "ep"}); }
  // Without ep, over which experts are sharded.
  [[nodiscard]] Axes batchAxesBesideExperts() { return axes({"dp", "fsdp"}); }
  [[nodiscard]] Axes tpAxes() { return axes({"tp"}); }
  // The sharding of columns of key and value weights: if tp has more devices than heads, each head is
  // replicated.
  [[nodiscard]] Axes kvAxes();

  // --- arguments ---
  // An argument that is not a weight.
  Expr input(const std::string& name, DType, const std::vector<int64_t>& dims, const ShardAxes&);
  // A weight; inside a block, of that block (in a loop: of all blocks, stacked). Returns the value to use,
  // which is gathered if fsdp shards the weight.
  Expr weight(const std::string& name, std::vector<int64_t> dims, const ShardAxes&);

  // --- values ---
  Builder& builder() { return *builder_; }
  Expr named(const std::string& name, Expr); // with the block's prefix
  Expr shardedAs(Expr x, const ShardAxes&);  // `shard x`
  // x, constrained to these shardings if --parallel has sp.
  Expr withSequenceSharding(const std::string& name, Expr x, const ShardAxes&);
  // All layers: `layer` takes the residual stream and returns it. Unrolled, or as one `for`.
  Expr layers(Expr x, const std::function<Expr(Expr)>& layer);

  // `body` in a `recompute` block, if the model has one around this part.
  Expr recomputed(ModelRecompute part, const std::function<Expr()>& body);

  // The module for the mode; the function returns `value`, called `label`.
  [[nodiscard]] Module module(Expr value, std::string_view label);

private:
  [[nodiscard]] StrId id(std::string_view name) { return m_.strings.intern(name); }
  [[nodiscard]] ShardingId shardingOf(const ShardAxes&);
  FuncId function(std::string_view name);
  void endFunction(FuncId, std::vector<OpId> ops, std::vector<ValueId> returned);
  Expr argument(const std::string& name, TypeId, ShardingId, bool isWeight);
  void setStage(int64_t stage);

  const ModelSpec& spec_;
  Module m_;
  Diagnostics diags_;
  MeshId mesh_;
  FuncId func_;
  std::vector<OpId> ops_;
  Builder body_, *builder_ = &body_; // of the function; of the block that is being built
  std::vector<ModelArgument> args_;
  std::string prefix_;
  Expr index_; // in a loop: weights are indexed from stacks
};

// `x` converted to the dtype of the loss: logarithms need more digits than the narrow dtypes have.
[[nodiscard]] Expr widened(ModelWriter&, const std::string& name, Expr x);

// The families, one file each.
[[nodiscard]] Module gptModule(ModelWriter&);
[[nodiscard]] Module llamaModule(ModelWriter&);
[[nodiscard]] Module mlpModule(ModelWriter&);

// --- shared by the language models ---
// The arguments %tokens and, if there is a loss, %labels, both [batch, seq].
struct TokenInputs {
  Expr tokens, labels;
};
[[nodiscard]] TokenInputs tokenInputs(ModelWriter&);
// The residual stream [batch, seq, hidden] between blocks, whose positions sp shards over tp, and the input
// of a block's matmuls, which has all positions. Without sp both are `x`.
[[nodiscard]] Expr shardPositions(ModelWriter&, const std::string& name, Expr x);
[[nodiscard]] Expr allPositions(ModelWriter&, const std::string& name, Expr x);
// The feed-forward part of a mixture of experts: n, sent to the experts that the router chooses, and the
// weighted sum of their results.
[[nodiscard]] Expr mixtureOfExperts(ModelWriter&, Expr n);
// [batch, seq, heads * dim] to [batch, heads, seq, dim], and back.
[[nodiscard]] Expr splitHeads(ModelWriter&, const std::string& name, Expr x, int64_t heads);
[[nodiscard]] Expr joinHeads(ModelWriter&, const std::string& name, Expr x);
// Causal attention, in a `recompute` block of its own if the model asks for it.
[[nodiscard]] Expr attentionCore(ModelWriter&, Expr q, Expr k, Expr v);
// The module that returns the logits, or their loss against the labels.
[[nodiscard]] Module languageModule(ModelWriter&, Expr logits, Expr labels);

} // namespace dtc
