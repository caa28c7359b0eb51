#include "dtc/Files/OnnxWeights.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/Checked.h"

#include <algorithm>
#include <map>

namespace dtc::onnx {

namespace {

constexpr int64_t kInlineElements = 16; // constants of at most so many elements are part of the program
constexpr int64_t kInlineIntegers = 256;

} // namespace

bool isDefaultDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

// Constants of the program; others are arguments.
bool isInline(const TensorProto& t) {
  const auto count = checkedProduct(t.dims);
  const ElementInfo* e = findElement(t.dataType);
  if (!count || !e || !e->held) return true; // reported where it is read
  return *count <= (isFloat(*e->held) || isComplex(*e->held) ? kInlineElements : kInlineIntegers);
}

const TensorProto* constantTensor(const NodeProto& n) {
  if (n.opType != "Constant" || !isDefaultDomain(n.domain)) return nullptr;
  for (const AttributeProto& a : n.attributes)
    if (a.name == "value" && a.t && a.refAttrName.empty()) return a.t.get();
  return nullptr;
}

namespace {

constexpr int kMaxNesting = 64; // of graphs
// Calls `visit(name, tensor)` for the initializers and constants of a graph and those nested in it.
template <class Visit> void eachTensor(const GraphProto& g, Visit&& visit, int depth = 0) {
  for (const TensorProto& t : g.initializers) visit(t.name, t);
  for (const NodeProto& n : g.nodes) {
    if (const TensorProto* t = constantTensor(n); t && !n.outputs.empty()) visit(n.outputs[0], *t);
    if (depth < kMaxNesting)
      for (const AttributeProto& a : n.attributes)
        if (a.g) eachTensor(*a.g, visit, depth + 1);
  }
}

class OnnxWeights : public TensorArchive {
public:
  OnnxWeights(std::string path, std::string text, ModelPlace place)
      : TensorArchive(std::move(path)), text_(std::move(text)), place_(std::move(place)) {}

  Status read() {
    DTC_TRY(model_, readModel(text_));
    weights_ = weightsOf(model_);
    return Ok{};
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const Weight& w : weights_) out.push_back(w.name);
    return out;
  }
  bool has(std::string_view name) const override { return find(name) != nullptr; }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const TensorProto* t = find(name);
    if (!t) return inputError(quotedPath(path_) + " has no tensor '" + std::string(name) + "'");
    if (Status good = checkTensor(*t); !good) return good.error();
    const DType held = *findElement(t->dataType)->held;
    if (want && *want != held)
      return inputError(quotedPath(path_) + ": tensor '" + std::string(name) + "' has dtype " +
                        std::string(dtypeName(held)) + ", but the program expects " +
                        std::string(dtypeName(*want)));
    if (std::string why = validateShape(name, held, t->dims, shape); !why.empty()) return inputError(why);
    return tensorSource(*t, place_);
  }

private:
  const TensorProto* find(std::string_view name) const {
    const auto found = std::ranges::find(weights_, name, &Weight::name);
    return found == weights_.end() ? nullptr : found->tensor;
  }
  std::string text_; // which the model refers to
  ModelPlace place_;
  ModelProto model_;
  std::vector<Weight> weights_;
};

} // namespace

std::vector<Weight> weightsOf(const ModelProto& model) {
  std::vector<Weight> out;
  if (!model.graph) return out;
  std::map<std::string, int, std::less<>> taken;
  const auto add = [&](const std::string& name, const TensorProto& t) {
    if (isInline(t)) return;
    std::string unique = name;
    while (taken[unique]++) unique = name + "." + std::to_string(taken[name]);
    out.push_back({unique, &t});
  };
  eachTensor(*model.graph, add);
  for (const FunctionProto& f : model.functions)
    for (const NodeProto& n : f.nodes)
      if (const TensorProto* t = constantTensor(n); t && !n.outputs.empty())
        add(f.name + "." + n.outputs[0], *t);
  return out;
}

Result<std::unique_ptr<TensorArchive>> openOnnxWeights(InputFile file, std::string folder) {
  DTC_TRY(auto text, file.text(0, file.size()));
  const std::string path = file.path();
  auto archive = std::make_unique<OnnxWeights>(
      path, std::move(text),
      ModelPlace{std::make_shared<const InputFile>(std::move(file)), std::move(folder)});
  if (Status good = archive->read(); !good) return inputError(quotedPath(path) + ": " + good.error().message);
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

} // namespace dtc::onnx
