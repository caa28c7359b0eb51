// The C API as a caller sees it: libdtc.so, which shares no code with the rest of this binary.
#include "dtc/dlpack.h"
#include "dtc/dtc.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Free {
  void operator()(dtc_error* e) const { dtc_error_free(e); }
  void operator()(dtc_options* o) const { dtc_options_free(o); }
  void operator()(dtc_context* c) const { dtc_context_free(c); }
  void operator()(dtc_executable* x) const { dtc_executable_free(x); }
  void operator()(dtc_tensor* t) const { dtc_tensor_free(t); }
};
template <class T> using Owned = std::unique_ptr<T, Free>;

using Settings = std::vector<std::pair<const char*, const char*>>;

Owned<dtc_options> optionsOf(const Settings& settings) {
  Owned<dtc_options> o(dtc_options_create());
  for (auto [name, value] : settings) EXPECT_EQ(dtc_options_set(o.get(), name, value, nullptr), DTC_OK);
  return o;
}

Owned<dtc_context> contextOf(const char* threads = "2") {
  dtc_context* context = nullptr;
  EXPECT_EQ(dtc_context_create(optionsOf({{"threads", threads}}).get(), &context, nullptr), DTC_OK);
  return Owned<dtc_context>(context);
}

// Of a program that compiles.
Owned<dtc_executable> compiled(dtc_context* context, const std::string& text, const Settings& settings = {}) {
  dtc_executable* x = nullptr;
  dtc_error* error = nullptr;
  EXPECT_EQ(dtc_compile(context, "test.dt", text.data(), text.size(), optionsOf(settings).get(), &x, &error),
            DTC_OK);
  if (error) ADD_FAILURE() << dtc_error_message(error);
  return Owned<dtc_executable>(x);
}

// Of a program that does not.
Owned<dtc_error> errorOf(const std::string& text, const Settings& settings = {}) {
  const Owned<dtc_context> context = contextOf();
  dtc_executable* x = nullptr;
  dtc_error* error = nullptr;
  EXPECT_NE(
      dtc_compile(context.get(), "test.dt", text.data(), text.size(), optionsOf(settings).get(), &x, &error),
      DTC_OK);
  EXPECT_EQ(x, nullptr);
  EXPECT_NE(error, nullptr);
  return Owned<dtc_error>(error);
}

dtc_buffer bufferOf(float* data, const std::vector<int64_t>& shape, const int64_t* strides = nullptr) {
  return {data, DTC_F32, static_cast<int32_t>(shape.size()), shape.data(), strides, DTC_DEVICE_CPU, 0};
}

dtc_buffer keep(dtc_buffer b) {
  b.flags = DTC_KEEP;
  return b;
}

struct Call {
  std::vector<dtc_buffer> arguments, results;
  bool argumentShards = false, resultShards = false;
  std::vector<dtc_tensor*> tensors = {};
  dtc_status operator()(dtc_executable* x, dtc_error** error = nullptr) {
    dtc_run_arguments run = {};
    run.struct_size = sizeof run;
    run.arguments = arguments.data(), run.num_arguments = arguments.size();
    run.results = results.empty() ? nullptr : results.data();
    run.num_results = results.empty() ? tensors.size() : results.size();
    run.tensors = tensors.empty() ? nullptr : tensors.data();
    run.argument_shards = argumentShards, run.result_shards = resultShards;
    return dtc_run(x, &run, error);
  }
};

std::vector<float> iota(size_t n, float from = 0) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}

constexpr const char* kAdd = "func @main(%x: f32[4, 6], %y: f32[4, 6]) -> (%z: f32[4, 6]) {\n"
                             "  %z = add %x, %y\n  return %z\n}\n";
constexpr const char* kMesh = "mesh @m = [d=4]\n"
                              "func @main(%x: f32[8, 3] {d, _}) -> (%y: f32[8, 3] {d, _}, %s: f32[3]) {\n"
                              "  %y = mul %x, 2.0\n  %s = sum %x {dims = [0]}\n  return %y, %s\n}\n";
constexpr const char* kStep = "func @main(%w: f32[4], %g: f32[4]) -> (%w: f32[4] {carry = true}) {\n"
                              "  %n = sub %w, %g\n  return %n\n}\n";
