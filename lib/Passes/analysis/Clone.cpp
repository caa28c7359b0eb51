#include "dtc/Passes/analysis/Clone.h"
#include "dtc/IR/OpRecord.h"

namespace dtc {

static StrId nameOfCopy(Module& m, StrId name, const CloneNames& names) {
  if (names.same) return name;
  if (!name.valid() || names.prefix.empty() || !names.taken) return {};
  std::string copy = names.prefix + "_" + std::string(m.strings[name]);
  if (!names.taken->emplace(copy, true).second) return {};
  return m.strings.intern(copy);
}

static void copyValue(Module& m, ValueId from, ValueId to, const CloneNames& names) {
  const Value& source = m[from];
  m[to].type = source.type;
  m[to].sharding = source.sharding;
  m[to].loc = source.loc;
  m[to].name = nameOfCopy(m, source.name, names);
}

OpId cloneOp(Module& m, OpId o, BlockId parent, ValueMap& map, const CloneNames& names) {
  std::vector<ValueId> operands;
  for (ValueId v : m.operands(o)) operands.push_back(map(v));
  const Op source = m[o];
  OpId copy = m.makeOp(source.kind, operands, source.numResults, source.attrs, source.numRegions, source.loc);
  m[copy].callee = source.callee;
  m[copy].parent = parent;
  for (uint32_t r = 0; r < source.numResults; ++r) {
    copyValue(m, m.result(o, r), m.result(copy, r), names);
    map.set(m.result(o, r), m.result(copy, r));
  }
  for (uint32_t k = 0; k < source.numRegions; ++k) {
    BlockId from = m.region(o, k), to = m.region(copy, k);
    m[to].parentOp = copy;
    m[to].parentFunc = m[parent].parentFunc;
    m[to].terminatorLoc = m[from].terminatorLoc;
    for (size_t a = 0; a < m[from].args.size(); ++a) {
      ValueId arg = m[from].args[a];
      ValueId fresh = m.makeBlockArg(to, m[arg].type);
      copyValue(m, arg, fresh, names);
      map.set(arg, fresh);
    }
    std::vector<OpId> inner;
    cloneOps(m, from, to, inner, map, names);
    m[to].ops = std::move(inner);
    std::vector<ValueId> yields;
    for (ValueId v : m[from].yields) yields.push_back(map(v));
    m[to].yields = std::move(yields);
  }
  return copy;
}

void cloneOps(Module& m, BlockId from, BlockId parent, std::vector<OpId>& out, ValueMap& map,
              const CloneNames& names) {
  const std::vector<OpId> ops = m[from].ops; // a copy: cloning grows the tables
  for (OpId o : ops) out.push_back(cloneOp(m, o, parent, map, names));
}

FuncId cloneFunction(Module& m, FuncId source, StrId name) {
  const BlockId body = m.makeBlock(), from = m[source].body;
  const FuncId made(static_cast<uint32_t>(m.functions.size()));
  Function f = m[source];
  f.name = name;
  f.body = body;
  m[body].parentFunc = made;
  m[body].terminatorLoc = m[from].terminatorLoc;
  ValueMap map;
  CloneNames names;
  names.same = true;
  for (FuncArg& a : f.args) {
    const ValueId arg = m.makeBlockArg(body, m[a.value].type);
    copyValue(m, a.value, arg, names);
    map.set(a.value, arg);
    a.value = arg;
  }
  std::vector<OpId> ops;
  cloneOps(m, from, body, ops, map, names);
  m[body].ops = std::move(ops);
  for (ValueId v : std::vector<ValueId>(m[from].yields)) m[body].yields.push_back(map(v));
  m.functions.push_back(std::move(f));
  m.order.push_back(made);
  return made;
}

} // namespace dtc
