// Parts of reports: layouts of graphs, layers of a text, steps over time.
#include "../../../lib/Report/report/SourceIndex.h"
#include "../../../lib/Report/timeline/Timeline.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Report/layout/Layout.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Session/Session.h"

#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace dtc;

namespace {

LayoutGraph randomGraph(std::mt19937& random, size_t nodes) {
  LayoutGraph g;
  for (size_t n = 0; n < nodes; ++n) {
    g.nodes.push_back({20.0 + random() % 150, 20.0 + random() % 40});
    for (size_t e = 0; n > 0 && e < random() % 3; ++e) g.edges.emplace_back(random() % n, n);
  }
  return g;
}

// Nodes are within the drawing and apart, and each edge has a line from its first node to its second.
void expectTidy(const LayoutGraph& g, const GraphLayout& l) {
  ASSERT_EQ(l.nodes.size(), g.nodes.size());
  ASSERT_EQ(l.edges.size(), g.edges.size());
  const auto side = [&](size_t n, double sign, bool down) {
    return down ? l.nodes[n].y + sign * g.nodes[n].height / 2 : l.nodes[n].x + sign * g.nodes[n].width / 2;
  };
  for (size_t n = 0; n < g.nodes.size(); ++n) {
    EXPECT_GE(side(n, -1, false), -1);
    EXPECT_GE(side(n, -1, true), -1);
    EXPECT_LE(side(n, 1, false), l.width + 1);
    EXPECT_LE(side(n, 1, true), l.height + 1);
    for (size_t m = n + 1; m < g.nodes.size(); ++m)
      EXPECT_TRUE(side(n, 1, false) <= side(m, -1, false) + 1 ||
                  side(m, 1, false) <= side(n, -1, false) + 1 || side(n, 1, true) <= side(m, -1, true) + 1 ||
                  side(m, 1, true) <= side(n, -1, true) + 1)
          << n << " and " << m;
  }
  for (size_t e = 0; e < g.edges.size(); ++e) {
    ASSERT_GE(l.edges[e].size(), 2u);
    EXPECT_LE(l.edges[e].front().y, l.edges[e].back().y);
  }
}

TEST(GraphLayout, NodesAreApartAndEdgesHaveLines) {
  std::mt19937 random(7);
  for (const size_t nodes : {0, 1, 2, 5, 20, 60}) {
    const LayoutGraph g = randomGraph(random, nodes);
    expectTidy(g, layoutGraph(g));
    expectTidy(g, layeredLayout(g));
  }
}

TEST(GraphLayout, CirclesAreLaidOut) {
  LayoutGraph g;
  for (int n = 0; n < 4; ++n) g.nodes.push_back({50, 20});
  g.edges = {{0, 1}, {1, 2}, {2, 0}, {2, 3}};
  EXPECT_EQ(layeredLayout(g).nodes.size(), 4u);
  EXPECT_EQ(layoutGraph(g).edges.size(), 4u);
}

TEST(GraphLayout, ThreadsTakeTurns) {
  std::mt19937 random(3);
  const LayoutGraph g = randomGraph(random, 25);
  const GraphLayout expected = layoutGraph(g);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const GraphLayout l = layoutGraph(g);
      for (size_t n = 0; n < g.nodes.size(); ++n) EXPECT_EQ(l.nodes[n].x, expected.nodes[n].x);
    });
  for (std::thread& t : threads) t.join();
}

SourceLayers layersOfNames(const SourceIndex& index, const std::vector<std::string>& names) {
  std::vector<LineFacts> facts(index.size());
  for (size_t l = 0; l < names.size(); ++l) facts[l].name = names[l], facts[l].statement = true;
  return layersOf(index, facts);
}

TEST(SourceLayers, EqualLayersAreFound) {
  const SourceText text{
      "f.dt", "b_0_a 1\nb_0_b 1\nb_0_c 1\nb_1_a 1\nb_1_b 1\nb_1_c 1\nb_10_a  1\nb_10_b 1\n%0\nb_10_c 1\nend"};
  const SourceIndex index(text);
  ASSERT_EQ(index.size(), 11u);
  const SourceLayers l = layersOfNames(index, {"b_0_a", "b_0_b", "b_0_c", "b_1_a", "b_1_b", "b_1_c", "b_10_a",
                                               "b_10_b", "0", "b_10_c", "end"});
  ASSERT_EQ(l.layers.size(), 3u);
  EXPECT_EQ(l.layers[0].name(), "b_0");
  EXPECT_EQ(l.layers[1].equalTo, 0);
  EXPECT_EQ(l.layers[2].equalTo, -1); // one statement more, which has no name
  EXPECT_EQ(l.of[8], 2);
  EXPECT_EQ(l.of[10], -1);
}

TEST(SourceLayers, NumberedNamesAreNotLayers) {
  const SourceText text{"f.dt", "a\nb\nc\nd\n"};
  const SourceIndex index(text);
  EXPECT_TRUE(layersOfNames(index, {"h1", "h2", "ln1_w", "ln2_w"}).layers.empty());
}

std::vector<Timeline> timelinesOfText(const std::string& text, const NominalMachine& machine, double* idle) {
  Module m(standardOps());
  Diagnostics diags;
  SourceText source{"t.dt", text};
  EXPECT_TRUE(parseModule(source, standardOps(), m, diags)) << renderDiagnostics(diags, source, false);
  const FuncId main = m.findFunction("main");
  Session session(std::move(m), main, LoweringFlags().pipeline("sm_90a"));
  EXPECT_TRUE(session.lower(Stage::Placed, diags).ok()) << renderDiagnostics(diags, source, false);
  const std::vector<Timeline> all = timelinesOf(session.module(), session.entry(), machine);
  if (idle) *idle = idleShare(session.module(), session.entry(), all);
  return all;
}

