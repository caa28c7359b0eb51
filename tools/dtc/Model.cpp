// dtc model: known models as programs.
#include "dtc/Model/Model.h"
#include "Program.h"
#include "Verbs.h"
#include <CLI/CLI.hpp>

namespace dtc {

namespace {

struct Options {
  ModelSpec spec;
  std::string size, parallel, dtype = "f32", mode = "forward", out = "-";
};

int run(Environment& env, Options& o) {
  auto parallel = parseModelParallel(o.parallel);
  if (!parallel) return env.fail(parallel.error());
  o.spec.parallel = *parallel;
  o.spec.dtype = *parseDType(o.dtype);
  o.spec.mode = o.mode == "forward" ? ModelMode::Forward
                : o.mode == "loss"  ? ModelMode::Loss
                                    : ModelMode::Train;
  auto spec = modelSpec(o.spec, o.size);
  if (!spec) return env.fail(spec.error());
  int code = kExitDone;
  auto m = loadText(env, {"<" + spec->family + ">", modelText(*spec)}, {}, code);
  if (!m) return code;
  return writeOut(env, o.out, printModule(*m));
}

std::string familiesHelp() {
  static const std::string text = [] {
    std::string t = "  dtc model llama > tiny.dt && dtc run tiny.dt --input '*=randn(1)' --check\n"
                    "  dtc model gpt --size 124m --mode loss --parallel dp=2,tp=4 | dtc opt - -p propagate\n"
                    "  dtc model llama --size 405b --dtype bf16 --parallel dp=16,fsdp=16,cp=8,tp=8,sp\n"
                    "models, and their --size:\n";
    for (const ModelFamily& f : modelFamilies()) {
      t += "  " + std::string(f.name) + std::string(8 - std::string_view(f.name).size(), ' ');
      for (const char* s : f.sizes) t += std::string(s) + " ";
      t += "(" + std::string(f.summary) + ")\n";
    }
    t += "--parallel: dp, fsdp (batch; fsdp cuts weights too), cp (positions), tp (heads, inner dims, "
         "vocabulary),\n"
         "  sp (positions over tp, between blocks), pp (ops are marked with their stage)";
    return t;
  }();
  return text;
}

} // namespace

Verb modelVerb() {
  Verb v;
  v.name = "model";
  v.usage = "gpt|llama|mlp [flags]";
  v.summary = "print a known model as a program, at any size";
  static const std::string examples = familiesHelp();
  v.examples = examples.c_str();
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto o = std::make_shared<Options>();
    app.add_option("NAME", o->spec.family, "the model")->required()->type_name("");
    app.add_option("--size", o->size, "a published size; the flags below change it")->type_name("SIZE");
    auto number = [&](const char* name, int64_t& to, const char* doc) {
      app.add_option(name, to, doc)
          ->type_name("N")
          ->check(CLI::Range(int64_t(1), int64_t(1) << 31).description(""));
    };
    number("--layers", o->spec.layers, "blocks");
    number("--hidden", o->spec.hidden, "width of the stream between them");
    number("--heads", o->spec.heads, "attention heads");
    number("--kv-heads", o->spec.kvHeads, "key and value heads, which heads share");
    number("--ffn", o->spec.ffn, "inner width of the feed-forward part");
    number("--vocab", o->spec.vocab, "tokens that there are");
    number("--seq", o->spec.seq, "positions");
    number("--batch", o->spec.batch, "sequences");
    app.add_option("--dtype", o->dtype, "of weights and activations")
        ->type_name("f32|bf16|f16|f64")
        ->check(CLI::IsMember({"f32", "bf16", "f16", "f64"}).description(""));
    app.add_option("--mode", o->mode, "what it computes; train: the loss and the weights after a step")
        ->type_name("forward|loss|train")
        ->check(CLI::IsMember({"forward", "loss", "train"}).description(""));
    app.add_option("--parallel", o->parallel, "how it is spread: dp=2,tp=4,sp")->type_name("AXES");
    app.add_option("-o", o->out, "where the .dt text goes; - is standard output")->type_name("OUT");
    app.add_flag("--loop", o->spec.loop,
                 "one `for` over stacked weights, not a copy of the block for each layer");
    return [o](Environment& env) { return run(env, *o); };
  };
  return v;
}

} // namespace dtc
