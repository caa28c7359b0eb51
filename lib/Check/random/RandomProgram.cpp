// The generator: statements are drawn one at a time, written, and kept if the module still parses and
// verifies.
#include "dtc/Check/random/RandomProgram.h"
#include "dtc/IR/verify/Verify.h"

#include "random/StatementGenerator.h"

#include "dtc/IR/text/Text.h"

namespace dtc {
namespace {

constexpr std::string_view kMeshes[] = {"[a=2]",           "[a=2]",           "[a=3]",      "[a=2, b=2]",
                                        "[a=2, b=3]",      "[a=1, b=4]",      "[a=5]",      "[a=2, b=2, c=2]",
                                        "[a=2, b=1, c=3]", "[a=1, b=2, c=1]", "[a=4, b=2]", "[a=6]"};

struct Axis {
  std::string name;
  int64_t size = 1;
};

// The axes of a mesh's text, in order.
std::vector<Axis> axesOf(std::string_view mesh) {
  std::vector<Axis> axes;
  for (size_t i = 0; i + 2 < mesh.size(); ++i)
    if (mesh[i + 1] == '=') axes.push_back({std::string(1, mesh[i]), mesh[i + 2] - '0'});
  return axes;
}

class Generator {
public:
  Generator(uint64_t seed, const OpRegistry& ops, const RandomProgramOptions& options)
      : ops_(ops), options_(options), draw_(seed), statements_(ops, draw_) {
    if (options.mesh && draw_.below(8) != 0) {
      mesh_ = kMeshes[draw_.below(std::size(kMeshes))];
      axes_ = axesOf(mesh_);
    }
  }

  RandomProgram run(uint64_t seed) {
    statements_.begin();
    for (int tries = 0; tries < 6 * options_.statements && made_ < options_.statements; ++tries) tryOne();
    if (!axes_.empty() && options_.notFinite && draw_.fork(77).below(4) == 0) {
      const StatementGenerator::Mark mark = statements_.mark();
      statements_.notFinite();
      if (!valid(module(false))) statements_.undo(mark);
    }
    RandomProgram p;
    p.seed = seed;
    p.text = module(true);
    for (const RandomValue& a : statements_.arguments()) p.inputs.push_back(a.name + "=" + a.input);
    std::string command = "// dtc run FILE --check";
    for (const std::string& i : p.inputs) command += " --input '" + i + "'";
    p.text = "// seed " + std::to_string(seed) + "\n" + command + "\n" + p.text;
    return p;
  }

private:
  [[nodiscard]] bool valid(const std::string& text) const {
    Module m(ops_);
    Diagnostics diags;
    return parseModule({"random.dt", text}, ops_, m, diags) && verifyModule(m, diags);
  }

  void tryOne() {
    StatementGenerator::Mark mark = statements_.mark();
    const int kind = draw_.below(20);
    bool drawn = false;
    if (options_.control && kind < 4)
      drawn = statements_.control(kind);
    else if (!axes_.empty() && kind == 4)
      drawn = statements_.shard(sharding());
    else if (kind < 12)
      drawn = statements_.fromSample();
    else
      drawn = statements_.fromShapes();
    if (drawn && statements_.small() && valid(module(false)))
      ++made_;
    else
      statements_.undo(mark);
  }

  // The axes, some of them as two sub-axes.
  std::vector<Axis> parts() {
    std::vector<Axis> out;
    for (const Axis& a : axes_) {
      if (a.size % 2 != 0 || a.size < 4 || draw_.below(2)) {
        out.push_back(a);
        continue;
      }
      const std::string half = std::to_string(a.size / 2);
      out.push_back({a.name + ":(1)2", 2});
      out.push_back({a.name + ":(2)" + half, a.size / 2});
    }
    return out;
  }
  Axis taken(std::vector<Axis>& left) {
    const auto i = static_cast<ptrdiff_t>(draw_.below(static_cast<int>(left.size())));
    Axis axis = left[static_cast<size_t>(i)];
    left.erase(left.begin() + i);
    return axis;
  }

  // A sharding for this shape: some dims sharded, strided where the sizes allow, some closed, some open; no
  // axis twice.
  std::string sharding(std::span<const int64_t> shape, bool pending = false) {
    std::vector<Axis> left = parts();
    std::string text;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::string dim = draw_.below(3) ? "_" : "?";
      if (!left.empty() && draw_.below(2)) {
        const Axis first = taken(left);
        dim = first.name;
        if (!left.empty() && draw_.below(4) == 0)
          dim = "(" + dim + ", " + taken(left).name + ")";
        else if (draw_.below(6) == 0 && shape[d] % (2 * first.size) == 0)
          dim = "(2, " + dim + ")";
      }
      text += (d ? ", " : "") + dim;
    }
    if (pending && !left.empty()) text += " | sum(" + left[0].name + ")";
    return "@m{" + text + "}";
  }
  StatementGenerator::Sharding sharding() {
    return {this, [](void* self, std::span<const int64_t> shape) {
              return static_cast<Generator*>(self)->sharding(shape);
            }};
  }

  // Annotations depend on the names alone, so that they do not change as the program grows.
  std::string annotation(const RandomValue& v, uint64_t salt) {
    if (axes_.empty()) return "";
    Draw own = draw_.fork(v.number * 2 + salt);
    std::swap(own, draw_);
    const bool pending =
        salt == 1 && isFloat(v.dtype) && draw_.below(5) == 0; // results may stay partial sums
    std::string text = draw_.below(4) ? " " + sharding(v.shape, pending) : "";
    std::swap(own, draw_);
    return text;
  }

  std::string module(bool last) {
    std::string args, results, values;
    for (const RandomValue& a : statements_.arguments())
      args += (args.empty() ? "" : ", ") + ("%" + a.name) + ": " + a.type() + annotation(a, 0) +
              (draw_.fork(a.number + 1000).below(4) ? "" : " {donate = true}");
    size_t n = 0;
    for (const RandomValue& v : statements_.results()) {
      results += (n ? ", " : "") + ("%y" + std::to_string(n)) + ": " + v.type() +
                 (last && draw_.fork(v.number).below(3) == 0 ? annotation(v, 1) : "");
      values += (n++ ? ", %" : " %") + v.name;
    }
    std::string head = mesh_.empty() ? "" : "mesh @m = " + std::string(mesh_) + "\n";
    return head + statements_.functions() + "func @main(" + args + ") -> (" + results + ") {\n" +
           statements_.body() + "  return" + values + "\n}\n";
  }

  const OpRegistry& ops_;
  const RandomProgramOptions& options_;
  Draw draw_;
  StatementGenerator statements_;
  std::string_view mesh_;
  std::vector<Axis> axes_;
  int made_ = 0;
};

} // namespace

RandomProgram makeRandomProgram(uint64_t seed, const OpRegistry& ops, const RandomProgramOptions& options) {
  return Generator(seed, ops, options).run(seed);
}

} // namespace dtc
