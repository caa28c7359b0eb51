#pragma once
// The annotations of one tensor: it has several where it passes through calls, loops, branches and {carry}.
#include "dtc/IR/Module.h"

#include <map>

namespace dtc {

// A sharding in the text.
struct WrittenSharding {
  SourceRange range; // of the sharding
  Sharding sharding;
  std::string of; // "%w", or resultText
};

// "the result"; of several, "the result %w".
[[nodiscard]] std::string resultText(const Module&, FuncId, size_t result);

// Of a module as written: inline drops the annotations of callees.
class AnnotationLinks {
public:
  AnnotationLinks() = default; // none are known
  explicit AnnotationLinks(const Module& written);

  // The other annotations of the tensor whose sharding starts there, in the order of the text.
  [[nodiscard]] std::vector<WrittenSharding> others(uint32_t begin) const;

private:
  std::vector<std::vector<WrittenSharding>> tensors_; // of several annotations each
  std::map<uint32_t, size_t> tensorAt_;               // by the start of a sharding
};

} // namespace dtc
