// Taking shards and assembling them is the identity, for every form of sharding.
#include "EvalFixture.h"
#include <cmath>

namespace dtc::test {
namespace {

struct Case {
  const char* mesh;
  const char* sharding;
  std::vector<int64_t> shape;
};

TEST(Shards, AssembleInvertsTakeShard) {
  const Case cases[] = {{"[a=2, b=3]", "{a, b}", {5, 7}},
                        {"[a=2, b=3]", "{(a, b), _}", {4, 2}},
                        {"[a=2, b=3]", "{_, (b, a)}", {2, 11}},
                        {"[a=2]", "{(2, a)}", {8}},
                        {"[a=2, b=3]", "{(3, a), b}", {12, 5}},
                        {"[a=4]", "{a:(1)2, a:(2)2}", {3, 5}},
                        {"[a=2, b=3]", "{_ | sum(a, b)}", {4}},
                        {"[a=2, b=3]", "{b | prod(a)}", {4}},
                        {"[a=2, b=3]", "{b | max(a)}", {4}},
                        {"[a=2, b=3]", "{_ | avg(a), sum(b)}", {4}},
                        {"[a=5]", "{a}", {3}},
                        {"[a=2]", "{| sum(a)}", {}}};
  for (const Case& c : cases) {
    Module m(standardOps());
    std::string dims;
    for (int64_t n : c.shape) dims += (dims.empty() ? "" : ", ") + std::to_string(n);
    Program p("mesh @m = " + std::string(c.mesh) + "\nfunc @f(%x: f32[" + dims + "] @m" + c.sharding +
              ") -> (f32[" + dims + "]) {\n  return %x\n}\n");
    const Sharding& s = p.m.shardings[p.m[p.m[p.main()].args[0].value].sharding];
    const Mesh& mesh = p.m.shardings.mesh(MeshId(0));
    Tensor x = counted(DType::F32, c.shape);
    std::vector<Tensor> shards;
    for (int64_t d = 0; d < mesh.numDevices(); ++d) shards.push_back(takeShard(x, s, mesh, d));
    EXPECT_EQ(assemble(shards, s, mesh, c.shape), x) << c.mesh << " " << c.sharding;
  }
}

TEST(Shards, APendingSumKeepsTheSignOfZero) {
  Program p("mesh @m = [a=3]\nfunc @f(%x: f32[1] @m{_ | sum(a)}) -> (f32[1]) {\n  return %x\n}\n");
  const Sharding& s = p.m.shardings[p.m[p.m[p.main()].args[0].value].sharding];
  const Mesh& mesh = p.m.shardings.mesh(MeshId(0));
  Tensor x = f32({1}, {-0.0});
  std::vector<Tensor> shards;
  for (int64_t d = 0; d < 3; ++d) shards.push_back(takeShard(x, s, mesh, d));
  EXPECT_TRUE(std::signbit(assemble(shards, s, mesh, x.shape()).getFloat(0)));
}

// One replica per set of devices whose shards differ in some bit, whichever axes shard.
TEST(Shards, ReplicasThatDifferAreAssembledSeparately) {
  Program p("mesh @m = [a=2, b=3]\nfunc @f(%x: f32[4] @m{a}) -> (f32[4]) {\n  return %x\n}\n");
  const Sharding& s = p.m.shardings[p.m[p.m[p.main()].args[0].value].sharding];
  const Mesh& mesh = p.m.shardings.mesh(MeshId(0));
  const Tensor x = counted(DType::F32, {4});
  std::vector<Tensor> shards;
  for (int64_t d = 0; d < 6; ++d) shards.push_back(takeShard(x, s, mesh, d));
  EXPECT_EQ(assembleReplicas(shards, s, mesh, x.shape()).size(), 1u);
  shards[5].setFloat(1, 7); // a=1, b=2
  const std::vector<Replica> replicas = assembleReplicas(shards, s, mesh, x.shape());
  ASSERT_EQ(replicas.size(), 2u);
  EXPECT_EQ(replicas[0].value, x);
  EXPECT_EQ(replicas[1].coordinate, 5);
  EXPECT_EQ(replicas[1].value.getFloat(3), 7);
  EXPECT_EQ(replicas[1].value.getFloat(0), x.getFloat(0));
}

} // namespace
} // namespace dtc::test
