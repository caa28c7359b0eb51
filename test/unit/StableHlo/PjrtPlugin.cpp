// The plugin for JAX, called through its table as JAX calls it.
#include "../../../tools/pjrt/PjrtApi.h"

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::string_literals;

// Compile options of one replica: ExecutableBuildOptionsProto in field 3.
std::string optionsOf(const std::string& partitions, const std::string& assignment) {
  const std::string build = "\x20\x01\x28"s + partitions + assignment;
  return "\x1a"s + static_cast<char>(build.size()) + build;
}

class PjrtPlugin : public testing::Test {
protected:
  void SetUp() override {
    const auto path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libdtc.so";
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) GTEST_SKIP() << dlerror();
    auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
    ASSERT_NE(get, nullptr);
    api_ = get();
    setHostFunctions_ =
        reinterpret_cast<void (*)(HostFunctions)>(dlsym(library, "dtc_internal_set_host_functions"));
    ASSERT_NE(setHostFunctions_, nullptr);
    create(1);
  }

  void create(int64_t devices) {
    PJRT_NamedValue count{sizeof count, nullptr, "num_devices", 11, PJRT_NamedValue_kInt64, {}, 1};
    count.int64_value = devices;
    PJRT_Client_Create_Args a{};
    a.create_options = &count;
    a.num_options = 1;
    ok(PJRT_Function_Client_Create, a);
    client_ = a.client;
    PJRT_Client_Devices_Args d{};
    d.client = client_;
    ok(PJRT_Function_Client_Devices, d);
    devices_.assign(d.devices, d.devices + d.num_devices);
  }

  template <class Args> std::string call(PJRT_Function f, Args& args) {
    args.struct_size = sizeof args;
    auto* error = reinterpret_cast<PJRT_Error* (*)(Args*)>(api_->functions[f])(&args);
    if (!error) return "";
    PJRT_Error_Message_Args m{};
    m.error = error;
    reinterpret_cast<void (*)(PJRT_Error_Message_Args*)>(api_->functions[PJRT_Function_Error_Message])(&m);
    std::string message(m.message, m.message_size);
    PJRT_Error_Destroy_Args destroy{};
    destroy.error = error;
    reinterpret_cast<void (*)(PJRT_Error_Destroy_Args*)>(api_->functions[PJRT_Function_Error_Destroy])(
        &destroy);
    return message;
  }
  template <class Args> void ok(PJRT_Function f, Args& args) { ASSERT_EQ(call(f, args), ""); }

  std::string compile(std::string code, std::string options, PJRT_LoadedExecutable*& out) {
    PJRT_Program program{sizeof program, nullptr, code.data(), code.size(), "mlir", 4};
    PJRT_Client_Compile_Args a{};
    a.client = client_;
    a.program = &program;
    a.compile_options = options.data();
    a.compile_options_size = options.size();
    std::string message = call(PJRT_Function_Client_Compile, a);
    out = a.executable;
    return message;
  }

  PJRT_LoadedExecutable* compiled(std::string code) {
    PJRT_LoadedExecutable* e = nullptr;
    EXPECT_EQ(compile(std::move(code), optionsOf("\x01", ""), e), "");
    return e;
  }
  PJRT_Buffer* buffer(const float* data, std::vector<int64_t> dims, std::vector<int64_t> strides,
                      size_t device = 0) {
    PJRT_Client_BufferFromHostBuffer_Args a{};
    a.client = client_;
    a.data = data;
    a.type = PJRT_Buffer_Type_F32;
    a.dims = dims.data();
    a.num_dims = dims.size();
    a.byte_strides = strides.data();
    a.num_byte_strides = strides.size();
    a.device = devices_[device];
    EXPECT_EQ(call(PJRT_Function_Client_BufferFromHostBuffer, a), "");
    return a.buffer;
  }

  PJRT_Buffer* twoNumbers() { // 1 and -2
    static constexpr std::array<float, 2> kData{1, -2};
    return buffer(kData.data(), {2}, {});
  }

  std::vector<float> values(PJRT_Buffer* b, size_t n) {
    std::vector<float> out(n);
    PJRT_Buffer_ToHostBuffer_Args a{};
    a.src = b;
    a.dst = out.data();
    a.dst_size = n * sizeof(float);
    EXPECT_EQ(call(PJRT_Function_Buffer_ToHostBuffer, a), "");
    return out;
  }

  // `count` arguments and one result per device.
  std::string run(PJRT_LoadedExecutable* e, std::vector<PJRT_Buffer*> arguments,
                  std::vector<PJRT_Buffer*>& results, size_t count = 1) {
    results.resize(arguments.size() / count);
    std::vector<PJRT_Buffer* const*> in;
    std::vector<PJRT_Buffer**> out;
    for (size_t i = 0; i < results.size(); ++i) {
      in.push_back(&arguments[i * count]);
      out.push_back(&results[i]);
    }
    PJRT_ExecuteOptions options{};
    PJRT_LoadedExecutable_Execute_Args a{};
    a.executable = e;
    a.options = &options;
    a.argument_lists = in.data();
    a.num_devices = in.size();
    a.num_args = count;
    a.output_lists = out.data();
    return call(PJRT_Function_LoadedExecutable_Execute, a);
  }

  using HostFunctions = int (*)(const char*, const void* const*, void* const*, char*, size_t);
  void (*setHostFunctions_)(HostFunctions) = nullptr;
  const PJRT_Api* api_ = nullptr;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
};

} // namespace