constexpr const char* kUncarried =
    "func @main(%x: f32[4]) -> (%y: f32[4]) {\n  %y = neg %x\n  return %y\n}\n";

} // namespace

TEST(CApi, TellsItsVersion) {
  EXPECT_EQ(dtc_abi_version(), static_cast<uint32_t>(DTC_ABI_VERSION));
  EXPECT_NE(std::string(dtc_version()), "");
}

TEST(CApi, DescribesArgumentsAndResults) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kMesh);
  ASSERT_TRUE(x);
  EXPECT_EQ(dtc_num_arguments(x.get()), 1u);
  EXPECT_EQ(dtc_num_results(x.get()), 2u);
  EXPECT_EQ(dtc_num_devices(x.get()), 4);
  int64_t size = 0;
  EXPECT_STREQ(dtc_mesh_axis(x.get(), 0, &size), "d");
  EXPECT_EQ(size, 4);
  dtc_value_info info;
  dtc_argument_info(x.get(), 0, &info);
  EXPECT_STREQ(info.name, "x");
  EXPECT_STREQ(info.sharding, "{d, _}");
  EXPECT_EQ(info.dtype, DTC_F32);
  EXPECT_EQ(std::vector<int64_t>(info.shape, info.shape + info.rank), (std::vector<int64_t>{8, 3}));
  EXPECT_EQ(dtc_argument_shard_shape(x.get(), 0, 1)[0], 2);
  dtc_result_info(x.get(), 1, &info);
  EXPECT_STREQ(info.name, "s");
  EXPECT_STREQ(info.sharding, "");
  dtc_result_info(x.get(), 2, &info);
  EXPECT_EQ(info.name, nullptr);
}

TEST(CApi, RunsOnMemoryOfTheCaller) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4, 6};
  auto a = iota(24), b = iota(24, 100);
  for (int round = 0; round < 3; ++round) { // with memory at other addresses each time
    std::vector<float> out(25, -1);
    float* at = out.data() + (round == 1); // not aligned
    Call run{{bufferOf(a.data(), shape), bufferOf(b.data(), shape)}, {bufferOf(at, shape)}};
    ASSERT_EQ(run(x.get()), DTC_OK);
    for (size_t i = 0; i < 24; ++i) EXPECT_EQ(at[i], a[i] + b[i]);
    a = iota(24, static_cast<float>(round));
  }
}

TEST(CApi, RefusesResultsThatShareMemory) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), "func @main(%x: f32[4]) -> (%y: f32[4], %z: f32[4]) {\n"
                                         "  %y = neg %x\n  %z = exp %x\n  return %y, %z\n}\n");
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4}, apart = {2};
  auto a = iota(4);
  std::vector<float> out(8);
  Call shared{{bufferOf(a.data(), shape)}, {bufferOf(out.data() + 3, shape), bufferOf(out.data(), shape)}};
  EXPECT_EQ(shared(x.get()), DTC_ERROR_USAGE);
  Call interleaved{
      {bufferOf(a.data(), shape)},
      {bufferOf(out.data(), shape, apart.data()), bufferOf(out.data() + 1, shape, apart.data())}};
  EXPECT_EQ(interleaved(x.get()), DTC_OK);
  EXPECT_EQ(out[6], -3);
}

TEST(CApi, ReadsAndWritesStrided) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4, 6}, transposed = {1, 4}, reversed = {-6, -1};
  auto a = iota(24), b = iota(24);
  std::vector<float> out(24);
  Call run{{bufferOf(a.data(), shape, transposed.data()), bufferOf(b.data() + 23, shape, reversed.data())},
           {bufferOf(out.data(), shape, transposed.data())}};
  ASSERT_EQ(run(x.get()), DTC_OK);
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 6; ++j) EXPECT_EQ(out[i + 4 * j], a[i + 4 * j] + b[23 - 6 * i - j]);
}

