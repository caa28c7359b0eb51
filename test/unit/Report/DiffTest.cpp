// diff: the matcher, and the accounting of random edits: the changes add up to the difference of the totals.
#include "diff/Match.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Report/diff/ProgramDiff.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

namespace dtc {
namespace {

std::vector<int32_t> match(std::vector<uint32_t> a, std::vector<uint32_t> b) {
  return matchSequences({std::move(a)}, {std::move(b)});
}

TEST(DiffMatch, InsertedElementsLeaveTheOthersMatched) {
  EXPECT_EQ(match({1, 2, 3}, {1, 9, 2, 3}), (std::vector<int32_t>{0, 2, 3}));
  EXPECT_EQ(match({1, 2, 3}, {1, 3}), (std::vector<int32_t>{0, -1, 1}));
  EXPECT_EQ(match({}, {1}), std::vector<int32_t>());
  EXPECT_EQ(match({0, 0}, {0, 0}), (std::vector<int32_t>{-1, -1})); // key 0 matches nothing
}

TEST(DiffMatch, LooserLevelsMatchWhatIsLeft) {
  const MatchKeys a = {{1, 2, 3}, {1, 7, 3}}, b = {{1, 5, 3}, {1, 7, 3}};
  EXPECT_EQ(matchSequences(a, b), (std::vector<int32_t>{0, 1, 2}));
}

TEST(DiffMatch, MovedElementsAreMatchedIfUnique) {
  std::vector<int32_t> matches = {-1, 1, -1};
  const std::vector<uint32_t> a = {4, 2, 5}, b = {5, 2, 4};
  matchMoved(a, b, matches);
  EXPECT_EQ(matches, (std::vector<int32_t>{2, 1, 0}));
}

TEST(DiffMatch, RandomSequences) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t keys = 2 + random() % 40;
    std::vector<uint32_t> a(random() % 60);
    for (uint32_t& k : a) k = 1 + random() % keys;
    const std::vector<int32_t> own = match(a, a);
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(own[i], static_cast<int32_t>(i));
    std::vector<uint32_t> b = a;
    if (!b.empty()) b.erase(b.begin() + static_cast<ptrdiff_t>(random() % b.size()));
    b.insert(b.begin() + static_cast<ptrdiff_t>(random() % (b.size() + 1)), 99);
    int32_t before = -1;
    size_t matched = 0;
    const std::vector<int32_t> got = match(a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      if (got[i] < 0) continue;
      EXPECT_GT(got[i], before);
      EXPECT_EQ(a[i], b[static_cast<size_t>(got[i])]);
      before = got[i], ++matched;
    }
    EXPECT_GE(matched + 3, a.size()); // patience may lose a few around repeated keys
  }
}

// A random program of layers, with random annotations.
class RandomPrograms {
public:
  explicit RandomPrograms(unsigned seed) : random_(seed) {}

  std::string program() {
    const size_t layers = 1 + pick(3);
    const char* meshes[] = {"dp=2, tp=4", "dp=4, tp=2", "dp=8, tp=1", "dp=2, tp=2"};
    std::string args = "%x: f32[" + std::string(pick(4) ? "64" : "128") + ", 256] " + sharding(), body;
    std::string last = "%x", grads;
    for (size_t i = 0; i < layers; ++i) {
      const std::string n = "%l" + std::to_string(i) + "_";
      args += ", " + n + "w: f32[256, 256] " + sharding() + ", " + n + "v: f32[256, 256] " + sharding();
      body += "  " + n + "h = matmul " + last + ", " + n + "w\n";
      body += "  " + n + "a = " + (pick(4) ? "gelu " : "tanh ") + n + "h\n";
      if (pick(3) == 0) body += "  " + n + "s = mul " + n + "a, " + (pick(2) ? "0.5\n" : "2.0\n");
      body += "  " + n + "y = matmul " + n +
              (body.ends_with("0.5\n") || body.ends_with("2.0\n") ? "s" : "a") + ", " + n + "v\n";
      last = n + "y";
    }
    return "mesh @m = [" + std::string(meshes[pick(4)]) + "]\nfunc @main(" + args + ") -> (%z: f32[]) {\n" +
           body + "  %z = sum " + last + "\n  return %z\n}\n";
  }

private:
  size_t pick(size_t n) { return random_() % n; }
  std::string sharding() {
    const char* all[] = {"", "@m{dp, _}", "@m{_, tp}", "@m{tp, _}", "@m{dp, tp}", "@m{(dp, tp), _}"};
    return all[pick(6)];
  }
  std::mt19937 random_;
};

