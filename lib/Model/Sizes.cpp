// The published sizes, and the consistency checks.
#include "dtc/Model/Model.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dtc {
namespace {

struct PublishedSize {
  const char *family, *name;
  int64_t layers, hidden, heads, kvHeads, ffn, vocab, seq, batch;
  double ropeBase = 10000.0;
  int64_t experts = 0, topK = 0;
};

// GPT: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
// (GPT-2) and https://arxiv.org/abs/2005.14165 (GPT-3). Llama: https://arxiv.org/abs/2302.13971,
// https://arxiv.org/abs/2307.09288 (7b, 13b: Llama 2) and https://arxiv.org/abs/2407.21783 (Llama 3). Mixtral:
// https://arxiv.org/abs/2401.04088. `tiny` is ours: small enough to be read and run anywhere.
constexpr std::array kSizes = {
    PublishedSize{"gpt", "tiny", 2, 64, 4, 4, 256, 256, 16, 4},
    PublishedSize{"gpt", "124m", 12, 768, 12, 12, 3072, 50257, 1024, 1},
    PublishedSize{"gpt", "355m", 24, 1024, 16, 16, 4096, 50257, 1024, 1},
    PublishedSize{"gpt", "774m", 36, 1280, 20, 20, 5120, 50257, 1024, 1},
    PublishedSize{"gpt", "1.5b", 48, 1600, 25, 25, 6400, 50257, 1024, 1},
    PublishedSize{"gpt", "7b", 32, 4096, 32, 32, 16384, 50257, 2048, 1},
    PublishedSize{"gpt", "175b", 96, 12288, 96, 96, 49152, 50257, 2048, 1},
    PublishedSize{"llama", "tiny", 2, 64, 4, 2, 176, 256, 16, 4},
    PublishedSize{"llama", "1b", 16, 2048, 32, 8, 8192, 128256, 8192, 1, 500000.0},
    PublishedSize{"llama", "3b", 28, 3072, 24, 8, 8192, 128256, 8192, 1, 500000.0},
    PublishedSize{"llama", "7b", 32, 4096, 32, 32, 11008, 32000, 4096, 1},
    PublishedSize{"llama", "8b", 32, 4096, 32, 8, 14336, 128256, 8192, 1, 500000.0},
    PublishedSize{"llama", "13b", 40, 5120, 40, 40, 13824, 32000, 4096, 1},
    PublishedSize{"llama", "70b", 80, 8192, 64, 8, 28672, 128256, 8192, 1, 500000.0},
    PublishedSize{"llama", "405b", 126, 16384, 128, 8, 53248, 128256, 8192, 1, 500000.0},
    PublishedSize{"mixtral", "tiny", 2, 64, 4, 4, 128, 256, 16, 4, 10000.0, 8, 2},
    PublishedSize{"mixtral", "8x7b", 32, 4096, 32, 8, 14336, 32000, 32768, 1, 1000000.0, 8, 2},
    PublishedSize{"mlp", "tiny", 2, 64, 1, 1, 256, 0, 0, 8},
};

const PublishedSize* find(std::string_view family, std::string_view name) {
  for (const PublishedSize& s : kSizes)
    if (family == s.family && name == s.name) return &s;
  return nullptr;
}

std::string list(const std::vector<const char*>& words) {
  std::string text;
  for (const char* w : words) text += (text.empty() ? "" : ", ") + std::string(w);
  return text;
}

Error unfit(const std::string& what) { return usageError("invalid model: " + what); }

int64_t dataParallelDevices(const ModelSpec& s) {
  return s.parallel.size("dp") * s.parallel.size("fsdp") * s.parallel.size("ep");
}

// Flags of parallelism that contradict each other or the shape.
std::optional<Error> whatDoesNotFitParallel(const ModelSpec& s) {
  if (s.zero > 0 && !s.parallel.has("dp"))
    return unfit("--zero shards over dp, which --parallel does not have");
  if (s.zero == 3 && s.parallel.has("fsdp"))
    return unfit("--zero 3 shards weights over dp, and fsdp shards them, too; omit one of them");
  if (s.context != ModelContext::Priced && !s.parallel.has("cp"))
    return unfit("--context needs cp in --parallel");
  if (s.context != ModelContext::Priced && s.family == "mlp")
    return unfit("mlp has no attention; omit --context");
  const int64_t headDevices = s.parallel.size("tp") * s.parallel.size("cp");
  if (s.context == ModelContext::Ulysses && s.kvHeads % headDevices != 0)
    return unfit("--context ulysses shards heads over tp and cp, but " + std::to_string(headDevices) +
                 " devices do not divide " + std::to_string(s.kvHeads) + " key heads");
  if (s.layers < s.parallel.size("pp"))
    return unfit("pp=" + std::to_string(s.parallel.size("pp")) + " needs as many layers, but --layers is " +
                 std::to_string(s.layers));
  if (s.experts == 0 && (s.parallel.has("ep") || s.topK > 0 || s.capacity > 0))
    return unfit("ep, --top-k and --capacity need experts: dtc model mixtral");
  if (s.experts > 0 && s.topK > s.experts)
    return unfit("--top-k " + std::to_string(s.topK) + " exceeds --experts " + std::to_string(s.experts));
  return std::nullopt;
}

std::optional<Error> whatDoesNotFit(const ModelSpec& s) {
  if (s.loop && s.parallel.has("pp"))
    return unfit("pp assigns a stage to each layer, but --loop has a single body for all layers");
  // Bounds the elements of weights and activations.
  const __int128 rows = std::max(s.hidden * (s.loop ? s.layers : 1), s.batch * std::max<int64_t>(s.seq, 1));
  if (rows * std::max({s.hidden, s.ffn, s.vocab}) > int64_t(1) << 60)
    return unfit(
        "a tensor would have more than 2^60 elements; reduce --hidden, --ffn, --vocab, --batch or --seq");
  const int64_t parts = s.microbatches * dataParallelDevices(s);
  if (s.microbatches > 1 && s.batch % parts != 0)
    return unfit("--batch " + std::to_string(s.batch) + " cannot be split into " +
                 std::to_string(s.microbatches) + " micro-batches for each of " +
                 std::to_string(parts / s.microbatches) + " data-parallel devices");
  if (auto why = whatDoesNotFitParallel(s)) return why;
  if (s.optimizer == "muon" && s.loop)
    return unfit("muon updates matrices, and --loop stacks those of all blocks; omit --loop");
  if (s.family == "mlp") return std::nullopt;
  auto text = [](int64_t n) { return std::to_string(n); };
  if (s.hidden % s.heads != 0)
    return unfit("--hidden " + text(s.hidden) + " cannot be split into " + text(s.heads) + " heads");
  if (s.heads % s.kvHeads != 0)
    return unfit("--heads " + text(s.heads) + " cannot share --kv-heads " + text(s.kvHeads));
  if (s.family == "gpt" && s.heads != s.kvHeads)
    return unfit("gpt needs as many key heads as heads; omit --kv-heads");
  if (s.family != "gpt" && s.hidden / s.heads % 2 != 0)
    return unfit("rope rotates pairs, but the head size " + text(s.hidden / s.heads) + " is odd");
  return std::nullopt;
}

} // namespace

