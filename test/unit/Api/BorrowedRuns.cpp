// Runs on tensors of the caller have the bits of runs on copies, wherever the tensors are.
#include "dtc/Api/CompiledProgram.h"
#include "dtc/Check/random/RandomProgram.h"
#include "dtc/Files/Inputs.h"
#include "dtc/Ops/record/Ops.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

// A tensor in memory of a test: `gap` bytes from an aligned address, and with `reversed` in the reversed order of
// elements, which no buffer has.
class Placed {
public:
  Placed(DType dtype, std::span<const int64_t> shape, size_t gap, bool reversed)
      : dtype_(dtype), shape_(shape.begin(), shape.end()), whole_(dtype, shape_), reversed_(reversed),
        memory_(whole_.bytes().size() + gap + 64) {
    at_ = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64) + gap;
    int64_t row = 1;
    strides_.resize(shape_.size());
    for (size_t d = shape_.size(); d-- > 0;) strides_[d] = -row, row *= shape_[d];
  }
  void write(const Tensor& from) {
    const auto width = static_cast<size_t>(dtypeBytes(dtype_));
    const auto n = static_cast<size_t>(from.numElements());
    for (size_t i = 0; i < n; ++i)
      std::memcpy(at_ + width * (reversed_ ? n - 1 - i : i), from.bytes().data() + width * i, width);
  }
  Tensor read() {
    const auto width = static_cast<size_t>(dtypeBytes(dtype_));
    const auto n = static_cast<size_t>(whole_.numElements());
    for (size_t i = 0; i < n; ++i)
      std::memcpy(whole_.bytes().data() + width * i, at_ + width * (reversed_ ? n - 1 - i : i), width);
    return whole_;
  }
  BorrowedTensor borrowed() {
    const int64_t n = whole_.numElements();
    BorrowedTensor t{at_, dtype_, shape_};
    if (reversed_ && n > 0) t.data += (n - 1) * dtypeBytes(dtype_), t.strides = strides_;
    return t;
  }

private:
  DType dtype_;
  std::vector<int64_t> shape_, strides_;
  Tensor whole_;
  bool reversed_;
  std::vector<std::byte> memory_;
  std::byte* at_ = nullptr;
};

struct Layout {
  size_t gap = 0;
  bool reversed = false; // of arguments
  bool reversedResults = false;
};

std::vector<Tensor> runWith(CompiledProgram& program, std::span<const Tensor> arguments,
                            const Layout& layout) {
  std::vector<Placed> in, out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TensorInfo& t = program.arguments()[i];
    in.emplace_back(t.dtype, t.shape, layout.gap * static_cast<size_t>(dtypeBytes(t.dtype)), layout.reversed)
        .write(arguments[i]);
  }
  for (const TensorInfo& t : program.results())
    out.emplace_back(t.dtype, t.shape, layout.gap * static_cast<size_t>(dtypeBytes(t.dtype)),
                     layout.reversedResults);
  std::vector<BorrowedTensor> given, wanted;
  for (Placed& p : in) given.push_back(p.borrowed());
  for (Placed& p : out) wanted.push_back(p.borrowed());
  ApiError error;
  EXPECT_TRUE(program.run({.tensors = {.arguments = given, .results = wanted}}, error)) << error.text;
  std::vector<Tensor> results;
  for (Placed& p : out) results.push_back(p.read());
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i].read(), arguments[i]) << "an argument was written to";
  return results;
}

std::vector<Tensor> argumentsOf(const CompiledProgram& program, std::span<const std::string> inputs) {
  std::vector<InputBinding> bindings;
  for (const std::string& text : inputs) bindings.push_back(*parseInputBinding(text));
  std::vector<InputArgument> wanted;
  for (const TensorInfo& t : program.arguments()) wanted.push_back({t.name, t.userName, t.dtype, t.shape});
  auto sources = bindInputs(bindings, wanted);
  std::vector<Tensor> values;
  if (sources)
    for (const TensorSource& s : *sources) values.push_back(*s.tensor());
  else
    ADD_FAILURE() << sources.error().message;
  return values;
}

void expectSameBits(const std::string& text, std::span<const std::string> inputs,
                    const std::shared_ptr<Machine>& machine, int optLevel) {
  CompileOptions options;
  options.lowering.optLevel = optLevel;
  ApiError error;
  const auto program = CompiledProgram::compile({"test.dt", text}, options, machine, error);
  ASSERT_TRUE(program) << error.text;
  program->setPrint({[](void*, const std::string&) {}, nullptr});
  const std::vector<Tensor> arguments = argumentsOf(*program, inputs);
  auto copied = runOnce(program->executable(), arguments, false);
  ASSERT_TRUE(copied) << copied.error().message;
  for (const Layout& layout :
       {Layout{}, Layout{1}, Layout{0, true, true}, Layout{3, false, true}, Layout{}}) {
    const auto results = runWith(*program, arguments, layout);
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(results[i], (*copied)[i]) << "result " << i << ", gap " << layout.gap << "\n" << text;
  }
}

} // namespace