TEST_F(PjrtPlugin, RunsAProgramOnStridedMemory) {
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(compile("module @jit_f { func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
                    " %0 = stablehlo.add %x, %x : tensor<2x3xf32> return %0 : tensor<2x3xf32> } }",
                    optionsOf("\x01", ""), e),
            "");
  const std::array<float, 6> columns{1, 4, 2, 5, 3, 6}; // of a 2 x 3 matrix
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {buffer(columns.data(), {2, 3}, {4, 8})}, results), "");
  EXPECT_EQ(values(results[0], 6), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

TEST_F(PjrtPlugin, ResultsAreOfStatedMemoryKinds) {
  PJRT_LoadedExecutable* e =
      compiled("func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32> {mhlo.memory_kind = \"pinned_host\"}) {"
               " %0 = stablehlo.negate %x : tensor<2xf32> return %0 : tensor<2xf32> }");
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {twoNumbers()}, results), "");
  for (const auto& [buffer, kind] :
       {std::pair(twoNumbers(), "device"), std::pair(results[0], "pinned_host")}) {
    PJRT_Buffer_Memory_Args memory{};
    memory.buffer = buffer;
    ok(PJRT_Function_Buffer_Memory, memory);
    PJRT_Memory_Kind_Args k{};
    k.memory = memory.memory;
    ok(PJRT_Function_Memory_Kind, k);
    EXPECT_EQ(std::string(k.kind, k.kind_size), kind);
  }
}

TEST_F(PjrtPlugin, DonatedArgumentsAreDeleted) {
  PJRT_LoadedExecutable* e =
      compiled("func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {"
               " %0 = stablehlo.negate %x : tensor<2xf32> return %0 : tensor<2xf32> }");
  PJRT_Buffer* x = twoNumbers();
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {x}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{-1, 2}));
  EXPECT_EQ(run(e, {x}, results), "argument 0 has been deleted or donated");
}

TEST_F(PjrtPlugin, DonatedArgumentsAreGivenOnce) {
  PJRT_LoadedExecutable* e =
      compiled("func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2xf32>)"
               " -> tensor<2xf32> {"
               " %0 = stablehlo.add %x, %y : tensor<2xf32> return %0 : tensor<2xf32> }");
  PJRT_Buffer* x = twoNumbers();
  std::vector<PJRT_Buffer*> results;
  EXPECT_EQ(run(e, {x, x}, results, 2), "a donated argument is given twice");
  ASSERT_EQ(run(e, {x, twoNumbers()}, results, 2), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{2, -4}));
}

// No result can take the memory of an argument of another size.
TEST_F(PjrtPlugin, UnusableDonations) {
  PJRT_LoadedExecutable* e =
      compiled("func.func @main(%x: tensor<2xf32> {jax.buffer_donor = true}) -> tensor<f32> {"
               " %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] :"
               " (tensor<2xf32>, tensor<2xf32>) -> tensor<f32> return %0 : tensor<f32> }");
  PJRT_Buffer* x = twoNumbers();
  std::vector<PJRT_Buffer*> results;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(run(e, {x}, results), "");
    EXPECT_EQ(values(results[0], 1), (std::vector<float>{5}));
  }
}

// A token is an array without elements for JAX; the program does not have it.
TEST_F(PjrtPlugin, Tokens) {
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(compile("func.func @main(%t: !stablehlo.token, %x: tensor<2xf32>) -> tensor<2xf32> {"
                    " %0 = stablehlo.negate %x : tensor<2xf32> return %0 : tensor<2xf32> }",
                    optionsOf("\x01", ""), e),
            "");
  const std::array<float, 2> data{1, -2};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {buffer(data.data(), {0}, {}), buffer(data.data(), {2}, {})}, results, 2), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{-1, 2}));
}

