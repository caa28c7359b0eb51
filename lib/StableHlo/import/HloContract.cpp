// Matrix products: matmul where the dims have its order, else einsum.
#include "import/HloTable.h"

namespace dtc {

namespace {

// The pairs of corresponding dims of the two operands.
struct DotDims {
  std::vector<int64_t> batchA, batchB, contractA, contractB;
};

bool checkSide(HloContext& c, const std::vector<int64_t>& batch, const std::vector<int64_t>& contract,
               size_t rank) {
  std::vector<bool> seen(rank);
  for (const std::vector<int64_t>* list : {&batch, &contract})
    for (int64_t d : *list) {
      if (d < 0 || d >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(d)])
        return c.fail("names a dim that an operand does not have, or one twice");
      seen[static_cast<size_t>(d)] = true;
    }
  return true;
}

// [batch… m k] or [batch… k m], one of each: the operand layouts of matmul.
bool isMatrix(const std::vector<int64_t>& batch, const std::vector<int64_t>& contract, size_t rank) {
  if (contract.size() != 1 || rank != batch.size() + 2) return false;
  for (size_t i = 0; i < batch.size(); ++i)
    if (batch[i] != static_cast<int64_t>(i)) return false;
  return true;
}

std::string equation(const DotDims& d, size_t rankA, size_t rankB) {
  std::string a(rankA, '\0'), b(rankB, '\0'), out;
  char next = 'a';
  auto letter = [&] {
    char l = next;
    next = next == 'z' ? 'A' : static_cast<char>(next + 1);
    return l;
  };
  for (size_t i = 0; i < d.batchA.size(); ++i)
    out.push_back(a[static_cast<size_t>(d.batchA[i])] = b[static_cast<size_t>(d.batchB[i])] = letter());
  for (size_t i = 0; i < d.contractA.size(); ++i)
    a[static_cast<size_t>(d.contractA[i])] = b[static_cast<size_t>(d.contractB[i])] = letter();
  for (std::string* side : {&a, &b})
    for (char& l : *side)
      if (!l) out.push_back(l = letter());
  return a + "," + b + "->" + out;
}

// The result's dtype is precise enough for the accumulation: where it is wider, operands are converted to it.
ValueId product(HloContext& c, const DotDims& d) {
  ValueId a = c.operand(0), b = c.operand(1);
  if (!a.valid() || !b.valid() || !c.resultType().valid()) return {};
  size_t rankA = c.rankOf(a), rankB = c.rankOf(b);
  if (d.batchA.size() != d.batchB.size() || d.contractA.size() != d.contractB.size()) {
    c.fail("lists different numbers of dims for its two operands");
    return {};
  }
  if (!checkSide(c, d.batchA, d.contractA, rankA) || !checkSide(c, d.batchB, d.contractB, rankB)) return {};
  if (rankA + rankB > 50) {
    c.fail("has too many dims");
    return {};
  }
  DType to = c.resultDType(), da = c.dtypeOf(a), db = c.dtypeOf(b);
  bool bits = isBool(da) && isBool(db); // for bools: is any term not 0?
  if (bits) {
    a = c.convert(a, DType::I32);
    b = c.convert(b, DType::I32);
  }
  bool wider = da != db || dtypeBytes(to) > dtypeBytes(da);
  if (wider && !bits) {
    a = c.convert(a, to);
    b = c.convert(b, to);
  }
  ValueId y;
  if (isMatrix(d.batchA, d.contractA, rankA) && isMatrix(d.batchB, d.contractB, rankB)) {
    auto n = static_cast<int64_t>(d.batchA.size());
    y = c.emit(
        "matmul", {a, b},
        {{"transpose_a", c.boolAttr(d.contractA[0] == n)}, {"transpose_b", c.boolAttr(d.contractB[0] != n)}});
  } else {
    y = c.emit("einsum", {a, b}, {{"equation", c.stringAttr(equation(d, rankA, rankB))}});
  }
  return c.convert(y, to);
}

// dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], …>; the pretty form has them as
// attributes.
bool dotGeneral(HloContext& c) {
  const MlirAttr* numbers = c.attr("dot_dimension_numbers");
  auto list = [&](const char* name) {
    return numbers && numbers->kind == MlirAttr::Dialect ? c.bodyInts(*numbers, name) : c.intsOr(name, {});
  };
  auto batchA = list("lhs_batching_dimensions"), batchB = list("rhs_batching_dimensions");
  auto contractA = list("lhs_contracting_dimensions"), contractB = list("rhs_contracting_dimensions");
  if (!batchA || !batchB || !contractA || !contractB) return false;
  return c.setResult(product(c, {*batchA, *batchB, *contractA, *contractB}));
}

// Contracts the last dim of a with the first of b, as for matrices and vectors.
bool dot(HloContext& c) {
  auto rank = static_cast<int64_t>(c.rankOf(c.operand(0)));
  if (rank == 0 || c.rankOf(c.operand(1)) == 0) return c.fail("needs vectors or matrices as operands");
  return c.setResult(product(c, {{}, {}, {rank - 1}, {0}}));
}

const HloRow kContractRows[] = {
    {"stablehlo.dot", dot, 2},
    {"stablehlo.dot_general", dotGeneral, 2},
};

} // namespace

std::span<const HloRow> hloContractRows() { return kContractRows; }

} // namespace dtc
