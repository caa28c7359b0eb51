// Runs that keep arguments, whose matmuls and convolutions read packed copies of them, see every change of an argument.
#include "dtc/Api/CompiledProgram.h"
#include "dtc/Check/random/RandomProgram.h"
#include "dtc/Files/Inputs.h"
#include "dtc/Ops/record/Ops.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <limits>

using namespace dtc;

namespace {

// How a run is given an argument. Reversed: as Once, in memory that has to be copied to the buffer of an argument.
enum class Pass { Once, Reversed, Keep, Skip };

// The elements in reverse order, with the strides to read them.
struct Reversed {
  explicit Reversed(const Tensor& t) : memory(t), strides(t.shape().size()) {
    const auto width = static_cast<size_t>(dtypeBytes(t.dtype())), n = t.bytes().size() / width;
    for (size_t i = 0; i < n; ++i)
      std::memcpy(memory.bytes().data() + width * (n - 1 - i), t.bytes().data() + width * i, width);
    int64_t row = 1;
    for (size_t d = strides.size(); d-- > 0;) strides[d] = -row, row *= t.shape()[d];
  }
  BorrowedTensor borrowed() {
    BorrowedTensor t{memory.bytes().data(), memory.dtype(), memory.shape(), strides};
    t.data += memory.bytes().size() - static_cast<size_t>(dtypeBytes(memory.dtype()));
    return t;
  }
  Tensor memory;
  std::vector<int64_t> strides;
};

class KeptRuns {
public:
  explicit KeptRuns(const std::string& text, int threads = 2) : text_(text) {
    ApiError error;
    program_ = CompiledProgram::compile({"test.dt", text}, {}, std::make_shared<Machine>(threads), error);
    EXPECT_TRUE(program_) << error.text;
  }
  // Random values of all arguments.
  std::vector<Tensor> arguments(const std::string& inputs) const {
    std::vector<InputArgument> wanted;
    for (const TensorInfo& t : program_->arguments())
      wanted.push_back({t.name, t.userName, t.dtype, t.shape});
    const std::vector<InputBinding> bindings = {*parseInputBinding(inputs)};
    const auto sources = bindInputs(bindings, wanted);
    std::vector<Tensor> values;
    for (const TensorSource& s : *sources) values.push_back(*s.tensor());
    return values;
  }
  std::vector<Tensor> run(std::vector<Tensor>& arguments, const std::vector<Pass>& how) {
    std::vector<BorrowedTensor> given, wanted;
    std::deque<Reversed> reversed;
    for (size_t i = 0; i < arguments.size(); ++i) {
      BorrowedTensor t{arguments[i].bytes().data(), arguments[i].dtype(), arguments[i].shape()};
      if (how[i] == Pass::Reversed) t = reversed.emplace_back(arguments[i]).borrowed();
      if (how[i] == Pass::Skip) t.data = nullptr;
      t.keep = how[i] == Pass::Keep, t.skip = how[i] == Pass::Skip;
      given.push_back(t);
    }
    std::vector<Tensor> results;
    for (const TensorInfo& t : program_->results()) results.emplace_back(t.dtype, t.shape);
    for (Tensor& t : results) wanted.push_back({t.bytes().data(), t.dtype(), t.shape()});
    ApiError error;
    EXPECT_TRUE(program_->run({.tensors = {.arguments = given, .results = wanted}}, error))
        << error.text << text_;
    return results;
  }
  std::vector<bool> keepable() const { return program_->executable().keptArguments(); }

private:
  std::string text_;
  std::unique_ptr<CompiledProgram> program_;
};

void expectNear(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const std::string& text) {
  for (size_t r = 0; r < a.size(); ++r) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < a[r].numElements(); ++i) {
      const double x = a[r].getFloat(i), y = b[r].getFloat(i);
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      if (x != y && !(std::isnan(x) && std::isnan(y))) worst = std::max(worst, std::abs(x - y));
    }
    EXPECT_LE(worst, 1e-5 * largest) << "result " << r << "\n" << text;
  }
}

const char* const kProducts =
    "func @main(%x: f32[16, 96], %w: f32[96, 200], %b: f32[200], %v: f32[72, 200], %i: f32[2, 8, 9, 9], "
    "%k: f32[24, 8, 3, 3]) -> (%y: f32[16, 72], %z: f32[16, 40], %c: f32[2, 24, 9, 9]) {\n"
    "  %h = matmul %x, %w\n  %p = add %h, %b\n  %g = gelu %p\n"
    "  %t = transpose %v {perm = [1, 0]}\n  %y = matmul %g, %t\n"
    "  %s = slice %w {start = [0, 24], limit = [96, 64]}\n  %z = matmul %x, %s\n"
    "  %c = conv %i, %k {padding = [[1, 1], [1, 1]]}\n  return %y, %z, %c\n}\n";
const std::vector<size_t> kWeights = {1, 2, 3, 5};

