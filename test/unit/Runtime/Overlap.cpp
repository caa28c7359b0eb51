// Collectives beside other steps: any two steps that touch the same byte, one of them to write it, are in order, whatever the
// memory plan put there. All pairs of steps are looked at.
#include "../../../lib/Runtime/Overlap.h"

#include "../../../lib/Runtime/AsideOrder.h"
#include "../../../lib/Runtime/Loader.h"
#include "dtc/IR/Text.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/StandardPipeline.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace dtc;

namespace {

// Loads programs, and runs nothing.
class NoDevices final : public Backend, private OverlapBackend {
public:
  std::string_view name() const override { return "none"; }
  KernelOptions kernelOptions() const override { return {}; }
  Status compile(const std::vector<KernelSource>&) override { return Ok{}; }
  Result<std::byte*> allocate(int64_t, int64_t bytes) override {
    return memory_.emplace_back(static_cast<size_t>(bytes)).data();
  }
  Status write(int64_t, std::byte*, std::span<const std::byte>) override { return Ok{}; }
  Status read(int64_t, std::span<std::byte>, const std::byte*) override { return Ok{}; }
  Result<Placed> place(int64_t, const PlacedKernel&) override { return Placed{}; }
  Result<Placed> place(int64_t, const PlacedGemm&) override { return Placed{}; }
  Status runKernel(uint32_t, uint32_t, int) override { return Ok{}; }
  Status runGemm(uint32_t, uint32_t, int) override { return Ok{}; }
  Status copy(int64_t, std::byte*, const std::byte*, int64_t) override { return Ok{}; }
  Communicator& communicator() override { return *communicator_; }
  Status finish() override { return Ok{}; }
  OverlapBackend* overlap() override { return this; }
  size_t joins = 0;

private:
  Status prepareJoins(size_t count) override { return joins = count, Ok{}; }
  Status beginAside(int64_t) override { return Ok{}; }
  Status endAside(int64_t, uint32_t) override { return Ok{}; }
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
  StandardPipeline pipeline = standardPipeline(levelOf(out->m, f), 1, "");
  for (const auto* steps : {&pipeline.reference, &pipeline.propagate, &pipeline.lower})
    EXPECT_TRUE(runPipeline(out->m, *steps, diags, {})) << renderDiagnostics(diags, source, false);
  Status done = Loader(out->m, out->m.findFunction("main"), out->backend, out->program).load(true, overlaps);
  EXPECT_TRUE(done) << done.error().message;
  return out;
}

struct Use {
  int64_t begin, end;
  bool writes;
};
std::vector<Use> usesOf(const Loaded& l, const Step& s) {
  if (s.kind == StepKind::Copy) {
    const CopyStep& c = l.program.copies[s.index];
    return {{c.from, c.from + c.bytes[0], false}, {c.to, c.to + c.bytes[0], true}};
  }
  std::vector<Use> uses;
  const auto add = [&](ValueId v, bool writes) {
    if (!l.program.plan.bufferOf.contains(v)) return;
    const auto& b = l.program.plan.buffers[l.program.plan.bufferOf.at(v)];
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

bool isAside(const Loaded& l, const Step& s) {
  return s.kind == StepKind::Collective && l.program.meetings[s.index].aside;
}
bool isControl(const Step& s) {
  return s.kind == StepKind::Cond || s.kind == StepKind::While || s.kind == StepKind::For ||
         s.kind == StepKind::Host;
}

// Is step i over when step j of the list begins (i < j)? `dropped`: a join that is not there.
bool inOrder(const Loaded& l, const StepList& list, size_t i, size_t j, size_t dropped) {
  if (!isAside(l, list[i]) || isAside(l, list[j]))
    return true; // one stream, or begun behind all that is before it
  for (size_t k = i + 1; k < j; ++k) {
    if (list[k].kind != StepKind::Join || k == dropped) continue;
    for (size_t b = k; b-- > i;) // the last that was given this number
      if (isAside(l, list[b]) && *l.program.meetings[list[b].index].aside == list[k].index) return true;
  }
  return false;
}

// Pairs of steps that touch the same bytes and are not in order; the end, control flow and the host touch all that is aside.
size_t unordered(const Loaded& l, const StepList& list, size_t dropped = SIZE_MAX) {
  std::vector<std::vector<Use>> uses;
  for (const Step& s : list)
    uses.push_back(s.kind == StepKind::Join || isControl(s) ? std::vector<Use>() : usesOf(l, s));
  StepList closed = list;
  closed.push_back({StepKind::Host});
  size_t wrong = 0;
  for (size_t j = 0; j < closed.size(); ++j) {
    if (closed[j].kind == StepKind::Join) continue;
    for (size_t i = 0; i < j; ++i) {
      if (!isAside(l, list[i])) continue;
      if (!isControl(closed[j]) && !touch(uses[i], uses[j])) continue;
      wrong += inOrder(l, closed, i, j, dropped) ? 0 : 1;
    }
  }
  return wrong;
}

// Steps are numbered as the program has them: those that touch the same bytes keep that order, and collectives too.
void expectOrderKept(const Loaded& l, const StepList& list) {
  for (size_t j = 0; j < list.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      if (list[i].kind == StepKind::Join || list[j].kind == StepKind::Join) continue;
      const auto meets = [&](const Step& s) {
        return s.kind == StepKind::Collective && l.program.meetings[s.index].plan.meets();
      };
      if (isControl(list[i]) || isControl(list[j]) || (meets(list[i]) && meets(list[j])) ||
          touch(usesOf(l, list[i]), usesOf(l, list[j])))
        EXPECT_LT(list[i].info, list[j].info);
    }
}

struct Found {
  size_t aside = 0, joins = 0;
};
Found& operator+=(Found& a, const Found& b) { return a.aside += b.aside, a.joins += b.joins, a; }

Found expectOrdered(const Loaded& l, const StepList& list, std::set<uint32_t>& seen) {
  EXPECT_EQ(unordered(l, list), 0u);
  expectOrderKept(l, list);
  Found found;
  for (size_t i = 0; i < list.size(); ++i) {
    const Step& s = list[i];
    found.aside += isAside(l, s);
    if (s.kind == StepKind::Join) {
      ++found.joins;
      EXPECT_GT(unordered(l, list, i), 0u) << "a join that nothing needs, or that is not missed";
      continue;
    }
    EXPECT_TRUE(seen.insert(s.info).second) << "a step is there twice";
    if (s.kind == StepKind::For) found += expectOrdered(l, l.program.fors[s.index].body, seen);
    for (int b = 0; s.kind == StepKind::Cond && b < 2; ++b)
      found += expectOrdered(l, l.program.conds[s.index].branch[b], seen);
  }
  return found;
}

Found expectOrdered(const std::string& text) {
  auto with = load(text, true), without = load(text, false);
  std::set<uint32_t> seen;
  const Found found = expectOrdered(*with, with->program.steps, seen);
  EXPECT_EQ(seen.size(), with->program.infos.size());
  EXPECT_LE(with->backend.joins, found.aside);
  EXPECT_EQ(without->backend.joins, 0u);
  EXPECT_LE(with->program.plan.arenaBytes, without->program.plan.arenaBytes / 16 * 17);
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
  EXPECT_GT(found.aside, 500u); // and there is something to be found
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
  EXPECT_EQ(found.aside, 2u);
  EXPECT_EQ(found.joins, 2u);
}

// Do the bytes of two values of this text meet, where operands of collectives stay for so long?
bool meet(const std::string& text, const char* one, const char* other, uint32_t inFlight) {
  Module m(standardOps());
  Diagnostics diags;
  EXPECT_TRUE(parseModule({"plan.dt", text}, standardOps(), m, diags) && verifyModule(m, diags))
      << renderDiagnostics(diags, {"plan.dt", text}, false);
  const auto plan = makeMemoryPlan(m, m.findFunction("main"), diags, true, inFlight);
  if (!plan) return ADD_FAILURE() << "no plan", false;
  const auto of = [&](const char* name) {
    for (const auto& [value, buffer] : plan->bufferOf)
      if (m[value].name.valid() && m.strings[m[value].name] == name) return plan->buffers[buffer];
    ADD_FAILURE() << "no value " << name;
    return plan->buffers[0];
  };
  const auto a = of(one), b = of(other);
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

TEST(Overlap, WhatACollectiveReadsStaysUntilItsResultIsRead) {
  const auto sum = [](const char* result, const char* of) {
    return std::string("  ") + result + " = fused (%p = " + of +
           ") {kind = \"reduce\"} {\n    %s = sum %p : f32[]\n    %t = broadcast %s {shape = [40]} : "
           "f32[40]\n"
           "    yield %t\n  } : f32[40]\n";
  };
  const std::string head = "mesh @m = [a=2]\nspmd func @main(%x: f32[40]) -> (f32[40], f32[40]) {\n" +
                           sum("%e", "%x") + "  %r = all_reduce %e {axes = [a]} : f32[40]\n";
  const std::string text =
      head + sum("%u", "%x") + sum("%v", "%u") + sum("%y", "%r") + "  return %y, %v\n}\n";
  EXPECT_TRUE(meet(text, "e", "u", 0));
  EXPECT_FALSE(meet(text, "e", "u", 1));
  EXPECT_FALSE(meet(text, "e", "v", 2));
  // Another shape of the result is no look at it.
  const std::string seen =
      head +
      "  %w = fused (%p = %r) {kind = \"view\"} {\n    %t = reshape %p {shape = [8, 5]} : f32[8, 5]\n"
      "    yield %t\n  } : f32[8, 5]\n" +
      sum("%u", "%x") +
      "  %y = fused (%p = %w) {kind = \"reduce\"} {\n    %s = sum %p : f32[]\n    %t = broadcast %s {shape = "
      "[40]} : f32[40]\n    yield %t\n  } : f32[40]\n  return %y, %u\n}\n";
  EXPECT_TRUE(meet(seen, "e", "u", 0));
  EXPECT_FALSE(meet(seen, "e", "u", 4));
}

std::vector<uint32_t> order(const std::vector<AsideTask>& tasks) { return asideOrder(tasks); }
using Order = std::vector<uint32_t>;

TEST(AsideOrder, WhatNeedNotWaitGoesFirstWhileTheWaitLasts) {
  // 0 makes what 1 sends; 2 reads what came; 3, 4 and 5 have to do with none of it.
  std::vector<AsideTask> tasks = {{{}, 10}, {{0}, 100, true}, {{1}, 10}, {{}, 60}, {{}, 60}, {{}, 60}};
  EXPECT_EQ(order(tasks), (Order{0, 1, 3, 4, 2, 5}));
  tasks[1].ns = 1000;
  EXPECT_EQ(order(tasks), (Order{0, 1, 3, 4, 5, 2}));
  tasks[1].ns = 0;
  EXPECT_EQ(order(tasks), (Order{0, 1, 2, 3, 4, 5}));
}

TEST(AsideOrder, WhatIsAsideComesAsEarlyAsItCanAndInItsOrder) {
  // 0 and 3 have nothing to do with what 2 sends, which 1 makes.
  EXPECT_EQ(order({{{}, 60}, {{}, 10}, {{1}, 10, true}, {{}, 10}, {{2}, 10}}), (Order{1, 2, 0, 3, 4}));
  const std::vector<AsideTask> tasks = {{{}, 10}, {{}, 10},       {{0}, 10, true},
                                        {{}, 10}, {{}, 10, true}, {{4}, 10}};
  EXPECT_EQ(order(tasks), (Order{0, 2, 4, 1, 3, 5}));
}

} // namespace