TEST_F(PjrtPlugin, FunctionsOfTheProcess) {
  const auto program = [](const std::string& target) {
    return "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
           "  %0 = stablehlo.custom_call @" +
           target + "(%x) {api_version = 2 : i32} : (tensor<2xf32>) -> tensor<2xf32>\n" +
           "  return %0 : tensor<2xf32> }";
  };
  setHostFunctions_(
      [](const char* target, const void* const* in, void* const* out, char* error, size_t size) {
        const auto* x = static_cast<const float*>(in[0]);
        auto* y = static_cast<float*>(out[0]);
        if (target == "dtc.host.fails"s) std::strncpy(error, "no more memory", size - 1);
        if (target != "dtc.host.half"s) return target == "dtc.host.fails"s ? 1 : 2;
        for (int i = 0; i < 2; ++i) y[i] = x[i] / 2;
        return 0;
      });
  const std::array<float, 2> data{1, -2};
  std::vector<PJRT_Buffer*> results;
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(compile(program("dtc.host.half"), optionsOf("\x01", ""), e), "");
  ASSERT_EQ(run(e, {buffer(data.data(), {2}, {})}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{0.5, -1}));
  ASSERT_EQ(compile(program("dtc.host.fails"), optionsOf("\x01", ""), e), "");
  std::string message = run(e, {buffer(data.data(), {2}, {})}, results);
  EXPECT_NE(message.find("the function @dtc.host.fails failed: no more memory"), std::string::npos)
      << message;
  ASSERT_EQ(compile(program("dtc.host.other"), optionsOf("\x01", ""), e), "");
  message = run(e, {buffer(data.data(), {2}, {})}, results);
  EXPECT_NE(message.find("cannot be executed"), std::string::npos) << message;
  // One without operands is called by each run, too.
  setHostFunctions_([](const char*, const void* const*, void* const* out, char*, size_t) {
    static float calls = 0;
    *static_cast<float*>(out[0]) = ++calls;
    return 0;
  });
  ASSERT_EQ(
      compile("func.func @main(%x: tensor<f32>) -> tensor<f32> {"
              " %0 = stablehlo.custom_call @dtc.host.calls() {api_version = 2 : i32} : () -> tensor<f32>"
              " %1 = stablehlo.add %0, %x : tensor<f32> return %1 : tensor<f32> }",
              optionsOf("\x01", ""), e),
      "");
  for (float calls = 1; calls < 3; ++calls) {
    ASSERT_EQ(run(e, {buffer(data.data(), {}, {})}, results), "");
    EXPECT_EQ(values(results[0], 1), (std::vector<float>{calls + 1}));
  }
  setHostFunctions_(nullptr);
  EXPECT_NE(compile(program("other"), optionsOf("\x01", ""), e), "");
}

// Options by name: those of XLA are ignored.
TEST_F(PjrtPlugin, NamedCompileOptions) {
  const std::string program =
      "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
  const auto named = [](const std::string& name) {
    const std::string entry = "\x0a"s + static_cast<char>(name.size()) + name;
    return optionsOf("\x01", "") + "\x3a" + static_cast<char>(entry.size()) + entry;
  };
  PJRT_LoadedExecutable* e = nullptr;
  EXPECT_EQ(compile(program, named("xla_embed_ir_in_executable"), e), "");
  EXPECT_EQ(compile(program, named("optimization_level"), e), "");
  EXPECT_EQ(compile(program, named("colour"), e), "compile options: No such compile option: 'colour'");
}

// Executables of equal programs share their compiled program, and have options and devices of their own.
TEST_F(PjrtPlugin, EqualPrograms) {
  create(2);
  const std::string program = "module @jit_f { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {"
                              " %0 = stablehlo.cosine %x : tensor<2xf32> return %0 : tensor<2xf32> } }";
  const std::string onSecond = "\x4a\x09\x08\x01\x10\x01\x1a\x03\x0a\x01\x01"s; // device 1
  PJRT_LoadedExecutable *first = nullptr, *second = nullptr;
  ASSERT_EQ(compile(program, optionsOf("\x01", ""), first), "");
  ASSERT_EQ(compile(program, optionsOf("\x01", onSecond), second), "");
  PJRT_LoadedExecutable_AddressableDevices_Args d{};
  d.executable = second;
  ok(PJRT_Function_LoadedExecutable_AddressableDevices, d);
  EXPECT_EQ(d.addressable_devices[0], devices_[1]);
  PJRT_LoadedExecutable_Destroy_Args destroy{};
  destroy.executable = first;
  ok(PJRT_Function_LoadedExecutable_Destroy, destroy);
  const std::array<float, 2> data{0, 0};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(second, {buffer(data.data(), {2}, {}, 1)}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{1, 1}));
}