std::optional<ProgramSnapshot> snapshot(const std::string& text, const LoweringFlags& flags = {}) {
  Module m(standardOps());
  Diagnostics diags;
  if (!loadText({"p.dt", text}, {}, m, diags).ok()) return std::nullopt;
  auto entry = entryOf(m, "");
  if (!entry.ok()) return std::nullopt;
  ProgramSnapshot s = takeSnapshot(m, *entry, flags, "cpu", ProgramSnapshot::Compiled, diags);
  if (s.extent != ProgramSnapshot::Compiled) return std::nullopt;
  return s;
}

struct Sums {
  std::map<std::string, int64_t> bytes, messages; // by axes and by kind
  double seconds = 0, exposed = 0;
};

void add(Sums& sums, const std::string& kind, const std::string& axes, const DiffSums& s, int sign) {
  sums.bytes["axes " + axes] += sign * s.bytes, sums.bytes["kind " + kind] += sign * s.bytes;
  sums.messages["axes " + axes] += sign * s.messages, sums.messages["kind " + kind] += sign * s.messages;
  sums.seconds += sign * s.seconds, sums.exposed += sign * s.exposed;
}

Sums totals(const ProgramSnapshot& a, const ProgramSnapshot& b) {
  Sums out;
  for (const auto& [p, sign] : {std::pair(&b, 1), std::pair(&a, -1)})
    for (const SnapshotCollective& c : p->collectives)
      add(out, c.kind, c.axes, {c.count, c.count * c.bytes, c.seconds, c.exposed}, sign);
  return out;
}

void dropZeros(std::map<std::string, int64_t>& m) {
  std::erase_if(m, [](const auto& e) { return e.second == 0; });
}

void expectExact(const ProgramSnapshot& a, const ProgramSnapshot& b) {
  const ProgramDiff d = diffPrograms(a, b);
  Sums expected = totals(a, b), got;
  for (const DiffCollective& c : d.collectives) {
    if (!c.kindA.empty()) add(got, c.kindA, c.axesA, c.a, -1);
    if (!c.kindB.empty()) add(got, c.kindB, c.axesB, c.b, 1);
  }
  for (auto* m : {&expected.bytes, &expected.messages, &got.bytes, &got.messages}) dropZeros(*m);
  EXPECT_EQ(got.bytes, expected.bytes);
  EXPECT_EQ(got.messages, expected.messages);
  const double scale = d.a.seconds + d.b.seconds + d.a.communication.seconds + d.b.communication.seconds;
  EXPECT_NEAR(got.seconds, expected.seconds, 1e-9 * scale);
  EXPECT_NEAR(got.exposed, expected.exposed, 1e-9 * scale);
  EXPECT_NEAR(got.seconds, d.b.communication.seconds - d.a.communication.seconds, 1e-9 * scale);
  double compute = 0;
  for (const DiffComputation& c : d.computations) compute += c.b - c.a;
  EXPECT_NEAR(compute, d.b.computeSeconds - d.a.computeSeconds, 1e-9 * scale);
  EXPECT_NEAR(compute + got.exposed + d.b.scheduleSeconds - d.a.scheduleSeconds, d.b.seconds - d.a.seconds,
              1e-9 * scale);
  for (const std::vector<DiffRow>* rows : {&d.axes, &d.kinds, &d.layers}) {
    int64_t bytes = 0;
    for (const DiffRow& r : *rows) bytes += r.b.bytes - r.a.bytes;
    EXPECT_EQ(bytes, d.b.communication.bytes - d.a.communication.bytes);
  }
  ASSERT_TRUE(d.a.peakBytes && d.b.peakBytes);
  int64_t peak = 0;
  for (const DiffBuffer& r : d.buffers) peak += r.b - r.a;
  EXPECT_EQ(peak, *d.b.peakBytes - *d.a.peakBytes);
  EXPECT_FALSE(diffText(d, {40, 2, true}).empty());
  EXPECT_FALSE(diffJson(d, {}).empty());
  if (!d.empty()) EXPECT_FALSE(d.causes.empty());
}