TEST(CApi, RunsOnShards) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kMesh);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shard = {2, 3}, sum = {3}, whole = {8, 3};
  auto a = iota(24);
  std::vector<float> y(24), s(12), all(24), total(3);
  Call shards;
  shards.argumentShards = shards.resultShards = true;
  for (size_t d = 0; d < 4; ++d) {
    shards.arguments.push_back(bufferOf(a.data() + 6 * d, shard));
    shards.results.push_back(bufferOf(y.data() + 6 * d, shard));
  }
  for (size_t d = 0; d < 4; ++d) shards.results.push_back(bufferOf(s.data() + 3 * d, sum));
  ASSERT_EQ(shards(x.get()), DTC_OK);
  Call run{{bufferOf(a.data(), whole)}, {bufferOf(all.data(), whole), bufferOf(total.data(), sum)}};
  ASSERT_EQ(run(x.get()), DTC_OK);
  EXPECT_EQ(y, all);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(all[i], 2 * a[i]);
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(s[i], total[i % 3]);
  EXPECT_EQ(total[0], 84);
}

TEST(CApi, ReturnsTensors) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4, 6};
  auto a = iota(24);
  Call run{{bufferOf(a.data(), shape), bufferOf(a.data(), shape)}, {}};
  run.tensors = {nullptr};
  ASSERT_EQ(run(x.get()), DTC_OK);
  ASSERT_NE(run.tensors[0], nullptr);
  EXPECT_EQ(dtc_tensor_bytes(run.tensors[0]), 96u);
  DLManagedTensorVersioned* exported = dtc_tensor_to_dlpack_versioned(run.tensors[0]); // takes the tensor
  dtc_buffer view;
  ASSERT_EQ(dtc_buffer_from_dlpack_versioned(exported, &view, nullptr), DTC_OK);
  EXPECT_EQ(view.dtype, DTC_F32);
  EXPECT_EQ(static_cast<float*>(view.data)[23], 46);
  exported->version.major = 2;
  EXPECT_EQ(dtc_buffer_from_dlpack_versioned(exported, &view, nullptr), DTC_ERROR_USAGE);
  exported->deleter(exported);
  DLManagedTensor* plain = dtc_tensor_to_dlpack(dtc_tensor_create(DTC_BF16, shape.data(), 2));
  ASSERT_EQ(dtc_buffer_from_dlpack(plain, &view, nullptr), DTC_OK);
  EXPECT_EQ(view.dtype, DTC_BF16);
  plain->dl_tensor.device.device_type = 10;
  EXPECT_EQ(dtc_buffer_from_dlpack(plain, &view, nullptr), DTC_ERROR_USAGE);
  plain->deleter(plain);
}

TEST(CApi, CarriesOverOnlyAfterARun) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kUncarried);
  ASSERT_TRUE(x);
  auto a = iota(4, 10);
  std::vector<float> out(4);
  const std::vector<int64_t> shape = {4};
  Call run{{bufferOf(a.data(), shape)}, {bufferOf(out.data(), shape)}};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(dtc_carry_over(x.get(), nullptr), DTC_ERROR_USAGE);
    ASSERT_EQ(run(x.get()), DTC_OK);
    EXPECT_EQ(dtc_carry_over(x.get(), nullptr), DTC_OK);
  }
}

TEST(CApi, KeepsAndCarriesArguments) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kStep);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4};
  auto w = iota(4, 10);
  std::vector<float> g(4, 1), out(4);
  dtc_buffer skip = {};
  skip.flags = DTC_SKIP;
  Call first{{bufferOf(w.data(), shape), keep(bufferOf(g.data(), shape))}, {skip}};
  dtc_value_info info;
  dtc_argument_info(x.get(), 0, &info);
  EXPECT_EQ(info.donated, 1);
  EXPECT_EQ(info.carried, 0);
  Call again{{skip, skip}, {bufferOf(out.data(), shape)}};
  EXPECT_EQ(again(x.get()), DTC_ERROR_USAGE);                   // nothing to keep
  EXPECT_EQ(dtc_carry_over(x.get(), nullptr), DTC_ERROR_USAGE); // no run yet
  Call bad{{bufferOf(w.data(), shape), bufferOf(nullptr, shape)}, {skip}};
  EXPECT_NE(bad(x.get()), DTC_OK);
  EXPECT_EQ(dtc_carry_over(x.get(), nullptr), DTC_ERROR_USAGE); // no run that succeeded
  EXPECT_EQ(again(x.get()), DTC_ERROR_USAGE);
  ASSERT_EQ(first(x.get()), DTC_OK);
  EXPECT_EQ(again(x.get()), DTC_ERROR_USAGE); // the run used %w up
  ASSERT_EQ(dtc_carry_over(x.get(), nullptr), DTC_OK);
  EXPECT_EQ(dtc_carry_over(x.get(), nullptr), DTC_ERROR_USAGE); // no run since
  ASSERT_EQ(again(x.get()), DTC_OK);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 11}));
}