// More programs than a client keeps, by several threads. Those that are no longer kept run as long as they are loaded.
TEST_F(PjrtPlugin, ManyPrograms) {
  constexpr int kPrograms = 600;
  const auto text = [](int i) {
    return "module @jit_" + std::to_string(i) +
           " { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }";
  };
  PJRT_LoadedExecutable* first = nullptr;
  ASSERT_EQ(compile(text(0), optionsOf("\x01", ""), first), "");
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kPrograms; ++i) {
        PJRT_LoadedExecutable* e = nullptr;
        EXPECT_EQ(compile(text(i), optionsOf("\x01", ""), e), "");
        PJRT_LoadedExecutable_Destroy_Args destroy{};
        destroy.executable = e;
        EXPECT_EQ(call(PJRT_Function_LoadedExecutable_Destroy, destroy), "");
      }
    });
  for (std::thread& t : threads) t.join();
  const std::array<float, 2> data{1, -2};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(first, {buffer(data.data(), {2}, {})}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{1, -2}));
}

// The loader of plugins asks for layouts as XLA's text.
TEST_F(PjrtPlugin, Layouts) {
  const auto* extension = reinterpret_cast<const PJRT_Extension_Base*>(api_->extension_start);
  while (extension && extension->type != PJRT_Extension_Type_Layouts) extension = extension->next;
  ASSERT_NE(extension, nullptr);
  const auto& layouts = *reinterpret_cast<const PJRT_Layouts_Extension*>(extension);
  const auto textOf = [&](PJRT_Layouts_MemoryLayout* layout) {
    PJRT_Layouts_MemoryLayout_Serialize_Args s{};
    s.layout = layout;
    EXPECT_EQ(layouts.serialize(&s), nullptr);
    return std::string(s.serialized_bytes, s.serialized_bytes_size);
  };
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(compile("func.func @main(%x: tensor<2x3xf32>) -> tensor<f32> {"
                    " %0 = stablehlo.constant dense<1.0> : tensor<f32> return %0 : tensor<f32> }",
                    optionsOf("\x01", ""), e),
            "");
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = e;
  ok(PJRT_Function_LoadedExecutable_GetExecutable, get);
  PJRT_Layouts_PJRT_Executable_Args values{};
  values.executable = get.executable;
  ASSERT_EQ(layouts.of_parameters(&values), nullptr);
  ASSERT_EQ(values.num_values, 1u);
  EXPECT_EQ(textOf(values.layouts[0]), "{1,0}");
  ASSERT_EQ(layouts.of_outputs(&values), nullptr);
  ASSERT_EQ(values.num_values, 1u);
  EXPECT_EQ(textOf(values.layouts[0]), "{}");
  PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args b{};
  const std::array<float, 8> data{};
  b.buffer = buffer(data.data(), {2, 2, 2}, {});
  ASSERT_EQ(layouts.of_buffer(&b), nullptr);
  EXPECT_EQ(textOf(b.layout), "{2,1,0}");
}

TEST_F(PjrtPlugin, ErrorsShowTheLineOfTheProgram) {
  PJRT_LoadedExecutable* e = nullptr;
  const std::string message = compile("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                                      "  %0 = \"stablehlo.nothing\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
                                      "  return %0 : tensor<2xf32> }",
                                      optionsOf("\x01", ""), e);
  EXPECT_NE(message.find("unsupported op 'stablehlo.nothing'"), std::string::npos) << message;
  EXPECT_NE(message.find("^~~~"), std::string::npos) << message;
  EXPECT_NE(compile("ML\xefR", optionsOf("\x01", ""), e).find("byte"), std::string::npos);
}

