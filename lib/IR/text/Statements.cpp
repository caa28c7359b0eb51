#include "dtc/IR/text/Statements.h"

#include "dtc/IR/OpRecord.h"

namespace dtc {

static void addStatements(const Module& m, BlockId b, std::vector<OpId>& list) {
  for (OpId o : m[b].ops) {
    list.push_back(o);
    if (m.record(o).regions == RegionKind::Fused) continue;
    for (uint32_t r = 0; r < m[o].numRegions; ++r) addStatements(m, m.region(o, r), list);
  }
}

std::vector<OpId> statementsOf(const Module& m, FuncId f) {
  std::vector<OpId> list;
  addStatements(m, m[f].body, list);
  return list;
}

std::string statementText(const Module& m, OpId o, const Naming& names) {
  std::string text;
  for (uint32_t r = 0; r < m[o].numResults; ++r) text += (r ? ", " : "") + names(m.result(o, r));
  return text + (text.empty() ? "" : " = ") + std::string(m.record(o).name);
}

} // namespace dtc
