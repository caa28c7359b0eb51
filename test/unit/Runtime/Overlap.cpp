// Collectives that overlap other steps: any two steps that touch the same byte, one of them to write it, are in order, whatever the
// memory plan put there. All pairs of steps are looked at.
#include "../../../lib/Passes/analysis/OverlapOrder.h"
#include "../../../lib/Runtime/program/Loader.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace dtc;

namespace {

// Loads programs, and runs nothing.
class NoDevices final : public Backend, private OverlapBackend {
public:
  std::string_view name() const override { return "none"; }
  KernelOptions kernelOptions() const override { return {.target = *targetNamed("sm_90a")}; }
  Status compile(const std::vector<KernelSource>&) override { return Ok{}; }
  Result<std::byte*> allocate(int64_t, int64_t bytes) override {
    return memory_.emplace_back(static_cast<size_t>(bytes)).data();
  }
  Status write(int64_t, std::byte*, std::span<const std::byte>) override { return Ok{}; }
  Status read(int64_t, std::span<std::byte>, const std::byte*) override { return Ok{}; }
  Result<Placed> place(int64_t, const PlacedKernel&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedGemm&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedFactorization&) override { return Placed{}; }
  Status runKernel(uint32_t, uint32_t, int) override { return Ok{}; }
  Status runGemm(uint32_t, uint32_t, int) override { return Ok{}; }
  Status copy(int64_t, std::byte*, const std::byte*, int64_t) override { return Ok{}; }
  Communicator& communicator() override { return *communicator_; }
  Status finish() override { return Ok{}; }
  OverlapBackend* overlap() override { return this; }
  size_t joins = 0;

private:
  Status prepareJoins(size_t count) override { return joins = count, Ok{}; }
  Status beginOverlap(int64_t) override { return Ok{}; }
  Status endOverlap(int64_t, uint32_t) override { return Ok{}; }
  Status join(int64_t, uint32_t) override { return Ok{}; }
  std::vector<std::vector<std::byte>> memory_;
  std::unique_ptr<Communicator> communicator_ = makeLocalCommunicator();
};

struct Loaded {
  Module m{standardOps()};
  NoDevices backend;
  Program program;
};

std::unique_ptr<Loaded> load(const std::string& text, bool overlaps) {
  auto out = std::make_unique<Loaded>();
  Diagnostics diags;
  SourceText source{"overlap.dt", text};
  EXPECT_TRUE(parseModule(source, standardOps(), out->m, diags) && verifyModule(out->m, diags))
      << renderDiagnostics(diags, source, false) << text;
  const FuncId f = out->m.findFunction("main");
  StandardPipeline pipeline = standardPipeline(levelOf(out->m, f), {.target = "sm_90a", .overlap = overlaps});
  for (const auto* steps : {&pipeline.reference, &pipeline.propagate, &pipeline.lower})
    EXPECT_TRUE(runPipeline(out->m, *steps, diags, {})) << renderDiagnostics(diags, source, false);
  Status done = Loader(out->m, out->m.findFunction("main"), out->backend, out->program).load();
  EXPECT_TRUE(done) << done.error().message;
  return out;
}

struct Use {
  int64_t begin, end;
  bool writes;
};
std::vector<Use> usesOf(const Loaded& l, const Step& s) {
  if (s.kind == ProgramStepKind::Copy) {
    const CopyStep& c = l.program.copies[s.index];
    return {{c.from, c.from + c.bytes[0], false}, {c.to, c.to + c.bytes[0], true}};
  }
  std::vector<Use> uses;
  const auto add = [&](ValueId v, bool writes) {
    if (!l.program.programs[0].plan.bufferOf.contains(v)) return;
    const auto& b = l.program.programs[0].plan.buffers[l.program.programs[0].plan.bufferOf.at(v)];
    uses.push_back({b.offset, b.offset + b.bytes, writes});
  };
  const OpId op = l.program.infos[s.info].id;
  for (ValueId v : l.m.operands(op)) add(v, false);
  for (uint32_t r = 0; r < l.m[op].numResults; ++r) add(l.m.result(op, r), true);
  return uses;
}
bool touch(const std::vector<Use>& a, const std::vector<Use>& b) {
  for (const Use& x : a)
    for (const Use& y : b)
      if ((x.writes || y.writes) && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

bool isOverlapped(const Loaded& l, const Step& s) {
  return s.kind == ProgramStepKind::Collective && l.program.rendezvousSteps[s.index].overlapped;
}
bool isControl(const Step& s) {
  return s.kind == ProgramStepKind::Cond || s.kind == ProgramStepKind::While ||
         s.kind == ProgramStepKind::For || s.kind == ProgramStepKind::Host;
}

// Is step i over when step j of the list begins (i < j)? `dropped`: a join that is not there.
bool inOrder(const Loaded& l, const StepList& list, size_t i, size_t j, size_t dropped) {
  if (!isOverlapped(l, list[i]) || isOverlapped(l, list[j]))
    return true; // one stream, or started after all preceding steps
  for (size_t k = i + 1; k < j; ++k) {
    if (list[k].kind != ProgramStepKind::Join || k == dropped) continue;
    for (size_t b = k; b-- > i;) // the last that was given this number
      if (isOverlapped(l, list[b]) && *l.program.rendezvousSteps[list[b].index].overlapped == list[k].index)
        return true;
  }
  return false;
}

// Pairs of steps that touch the same bytes and are not in order; the end, control flow and the host touch all that is aside.
size_t unordered(const Loaded& l, const StepList& list, size_t dropped = SIZE_MAX) {
  std::vector<std::vector<Use>> uses;
  for (const Step& s : list)
    uses.push_back(s.kind == ProgramStepKind::Join || isControl(s) ? std::vector<Use>() : usesOf(l, s));
  StepList closed = list;
  closed.push_back({ProgramStepKind::Host});
  size_t wrong = 0;
  for (size_t j = 0; j < closed.size(); ++j) {
    if (closed[j].kind == ProgramStepKind::Join) continue;
    for (size_t i = 0; i < j; ++i) {
      if (!isOverlapped(l, list[i])) continue;
      if (!isControl(closed[j]) && !touch(uses[i], uses[j])) continue;
      wrong += inOrder(l, closed, i, j, dropped) ? 0 : 1;
    }
  }
  return wrong;
}

struct Found {
  size_t overlapped = 0, joins = 0;
};
Found& operator+=(Found& a, const Found& b) { return a.overlapped += b.overlapped, a.joins += b.joins, a; }

Found expectOrdered(const Loaded& l, const StepList& list, std::set<uint32_t>& seen) {
  EXPECT_EQ(unordered(l, list), 0u);
  Found found;
  for (size_t i = 0; i < list.size(); ++i) {
    const Step& s = list[i];
    found.overlapped += isOverlapped(l, s);
    if (s.kind == ProgramStepKind::Join) {
      ++found.joins;
      continue;
    }
    EXPECT_TRUE(seen.insert(s.info).second) << "a step is there twice";
    if (s.kind == ProgramStepKind::For) found += expectOrdered(l, l.program.fors[s.index].body, seen);
    for (int b = 0; s.kind == ProgramStepKind::Cond && b < 2; ++b)
      found += expectOrdered(l, l.program.conds[s.index].branch[b], seen);
  }
  return found;
}

Found expectOrdered(const std::string& text) {
  auto with = load(text, true), without = load(text, false);
  std::set<uint32_t> seen;
  const Found found = expectOrdered(*with, with->program.programs[0].steps, seen);
  EXPECT_EQ(seen.size(), with->program.infos.size());
  EXPECT_LE(with->backend.joins, found.overlapped);
  EXPECT_LE(with->program.programs[0].plan.arenaBytes,
            without->program.programs[0].plan.arenaBytes / 16 * 17);
  if (testing::Test::HasFailure()) std::printf("%s", text.c_str());
  return found;
}

// Scheduled text of random steps: sums of some values, collectives of others, begun and waited for at once or later.
std::string randomText(uint32_t seed, int steps) {
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return random() % n; };
  std::string body;
  std::vector<std::string> values = {"%x0", "%x1"}, handles;
  const auto value = [&] { return values[values.size() - 1 - below(std::min<size_t>(values.size(), 5))]; };
  for (int i = 0; i < steps; ++i) {
    const std::string v = "%v" + std::to_string(i);
    const size_t kind = below(8);
    if (kind < 4) {
      body += "  " + v + " = fused (%p = " + value() + ", %q = " + value() +
              ") {kind = \"reduce\"} {\n    %s = sum %p : f32[]\n    %t = mul %q, %s : f32[40]\n    yield "
              "%t\n  } "
              ": f32[40]\n";
    } else if (kind < 6) {
      body +=
          "  " + v + " = all_reduce " + value() + " {axes = [" + (kind == 4 ? "a" : "b") + "]} : f32[40]\n";
    } else if (kind == 6 || handles.empty()) {
      body += "  " + v + " = all_reduce_start " + value() + " {axes = [a, b]} : f32[40]\n";
      handles.push_back(v);
      continue; // no value yet
    } else {
      const size_t which = below(handles.size());
      body += "  " + v + " = done " + handles[which] + " : f32[40]\n";
      handles.erase(handles.begin() + static_cast<int64_t>(which));
    }
    values.push_back(v);
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    body += "  %d" + std::to_string(i) + " = done " + handles[i] + " : f32[40]\n";
    values.push_back("%d" + std::to_string(i));
  }
  return "mesh @m = [a=2, b=3]\nspmd func @main(%x0: f32[40], %x1: f32[40]) -> (f32[40], f32[40]) {\n" +
         body + "  return " + values.back() + ", " + values[values.size() - 2] + "\n}\n";
}

TEST(Overlap, StepsThatTouchTheSameBytesAreInOrder) {
  Found found;
  for (uint32_t seed = 0; seed < 60; ++seed)
    found += expectOrdered(randomText(seed, 5 + 2 * static_cast<int>(seed)));
  EXPECT_GT(found.overlapped, 500u); // and there is something to be found
  EXPECT_GT(found.joins, 300u);
}

TEST(Overlap, AProgramWithControlFlow) {
  const Found found = expectOrdered(R"(mesh @m = [a=2, b=2]
func @main(%x: f32[8, 6] @m{a, _}, %w: f32[6, 6] @m{_, b}, %n: f32[6, 6] @m{b, _}, %d: f32[6, 6], %large: f32[64, 64]) -> (%y: f32[8, 6]) {
  %h = for %i in 0..3 (%c = %x) {
    %p = matmul %c, %w
    %q = matmul %p, %n
    %r = matmul %c, %d
    %s = softmax %r {dims = [1]}
    %e = mul %q, %s
    yield %e
  }
  %big = sum %h
  %up = gt %big, 0.0
  %o = cond %up {
    %k = matmul %h, %w
    %l = matmul %k, %n
    %m = matmul %h, %d
    %t = softmax %m {dims = [1]}
    %z = mul %l, %t
    yield %z
  } {
    yield %h
  }
  return %o
}
)");
  EXPECT_EQ(found.overlapped, 2u);
  EXPECT_EQ(found.joins, 2u);
}

std::vector<uint32_t> order(const std::vector<OverlapTask>& tasks) { return overlapOrder(tasks); }
using Order = std::vector<uint32_t>;

TEST(OverlapOrder, WhatNeedNotWaitGoesFirstWhileTheWaitLasts) {
  // 0 makes what 1 sends; 2 reads what came; 3, 4 and 5 have to do with none of it.
  std::vector<OverlapTask> tasks = {{{}, 10}, {{0}, 100, true}, {{1}, 10}, {{}, 60}, {{}, 60}, {{}, 60}};
  EXPECT_EQ(order(tasks), (Order{0, 1, 3, 4, 2, 5}));
  tasks[1].ns = 1000;
  EXPECT_EQ(order(tasks), (Order{0, 1, 3, 4, 5, 2}));
  tasks[1].ns = 0;
  EXPECT_EQ(order(tasks), (Order{0, 1, 2, 3, 4, 5}));
}

TEST(OverlapOrder, WhatIsAsideComesAsEarlyAsItCanAndInItsOrder) {
  // 0 and 3 have nothing to do with what 2 sends, which 1 makes.
  EXPECT_EQ(order({{{}, 60}, {{}, 10}, {{1}, 10, true}, {{}, 10}, {{2}, 10}}), (Order{1, 2, 0, 3, 4}));
  const std::vector<OverlapTask> tasks = {{{}, 10}, {{}, 10},       {{0}, 10, true},
                                          {{}, 10}, {{}, 10, true}, {{4}, 10}};
  EXPECT_EQ(order(tasks), (Order{0, 2, 4, 1, 3, 5}));
}

} // namespace
