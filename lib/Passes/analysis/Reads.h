#pragma once
// What an op reads, its blocks included.
#include "dtc/IR/Module.h"

namespace dtc {

// Calls fn(ValueId&) for the operands of an op and of the ops in its blocks, and for the blocks' yields.
template <class Fn> void forEachRead(Module& m, OpId o, Fn&& fn) {
  for (ValueId& v : m.operands(o)) fn(v);
  for (uint32_t k = 0; k < m[o].numRegions; ++k) {
    for (OpId inner : m[m.region(o, k)].ops) forEachRead(m, inner, fn);
    for (ValueId& v : m[m.region(o, k)].yields) fn(v);
  }
}

} // namespace dtc
