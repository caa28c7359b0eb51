// Device memory and streams of the caller, on the stub GPUs of test/stub, which see forgotten waits. The process must
// begin with the stubs in LD_LIBRARY_PATH: test/Api/cuda.test does that.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/dtc.h"

#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace dtc;

namespace {

struct Gpu {
  CudaDevice device;
  CudaStream stream;
};

dtc_buffer onDevice(const CudaMemory& memory, const std::vector<int64_t>& shape) {
  return {memory.get, DTC_F32, static_cast<int32_t>(shape.size()), shape.data(), nullptr, DTC_DEVICE_CUDA, 0};
}

dtc_executable* compiled(const char* text) {
  dtc_options* options = dtc_options_create();
  EXPECT_EQ(dtc_options_set(options, "backend", "cuda", nullptr), DTC_OK);
  EXPECT_EQ(dtc_options_set(options, "opt-level", "2", nullptr), DTC_OK);
  dtc_context* context = nullptr;
  EXPECT_EQ(dtc_context_create(options, &context, nullptr), DTC_OK);
  dtc_executable* x = nullptr;
  dtc_error* error = nullptr;
  EXPECT_EQ(dtc_compile(context, "test.dt", text, std::strlen(text), options, &x, &error), DTC_OK);
  if (error) ADD_FAILURE() << dtc_error_message(error);
  dtc_error_free(error);
  dtc_context_free(context);
  dtc_options_free(options);
  return x;
}

} // namespace

class CApiCuda : public testing::Test {
protected:
  void SetUp() override {
    // Not by the number of stub GPUs, which other tests of the process set.
    if (!std::getenv("DTC_TEST_CUDA_API")) GTEST_SKIP() << "runs with stub GPUs only: test/Api/cuda.test";
  }
};

TEST_F(CApiCuda, RunsOnDeviceMemoryInTheCallersStream) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver) << driver.error().message;
  auto device = CudaDevice::open(*driver, 0);
  ASSERT_TRUE(device);
  auto stream = device->stream();
  auto x = device->allocate(64), y = device->allocate(64);
  ASSERT_TRUE(stream && x && y);
  dtc_executable* program =
      compiled("func @main(%x: f32[16]) -> (%y: f32[16]) {\n  %y = add %x, 1.0\n  return %y\n}\n");
  ASSERT_NE(program, nullptr);
  const std::vector<int64_t> shape = {16};
  for (int round = 1; round <= 3; ++round) {
    const std::vector<float> in(16, static_cast<float>(round));
    std::vector<float> out(16);
    ASSERT_TRUE(device->copyIn(x->get, in.data(), 64, *stream)); // enqueued: the run must wait for it
    const dtc_buffer argument = onDevice(*x, shape), result = onDevice(*y, shape);
    dtc_run_arguments run = {};
    run.struct_size = sizeof run;
    run.arguments = &argument, run.num_arguments = 1;
    run.results = &result, run.num_results = 1;
    run.stream = stream->get;
    dtc_error* error = nullptr;
    ASSERT_EQ(dtc_run(program, &run, &error), DTC_OK) << dtc_error_message(error);
    ASSERT_TRUE(device->copyOut(out.data(), y->get, 64, *stream));
    ASSERT_TRUE(device->synchronize(*stream));
    EXPECT_EQ(out, std::vector<float>(16, static_cast<float>(round + 1)));
  }
  dtc_executable_free(program);
}

TEST_F(CApiCuda, RefusesWholeDeviceTensorsOnSeveralDevices) {
  auto driver = CudaDriver::open();
  ASSERT_TRUE(driver);
  auto device = CudaDevice::open(*driver, 0);
  auto x = device->allocate(64);
  ASSERT_TRUE(x);
  dtc_executable* program = compiled("mesh @m = [d=2]\nfunc @main(%x: f32[16] {d}) -> (%y: f32[16] {d}) {\n"
                                     "  %y = add %x, 1.0\n  return %y\n}\n");
  ASSERT_NE(program, nullptr);
  const std::vector<int64_t> shape = {16};
  const dtc_buffer argument = onDevice(*x, shape);
  dtc_run_arguments run = {};
  run.struct_size = sizeof run;
  run.arguments = &argument, run.num_arguments = 1;
  EXPECT_EQ(dtc_run(program, &run, nullptr), DTC_ERROR_USAGE);
  dtc_executable_free(program);
}