TEST(CApi, ReportsDiagnosticsAsData) {
  const auto error = errorOf("func @main(%x: f32[4]) -> (%y: f32[4]) {\n  %y = ad %x, %x\n  return %y\n}\n");
  EXPECT_EQ(dtc_error_status(error.get()), DTC_ERROR_INPUT);
  const std::string text = dtc_error_message(error.get());
  EXPECT_NE(text.find("test.dt:2:8: error: unknown op 'ad'"), std::string::npos) << text;
  EXPECT_NE(text.find("^"), std::string::npos);
  ASSERT_GE(dtc_error_num_diagnostics(error.get()), 1u);
  dtc_diagnostic d;
  dtc_error_diagnostic(error.get(), 0, &d);
  EXPECT_STREQ(d.severity, "error");
  EXPECT_STREQ(d.kind, "unknown-op");
  EXPECT_STREQ(d.file, "test.dt");
  EXPECT_EQ(d.line, 2u);
  EXPECT_EQ(d.column, 8u);
  EXPECT_NE(std::string(dtc_error_json(error.get())).find("\"unknown-op\""), std::string::npos);
}

TEST(CApi, RefusesWrongCalls) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  ASSERT_TRUE(x);
  const std::vector<int64_t> shape = {4, 6}, other = {4, 5};
  auto a = iota(24);
  const auto messageOf = [&](Call run) {
    dtc_error* error = nullptr;
    EXPECT_NE(run(x.get(), &error), DTC_OK);
    const Owned<dtc_error> owned(error);
    return std::string(error ? dtc_error_message(error) : "");
  };
  EXPECT_EQ(messageOf({{bufferOf(a.data(), shape)}, {}}), "error: expected 2 arguments, got 1\n");
  const dtc_buffer b = bufferOf(a.data(), shape);
  EXPECT_EQ(messageOf({{b, b}, {b, b}}), "error: expected 1 result, got 2\n");
  EXPECT_EQ(messageOf({{bufferOf(a.data(), shape), bufferOf(a.data(), other)}, {}}),
            "error: argument %y: expected f32[4, 6], got f32[4, 5]\n");
  EXPECT_EQ(messageOf({{bufferOf(nullptr, shape), bufferOf(a.data(), shape)}, {}}),
            "error: argument %x: the address of its data is null\n");
  dtc_run_arguments none = {};
  EXPECT_EQ(dtc_run(x.get(), &none, nullptr), DTC_ERROR_USAGE);
  const auto options = optionsOf({});
  EXPECT_EQ(dtc_options_set(options.get(), "bakend", "cpu", nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_options_set(options.get(), "opt-level", "9", nullptr), DTC_ERROR_USAGE);
  dtc_error* error = nullptr;
  EXPECT_EQ(dtc_options_set(options.get(), "treads", "2", &error), DTC_ERROR_USAGE);
  const Owned<dtc_error> owned(error);
  EXPECT_NE(std::string(dtc_error_message(error)).find("'threads'"), std::string::npos);
  dtc_executable* missing = nullptr;
  EXPECT_EQ(dtc_compile_file(context.get(), "/no/such/file.dt", nullptr, &missing, nullptr), DTC_ERROR_INPUT);
}