// Collectives, matmuls with bias and epilogue, convolution, loops, carried and donated arguments.
TEST(BorrowedRuns, HaveTheBitsOfCopies) {
  const auto machine = std::make_shared<Machine>(2);
  const std::string programs[] = {
      "mesh @m = [a=2]\nfunc @main(%x: f32[64, 32] {a, _}, %w: f32[32, 48], %b: f32[48]) -> (%y: f32[64, 48] "
      "{a, _}, %s: f32[48]) {\n  %h = matmul %x, %w\n  %p = add %h, %b\n  %y = gelu %p\n  %s = sum %y {dims "
      "= "
      "[0]}\n  return %y, %s\n}\n",
      "func @main(%x: f32[2, 3, 9, 9], %w: f32[4, 3, 3, 3]) -> (%y: f32[2, 4, 9, 9]) {\n  %y = conv %x, %w "
      "{padding = [[1, 1], [1, 1]]}\n  return %y\n}\n",
      "func @main(%x: f32[8, 8], %y: f32[8, 8]) -> (%a: f32[8, 8], %b: f32[8, 8], %c: f32[8, 8]) {\n"
      "  %m = matmul %x, %y\n  return %x, %m, %m\n}\n",
      "func @main(%x: f32[6] {donate = true}, %w: f32[6]) -> (%w: f32[6] {carry = true}, %y: f32[6]) {\n"
      "  %n = sub %w, %x\n  %y = mul %x, %x\n  return %n, %y\n}\n",
  };
  const std::string inputs[] = {"*=randn(3)"};
  for (const std::string& text : programs)
    for (int level : {1, 2}) expectSameBits(text, inputs, machine, level);
}

TEST(BorrowedRuns, HaveTheBitsOfCopiesInRandomPrograms) {
  const auto machine = std::make_shared<Machine>(2);
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    const RandomProgram p = makeRandomProgram(seed, standardOps());
    expectSameBits(p.text, p.inputs, machine, seed % 2 ? 1 : 2);
  }
}

// Contiguous tensors are used in place, whatever the memory plan shares; strided ones are copied.
TEST(BorrowedRuns, CopyNoContiguousTensors) {
  const auto machine = std::make_shared<Machine>(1);
  ApiError error;
  const auto program = CompiledProgram::compile(
      {"test.dt",
       "func @main(%x: f32[64, 64], %w: f32[64, 64]) -> (%a: f32[64, 64], %s: f32[64], %b: f32[64, "
       "32]) {\n  %h = matmul %x, %w\n  %g = gelu %h\n  %k = matmul %g, %w\n  %a = matmul %k, %x\n"
       "  %s = sum %k {dims = [1]}\n  %c = slice %w {start = [0, 0], limit = [64, 32]}\n"
       "  %b = matmul %a, %c\n  return %a, %s, %b\n}\n"},
      {}, machine, error);
  ASSERT_TRUE(program) << error.text;
  const std::string inputs[] = {"*=randn(5)"};
  const std::vector<Tensor> arguments = argumentsOf(*program, inputs);
  const auto results = runWith(*program, arguments, {});
  EXPECT_EQ(program->copiedBytes(), 0);
  EXPECT_EQ(runWith(*program, arguments, {0, true, false}), results);
  EXPECT_EQ(program->copiedBytes(), 2 * 64 * 64 * 4);
  EXPECT_EQ(runWith(*program, arguments, {0, false, true}), results);
  EXPECT_EQ(program->copiedBytes(), (64 * 64 + 64 + 64 * 32) * 4);
}

// Its address would be read as one of the host.
TEST(BorrowedRuns, RejectMemoryOfDevicesOnCpus) {
  const auto machine = std::make_shared<Machine>(1);
  ApiError error;
  const auto program = CompiledProgram::compile(
      {"test.dt", "func @main(%x: f32[8]) -> (%y: f32[8]) {\n  %y = neg %x\n  return %y\n}\n"}, {}, machine,
      error);
  ASSERT_TRUE(program) << error.text;
  Tensor x(DType::F32, std::vector<int64_t>{8}), y = x;
  BorrowedTensor in{x.bytes().data(), DType::F32, x.shape()}, out{y.bytes().data(), DType::F32, y.shape()};
  in.onDevice = true;
  EXPECT_FALSE(program->run({.tensors = {.arguments = {&in, 1}, .results = {&out, 1}}}, error));
  EXPECT_NE(error.text.find("argument %x: expected memory of the host"), std::string::npos) << error.text;
  in.onDevice = false, out.onDevice = true;
  EXPECT_FALSE(program->run({.tensors = {.arguments = {&in, 1}, .results = {&out, 1}}}, error));
  EXPECT_NE(error.text.find("result y: expected memory of the host"), std::string::npos) << error.text;
}

// A result in the memory of an argument is written after the argument has been read.
TEST(BorrowedRuns, MayWriteOverArguments) {
  const auto machine = std::make_shared<Machine>(1);
  ApiError error;
  const auto program = CompiledProgram::compile(
      {"test.dt", "func @main(%x: f32[8, 8]) -> (%y: f32[8, 8]) {\n  %y = matmul %x, %x\n  return %y\n}\n"},
      {}, machine, error);
  ASSERT_TRUE(program) << error.text;
  const std::string inputs[] = {"*=randn(5)"};
  const std::vector<Tensor> arguments = argumentsOf(*program, inputs);
  const auto expected = runWith(*program, arguments, {});
  Tensor memory = arguments[0];
  const BorrowedTensor both{memory.bytes().data(), DType::F32, memory.shape()};
  ASSERT_TRUE(program->run({.tensors = {.arguments = {&both, 1}, .results = {&both, 1}}}, error))
      << error.text;
  EXPECT_EQ(memory, expected[0]);
}
