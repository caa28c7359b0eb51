// Control flow: nested step lists, and the copies that carry values from one trip to the next.
#include "Loader.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>

namespace dtc {

Status Loader::copyStep(int64_t from, int64_t to, TypeId type, bool stacked, OpId o, StepList& out) {
  if (from == to && !stacked) return Ok{};
  CopyStep copy{from, to, stacked, {}};
  for (int64_t p = 0; p < program_.mesh.numDevices(); ++p) {
    auto shape = shapeAt(m_, type, program_.mesh, p);
    if (!shape) return at(o, "a symbolic size has no value: bind it with --dim NAME=SIZE");
    copy.bytes.push_back(*elementCount(*shape) *
                         dtypeBytes(m_.types[type].dtype)); // the plan checked the largest
  }
  out.push_back({StepKind::Copy, static_cast<uint32_t>(program_.copies.size()),
                 info(o, "copy", "copy", 2 * copy.bytes[0])});
  program_.copies.push_back(std::move(copy));
  return Ok{};
}

Status Loader::moves(std::span<const Move> list, OpId o, StepList& out) {
  struct Placed {
    int64_t from, to;
    bool stacked;
    TypeId type;
  };
  std::vector<Placed> copies;
  for (const Move& mv : list) {
    auto from = offsetOf(mv.from), to = offsetOf(mv.to);
    if (!from) return at(o, from.error());
    if (!to) return at(o, to.error());
    copies.push_back({*from, *to, mv.stacked, m_[mv.from].type});
  }
  // A later copy reads what an earlier one overwrites: it is read first, into a temporary.
  size_t used = 0;
  for (size_t j = 0; j < copies.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      if (!copies[i].stacked && copies[i].to == copies[j].from && copies[i].from != copies[i].to) {
        int64_t bytes = *largestBytes(m_, copies[j].type, program_.mesh);
        while (used < temporaries_.size() && temporaries_[used].bytes < bytes) ++used;
        if (used == temporaries_.size()) temporaries_.push_back({extra(bytes), bytes});
        int64_t temporary = temporaries_[used++].offset;
        if (Status s = copyStep(copies[j].from, temporary, copies[j].type, false, o, out); !s) return s;
        copies[j].from = temporary;
        break;
      }
  for (const Placed& c : copies)
    if (Status s = copyStep(c.from, c.to, c.type, c.stacked, o, out); !s) return s;
  return Ok{};
}

Status Loader::cond(OpId o, StepList& out) {
  auto predicate = offsetOf(m_.operand(o, 0));
  if (!predicate) return at(o, predicate.error());
  CondStep step;
  step.predicate = *predicate;
  for (uint32_t r = 0; r < 2; ++r) {
    BlockId b = m_.region(o, r);
    if (Status s = block(b, step.branch[r]); !s) return s;
    std::vector<Move> list;
    for (uint32_t i = 0; i < m_[o].numResults; ++i) list.push_back({m_[b].yields[i], m_.result(o, i)});
    if (Status s = moves(list, o, step.branch[r]); !s) return s;
  }
  out.push_back({StepKind::Cond, static_cast<uint32_t>(program_.conds.size()), info(o, "cond", "control")});
  program_.conds.push_back(std::move(step));
  return Ok{};
}

Status Loader::whileLoop(OpId o, StepList& out) {
  std::vector<Move> start, again;
  BlockId condition = m_.region(o, 0), body = m_.region(o, 1);
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    start.push_back({m_.operand(o, i), m_.result(o, i)});
    again.push_back({m_[body].yields[i], m_.result(o, i)});
  }
  if (Status s = moves(start, o, out); !s) return s;
  WhileStep step;
  if (Status s = block(condition, step.condition); !s) return s;
  auto predicate = offsetOf(m_[condition].yields[0]);
  if (!predicate) return at(o, predicate.error());
  step.predicate = *predicate;
  if (AttrId trips = m_.attr(o, "max_trips")) step.maxTrips = m_.attrs[trips].i;
  if (Status s = block(body, step.body); !s) return s;
  if (Status s = moves(again, o, step.body); !s) return s;
  out.push_back(
      {StepKind::While, static_cast<uint32_t>(program_.whiles.size()), info(o, "while", "control")});
  program_.whiles.push_back(std::move(step));
  return Ok{};
}

Result<ForStep::Bound> Loader::bound(ValueId v) {
  ForStep::Bound b;
  if (m_[v].kind == ValueKind::Literal) {
    b.number = m_.attrs[m_[v].literal].i;
    return b;
  }
  auto offset = offsetOf(v);
  if (!offset) return offset.error();
  b.offset = *offset;
  return b;
}

Status Loader::forLoop(OpId o, StepList& out) {
  BlockId body = m_.region(o);
  size_t carried = m_[body].args.size() - 1;
  ForStep step;
  auto lo = bound(m_.operand(o, 0)), hi = bound(m_.operand(o, 1));
  if (!lo || !hi) return at(o, (lo ? hi : lo).error());
  step.lo = *lo;
  step.hi = *hi;
  if (AttrId trips = m_.attr(o, "max_trips")) step.maxTrips = m_.attrs[trips].i;
  step.index = *offsetOf(m_[body].args[0]);
  std::vector<Move> start, again;
  for (size_t i = 0; i < carried; ++i) {
    start.push_back({m_.operand(o, i + 2), m_.result(o, i)});
    again.push_back({m_[body].yields[i], m_.result(o, i)});
  }
  for (size_t i = carried; i < m_[o].numResults; ++i) {
    const Dim trips = m_.typeOf(m_.result(o, i)).dims[0];
    if (!trips.isStatic() ||
        (lo->offset < 0 && hi->offset < 0 && trips.value() != std::max<int64_t>(0, hi->number - lo->number)))
      return at(o, "a stacked result that is sharded along its iterations cannot be executed yet; let its "
                   "dim 0 be `_`");
    step.stacked = trips.value();
    again.push_back({m_[body].yields[i], m_.result(o, i), true});
  }
  if (Status s = moves(start, o, out); !s) return s;
  if (Status s = block(body, step.body); !s) return s;
  if (Status s = moves(again, o, step.body); !s) return s;
  out.push_back({StepKind::For, static_cast<uint32_t>(program_.fors.size()), info(o, "for", "control")});
  program_.fors.push_back(std::move(step));
  return Ok{};
}

} // namespace dtc