TEST_F(PjrtPlugin, ShardsAndTheirDevices) {
  create(2);
  PJRT_LoadedExecutable* e = nullptr;
  // Partition 0 is device 1.
  const std::string assignment = "\x4a\x0e\x08\x01\x10\x02\x1a\x03\x0a\x01\x01\x1a\x03\x0a\x01\x00"s;
  ASSERT_EQ(compile("module @jit_f { sdy.mesh @m = <[\"d\"=2]>\n"
                    "func.func @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{\"d\"}]>}) -> "
                    "tensor<4xf32> {"
                    " %0 = stablehlo.add %x, %x : tensor<4xf32> return %0 : tensor<4xf32> } }",
                    optionsOf("\x02", assignment), e),
            "");
  PJRT_LoadedExecutable_AddressableDevices_Args d{};
  d.executable = e;
  ok(PJRT_Function_LoadedExecutable_AddressableDevices, d);
  ASSERT_EQ(d.num_addressable_devices, 2u);
  EXPECT_EQ(d.addressable_devices[0], devices_[1]);
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = e;
  ok(PJRT_Function_LoadedExecutable_GetExecutable, get);
  const auto* extension = reinterpret_cast<const PJRT_Shardings_Extension*>(api_->extension_start);
  PJRT_Shardings_Args s{sizeof s, nullptr, get.executable, 0, nullptr, nullptr};
  ASSERT_EQ(extension->output_shardings(&s), nullptr);
  ASSERT_EQ(s.num_values, 1u); // propagation shards the result like the argument
  EXPECT_EQ(std::string(s.shardings[0], s.sharding_sizes[0]), "\x08\x03\x1a\x01\x02\x22\x02\x00\x01"s);
  PJRT_Program shown{sizeof shown, nullptr, nullptr, 0, nullptr, 0}; // what one device runs
  PJRT_Executable_OptimizedProgram_Args show{};
  show.executable = get.executable;
  show.program = &shown;
  ok(PJRT_Function_Executable_OptimizedProgram, show);
  std::string text(shown.code_size, ' ');
  shown.code = text.data();
  ok(PJRT_Function_Executable_OptimizedProgram, show);
  EXPECT_NE(text.find("stablehlo.add %x_0, %x_0 : tensor<2xf32>"), std::string::npos) << text;
  EXPECT_EQ(text.find("sdy."), std::string::npos) << text;
  const std::array<float, 4> data{1, 2, 3, 4};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {buffer(data.data(), {2}, {}, 1), buffer(data.data() + 2, {2}, {}, 0)}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{2, 4}));
  EXPECT_EQ(values(results[1], 2), (std::vector<float>{6, 8}));
}

// JAX has no sharding for what a reshape of a sharded dim gives: each device gets all of it.
TEST_F(PjrtPlugin, StridedResultsAreWhole) {
  create(2);
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(
      compile("module @jit_f { sdy.mesh @m = <[\"d\"=2]>\n"
              "func.func @main(%x: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {\"d\"}]>}) -> "
              "tensor<8xf32> { %0 = stablehlo.reshape %x : (tensor<4x2xf32>) -> tensor<8xf32> "
              "return %0 : tensor<8xf32> } }",
              optionsOf("\x02", ""), e),
      "");
  const std::array<float, 8> columns{0, 2, 4, 6, 1, 3, 5, 7};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(e, {buffer(columns.data(), {4, 1}, {}), buffer(columns.data() + 4, {4, 1}, {}, 1)}, results),
            "");
  for (PJRT_Buffer* r : results) EXPECT_EQ(values(r, 8), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(PjrtPlugin, SerializedExecutables) {
  PJRT_LoadedExecutable* e = nullptr;
  ASSERT_EQ(compile("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {"
                    " %0 = stablehlo.abs %x : tensor<2xf32> return %0 : tensor<2xf32> }",
                    optionsOf("\x01", ""), e),
            "");
  PJRT_LoadedExecutable_GetExecutable_Args get{};
  get.loaded_executable = e;
  ok(PJRT_Function_LoadedExecutable_GetExecutable, get);
  PJRT_Executable_Serialize_Args s{};
  s.executable = get.executable;
  ok(PJRT_Function_Executable_Serialize, s);
  PJRT_Executable_DeserializeAndLoad_Args load{};
  load.client = client_;
  load.serialized_executable = s.serialized_bytes;
  load.serialized_executable_size = s.serialized_bytes_size;
  ok(PJRT_Function_Executable_DeserializeAndLoad, load);
  const std::array<float, 2> data{1, -2};
  std::vector<PJRT_Buffer*> results;
  ASSERT_EQ(run(load.loaded_executable, {buffer(data.data(), {2}, {})}, results), "");
  EXPECT_EQ(values(results[0], 2), (std::vector<float>{1, 2}));
  load.serialized_executable = "x";
  load.serialized_executable_size = 1;
  EXPECT_NE(call(PJRT_Function_Executable_DeserializeAndLoad, load), "");
}
