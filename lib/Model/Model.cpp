#include "dtc/Model/Model.h"

#include "ModelWriter.h"

namespace dtc {

std::string modelText(const ModelSpec& spec) {
  ModelWriter p(spec);
  if (spec.family == "gpt") return gptModule(std::move(p));
  if (spec.family == "llama") return llamaModule(std::move(p));
  DTC_CHECK(spec.family == "mlp", "a family without a generator");
  return mlpModule(std::move(p));
}

} // namespace dtc