std::vector<Pass> weightsAre(Pass how) {
  std::vector<Pass> all(6, Pass::Once);
  for (const size_t w : kWeights) all[w] = how;
  return all;
}

} // namespace

TEST(KeptArguments, AreReadAgainWhenTheyChange) {
  KeptRuns runs(kProducts);
  std::vector<Tensor> first = runs.arguments("*=randn(1)"), second = runs.arguments("*=randn(2)");
  const auto plain = runs.run(first, weightsAre(Pass::Once)),
             other = runs.run(second, weightsAre(Pass::Once));
  const auto kept = runs.run(first, weightsAre(Pass::Keep));
  expectNear(kept, plain, "kept");
  EXPECT_EQ(runs.run(first, weightsAre(Pass::Skip)), kept);
  const auto changed = runs.run(second, weightsAre(Pass::Keep));
  expectNear(changed, other, "kept again");
  EXPECT_EQ(runs.run(second, weightsAre(Pass::Skip)), changed);
  // Only one of them changes.
  std::vector<Tensor> mixed = second;
  mixed[3] = first[3];
  std::vector<Pass> how = weightsAre(Pass::Skip);
  how[3] = Pass::Keep;
  const auto one = runs.run(mixed, how);
  expectNear(one, runs.run(mixed, weightsAre(Pass::Once)), "one changed");
  EXPECT_EQ(runs.run(first, weightsAre(Pass::Once)), plain);
}

// Large enough for several parts of rows and of columns, whose packed products have results apart from %y; weights that
// are transposed, shared by two products, of bytes, and of one row of results.
const char* const kParts =
    "func @main(%x: f32[64, 320], %w: f32[320, 768], %b: f32[768], %t: f32[768, 320], %r: f32[1, 320], "
    "%q: u8[64, 320], %i: i8[320, 768])\n"
    "    -> (%y: f32[64, 768], %z: f32[64, 768], %v: f32[1, 768], %p: i32[64, 768], %u: f32[64, 768]) {\n"
    "  %h = matmul %x, %w\n  %a = add %h, %b\n  %y = gelu %a\n"
    "  %z = matmul %x, %t {transpose_b = true}\n  %v = matmul %r, %w\n"
    "  %k = convert %q {dtype = i32}\n  %j = convert %i {dtype = i32}\n  %p = matmul %k, %j\n  %e = exp %x\n "
    " %u = matmul %e, %w\n  return %y, %z, %v, %p, %u\n}\n";

TEST(KeptArguments, OfProductsInParts) {
  KeptRuns runs(kParts);
  std::vector<Tensor> first = runs.arguments("*=randn(1)"), second = runs.arguments("*=randn(2)");
  std::vector<Pass> once(7, Pass::Once), keep = once, skip = once;
  for (const size_t weights : {1, 2, 3, 6}) keep[weights] = Pass::Keep, skip[weights] = Pass::Skip;
  for (std::vector<Tensor>* values : {&first, &second, &first}) {
    const auto plain = runs.run(*values, once), kept = runs.run(*values, keep);
    expectNear(kept, plain, "kept");
    EXPECT_EQ(kept[3], plain[3]) << "bytes are exact";
    EXPECT_EQ(runs.run(*values, skip), kept);
    std::vector<Tensor> moved = *values; // in other memory
    EXPECT_EQ(runs.run(moved, skip), kept);
  }
}

// A copy goes to the buffer that the kept argument is in.
TEST(KeptArguments, AreReplacedByCopies) {
  KeptRuns runs(kProducts);
  std::vector<Tensor> first = runs.arguments("*=randn(1)"), second = runs.arguments("*=randn(2)");
  const auto plain = runs.run(second, weightsAre(Pass::Once));
  (void)runs.run(first, weightsAre(Pass::Keep));
  EXPECT_EQ(runs.run(second, weightsAre(Pass::Reversed)), plain);
}

// The caller writes to memory that an earlier run was given.
TEST(KeptArguments, MayBeWrittenByTheCallerIfNotKept) {
  KeptRuns runs(kProducts);
  std::vector<Tensor> values = runs.arguments("*=randn(1)");
  const std::vector<Tensor> second = runs.arguments("*=randn(2)");
  std::vector<Tensor> fresh = second;
  (void)runs.run(values, weightsAre(Pass::Keep));
  (void)runs.run(values, weightsAre(Pass::Once));
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(values[i].bytes().data(), second[i].bytes().data(), values[i].bytes().size());
  EXPECT_EQ(runs.run(values, weightsAre(Pass::Once)), runs.run(fresh, weightsAre(Pass::Once)));
}