Timeline timelineOfText(const std::string& text) { return timelinesOfText(text, {}, nullptr)[0]; }

TEST(Timeline, MessagesOverlapOnlyWhatDoesNotNeedThem) {
  const Timeline t = timelineOfText(R"(mesh @m = [d=2]
func @main(%x: f32[256, 256] @m{_, d}, %w: f32[256, 256] @m{d, _}, %v: f32[256, 256]) -> (%y: f32[256, 256], %z: f32[256, 256]) {
  %y = matmul %x, %w
  %z = matmul %v, %v
  return %y, %z
}
)");
  double messages = 0, exposed = 0, end = 0;
  for (const TimelineStep& s : t.steps) {
    if (s.kind == TimelineStep::Communicate) messages += s.seconds, exposed += s.exposed;
    EXPECT_LE(s.exposed, s.seconds + 1e-15);
    end = std::max(end, s.begin + s.seconds);
  }
  EXPECT_GT(messages, 0);
  EXPECT_NEAR(t.exposedSeconds, exposed, 1e-12);
  EXPECT_NEAR(t.seconds, end, 1e-12);
  EXPECT_NEAR(t.seconds, t.computeSeconds + t.exposedSeconds, 1e-12);
  EXPECT_TRUE(t.complete);
}

TEST(Timeline, IterationsOfALoopAreCounted) {
  const Timeline t = timelineOfText(R"(func @main(%x: f32[64, 64], %w: f32[64, 64]) -> (%y: f32[64, 64]) {
  %y = for %i in 0..10 (%c = %x) {
    %n = matmul %c, %w
    yield %n
  }
  return %y
}
)");
  double once = 0, rest = 0;
  for (const TimelineStep& s : t.steps) (s.kind == TimelineStep::Repeat ? rest : once) += s.seconds;
  EXPECT_GT(rest, 0);
  EXPECT_NEAR(t.seconds, once + rest, 1e-12);
  EXPECT_NEAR(t.computeSeconds, t.seconds, t.seconds * 1e-6);
}

// Two stages of equal times, and four micro-batches, each of which is sent as soon as it is computed.
constexpr const char* kTwoStages = R"(mesh @m = [pp=2]

spmd func @main(%x: f32[256, 256], %w: f32[256, 256]) -> (%y: f32[256, 256]) {devices = [0]} {
  %h0 = matmul %x, %w
  %r0 = p2p %h0 {sends = [[0, 0, 1]], axes = [pp]}
  %h1 = matmul %h0, %w
  %r1 = p2p %h1 {sends = [[0, 0, 1]], axes = [pp]}
  %h2 = matmul %h1, %w
  %r2 = p2p %h2 {sends = [[0, 0, 1]], axes = [pp]}
  %h3 = matmul %h2, %w
  %r3 = p2p %h3 {sends = [[0, 0, 1]], axes = [pp]}
  return %h3
}

spmd func @last(%x: f32[256, 256], %w: f32[256, 256]) -> (%y: f32[256, 256]) {program = @main, devices = [1]} {
  %r0 = p2p %x {sends = [[0, 0, 1]], axes = [pp]}
  %y0 = matmul %w, %r0
  %r1 = p2p %x {sends = [[0, 0, 1]], axes = [pp]}
  %y1 = matmul %y0, %r1
  %r2 = p2p %x {sends = [[0, 0, 1]], axes = [pp]}
  %y2 = matmul %y1, %r2
  %r3 = p2p %x {sends = [[0, 0, 1]], axes = [pp]}
  %y3 = matmul %y2, %r3
  return %y3
}
)";

TEST(Timeline, WaitsForOtherStagesAreTheBubble) {
  NominalMachine free;
  free.link = {1e30, 0}, free.launchSeconds = 0;
  double idle = 0;
  const std::vector<Timeline> t = timelinesOfText(kTwoStages, free, &idle);
  ASSERT_EQ(t.size(), 2U);
  PipelineShape shape;
  shape.devices = 2, shape.microbatches = 4, shape.hasBackward = false;
  EXPECT_NEAR(idle, closedFormBubble(PipelineSchedule::GPipe, shape).value_or(0), 1e-9);
  EXPECT_NEAR(t[1].waitSeconds, t[1].computeSeconds / 4, 1e-12); // for the first micro-batch
  EXPECT_NEAR(t[0].waitSeconds, t[0].computeSeconds / 4, 1e-12); // for the end of the last one
}

TEST(Timeline, MessagesBetweenStagesBeginWhenBothHaveCome) {
  double idle = 0;
  const std::vector<Timeline> t = timelinesOfText(kTwoStages, {}, &idle);
  ASSERT_EQ(t.size(), 2U);
  EXPECT_GT(idle, 0.2);
  std::vector<double> begins[2];
  for (size_t f = 0; f < 2; ++f) {
    EXPECT_TRUE(t[f].complete);
    for (const TimelineStep& s : t[f].steps)
      if (s.kind == TimelineStep::Communicate) begins[f].push_back(s.begin);
  }
  EXPECT_NEAR(t[1].seconds, t[1].computeSeconds + t[1].exposedSeconds + t[1].waitSeconds, 1e-12);
  EXPECT_EQ(begins[0].size(), 4U);
  EXPECT_EQ(begins[0], begins[1]);
}

} // namespace