const std::vector<ModelFamily>& modelFamilies() {
  static const std::vector<ModelFamily> table = [] {
    std::vector<ModelFamily> families = {
        {"gpt", "learned positions, layer_norm with bias, gelu, head tied to the embedding", {}},
        {"llama", "rope, rms_norm, grouped key heads, silu-gated feed-forward", {}},
        {"mixtral", "as llama, with a feed-forward layer per expert, and top-k routing", {}},
        {"mlp", "feed-forward blocks only: matmul, gelu, matmul", {}},
    };
    for (ModelFamily& f : families)
      for (const PublishedSize& s : kSizes)
        if (std::string_view(s.family) == f.name) f.sizes.push_back(s.name);
    return families;
  }();
  return table;
}

Result<ModelSpec> modelSpec(const ModelSpec& wanted, std::string_view size) {
  const ModelFamily* family = nullptr;
  std::vector<const char*> names;
  for (const ModelFamily& f : modelFamilies()) {
    names.push_back(f.name);
    if (wanted.family == f.name) family = &f;
  }
  if (!family) return usageError("unknown model '" + wanted.family + "'; expected one of: " + list(names));
  const PublishedSize* p = find(wanted.family, size.empty() ? "tiny" : size);
  if (!p)
    return usageError("unknown size '" + std::string(size) + "' of " + wanted.family + "; expected one of: " +
                      list(family->sizes) + "; --layers, --hidden, … set any other shape");
  ModelSpec s = wanted;
  auto fill = [](int64_t& field, int64_t published) { field = field ? field : published; };
  fill(s.layers, p->layers);
  // If the width is given, dependent sizes keep their proportions, unless given too.
  const bool scaled = wanted.hidden != 0 && wanted.hidden != p->hidden;
  fill(s.hidden, p->hidden);
  fill(s.ffn, scaled ? std::max<int64_t>(1, p->ffn * s.hidden / p->hidden) : p->ffn);
  fill(s.kvHeads, wanted.heads && wanted.heads != p->heads
                      ? (p->heads == p->kvHeads || wanted.heads % p->kvHeads ? wanted.heads : p->kvHeads)
                      : p->kvHeads);
  fill(s.heads, p->heads);
  fill(s.vocab, p->vocab);
  fill(s.seq, p->seq);
  // At least one sequence per data-parallel device.
  fill(s.batch, std::max(p->batch, dataParallelDevices(s) * s.microbatches));
  if (p->experts > 0) fill(s.experts, p->experts), fill(s.topK, p->topK);
  s.ropeBase = p->ropeBase;
  if (auto why = whatDoesNotFit(s)) return *why;
  return s;
}

} // namespace dtc
