#pragma once
// A row's view of an ONNX node: operands by position, attributes by name (Import/rows/Context.h), and operands
// that must be known at import.
#include "dtc/Import/rows/Context.h"
#include "import/Constants.h"
#include "import/OnnxGraph.h"

namespace dtc::onnx {

using namespace ops; // the functions of Ops/OpFunctions.h

// What the rows of one import share.
struct OnnxState {
  OnnxState(Module& m, Program& p) : program(p), constants(m) {}
  Program& program;
  Constants constants;
  // Integers that are known up to symbolic sizes, by the index of their value in the file: shapes of symbolic
  // values, and what is computed from them.
  std::unordered_map<uint32_t, std::vector<ImportInt>> sizes;
};

class OnnxContext : public ImportContext {
public:
  OnnxContext(const ImportContext& c, OnnxState& s) : ImportContext(c), state(s) {}
  OnnxState& state;

  [[nodiscard]] int64_t opset() const { return node.version; }

  // --- operands ---
  [[nodiscard]] Expr in(int i) const { return tensor(i); }
  [[nodiscard]] size_t numOperands() const;
  // ElementType: that of the file where the dtype is only what holds it (int4 in i8).
  [[nodiscard]] int32_t element(int i) const;
  void setElement(size_t result, int32_t type);
  // The first result, which has the element type of the first operand: for data movement.
  Expr moving(Expr y);

  // --- operands that must be known at import; `what` names it in errors ("the axes") ---
  [[nodiscard]] const Tensor* knownIf(int i) const; // nullptr if it is not known
  [[nodiscard]] const Tensor& known(int i, const char* what) const;
  [[nodiscard]] std::vector<int64_t> knownInts(int i, const char* what) const;
  [[nodiscard]] int64_t knownInt(int i, const char* what) const;
  [[nodiscard]] std::vector<double> knownReals(int i, const char* what) const;
  // Integers, of which some may be symbolic sizes.
  [[nodiscard]] std::vector<Dim> knownSizes(int i, const char* what) const;
  [[nodiscard]] std::optional<std::vector<ImportInt>> sizesIf(int i) const;
  // The first result is these integers (of rank 1 or 0); kept only where some are symbolic sizes.
  void setSizes(std::vector<ImportInt>);
  // `name` as an attribute, or operand `i` in newer opsets; nothing if neither is there.
  [[nodiscard]] std::optional<std::vector<int64_t>> axes(int i, const char* name) const;

  // --- results ---
  [[nodiscard]] size_t numResults() const { return node.results.size(); }
  [[nodiscard]] bool wants(size_t i) const { return i < node.results.size() && node.results[i].valid(); }

  // --- helpers ---
  [[nodiscard]] int64_t dim(int64_t axis, size_t rank) const { return dimOf(b, axis, rank); }
  [[nodiscard]] Expr scalar(double v, DType d) const { return filled(b, d, {}, v); }
  // The dtype that holds an ElementType; an error if there is none.
  [[nodiscard]] DType heldBy(int64_t elementType) const;
  [[nodiscard]] std::vector<int64_t> shapeOf(Expr x) const { return staticDims(b, x.dims()); }

private:
  [[nodiscard]] std::optional<uint32_t> valueIndex(int i) const;
};

struct OnnxRow {
  std::string_view op; // "Relu"; of other domains with the domain: "com.microsoft.Gelu"
  ImportResults (*convert)(OnnxContext&);
  int64_t since = 13; // the oldest opset in which the op is as `convert` reads it
};

// The results of a node; nothing if the op is unsupported. Fails for an opset that is older than the row's.
[[nodiscard]] std::optional<ImportResults> converted(OnnxContext&);
// ": it needs …" for ops that cannot be supported, "; did you mean 'Relu'?" for others.
[[nodiscard]] std::string remarkOn(std::string_view op);

// --- the families ---
[[nodiscard]] std::span<const OnnxRow> elementwiseRows(); // Elementwise.cpp
[[nodiscard]] std::span<const OnnxRow> activationRows();  // Activations.cpp
[[nodiscard]] std::span<const OnnxRow> castRows();        // Casts.cpp
[[nodiscard]] std::span<const OnnxRow> constantRows();    // MakeRows.cpp
[[nodiscard]] std::span<const OnnxRow> shapeRows();       // Shape.cpp
[[nodiscard]] std::span<const OnnxRow> sliceRows();       // Slices.cpp
[[nodiscard]] std::span<const OnnxRow> indexRows();       // Indices.cpp
[[nodiscard]] std::span<const OnnxRow> reduceRows();      // Reduce.cpp
[[nodiscard]] std::span<const OnnxRow> normalizeRows();   // Normalize.cpp
[[nodiscard]] std::span<const OnnxRow> lossRows();        // Losses.cpp
[[nodiscard]] std::span<const OnnxRow> contractRows();    // Contract.cpp
[[nodiscard]] std::span<const OnnxRow> windowRows();      // Windows.cpp
[[nodiscard]] std::span<const OnnxRow> quantizeRows();    // Quantize.cpp
[[nodiscard]] std::span<const OnnxRow> recurrentRows();   // Recurrent.cpp
[[nodiscard]] std::span<const OnnxRow> controlRows();     // Control.cpp
[[nodiscard]] std::span<const OnnxRow> attentionRows();   // Attention.cpp
[[nodiscard]] std::span<const OnnxRow> imageRows();       // Images.cpp
[[nodiscard]] std::span<const OnnxRow> resizeRows();      // Resize.cpp
[[nodiscard]] std::span<const OnnxRow> signalRows();      // Signals.cpp
[[nodiscard]] std::span<const OnnxRow> randomRows();      // Random.cpp
[[nodiscard]] std::span<const OnnxRow> optimizerRows();   // Optimizers.cpp
[[nodiscard]] std::span<const OnnxRow> featureRows();     // Features.cpp

} // namespace dtc::onnx
