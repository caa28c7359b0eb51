// The stubs of test/stub find what they are there to find: forgotten waits, captures that are not joined, foreign streams.
#include "StubGpus.h"

#include "dtc/Cuda/Nccl.h"
#include "dtc/Cuda/Nvrtc.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

class StubDriver : public testing::Test {
protected:
  void SetUp() override {
    if (!stub.here()) GTEST_SKIP() << "the stubs of test/stub were not built";
    auto driver = CudaDriver::open(stub.driver());
    ASSERT_TRUE(driver) << driver.error().message;
    for (int i = 0; i < 2; ++i) {
      auto device = CudaDevice::open(*driver, i);
      ASSERT_TRUE(device);
      gpus.push_back(*device);
      for (int k = 0; k < 2; ++k) streams.push_back(*device->stream()); // 0, 1 of GPU 0; 2, 3 of GPU 1
    }
    memory = *gpus[0].allocate(64);
  }
  // What a stream finds in memory that another stream has written.
  int read(const CudaStream& stream) {
    int value = 0;
    EXPECT_TRUE(gpus[0].copyOut(&value, memory.get, sizeof value, stream));
    EXPECT_TRUE(gpus[0].synchronize(stream));
    return value;
  }
  // What the first stream's capture became.
  Result<CudaGraph> captured() {
    auto ended = gpus[0].endCapture(streams[0]);
    if (!ended) return ended.error();
    return gpus[0].instantiate(*ended, streams[0]);
  }
  StubGpus stub;
  std::vector<CudaDevice> gpus;
  std::vector<CudaStream> streams;
  CudaMemory memory;
};

TEST_F(StubDriver, AForgottenWaitIsSeen) {
  ASSERT_TRUE(gpus[0].fillWord(memory.get, 7, streams[0]));
  EXPECT_EQ(read(streams[1]), -1); // what memory begins with: nobody has waited for the write
  auto event = gpus[0].event();
  ASSERT_TRUE(event && gpus[0].record(*event, streams[0]) && gpus[0].wait(streams[1], *event));
  EXPECT_EQ(read(streams[1]), 7);
}

TEST_F(StubDriver, ACaptureMustBeJoined) {
  auto event = gpus[0].event();
  ASSERT_TRUE(event && gpus[0].beginCapture(streams[0]));
  ASSERT_TRUE(gpus[0].record(*event, streams[0]) && gpus[0].wait(streams[1], *event));
  ASSERT_TRUE(gpus[0].fillWord(memory.get, 5, streams[1]));
  auto graph = gpus[0].endCapture(streams[0]);
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().message.find("UNJOINED"), std::string::npos) << graph.error().message;
}

TEST_F(StubDriver, AGraphIsMadeWhenNothingIsCapturedAnyMore) {
  ASSERT_TRUE(gpus[0].beginCapture(streams[0]) && gpus[0].beginCapture(streams[1]));
  auto first = gpus[0].endCapture(streams[0]);
  ASSERT_TRUE(first);
  EXPECT_FALSE(gpus[0].instantiate(*first, streams[0]));
  ASSERT_TRUE(gpus[0].endCapture(streams[1]));
  EXPECT_TRUE(gpus[0].instantiate(*first, streams[0]));
}

TEST_F(StubDriver, AnEventIsOfItsStreamsGpuAndIsTimedWhenItIsOver) {
  auto begin = gpus[0].event(true), end = gpus[0].event(true), plain = gpus[0].event();
  ASSERT_TRUE(begin && end && plain && gpus[0].record(*begin, streams[0]) &&
              gpus[0].record(*end, streams[0]));
  EXPECT_FALSE(gpus[0].milliseconds(*begin, *end)); // nobody has waited
  ASSERT_TRUE(gpus[0].synchronize(streams[0]) && gpus[0].record(*plain, streams[0]));
  EXPECT_TRUE(gpus[0].milliseconds(*begin, *end));
  ASSERT_TRUE(gpus[0].synchronize(streams[0]));
  EXPECT_FALSE(gpus[0].milliseconds(*begin, *plain)); // made without times
  auto driver = CudaDriver::open(stub.driver());
  ASSERT_TRUE(driver);
  auto other = CudaDevice::open(*driver, 1);
  ASSERT_TRUE(other);
  auto theirs = other->event();
  ASSERT_TRUE(theirs);
  EXPECT_FALSE(gpus[0].record(*theirs, streams[0]));
}

TEST_F(StubDriver, AGraphDoesAgainWhatWasCaptured) {
  ASSERT_TRUE(gpus[0].beginCapture(streams[0]));
  ASSERT_TRUE(gpus[0].fillWord(memory.get, 5, streams[0]));
  EXPECT_FALSE(gpus[0].allocate(8)); // not while a stream is captured
  auto graph = captured();
  ASSERT_TRUE(graph);
  EXPECT_EQ(read(streams[0]), -1);
  ASSERT_TRUE(gpus[0].launch(*graph, streams[0]));
  EXPECT_EQ(read(streams[0]), 5);
  ASSERT_TRUE(gpus[0].fillWord(memory.get, 6, streams[0]) && gpus[0].launch(*graph, streams[0]));
  EXPECT_EQ(read(streams[0]), 5);
}