// Column sums, a product of weights and a table are computed once from frozen arguments, and a convolution reads a
// transposed one.
const char* const kFrozen =
    "func @main(%x: f32[16, 96], %w: f32[96, 200] {frozen = true}, %b: f32[200] {frozen = true}, "
    "%v: f32[200, 72] {frozen = true}, %i: f32[2, 8, 9, 9], %k: f32[8, 24, 3, 3] {frozen = true})\n"
    "    -> (%y: f32[16, 72], %z: f32[16, 200], %c: f32[2, 24, 9, 9], %s: f32[200]) {\n"
    "  %u = matmul %w, %v\n  %y = matmul %x, %u\n"
    "  %s = sum %w {dims = [0]}\n  %t = mul %s, %b\n  %e = exp %t\n"
    "  %h = matmul %x, %w\n  %z = add %h, %e\n"
    "  %j = transpose %k {perm = [1, 0, 2, 3]}\n"
    "  %c = conv %i, %j {padding = [[1, 1], [1, 1]]}\n  return %y, %z, %c, %s\n}\n";

TEST(KeptArguments, ThatAreFrozenAreReadAgainWhenTheyChange) {
  KeptRuns runs(kFrozen);
  std::string plainText = kFrozen;
  for (const std::string mark = " {frozen = true}"; plainText.find(mark) != std::string::npos;)
    plainText.erase(plainText.find(mark), mark.size());
  KeptRuns plain(plainText);
  std::vector<Tensor> first = runs.arguments("*=randn(1)"), second = runs.arguments("*=randn(2)");
  for (Tensor& t : first) // so that exp stays finite
    for (int64_t i = 0; i < t.numElements(); ++i) t.setFloat(i, 0.1 * t.getFloat(i));
  const auto expected = plain.run(first, weightsAre(Pass::Once));
  const auto once = runs.run(first, weightsAre(Pass::Once));
  EXPECT_EQ(once, expected); // the same bits
  const auto kept = runs.run(first, weightsAre(Pass::Keep));
  expectNear(kept, expected, "kept");
  EXPECT_EQ(runs.run(first, weightsAre(Pass::Skip)), kept);
  for (const size_t changed : kWeights) {
    std::vector<Tensor> values = first;
    for (int64_t i = 0; i < values[changed].numElements(); ++i)
      values[changed].setFloat(i, 0.2 * values[changed].getFloat(i));
    std::vector<Pass> how = weightsAre(Pass::Skip);
    how[changed] = Pass::Keep;
    const auto after = plain.run(values, weightsAre(Pass::Once));
    expectNear(runs.run(values, how), after, "one changed");
    expectNear(runs.run(values, weightsAre(Pass::Skip)), after, "one changed earlier");
    EXPECT_EQ(runs.run(values, weightsAre(Pass::Once)), after);
    (void)runs.run(first, weightsAre(Pass::Keep));
  }
}

// oneDNN skips padding: a window with an infinity needs the generated kernel, which is known once per kept window.
TEST(KeptArguments, MayBecomeInfiniteAndFiniteAgain) {
  KeptRuns runs(kProducts);
  std::vector<Tensor> finite = runs.arguments("*=randn(1)"), infinite = finite;
  for (int64_t i = 0; i < infinite[5].numElements(); ++i)
    infinite[5].setFloat(i, std::numeric_limits<double>::infinity());
  const auto plain = runs.run(finite, weightsAre(Pass::Once));
  const auto expected = runs.run(infinite, weightsAre(Pass::Once));
  EXPECT_TRUE(std::isnan(expected[2].getFloat(0))); // at the padding
  (void)runs.run(finite, weightsAre(Pass::Keep));
  expectNear(runs.run(infinite, weightsAre(Pass::Keep)), expected, "kept");
  expectNear(runs.run(infinite, weightsAre(Pass::Skip)), expected, "kept earlier");
  expectNear(runs.run(finite, weightsAre(Pass::Keep)), plain, "finite again");
  (void)runs.run(infinite, weightsAre(Pass::Keep));
  EXPECT_EQ(runs.run(finite, weightsAre(Pass::Once)), plain);
}

TEST(KeptArguments, GiveTheSameInRandomPrograms) {
  for (uint64_t seed = 100; seed < 115; ++seed) {
    const RandomProgram p = makeRandomProgram(seed, standardOps());
    KeptRuns runs(p.text, seed % 2 ? 1 : 2);
    if (p.inputs.size() != 1) continue;
    std::vector<Tensor> values = runs.arguments(p.inputs[0]);
    std::vector<Pass> once(values.size(), Pass::Once), keep = once, skip = once;
    const std::vector<bool> keepable = runs.keepable();
    for (size_t i = 0; i < values.size(); ++i)
      if (keepable[i]) keep[i] = Pass::Keep, skip[i] = Pass::Skip;
    std::vector<Tensor> copy = values;
    const auto plain = runs.run(copy, once);
    copy = values;
    const auto kept = runs.run(copy, keep);
    expectNear(kept, plain, p.text);
    copy = values;
    EXPECT_EQ(runs.run(copy, skip), kept) << p.text;
    copy = values;
    EXPECT_EQ(runs.run(copy, once), plain) << p.text;
  }
}
