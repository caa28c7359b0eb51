// dtc model: prints standard models as programs.
#include "dtc/Model/Model.h"
#include "Program.h"
#include "Verbs.h"
#include <CLI/CLI.hpp>
#include <cmath>

namespace dtc {

namespace {

struct ModelOptions {
  ModelSpec spec;
  std::string size, parallel, dtype = "f32", mode = "forward", recompute = "none", context, out = "-";
};

Status refuseTrainingFlags(const ModelOptions& o) {
  const ModelSpec s;
  const char* flag = o.spec.optimizer != s.optimizer         ? "--optimizer"
                     : o.spec.learningRate != s.learningRate ? "--learning-rate"
                     : o.spec.clipNorm != s.clipNorm         ? "--clip-norm"
                     : o.spec.masterWeights                  ? "--master-weights"
                     : o.spec.microbatches != 1              ? "--microbatches"
                     : o.spec.zero == 1 || o.spec.zero == 2  ? "--zero"
                                                             : nullptr;
  if (!flag) return Ok{};
  return usageError(std::string(flag) + " needs --mode train");
}

Result<int> runModel(Environment& env, ModelOptions& o) {
  DTC_TRY(o.spec.parallel, parseModelParallel(o.parallel));
  o.spec.dtype = *parseDType(o.dtype);
  o.spec.mode = o.mode == "forward" ? ModelMode::Forward
                : o.mode == "loss"  ? ModelMode::Loss
                                    : ModelMode::Train;
  o.spec.recompute = o.recompute == "attention" ? ModelRecompute::Attention
                     : o.recompute == "block"   ? ModelRecompute::Block
                                                : ModelRecompute::None;
  o.spec.context = o.context == "ring"      ? ModelContext::Ring
                   : o.context == "gather"  ? ModelContext::Gather
                   : o.context == "ulysses" ? ModelContext::Ulysses
                                            : ModelContext::Priced;
  DTC_TRY(auto spec, modelSpec(o.spec, o.size));
  if (o.spec.mode != ModelMode::Train)
    if (Status s = refuseTrainingFlags(o); !s) return s.error();
  // A choice of the compiler is a flag, not a part of the program.
  const std::string note = o.recompute == "auto"
                               ? "// Compile or run with --recompute cheap, or with the bytes "
                                 "of memory per device: --recompute 8GiB.\n"
                               : "";
  const std::string text = note + modelText(spec);
  DTC_TRY(auto m, loadText(env, {"<" + spec.family + ">", text}, {})); // verifies it
  return writeOut(env, o.out, text);
}

std::string familiesHelp() {
  static const std::string text = [] {
    std::string t = "  dtc model llama > tiny.dt && dtc run tiny.dt --input '*=randn(1)' --check\n"
                    "  dtc model gpt --size 124m --mode loss --parallel dp=2,tp=4 | dtc opt - -p propagate\n"
                    "  dtc model llama --size 405b --dtype bf16 --parallel dp=16,fsdp=16,cp=8,tp=8,sp\n"
                    "models and values of --size:\n";
    for (const ModelFamily& f : modelFamilies()) {
      t += "  " + std::string(f.name) + std::string(8 - std::string_view(f.name).size(), ' ');
      for (const char* s : f.sizes) t += std::string(s) + " ";
      t += "(" + std::string(f.summary) + ")\n";
    }
    t += "--parallel: dp, fsdp, ep (batch; fsdp shards weights too, ep experts), cp (sequence),\n"
         "  tp (heads, inner dims, vocabulary), sp (sequence over tp, between blocks), pp (ops are annotated "
         "with their stage)";
    return t;
  }();
  return text;
}

} // namespace

// CLI::PositiveNumber accepts NaN, and says its range in 300 digits.
static CLI::Validator positiveNumber() {
  return {[](const std::string& word) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(word, value) && std::isfinite(value) && value > 0;
            return good ? std::string() : "expects a number above 0, got '" + word + "'";
          },
          ""};
}