TEST_F(StubDriver, ABodyRunsAsLongAsItsConditionSays) {
  ASSERT_TRUE(gpus[0].hasConditionals());
  auto module = gpus[0].load(cudaConditionKernels());
  ASSERT_TRUE(module) << module.error().message;
  auto next = gpus[0].function(*module, "dtc_next_trip");
  ASSERT_TRUE(next && gpus[0].beginCapture(streams[0]));
  auto handle = gpus[0].conditionHandle(streams[0]);
  ASSERT_TRUE(handle) << handle.error().message;
  const auto count = [&](const CudaStream& stream, uint32_t first) {
    void* index = memory.get;
    int32_t begin = 2, end = 5;
    void* arguments[] = {&*handle, static_cast<void*>(&index), &begin, &end, &first};
    return gpus[0].launch(*next, {}, {}, 0, arguments, stream);
  };
  ASSERT_TRUE(count(streams[0], 1));
  auto body = gpus[0].addConditional(streams[0], *handle, true);
  ASSERT_TRUE(body && gpus[0].beginBody(streams[1], *body));
  ASSERT_TRUE(count(streams[1], 0) && gpus[0].endBody(streams[1]));
  auto graph = captured();
  ASSERT_TRUE(graph) << graph.error().message;
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(gpus[0].launch(*graph, streams[0]));
    EXPECT_EQ(read(streams[0]), 5);
  }
  ASSERT_TRUE(gpus[0].beginCapture(streams[0]));
  EXPECT_FALSE(gpus[0].addConditional(streams[0], *handle, true)); // a handle of another graph
  (void)gpus[0].endCapture(streams[0]);
}

// A kernel has 48 KiB of shared memory, its own variables among them, until cuFuncSetAttribute allows more.
TEST_F(StubDriver, DynamicSharedMemoryIsRequestedInAdditionToStatic) {
  const SourceUnit unit{"fills", "extern \"C\" __global__ void fills(i32* y) {\n"
                                 "  extern __shared__ uint4 row[];\n  __shared__ i32 own[32];\n"
                                 "  own[0] = 7;\n  ((i32*)row)[12287] = own[0];\n"
                                 "  *y = ((i32*)row)[12287];\n}"};
  auto binaries = Nvrtc().compile({&unit, 1}, gpus[0].info().arch(), CudaImage::Cubin);
  ASSERT_TRUE(binaries) << binaries.error().message;
  auto module = gpus[0].load((*binaries)[0].image);
  ASSERT_TRUE(module) << module.error().message;
  constexpr int bytes = 48 << 10;
  void* y = memory.get;
  void* arguments[] = {static_cast<void*>(&y)};
  auto plain = gpus[0].function(*module, "fills");
  ASSERT_TRUE(plain);
  EXPECT_FALSE(gpus[0].launch(*plain, {}, {}, bytes, arguments, streams[0]));
  auto asked = gpus[0].function(*module, "fills", bytes);
  ASSERT_TRUE(asked) << asked.error().message;
  auto started = gpus[0].launch(*asked, {}, {}, bytes, arguments, streams[0]);
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(read(streams[0]), 7);
  EXPECT_FALSE(gpus[0].launch(*asked, {1, 65536}, {}, 0, arguments, streams[0])); // a grid that is too large
  EXPECT_FALSE(gpus[0].function(*module, "fills", 227 << 10)); // and its own: more than there is
}

TEST_F(StubDriver, PageableMemoryIsNoPartOfAGraph) {
  int value = 0;
  ASSERT_TRUE(gpus[0].beginCapture(streams[0]));
  EXPECT_FALSE(gpus[0].copyOut(&value, memory.get, sizeof value, streams[0]));
  EXPECT_FALSE(gpus[0].copyIn(memory.get, &value, sizeof value, streams[0]));
  (void)gpus[0].endCapture(streams[0]);
}

TEST_F(StubDriver, CopiesReachOnlyWhatTheirGpuReaches) {
  auto driver = CudaDriver::open(stub.driver());
  ASSERT_TRUE(driver);
  auto here = CudaDevice::open(*driver, 6), there = CudaDevice::open(*driver, 7); // no other test lets them
  ASSERT_TRUE(here && there);
  auto near = here->allocate(64), far = there->allocate(64);
  auto stream = here->stream();
  ASSERT_TRUE(near && far && stream);
  EXPECT_FALSE(here->copy(near->get, far->get, 4, *stream));
  EXPECT_TRUE(here->copyPeer(near->get, *here, far->get, *there, 4, *stream));
  EXPECT_FALSE(here->copyPeer(near->get, *there, far->get, *there, 4, *stream)); // not its memory
  ASSERT_TRUE(here->reach(*there) && here->reach(*there));                       // twice is no error
  EXPECT_TRUE(here->copy(near->get, far->get, 4, *stream));
}

TEST_F(StubDriver, StreamsAndMemoryBelongToTheirDevice) {
  auto foreign = gpus[0].fillWord(memory.get, 1, streams[2]);
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("another device"), std::string::npos) << foreign.error().message;
  EXPECT_FALSE(gpus[0].fill(memory.get, 0, 65, streams[0])); // one byte too many
}

TEST_F(StubDriver, RanksThatCallDifferentCollectivesAreAnError) {
  auto nccl = Nccl::open();
  ASSERT_TRUE(nccl) << nccl.error().message;
  auto id = nccl->newId();
  ASSERT_TRUE(id) << id.error().message;
  auto ranks = nccl->create(gpus, *id, 0, static_cast<int>(gpus.size()));
  ASSERT_TRUE(ranks) << ranks.error().message;
  ASSERT_TRUE(nccl->allReduce((*ranks)[0], memory.get, memory.get, 4, DType::F32, NcclOp::Sum, streams[0]));
  auto other = nccl->allReduce((*ranks)[1], memory.get, memory.get, 8, DType::F32, NcclOp::Sum, streams[2]);
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("where another calls"), std::string::npos) << other.error().message;
  for (const NcclRank& rank : *ranks)
    nccl->abort(rank); // the first rank's call waits for the others: a destroyed one would, too
}

} // namespace
} // namespace dtc
