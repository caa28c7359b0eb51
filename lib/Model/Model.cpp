#include "dtc/Model/Model.h"
#include "ModelWriter.h"
#include "dtc/IR/text/Text.h"

namespace dtc {

std::string modelText(const ModelSpec& spec) {
  ModelWriter p(spec);
  if (spec.family == "gpt") return printModule(gptModule(p));
  if (spec.family == "llama") return printModule(llamaModule(p));
  DTC_CHECK(spec.family == "mlp", "a family without a generator");
  return printModule(mlpModule(p));
}

} // namespace dtc