TEST(CApi, ReportsNullPointers) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  const auto options = optionsOf({});
  dtc_executable* out = x.get();
  dtc_context* noContext = nullptr;
  EXPECT_EQ(dtc_options_set(nullptr, "threads", "2", nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_options_set(options.get(), nullptr, "2", nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_options_set(options.get(), "threads", nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_options_set_argument_shape(options.get(), 0, nullptr, 1, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_context_create(nullptr, nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_compile(noContext, "a", "", 0, nullptr, &out, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(dtc_compile(context.get(), "a", nullptr, 5, nullptr, &out, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_compile(context.get(), "a", kAdd, 5, nullptr, nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_compile_file(context.get(), nullptr, nullptr, &out, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_load_package(context.get(), nullptr, &out, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_run(nullptr, nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_run(x.get(), nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_bind_file(x.get(), nullptr, nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_carry_over(nullptr, nullptr), DTC_ERROR_USAGE);
  EXPECT_EQ(dtc_buffer_from_dlpack(nullptr, nullptr, nullptr), DTC_ERROR_USAGE);
  dtc_value_info info;
  dtc_argument_info(nullptr, 0, &info);
  EXPECT_EQ(info.name, nullptr);
  dtc_argument_info(x.get(), 0, nullptr);
  EXPECT_EQ(dtc_num_arguments(nullptr) + dtc_num_results(nullptr) + dtc_num_mesh_axes(nullptr), 0u);
  EXPECT_EQ(dtc_num_devices(nullptr), 0);
  EXPECT_EQ(dtc_result_shard_shape(nullptr, 0, 0), nullptr);
  EXPECT_STREQ(dtc_program_text(nullptr), "");
  EXPECT_STREQ(dtc_error_message(nullptr), "");
  EXPECT_EQ(dtc_tensor_to_dlpack(nullptr), nullptr);
}

TEST(CApi, CreatesTensorsOfValidShapes) {
  const int64_t empty[] = {0, 5}, negative[] = {-4, -4}, large[] = {int64_t(1) << 40, int64_t(1) << 40};
  EXPECT_EQ(dtc_tensor_create(DTC_F32, negative, 2), nullptr);
  EXPECT_EQ(dtc_tensor_create(DTC_F32, large, 2), nullptr);
  EXPECT_EQ(dtc_tensor_create(DTC_F32, nullptr, 1), nullptr);
  const Owned<dtc_tensor> none(dtc_tensor_create(DTC_F32, empty, 2)),
      scalar(dtc_tensor_create(DTC_F32, nullptr, 0));
  EXPECT_EQ(dtc_tensor_bytes(none.get()), 0u);
  EXPECT_EQ(dtc_tensor_bytes(scalar.get()), 4u);
}

TEST(CApi, RefusesWrongShapesOfArguments) {
  const auto context = contextOf();
  const std::string text =
      "func @main(%x: f32[B, 2]) -> (%y: f32[B, 2]) {\n  %y = add %x, %x\n  return %y\n}\n";
  const auto messageOf = [&](size_t argument, const std::vector<int64_t>& shape) {
    const auto options = optionsOf({});
    dtc_error* error = nullptr;
    dtc_executable* none = nullptr;
    if (dtc_options_set_argument_shape(options.get(), argument, shape.data(), shape.size(), &error) == DTC_OK)
      EXPECT_NE(dtc_compile(context.get(), "b", text.data(), text.size(), options.get(), &none, &error),
                DTC_OK);
    const Owned<dtc_error> owned(error);
    return std::string(dtc_error_message(error));
  };
  EXPECT_EQ(messageOf(0, {-1, 2}), "error: a shape has the negative size -1\n");
  EXPECT_EQ(messageOf(0, {3, 5}), "error: argument %x: expected f32[B, 2], got f32[3, 5]\n");
  EXPECT_EQ(messageOf(0, {}), "error: argument %x: expected f32[B, 2], got f32[]\n");
  EXPECT_EQ(messageOf(9, {3, 2}), "error: a shape is given for argument 9, but @main has 1 of them\n");
}

TEST(CApi, BindsSizes) {
  const auto context = contextOf();
  const std::string text =
      "func @main(%x: f32[B, 2]) -> (%y: f32[B, 2]) {\n  %y = add %x, %x\n  return %y\n}\n";
  const auto x = compiled(context.get(), text, {{"dim", "B=5"}});
  ASSERT_TRUE(x);
  dtc_value_info info;
  dtc_argument_info(x.get(), 0, &info);
  EXPECT_EQ(info.shape[0], 5);
  const auto options = optionsOf({});
  const int64_t shape[] = {7, 2};
  ASSERT_EQ(dtc_options_set_argument_shape(options.get(), 0, shape, 2, nullptr), DTC_OK);
  dtc_executable* second = nullptr;
  ASSERT_EQ(dtc_compile(context.get(), "b.dt", text.data(), text.size(), options.get(), &second, nullptr),
            DTC_OK);
  const Owned<dtc_executable> owned(second);
  dtc_argument_info(second, 0, &info);
  EXPECT_EQ(info.shape[0], 7);
  const auto unbound = errorOf(text);
  EXPECT_EQ(dtc_error_status(unbound.get()), DTC_ERROR_USAGE);
  const std::string message = dtc_error_message(unbound.get());
  EXPECT_NE(message.find("dtc_options_set_argument_shape"), std::string::npos) << message;
}

TEST(CApi, PrintsWhereItIsTold) {
  const auto context = contextOf();
  const auto x = compiled(context.get(), "func @main(%x: f32[2]) -> (%y: f32[2]) {\n  print %x\n"
                                         "  %y = add %x, %x\n  return %y\n}\n");
  ASSERT_TRUE(x);
  std::string printed;
  dtc_set_print(
      x.get(), [](void* self, const char* text) { *static_cast<std::string*>(self) += text; }, &printed);
  auto a = iota(2);
  const std::vector<int64_t> shape = {2};
  ASSERT_EQ((Call{{bufferOf(a.data(), shape)}, {}})(x.get()), DTC_OK);
  EXPECT_NE(printed.find("[0, 1]"), std::string::npos) << printed;
}

// Threads that compile, and that run executables which they share.
TEST(CApi, InterruptsRuns) {
  const auto context = contextOf();
  constexpr const char* kLoop =
      "func @main(%x: f32[2]) -> (%y: f32[2]) {\n"
      "  %y = for %i in 0..1000000000 (%h = %x) {\n    %s = sin %h\n    yield %s\n  }\n"
      "  return %y\n}\n";
  const auto x = compiled(context.get(), kLoop);
  ASSERT_TRUE(x);
  auto in = iota(2), out = iota(2);
  const std::vector<int64_t> shape = {2}; // which buffers refer to
  Call call{{bufferOf(in.data(), shape)}, {bufferOf(out.data(), shape)}};
  int asked = 0;
  dtc_set_interrupt(x.get(), [](void* self) -> int32_t { return ++*static_cast<int*>(self) > 100; }, &asked);
  for (int run = 0; run < 2; ++run) { // it may run again
    dtc_error* error = nullptr;
    asked = 0;
    EXPECT_EQ(call(x.get(), &error), DTC_ERROR_MACHINE);
    EXPECT_EQ(asked, 101);
    EXPECT_STREQ(dtc_error_message(error), "error: the run was interrupted\n");
    dtc_error_free(error);
  }
}

TEST(CApi, IsUsedByManyThreads) {
  const auto context = contextOf();
  const std::string scaled = "func @main(%x: f32[64]) -> (%y: f32[64]) {\n  %y = mul %x, ";
  std::vector<Owned<dtc_executable>> shared;
  for (int i = 0; i < 3; ++i)
    shared.push_back(compiled(context.get(), scaled + std::to_string(i + 1) + ".0\n  return %y\n}\n"));
  std::atomic<int> wrong{0};
  const auto work = [&](int thread) {
    const std::vector<int64_t> shape = {64};
    std::vector<float> in(64, static_cast<float>(thread)), out(64);
    const auto own = compiled(context.get(), scaled + std::to_string(thread + 10) + ".0\n  return %y\n}\n");
    for (int round = 0; round < 200; ++round) {
      const int which = (round + thread) % 4;
      dtc_executable* x = which == 3 ? own.get() : shared[static_cast<size_t>(which)].get();
      Call run{{bufferOf(in.data(), shape)}, {bufferOf(out.data(), shape)}};
      const float expected = static_cast<float>(thread * (which == 3 ? thread + 10 : which + 1));
      if (run(x) != DTC_OK || out != std::vector<float>(64, expected)) ++wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(work, t);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

// An executable outlives its context.
TEST(CApi, FreesContextsFirst) {
  auto context = contextOf();
  const auto x = compiled(context.get(), kAdd);
  context.reset();
  const std::vector<int64_t> shape = {4, 6};
  auto a = iota(24);
  EXPECT_EQ((Call{{bufferOf(a.data(), shape), bufferOf(a.data(), shape)}, {}})(x.get()), DTC_OK);
}
