#pragma once
// Writes a model as text: arguments with their shardings, statements with good names. What the families share.
#include "dtc/Model/Model.h"
#include <functional>
#include <initializer_list>

namespace dtc {

using Cuts = std::vector<std::string>; // one per dim: "_", "tp", "(dp, fsdp)"

class ModelWriter {
public:
  explicit ModelWriter(const ModelSpec& spec) : spec_(spec) {}

  [[nodiscard]] const ModelSpec& spec() const { return spec_; }

  // --- how dims are cut ---
  // By those of the axes that --parallel has: "(dp, fsdp)", "tp", or "_" where it has none.
  [[nodiscard]] std::string cut(std::initializer_list<std::string_view> axes) const;
  [[nodiscard]] std::string batchCut() const { return cut({"dp", "fsdp"}); }
  [[nodiscard]] std::string tpCut() const { return cut({"tp"}); }
  // Of the columns of key and value weights: where tp has more devices than there are heads, each head stands on several.
  [[nodiscard]] std::string kvCut() const;

  // --- arguments ---
  // One that is no weight. Returns "%name".
  std::string input(const std::string& name, std::string_view dtype, const std::vector<int64_t>& dims,
                    const Cuts& cuts);
  // A weight; while a block is written, of that block (in a loop: of all, stacked). Returns the value to use: where fsdp
  // cuts the weight it is gathered first.
  std::string weight(const std::string& name, const std::vector<int64_t>& dims, const Cuts& cuts);

  // --- statements ---
  // "%name = text"; returns "%name", with the block's prefix. `typed` goes behind the colon.
  std::string op(const std::string& name, const std::string& text, const std::string& typed = {});
  // x, constrained to these cuts where --parallel says sp.
  std::string withSequenceCuts(const std::string& name, const std::string& x, const Cuts& cuts);
  // All layers: `block` takes the stream and returns it. Unrolled, or as one `for`.
  std::string layers(const std::string& x, const std::function<std::string(const std::string&)>& block);

  // The module, in the form that the mode asks for; the statements end in `value`, and the result is called `label`.
  [[nodiscard]] std::string module(const std::string& value, const std::string& label,
                                   const std::string& type) const;

private:
  struct Arg {
    std::string name, type, sharding;
    bool isWeight = false;
  };

  [[nodiscard]] std::string shardingText(const Cuts& cuts) const;
  void mark(std::string& statement) const;
  [[nodiscard]] std::string function(const std::string& name, const std::string& results,
                                     const std::string& body, const std::string& returned) const;
  [[nodiscard]] std::string trainStep() const;

  const ModelSpec& spec_;
  std::vector<Arg> args_;
  std::string body_, prefix_, indent_ = "  ";
  int64_t stage_ = 0;   // of the ops that are written
  bool inLoop_ = false; // weights are taken from stacks, by %i
};

[[nodiscard]] std::string typeText(std::string_view dtype, const std::vector<int64_t>& dims); // "f32[4, 16]"
[[nodiscard]] std::string listText(std::initializer_list<int64_t> numbers);                   // "[4, 16]"

// The dtype that a loss is computed in: logarithms need more digits than the narrow types have.
[[nodiscard]] std::string lossDType(const ModelSpec& spec);
// `x` in it.
[[nodiscard]] std::string widened(ModelWriter& p, const std::string& name, const std::string& x);

// The families, a file each: their statements as a module.
[[nodiscard]] std::string gptModule(ModelWriter p);
[[nodiscard]] std::string llamaModule(ModelWriter p);
[[nodiscard]] std::string mlpModule(ModelWriter p);

// --- what the language models share ---
// The arguments %tokens and, where there is a loss, %labels, both [batch, seq]. Returns the first.
[[nodiscard]] std::string tokenInputs(ModelWriter& p);
// The stream [batch, seq, hidden] between blocks, whose positions sp cuts over tp; and what a block's matrices take, which has
// all of them. Without sp both are `x`.
[[nodiscard]] std::string cutPositions(ModelWriter& p, const std::string& name, const std::string& x);
[[nodiscard]] std::string allPositions(ModelWriter& p, const std::string& name, const std::string& x);
// [batch, seq, heads * dim] to [batch, heads, seq, dim], and back.
[[nodiscard]] std::string splitHeads(ModelWriter& p, const std::string& name, const std::string& x,
                                     int64_t heads);
[[nodiscard]] std::string joinHeads(ModelWriter& p, const std::string& name, const std::string& x);
// The module that ends in the logits, or in their loss against the argument %labels.
[[nodiscard]] std::string languageModule(ModelWriter& p, const std::string& logits);

} // namespace dtc