Verb modelVerb() {
  Verb v;
  v.name = "model";
  v.usage = "gpt|llama|mixtral|mlp [flags]";
  v.summary = "print a standard model as a program, at any size";
  static const std::string examples = familiesHelp();
  v.examples = examples.c_str();
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto o = std::make_shared<ModelOptions>();
    app.add_option("NAME", o->spec.family, "the model")->required()->type_name("");
    app.add_option("--size", o->size, "a published size; the flags below override parts of it")
        ->type_name("SIZE");
    auto number = [&](const char* name, int64_t& to, const char* doc) {
      app.add_option(name, to, doc)
          ->type_name("N")
          ->check(CLI::Range(int64_t(1), int64_t(1) << 31).description(""));
    };
    number("--layers", o->spec.layers, "number of blocks");
    number("--hidden", o->spec.hidden, "width of the residual stream");
    number("--heads", o->spec.heads, "attention heads");
    number("--kv-heads", o->spec.kvHeads, "key and value heads (grouped-query attention)");
    number("--ffn", o->spec.ffn, "inner width of the feed-forward layers");
    number("--vocab", o->spec.vocab, "vocabulary size");
    number("--seq", o->spec.seq, "sequence length");
    number("--batch", o->spec.batch, "batch size");
    number("--experts", o->spec.experts, "of mixtral: feed-forward layers to choose from");
    number("--top-k", o->spec.topK, "of mixtral: experts of each token");
    app.add_option(
           "--capacity", o->spec.capacity,
           "of mixtral: rows of a sequence per expert, as a multiple of an even share; others are dropped")
        ->type_name("FACTOR")
        ->check(positiveNumber());
    app.add_option("--dtype", o->dtype, "dtype of weights and activations")
        ->type_name("f32|bf16|f16|f64")
        ->check(CLI::IsMember({"f32", "bf16", "f16", "f64"}).description(""));
    app.add_option("--mode", o->mode, "forward: logits; loss; train: loss and weights after one step")
        ->type_name("forward|loss|train")
        ->check(CLI::IsMember({"forward", "loss", "train"}).description(""));
    app.add_option("--parallel", o->parallel, "parallelism: dp=2,tp=4,sp")->type_name("AXES");
    app.add_option("--zero", o->spec.zero,
                   "what dp shards: 1: optimizer state; 2: also summed gradients; 3: also weights")
        ->type_name("1|2|3")
        ->check(CLI::Range(int64_t(1), int64_t(3)).description(""));
    app.add_option("--context", o->context, "how attention works over cp (default: the cheapest way)")
        ->type_name("ring|gather|ulysses")
        ->check(CLI::IsMember({"ring", "gather", "ulysses"}).description(""));
    std::vector<std::string> optimizers;
    for (const ModelOptimizer& m : modelOptimizers()) optimizers.emplace_back(m.name);
    app.add_option("--optimizer", o->spec.optimizer, "of --mode train (docs/optimizers.md)")
        ->type_name("sgd|momentum|nesterov|adam|adamw|lion|muon")
        ->check(CLI::IsMember(optimizers).description(""));
    app.add_option("--learning-rate", o->spec.learningRate, "instead of the optimizer's usual one")
        ->type_name("RATE")
        ->check(positiveNumber());
    app.add_option("--clip-norm", o->spec.clipNorm, "largest norm of all gradients together")
        ->type_name("NORM")
        ->check(positiveNumber());
    app.add_flag("--master-weights", o->spec.masterWeights,
                 "f32 weights, converted to the dtype in each step");
    number("--microbatches", o->spec.microbatches, "parts of the batch whose gradients are added up");
    app.add_option("--recompute", o->recompute,
                   "what the backward part computes again; auto: see --recompute of `dtc compile`")
        ->type_name("none|attention|block|auto")
        ->check(CLI::IsMember({"none", "attention", "block", "auto"}).description(""));
    app.add_option("-o", o->out, "output file for the .dt text; - is standard output")->type_name("OUT");
    app.add_flag("--loop", o->spec.loop,
                 "use one `for` over stacked weights instead of one copy of the block per layer");
    return [o](Environment& env) { return runModel(env, *o); };
  };
  return v;
}

} // namespace dtc
