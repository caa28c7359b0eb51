// The diagnosis of devices that hang in a collective.
#include "../../../lib/Runtime/comm/FlightRecorder.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

CollectivePlan plan(const std::string& where, std::vector<std::vector<int64_t>> groups) {
  CollectivePlan p;
  p.where = where;
  for (auto& coordinates : groups) {
    CollectiveGroup& g = p.groups.emplace_back();
    g.members.resize(coordinates.size());
    g.members[0].resultElements = {6};
    g.coordinates = std::move(coordinates);
  }
  return p;
}

TEST(FlightRecorder, NamesWhoHasNotArrivedAndWhere) {
  FlightRecorder r(4);
  const uint32_t first = r.declare(plan("gpt.dt:12: 'all_reduce'", {{0, 1}, {2, 3}}));
  const uint32_t second = r.declare(plan("gpt.dt:15: 'all_gather'", {{0, 1, 2, 3}}));
  for (uint32_t c : {first, second})
    for (int64_t p = 0; p < 4; ++p) r.started(c, {p});
  const uint32_t there = FlightRecorder::arrivedWord(second), before = FlightRecorder::throughWord(first);
  EXPECT_EQ(r.diagnosis({there, there, before, there}),
            "device 2 has not arrived at gpt.dt:15: 'all_gather'; devices 0, 1 and 3 wait there");
  const uint32_t early = FlightRecorder::arrivedWord(first);
  EXPECT_EQ(r.diagnosis({before, before, early, 0}),
            "device 3 has not arrived at gpt.dt:12: 'all_reduce'; device 2 waits there");
  EXPECT_EQ(r.diagnosis({there, there, there, there}),
            "all of devices 0, 1, 2 and 3 have arrived at gpt.dt:15: 'all_gather', but it does not complete");
  EXPECT_EQ(r.diagnosis({0, before, before, 0}), "no device is waiting in a collective");
}

TEST(FlightRecorder, AReplayedGraphCountsAsWhatItHolds) {
  FlightRecorder r(1);
  const uint32_t c = r.declare(plan("a.dt:3: 'all_reduce'", {{0}}));
  r.beginGraph();
  r.started(c, {0});
  r.endGraph();
  EXPECT_EQ(r.json({0}, "2.28.9", 600).find("record_id"), std::string::npos);
  r.replayed(0);
  r.replayed(0);
  const std::string json = r.json({FlightRecorder::throughWord(c)}, "2.28.9", 600);
  EXPECT_NE(json.find("\"filename\": \"a.dt\", \"line\": 3"), std::string::npos) << json;
  EXPECT_NE(json.find("\"record_id\": 1"), std::string::npos) << json;
  EXPECT_NE(json.find("\"state\": \"completed\""), std::string::npos) << json;
  EXPECT_EQ(json.find("\"state\": \"scheduled\""), std::string::npos) << json;
}

} // namespace
} // namespace dtc
