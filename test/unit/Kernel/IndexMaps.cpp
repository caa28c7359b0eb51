// The index maps of kernels against the evaluator: reshapes whose two shapes are drawn from one factorisation, so that dims
// pass, split, merge and regroup side by side, around dims that are sharded unevenly.
#include "ProgramRuns.h"
#include "dtc/Eval/RandomInputs.h"
#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace dtc {
namespace {

using Shape = std::vector<int64_t>;

class Regroupings {
public:
  explicit Regroupings(uint32_t seed) : random_(seed) {}

  ProgramRun program(int cases, bool gradients) {
    for (int i = 0; i < cases; ++i) gradients ? addGradient(i) : add(i);
    run_.text = "mesh @m = [a=2, b=3]\n" + functions_ + "func @main(" + arguments_ + ") -> (" + results_ +
                ") {\n" + body_ + "  return " + returned_ + "\n}\n";
    return std::move(run_);
  }

private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(n)); }
  bool once(int64_t in) { return below(in) == 0; }

  // An ordered factorisation of n, with dims of 1 here and there.
  Shape factorised(int64_t n) {
    Shape dims;
    while (n > 1) {
      Shape divisors;
      for (int64_t d = 2; d <= n; ++d)
        if (n % d == 0) divisors.push_back(d);
      dims.push_back(divisors[static_cast<size_t>(below(static_cast<int64_t>(divisors.size())))]);
      n /= dims.back();
      if (once(8)) dims.push_back(1);
    }
    return dims;
  }
  // Neighboring dims of different groups become one now and then.
  void append(Shape& shape, const Shape& more) {
    for (size_t i = 0; i < more.size(); ++i)
      if (i == 0 && !shape.empty() && once(5))
        shape.back() *= more[0];
      else
        shape.push_back(more[i]);
  }
  void draw(Shape& in, Shape& out) {
    static constexpr int64_t kGroups[] = {2, 3, 4, 5, 6, 7, 8, 12, 24};
    in.clear(), out.clear();
    int64_t elements = 1;
    for (int64_t groups = 2 + below(3); groups-- > 0 && elements < 200;) {
      const int64_t n = kGroups[below(std::size(kGroups))];
      elements *= n;
      append(in, factorised(n));
      append(out, once(3) ? Shape{n} : factorised(n));
    }
    for (Shape* s : {&in, &out})
      if (once(4)) s->insert(s->begin() + below(static_cast<int64_t>(s->size()) + 1), 1);
  }
  // One or two dims that have several elements, along one axis or both.
  std::string sharding(const Shape& shape) {
    std::vector<std::string> dims(shape.size(), "_");
    std::vector<size_t> wide;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] > 1) wide.push_back(d);
    std::shuffle(wide.begin(), wide.end(), random_);
    static constexpr const char* kOne[] = {"a", "b", "(a, b)", "(b, a)"};
    if (!wide.empty()) dims[wide[0]] = kOne[below(4)];
    if (wide.size() > 1 && once(2)) {
      dims[wide[0]] = once(2) ? "a" : "b";
      dims[wide[1]] = dims[wide[0]] == "a" ? "b" : "a";
    }
    return " @m{" + text<std::string>(dims, [](const std::string& s) { return s; }) + "}";
  }
  template <class T> static std::string text(const std::vector<T>& list, std::function<std::string(T)> of) {
    std::string all;
    for (const T& x : list) all += (all.empty() ? "" : ", ") + of(x);
    return all;
  }
  static std::string dims(const Shape& s) {
    return text<int64_t>(s, [](int64_t n) { return std::to_string(n); });
  }
  Shape permutation(size_t rank) {
    Shape p(rank);
    for (size_t i = 0; i < rank; ++i) p[i] = static_cast<int64_t>(i);
    std::shuffle(p.begin(), p.end(), random_);
    return p;
  }

  std::string argument(int number, DType dtype, const Shape& shape, const std::string& sharding) {
    const std::string x = "%x" + std::to_string(number);
    arguments_ += (arguments_.empty() ? "" : ", ") + x + ": " + std::string(dtypeName(dtype)) + "[" +
                  dims(shape) + "]" + sharding;
    run_.arguments.push_back(
        makeInput({InputSpec::Randint, 5, 1.0, 100.0}, dtype, shape, static_cast<uint64_t>(number)));
    return x;
  }
  void result(const std::string& y, DType dtype, const Shape& shape) {
    results_ +=
        (results_.empty() ? "" : ", ") + y + ": " + std::string(dtypeName(dtype)) + "[" + dims(shape) + "]";
    returned_ += (returned_.empty() ? "" : ", ") + y;
  }
  void line(const std::string& text) { body_ += "  " + text + "\n"; }

  void add(int i) {
    static constexpr DType kDTypes[] = {DType::F32, DType::I8,  DType::BF16,
                                        DType::I64, DType::I32, DType::F64};
    const DType dtype = kDTypes[i % 6];
    Shape in, out;
    draw(in, out);
    const std::string n = std::to_string(i), y = "%y" + n, t = "%t" + n, u = "%u" + n;
    const std::string reshape = " {shape = [" + dims(out) + "]}";
    switch (below(6)) {
    case 0: // read by what computes
      line(t + " = reshape " + argument(i, dtype, in, sharding(in)) + reshape);
      line(y + " = neg " + t);
      return result(y, dtype, out);
    case 1: // after a transposition
    case 2: {
      const Shape perm = permutation(in.size());
      Shape transposed(in.size());
      for (size_t d = 0; d < in.size(); ++d) transposed[static_cast<size_t>(perm[d])] = in[d];
      line(t + " = transpose " + argument(i, dtype, transposed, sharding(transposed)) + " {perm = [" +
           dims(perm) + "]}");
      line(y + " = reshape " + t + reshape);
      return result(y, dtype, out);
    }
    case 3: { // before one
      const Shape perm = permutation(out.size());
      Shape transposed;
      for (int64_t p : perm) transposed.push_back(out[static_cast<size_t>(p)]);
      line(t + " = reshape " + argument(i, dtype, in, sharding(in)) + reshape);
      line(u + " = transpose " + t + " {perm = [" + dims(perm) + "]}");
      line(y + " = abs " + u);
      return result(y, dtype, transposed);
    }
    case 4: { // reduced along one of its dims
      const auto d = static_cast<size_t>(below(static_cast<int64_t>(out.size())));
      line(t + " = reshape " + argument(i, DType::I32, in, sharding(in)) + reshape);
      line(y + " = sum " + t + " {dims = [" + std::to_string(d) + "]}");
      out.erase(out.begin() + static_cast<ptrdiff_t>(d));
      return result(y, DType::I32, out);
    }
    default: { // there and back, past a dim of 1
      const int64_t d = below(static_cast<int64_t>(out.size()) + 1);
      const std::string x = argument(i, dtype, in, sharding(in));
      line(t + " = reshape " + x + reshape);
      line(u + " = expand_dims " + t + " {dims = [" + std::to_string(d) + "]}");
      line("%v" + n + " = neg " + u);
      line("%w" + n + " = squeeze %v" + n + " {dims = [" + std::to_string(d) + "]}");
      line("%z" + n + " = reshape %w" + n + " {shape = [" + dims(in) + "]}");
      line(y + " = max %z" + n + ", " + x);
      return result(y, dtype, in);
    }
    }
  }

  // The gradient of a sum of squares after a reshape reads the reshape backwards.
  void addGradient(int i) {
    Shape in, out;
    draw(in, out);
    const std::string n = std::to_string(i), f = "@f" + n, reshape = " {shape = [" + dims(out) + "]}";
    const std::string type = "f32[" + dims(in) + "]";
    functions_ += "func " + f + "(%x: " + type + ", %w: f32[" + dims(out) +
                  "]) -> (%s: f32[]) {\n  %t = reshape %x" + reshape +
                  "\n  %u = mul %t, %w\n  %v = mul %u, %t\n  %s = sum %v\n  return %s\n}\n";
    const std::string x = argument(2 * i, DType::F32, in, sharding(in)),
                      w = argument(2 * i + 1, DType::F32, out, sharding(out));
    line("%l" + n + ", %d" + n + " = value_and_grad " + f + "(" + x + ", " + w + ") {wrt = [0]}");
    result("%d" + n, DType::F32, in);
  }

  std::mt19937 random_;
  ProgramRun run_;
  std::string functions_, arguments_, results_, returned_, body_;
};

struct IndexMaps : testing::TestWithParam<const char*> {};

TEST_P(IndexMaps, OfRegroupedShards) {
  for (uint32_t seed : {1u, 2u, 3u, 4u})
    expectLikeEvaluator(Regroupings(seed).program(30, false), GetParam());
}

TEST_P(IndexMaps, OfEachOpByItself) {
  ProgramRun run = Regroupings(5).program(30, false);
  run.optLevel = 0;
  expectLikeEvaluator(run, GetParam());
}

TEST_P(IndexMaps, OfGradients) { expectLikeEvaluator(Regroupings(6).program(24, true), GetParam()); }

INSTANTIATE_TEST_SUITE_P(Backends, IndexMaps, testing::Values("cpu", "cuda-emu"), [](const auto& info) {
  return std::string(info.param == std::string("cpu") ? "Cpu" : "CudaEmu");
});

} // namespace
} // namespace dtc
