// The order of samples, and the manifest of checkpoints.
#include "dtc/Files/SampleData.h"
#include "dtc/Files/Checkpoint.h"
#include <gtest/gtest.h>
#include <set>

namespace dtc {
namespace {

TEST(SampleOrder, EachEpochIsAPermutationOfItsOwn) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 1000, 1025}) {
    std::vector<int64_t> orders[3];
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      for (int64_t i = 0; i < count; ++i)
        orders[epoch].push_back(shuffledSample(7, count, epoch * count + i));
      const std::set<int64_t> seen(orders[epoch].begin(), orders[epoch].end());
      EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
      EXPECT_EQ(*seen.begin(), 0);
      EXPECT_EQ(*seen.rbegin(), count - 1);
    }
    if (count > 16) {
      EXPECT_NE(orders[0], orders[1]);
      EXPECT_NE(orders[1], orders[2]);
      EXPECT_NE(orders[0][1], shuffledSample(8, count, 1));
    }
  }
}

// The order is part of the format: a checkpoint of one version goes on in the next.
TEST(SampleOrder, IsFixed) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 10; ++i) order.push_back(shuffledSample(3, 10, i));
  EXPECT_EQ(order, (std::vector<int64_t>{2, 5, 8, 9, 4, 3, 7, 0, 1, 6}));
}

// Every sample comes first about equally often: 1,000 seeds over 10 samples, within 5 standard deviations.
TEST(SampleOrder, IsUniform) {
  int counts[10] = {};
  for (uint64_t seed = 0; seed < 1000; ++seed) ++counts[shuffledSample(seed, 10, 0)];
  for (int n : counts) EXPECT_NEAR(n, 100, 48);
}

std::string manifest(const std::string& pieces, const std::string& shape = "[4]") {
  return R"({"format": 2, "dtc": "0.1.0", "step": 3, "entry": "main", "command": [],
"data": {"position": 12, "seed": 18446744073709551615, "order": "shuffled", "sources": []},
"bytes": 8,
"tensors": [{"name": "w", "dtype": "f32", "shape": )" +
         shape + R"(, "shards": [)" + pieces + "]}]}";
}

TEST(CheckpointManifest, PiecesTileTheirTensor) {
  const std::string low = R"({"offset": [0], "shape": [2], "sha256": ""})",
                    high = R"({"offset": [2], "shape": [2], "sha256": ""})";
  const auto read = parseCheckpointManifest(manifest(low + "," + high));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->data.seed, UINT64_MAX);
  const auto again = parseCheckpointManifest(manifestJson(*read));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(manifestJson(*again), manifestJson(*read));
  for (const std::string& pieces :
       {low, low + "," + low, low + "," + high + "," + low, std::string(R"({"offset": [0], "shape": [4]})"),
        std::string(R"({"offset": [1], "shape": [4], "sha256": ""})"),
        std::string(R"({"offset": [], "shape": [], "sha256": ""})")})
    EXPECT_FALSE(parseCheckpointManifest(manifest(pieces)).ok()) << pieces;
  EXPECT_FALSE(parseCheckpointManifest(manifest("", "[9223372036854775807, 4]")).ok());
  EXPECT_TRUE(parseCheckpointManifest(manifest("", "[0, 4]")).ok());
  EXPECT_FALSE(parseCheckpointManifest("[" + manifest(low) + "]").ok());
  EXPECT_FALSE(parseCheckpointManifest("").ok());
}

} // namespace
} // namespace dtc
