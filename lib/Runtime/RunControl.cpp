// The parts of Runner that are not kernels: regions, and ops of the host.
#include "Runner.h"

#include "dtc/Eval/Eval.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Runtime/TensorText.h"

#include <cstring>

namespace dtc {

Error tooManyTrips(int64_t maxTrips) {
  return inputError("it runs more often than its max_trips, " + std::to_string(maxTrips));
}

Result<ForTrips> tripsOf(const ForStep& loop, int64_t lo, int64_t hi) {
  const int64_t trips = hi - lo;
  if (trips <= 0) return ForTrips{lo, 0};
  if (loop.maxTrips >= 0 && trips > loop.maxTrips) return tooManyTrips(loop.maxTrips);
  if (loop.stacked >= 0 && trips != loop.stacked)
    return inputError("it makes " + std::to_string(trips) +
                      " iterations, but its stacked results have room for " + std::to_string(loop.stacked));
  return ForTrips{lo, trips};
}

Result<int64_t> readNumber(Backend& backend, const Program& program, int64_t place, int64_t offset,
                           DType dtype) {
  // Read without a Tensor: a step allocates nothing.
  std::byte bytes[4] = {};
  std::span<std::byte> wanted(bytes, dtype == DType::Bool ? 1 : 4);
  Status s = backend.read(place, wanted, program.arenas[static_cast<size_t>(place)] + offset);
  if (!s) return s.error();
  int32_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return dtype == DType::Bool ? bytes[0] != std::byte{0} : number;
}

Result<int64_t> Runner::readNumber(int64_t place, int64_t offset, DType dtype) {
  if (workers_ > 1) return dtc::readNumber(backend_, program_, place, offset, dtype);
  const int64_t begin = now();
  auto read = dtc::readNumber(backend_, program_, place, offset, dtype);
  cost_.waitNs += now() - begin;
  return read;
}

bool Runner::enter(int64_t place, const Step& s) {
  Device& d = device(place);
  Frame f;
  if (s.kind == StepKind::Cond) {
    const CondStep& c = program_.conds[s.index];
    auto holds = readNumber(place, c.predicate, DType::Bool);
    if (!holds) return fail(holds.error(), &s), false;
    f.list = &c.branch[*holds != 0 ? 0 : 1];
    d.frames.push_back(f);
    return true;
  }
  f.control = s.index;
  if (s.kind == StepKind::While) {
    f.kind = Frame::Condition;
    f.step = &s;
    f.list = &program_.whiles[s.index].condition;
    d.frames.push_back(f);
    return true;
  }
  const ForStep& loop = program_.fors[s.index];
  int64_t bounds[2];
  const ForStep::Bound* which[2] = {&loop.lo, &loop.hi};
  for (int i = 0; i < 2; ++i) {
    bounds[i] = which[i]->number;
    if (which[i]->offset < 0) continue;
    auto read = readNumber(place, which[i]->offset, DType::I32);
    if (!read) return fail(read.error(), &s), false;
    bounds[i] = *read;
  }
  f.kind = Frame::ForBody;
  f.step = &s;
  f.list = &loop.body;
  auto trips = tripsOf(loop, bounds[0], bounds[1]);
  if (!trips) return fail(trips.error(), &s), false;
  f.lo = trips->lo;
  f.trips = trips->count;
  if (f.trips == 0) return true;
  d.frames.push_back(f);
  return startTrip(place, d.frames.back());
}

std::vector<Executable::Iteration> Runner::iterations(int64_t place) const {
  std::vector<Executable::Iteration> out;
  for (const Frame& f : devices_[static_cast<size_t>(place)]->frames)
    if (f.step) out.push_back({program_.infos[f.step->info].id, f.lo + f.trip});
  return out;
}

bool Runner::startTrip(int64_t place, Frame& f) {
  const int32_t index = static_cast<int32_t>(f.lo + f.trip);
  std::byte* to = program_.arenas[static_cast<size_t>(place)] + program_.fors[f.control].index;
  if (Status s = backend_.write(place, to, std::as_bytes(std::span(&index, 1))); !s)
    return fail(s.error(), nullptr), false;
  f.next = 0;
  return true;
}

bool Runner::nextFrame(int64_t place) {
  Device& d = device(place);
  Frame& f = d.frames.back();
  if (f.kind == Frame::ForBody && ++f.trip < f.trips) return startTrip(place, f);
  if (f.kind == Frame::WhileBody) {
    f.kind = Frame::Condition;
    f.list = &program_.whiles[f.control].condition;
    f.next = 0;
    ++f.trip;
    return true;
  }
  if (f.kind == Frame::Condition) {
    const WhileStep& w = program_.whiles[f.control];
    auto again = readNumber(place, w.predicate, DType::Bool);
    if (!again) return fail(again.error(), d.current), false;
    if (*again != 0 && w.maxTrips >= 0 && f.trip >= w.maxTrips)
      return fail(tooManyTrips(w.maxTrips), f.step), false;
    if (*again != 0) {
      f.kind = Frame::WhileBody;
      f.list = &w.body;
      f.next = 0;
      return true;
    }
  }
  d.frames.pop_back();
  return !d.frames.empty();
}

// `print` prints once what is equal everywhere, else each device's; expect_* look at each device.
Status performHostOp(Module& m, const Program& program, Backend& backend, const MeetingStep& step,
                     const RunHooks& hooks) {
  Diagnostics diags;
  OpQuery q = queryOf(m, step.op, diags);
  std::vector<std::vector<Tensor>> values;
  for (int64_t p = 0; p < program.places(); ++p) {
    auto& mine = values.emplace_back();
    for (ValueId v : m.operands(step.op)) {
      auto buffer = program.plan.bufferOf.find(v);
      Tensor t(m.typeOf(v).dtype, *shapeAt(m, m[v].type, program.mesh, p));
      int64_t offset = buffer != program.plan.bufferOf.end() ? program.plan.buffers[buffer->second].offset
                                                             : program.literals.at(v);
      Status read = backend.read(p, t.bytes(), program.arenas[static_cast<size_t>(p)] + offset);
      if (!read) return read;
      mine.push_back(std::move(t));
    }
  }
  bool equal = true;
  for (const auto& mine : values) equal = equal && mine == values[0];
  for (int64_t p = 0; p < (equal ? 1 : program.places()); ++p) {
    const std::vector<Tensor>& mine = values[static_cast<size_t>(p)];
    const std::string device = equal ? "" : "device " + deviceText(program.mesh, m.strings, p);
    if (std::string_view(q.record->name) != "print") {
      auto held = evaluateOp(q, mine, {});
      if (held) continue;
      return Error{held.error().kind, held.error().message + (device.empty() ? "" : " (" + device + ")")};
    }
    const std::string begin = device.empty() ? "" : device + ": ";
    if (hooks.print) hooks.print(hooks.printSelf, begin + printedText(m, step.op, mine) + "\n");
  }
  return Ok{};
}

} // namespace dtc
