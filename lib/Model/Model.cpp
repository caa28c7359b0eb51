#include "dtc/Model/Model.h"
#include "ModelWriter.h"
#include "dtc/IR/text/Text.h"

namespace dtc {

static Module moduleOf(ModelSpec spec) {
  if (spec.mode == ModelMode::Train) spec.batch /= spec.microbatches; // of the loss
  ModelWriter p(spec);
  if (spec.family == "gpt") return gptModule(p);
  if (spec.family == "llama" || spec.family == "mixtral") return llamaModule(p);
  DTC_CHECK(spec.family == "mlp", "a family without a generator");
  return mlpModule(p);
}

std::string modelText(const ModelSpec& spec) {
  const bool library = spec.mode == ModelMode::Train && (spec.optimizer != "sgd" || spec.clipNorm > 0);
  return (library ? "import \"optim\"\n\n" : "") + printModule(moduleOf(spec));
}

} // namespace dtc