TEST(Diff, ChangesAddUpToTheDifferenceOfTheTotals) {
  RandomPrograms programs(7);
  std::optional<ProgramSnapshot> before;
  size_t compared = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = programs.program();
    auto now = snapshot(text);
    ASSERT_TRUE(now) << text;
    EXPECT_TRUE(diffPrograms(*now, *now).empty()) << text;
    EXPECT_TRUE(diffPrograms(*now, *snapshot(text)).empty()) << text;
    if (before) {
      expectExact(*before, *now);
      expectExact(*now, *before);
      ++compared;
    }
    if (testing::Test::HasFailure()) FAIL() << text;
    before = std::move(now);
  }
  EXPECT_GT(compared, 50u);
}

TEST(Diff, AFewChangesOfOneProgram) {
  const std::string text =
      "mesh @m = [dp=2, tp=4]\nfunc @main(%x: f32[64, 256] @m{dp, _}, %w: f32[256, 256] @m{_, tp})"
      " -> (%y: f32[64, 256]) {\n  %h = matmul %x, %w\n  %y = gelu %h\n  return %y\n}\n";
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return diffPrograms(*snapshot(text), *snapshot(other));
  };
  ProgramDiff d = changed("@m{_, tp}", "@m{_, _}");
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].kind, DiffCause::Annotation);
  EXPECT_EQ(d.causes[0].what, "%w");
  EXPECT_EQ(d.causes[0].before + d.causes[0].after, "@m{_, tp}@m{_, _}");
  d = changed("gelu %h", "tanh %h");
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].kind, DiffCause::Op);
  d = changed("dp=2, tp=4", "dp=8, tp=1"); // shardings do not mention tp any more, and did not change
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].kind, DiffCause::Setting);
}

TEST(Diff, SnapshotsAreReadBack) {
  RandomPrograms programs(3);
  for (int i = 0; i < 10; ++i) {
    const auto s = snapshot(programs.program());
    ASSERT_TRUE(s);
    const std::string json = snapshotJson(*s);
    EXPECT_TRUE(looksLikeSnapshot(json));
    const auto again = readSnapshot({"p.json", json});
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_TRUE(diffPrograms(*s, *again).empty());
    ProgramSnapshot named = *again;
    named.name = s->name;
    EXPECT_EQ(snapshotJson(named), json);
  }
  for (const char* bad :
       {"", "[]", "{", "{\"snapshot\": 2}", "{\"snapshot\": 1, \"extent\": \"x\"}",
        "{\"snapshot\": 1, \"extent\": \"compiled\", \"statements\": [{\"operands\": [1]}]}",
        "{\"snapshot\": 1, \"extent\": \"compiled\", \"collectives\": [{\"count\": -1}]}"}) {
    const auto read = readSnapshot({"bad.json", bad});
    ASSERT_FALSE(read.ok()) << bad;
    EXPECT_FALSE(read.error().message.empty());
  }
}

TEST(Diff, Budgets) {
  ProgramDiff d;
  d.a.receivedBytes = 1000, d.b.receivedBytes = 1010;
  d.a.seconds = 1e-3, d.b.seconds = 2e-3;
  d.a.peakBytes = d.b.peakBytes = 1 << 20;
  const auto holds = [&](DiffBudget::Of of, const char* text) {
    const auto budget = parseBudget(of, text);
    EXPECT_TRUE(budget.ok()) << text;
    return budget.ok() && !exceeded(*budget, d);
  };
  EXPECT_TRUE(holds(DiffBudget::Bytes, "+1%"));
  EXPECT_FALSE(holds(DiffBudget::Bytes, "+0.5%"));
  EXPECT_FALSE(holds(DiffBudget::Bytes, "+0"));
  EXPECT_TRUE(holds(DiffBudget::Bytes, "+10"));
  EXPECT_TRUE(holds(DiffBudget::Bytes, "1KiB"));
  EXPECT_FALSE(holds(DiffBudget::Bytes, "1000"));
  EXPECT_TRUE(holds(DiffBudget::Time, "+1ms"));
  EXPECT_FALSE(holds(DiffBudget::Time, "+999us"));
  EXPECT_TRUE(holds(DiffBudget::Memory, "+0"));
  EXPECT_TRUE(holds(DiffBudget::Memory, "1MiB"));
  for (const char* bad : {"", "x", "+", "-1%", "+1e999%", "+nan%", "1%", "+5parsecs"})
    EXPECT_FALSE(parseBudget(DiffBudget::Time, bad).ok()) << bad;
  d.b.peakBytes.reset();
  EXPECT_FALSE(holds(DiffBudget::Memory, "+0"));
}

} // namespace
} // namespace dtc
