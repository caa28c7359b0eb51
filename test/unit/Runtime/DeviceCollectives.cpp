// Collectives by generated kernels: what is started, and how far a thread reaches.
#include "../../../lib/Runtime/backend/DeviceCollectives.h"

#include "dtc/Cuda/Nvrtc.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

// Writes down what is asked of it.
class Recorder final : public DeviceQueue {
public:
  std::string said;
  std::vector<SourceUnit> units;
  Status compile(const SourceUnit& unit) override {
    units.push_back(unit);
    return Ok{};
  }
  Status launch(int64_t coordinate, const std::string&, int64_t, std::span<void*>,
                std::span<const DeviceBuffer>) override {
    said += " kernel" + std::to_string(coordinate);
    return Ok{};
  }
  Status copy(int64_t, std::byte*, const std::byte*, int64_t) override { return Ok{}; }
  Status clear(int64_t, std::byte*, int64_t) override { return Ok{}; }
  Status waitFor(int64_t coordinate, std::span<const int64_t>) override {
    said += " wait" + std::to_string(coordinate);
    return Ok{};
  }
  Status rendezvous(std::span<const int64_t>) override {
    said += " rendezvous";
    return Ok{};
  }
};

// 1000 elements on each of some devices, summed.
struct Sum {
  StringTable strings;
  CollectivePlan plan;
  explicit Sum(size_t devices, DType dtype = DType::F32) {
    Mesh mesh;
    mesh.axes.push_back({strings.intern("a"), static_cast<int64_t>(devices)});
    CollectiveSpec spec;
    spec.dtype = spec.commDType = dtype;
    spec.axes = {{strings.intern("a"), 1, 0}};
    spec.operandShapes = spec.resultShapes = {std::vector<std::vector<int64_t>>(devices, {1000})};
    auto made = planCollective(spec, mesh);
    EXPECT_TRUE(made) << made.error().message;
    plan = std::move(*made);
  }
};

const BlockKernel kMove = moveBlocks(2);
alignas(16) std::byte memory[64];

BlockLaunch moved(BlockShape block, int64_t to, int64_t from) {
  std::byte* targets[] = {memory + to};
  const std::byte* sources[] = {memory + from};
  return launchOf(kMove, block, targets, sources);
}
int64_t wide(const BlockLaunch& launch) { return launch.numbers[7]; }

} // namespace

TEST(DeviceCollectives, MembersRunSideBySide) {
  Recorder queue;
  const auto comm = makeDeviceCommunicator(queue);
  const Sum sum(3);
  const CollectiveGroup& group = sum.plan.groups[0];
  std::vector<std::byte*> results(3, memory);
  std::vector<const std::byte*> operands(3, memory);
  ASSERT_TRUE(comm->prepare(sum.plan));
  for (int run = 0; run < 2; ++run) { // whoever comes first
    queue.said.clear();
    for (size_t member : {size_t(1), size_t(0), size_t(2)})
      ASSERT_TRUE(comm->share(sum.plan, group, member, operands, results));
    ASSERT_TRUE(comm->settle(sum.plan, group));
    EXPECT_EQ(queue.said, " rendezvous kernel1 kernel0 kernel2 rendezvous");
  }
}

TEST(DeviceCollectives, KernelsOfManyMembersDoNotSpill) {
  Recorder queue;
  const auto comm = makeDeviceCommunicator(queue);
  for (size_t devices : {2, 8, 16, 128})
    for (DType dtype : {DType::BF16, DType::F32, DType::F64})
      ASSERT_TRUE(comm->prepare(Sum(devices, dtype).plan));
  const Nvrtc nvrtc;
  if (!nvrtc.version()) GTEST_SKIP() << nvrtc.version().error().message;
  for (const char* arch : {"sm_80", "sm_90a"}) {
    const auto made = nvrtc.compile(queue.units, arch, CudaImage::Cubin);
    ASSERT_TRUE(made) << made.error().message;
    for (const CudaBinary& binary : *made)
      for (const KernelUsage& usage : binary.usage)
        EXPECT_EQ(usage.spillStoreBytes + usage.spillLoadBytes, 0) << usage.kernel << " on " << arch;
  }
}

TEST(BlockKernel, AThreadTakesSixteenBytesOfAlignedRows) {
  EXPECT_EQ(kMove.pack(), 8);
  const BlockLaunch flat = moved({37}, 16, 32);
  EXPECT_EQ(wide(flat), 8);
  EXPECT_EQ(flat.threads, 5); // the last has five elements
  EXPECT_EQ(wide(moved({37}, 2, 32)), 1);
  EXPECT_EQ(wide(moved({37}, 16, 4)), 1);
  EXPECT_EQ(wide(moved({16, 3, 48, 16}, 0, 0)), 8);
  EXPECT_EQ(wide(moved({12, 3, 48, 16}, 0, 0)), 1); // a pack would cross rows
  EXPECT_EQ(wide(moved({16, 3, 44, 16}, 0, 0)), 1);
  EXPECT_EQ(wide(moved({16, 3, 48, 16, 2, 200, 48}, 0, 0)), 8);
  EXPECT_EQ(wide(moved({16, 3, 48, 16, 2, 196, 48}, 0, 0)), 1);
}

TEST(BlockKernel, RowsThatLieTogetherAreOne) {
  const BlockLaunch rows = moved({3, 5, 3, 3}, 0, 0);
  EXPECT_EQ(rows.numbers[1], 15);
  EXPECT_EQ(wide(rows), 8);
  const BlockLaunch slabs = moved({3, 5, 3, 3, 2, 15, 15}, 0, 0);
  EXPECT_EQ(slabs.numbers[1], 30);
  const BlockLaunch apart = moved({3, 5, 3, 3, 2, 20, 15}, 0, 0);
  EXPECT_EQ(apart.numbers, (std::array<int64_t, 8>{30, 15, 2, 20, 15, 0, 0, 1}));
}

TEST(BlockKernel, ManyOperandsFitAThreadsRegisters) {
  BlockKernel sum = kMove;
  sum.from = sum.to = DType::F32;
  for (const auto& [sources, pack] :
       {std::pair(2, 4), std::pair(16, 4), std::pair(17, 2), std::pair(64, 1)}) {
    sum.sources = static_cast<size_t>(sources);
    EXPECT_EQ(sum.pack(), pack) << sources;
  }
}
