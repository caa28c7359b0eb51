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
};

// GPT: https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf
// (GPT-2) and https://arxiv.org/abs/2005.14165 (GPT-3). Llama: https://arxiv.org/abs/2302.13971,
// https://arxiv.org/abs/2307.09288 (7b, 13b: Llama 2) and https://arxiv.org/abs/2407.21783 (Llama 3). `tiny`
// is ours: small enough to be read and run anywhere.
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

std::optional<Error> whatDoesNotFit(const ModelSpec& s) {
  if (s.loop && s.parallel.has("pp"))
    return unfit("pp assigns a stage to each layer, but --loop has a single body for all layers");
  // Bounds the elements of weights and activations.
  const __int128 rows = std::max(s.hidden * (s.loop ? s.layers : 1), s.batch * std::max<int64_t>(s.seq, 1));
  if (rows * std::max({s.hidden, s.ffn, s.vocab}) > int64_t(1) << 60)
    return unfit(
        "a tensor would have more than 2^60 elements; reduce --hidden, --ffn, --vocab, --batch or --seq");
  const int64_t parts = s.microbatches * s.parallel.size("dp") * s.parallel.size("fsdp");
  if (s.microbatches > 1 && s.batch % parts != 0)
    return unfit("--batch " + std::to_string(s.batch) + " cannot be split into " +
                 std::to_string(s.microbatches) + " micro-batches for each of " +
                 std::to_string(parts / s.microbatches) + " data-parallel devices");
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
  if (s.family == "llama" && s.hidden / s.heads % 2 != 0)
    return unfit("rope rotates pairs, but the head size " + text(s.hidden / s.heads) + " is odd");
  return std::nullopt;
}

} // namespace

const std::vector<ModelFamily>& modelFamilies() {
  static const std::vector<ModelFamily> table = [] {
    std::vector<ModelFamily> families = {
        {"gpt", "learned positions, layer_norm with bias, gelu, head tied to the embedding", {}},
        {"llama", "rope, rms_norm, grouped key heads, silu-gated feed-forward", {}},
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
  fill(s.batch, std::max(p->batch, s.parallel.size("dp") * s.parallel.size("fsdp") * s.microbatches));
  s.ropeBase = p->ropeBase;
  if (auto why = whatDoesNotFit(s)) return *why;
  return s;
}

} // namespace dtc
