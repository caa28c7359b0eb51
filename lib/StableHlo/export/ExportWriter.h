#pragma once
// Writes StableHLO ops as text, each result under a fresh name.
#include "dtc/Support/DType.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dtc {

using Dims = std::vector<int64_t>;

// A value of the text: its name with the %, and its type.
struct ExportValue {
  std::string name;
  DType dtype = DType::F32;
  Dims shape;
  [[nodiscard]] size_t rank() const { return shape.size(); }
};

// The StableHLO spelling of literals and types.
[[nodiscard]] std::string_view hloElementType(DType);
[[nodiscard]] std::string hloType(DType, const Dims&); // tensor<3x4xf32>
[[nodiscard]] inline std::string hloType(const ExportValue& v) { return hloType(v.dtype, v.shape); }
[[nodiscard]] std::string hloTypes(std::span<const ExportValue>);
[[nodiscard]] std::string namesOf(std::span<const ExportValue>); // %a, %b
[[nodiscard]] std::string hloList(const Dims&);                  // [0, 1]
[[nodiscard]] std::string hloNumber(DType,
                                    double); // as written in dense<…>, bit for bit where decimals are inexact

class ExportWriter {
public:
  explicit ExportWriter(std::string indent);

  // Takes the text; numbering restarts.
  [[nodiscard]] std::string take();
  void line(std::string_view text);
  void open(std::string_view text) { line(text), indent_ += "  "; } // `{` at its end
  void close(std::string_view text) { indent_.resize(indent_.size() - 2), line(text); }
  void between(std::string_view text) { close(text), indent_ += "  "; } // for a region of two blocks

  // A name unused in the function: the requested one, with a numeric suffix if taken; a number where none is
  // requested.
  [[nodiscard]] std::string fresh(std::string_view wish = "");
  // Renames a value that has only a number in the text.
  void call(ExportValue&, std::string_view wish);

  // %r = stablehlo.NAME …
  ExportValue elementwise(std::string_view name, std::span<const ExportValue> operands, DType result);
  ExportValue unary(std::string_view name, const ExportValue& x) {
    return elementwise(name, {&x, 1}, x.dtype);
  }
  ExportValue binary(std::string_view name, const ExportValue& x, const ExportValue& y);
  // `rest` follows the operands: ", dims = [0]".
  ExportValue typed(std::string_view name, std::span<const ExportValue> operands, std::string_view rest,
                    DType, Dims shape);
  // With explicit types.
  ExportValue plain(std::string_view name, std::span<const ExportValue> operands, std::string_view types,
                    DType, Dims shape);
  // "NAME"(operands) <{properties}> as in the generic form; `region`: lines of its one block, or "".
  ExportValue generic(std::string_view name, std::span<const ExportValue> operands,
                      std::string_view properties, DType, Dims shape,
                      const std::vector<std::string>& region = {});
  ExportValue compare(std::string_view direction, const ExportValue& x, const ExportValue& y);
  ExportValue select(const ExportValue& p, const ExportValue& x, const ExportValue& y);
  ExportValue convert(const ExportValue& x, DType); // to bool: not equal 0
  ExportValue splat(double value, DType, Dims shape);
  ExportValue dense(std::string_view elements, DType, Dims shape); // `elements`: the contents of dense<…>
  ExportValue iota(int64_t dim, DType, Dims shape);
  // dims[i]: the result dim of dim i of x.
  ExportValue broadcast(const ExportValue& x, const Dims& dims, Dims shape);
  ExportValue reshape(const ExportValue& x, Dims shape);
  ExportValue transpose(const ExportValue& x, const Dims& perm);
  ExportValue slice(const ExportValue& x, const Dims& start, const Dims& limit, const Dims& stride);
  ExportValue concatenate(std::span<const ExportValue> xs, int64_t dim);
  ExportValue pad(const ExportValue& x, const ExportValue& value, const Dims& low, const Dims& high,
                  const Dims& interior);
  ExportValue reverse(const ExportValue& x, const Dims& dims);
  // Reduces `dims` with stablehlo.OP from a scalar initial value.
  ExportValue reduce(const ExportValue& x, const ExportValue& start, std::string_view op, const Dims& dims);

private:
  ExportValue define(std::string_view text, std::string_view types, DType, Dims shape);

  std::string text_, indent_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, std::string> renamed_;
  uint64_t next_ = 0;
};

} // namespace dtc
