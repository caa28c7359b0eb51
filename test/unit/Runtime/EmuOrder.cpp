// Races between devices: what the order of waits says, whatever order the accesses came in.
#include "../../../lib/Runtime/backend/emu/EmuOrder.h"
#include <array>
#include <gtest/gtest.h>

using namespace dtc;

namespace {

struct Mesh2 {
  EmuOrder order;
  std::array<std::byte, 64> memory{};
  const std::array<int64_t, 2> both = {0, 1};
  Mesh2() { order.addDevice(0), order.addDevice(1); }
  EmuOrder::Range at(size_t begin, size_t bytes) { return {memory.data() + begin, bytes}; }
  std::string reads(int64_t coordinate, EmuOrder::Range r) {
    return order.touch(coordinate, "'r'", std::span(&r, 1), {});
  }
  std::string writes(int64_t coordinate, EmuOrder::Range r) {
    return order.touch(coordinate, "'w'", {}, std::span(&r, 1));
  }
};

} // namespace

TEST(EmuOrder, AReadOfWhatAnotherDeviceWroteWaitsForIt) {
  Mesh2 m;
  EXPECT_EQ(m.writes(0, m.at(8, 16)), "");
  EXPECT_EQ(m.reads(0, m.at(0, 64)), "") << "a device's own work is in order";
  EXPECT_EQ(m.reads(1, m.at(0, 8)), "") << "beside it nobody wrote";
  EXPECT_EQ(m.reads(1, m.at(20, 40)),
            "'r' of device 1 reads 40 bytes, some of which 'w' of device 0 writes, and "
            "neither device waits for the other");
  m.order.waitFor(1, m.both);
  EXPECT_EQ(m.reads(1, m.at(20, 40)), "");
}

TEST(EmuOrder, AWriteWaitsForReadsOfOtherDevices) {
  Mesh2 m;
  EXPECT_EQ(m.reads(0, m.at(0, 32)), "");
  EXPECT_EQ(m.writes(1, m.at(32, 32)), "");
  EXPECT_NE(m.writes(1, m.at(31, 1)), "");
  m.order.waitFor(0, m.both); // the wrong one waits
  EXPECT_NE(m.writes(1, m.at(0, 4)), "");
  m.order.waitFor(1, m.both);
  EXPECT_EQ(m.writes(1, m.at(0, 4)), "");
  EXPECT_NE(m.reads(0, m.at(3, 1)), "") << "what it waited for was before this write";
}

TEST(EmuOrder, WaitsOrderWhatWasStartedBeforeThem) {
  Mesh2 m;
  m.order.waitFor(1, m.both);
  EXPECT_EQ(m.writes(0, m.at(0, 4)), "");
  EXPECT_NE(m.writes(1, m.at(0, 4)), "");
  m.order.forget();
  EXPECT_EQ(m.writes(1, m.at(0, 4)), "") << "a run has ended";
}

TEST(EmuOrder, WhatADeviceKnowsIsPassedOn) {
  EmuOrder order;
  for (int64_t p : {0, 1, 2}) order.addDevice(p);
  std::array<std::byte, 4> memory{};
  const EmuOrder::Range range{memory.data(), 4};
  EXPECT_EQ(order.touch(0, "'w'", {}, std::span(&range, 1)), "");
  const int64_t first = 0, second = 1;
  order.waitFor(1, std::span(&first, 1));
  order.waitFor(2, std::span(&second, 1));
  EXPECT_EQ(order.touch(2, "'w'", {}, std::span(&range, 1)), "");
}
