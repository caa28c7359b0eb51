// The module dtc._core: the C API as Python objects. The package's Python files make the interface of it.
#include "Borrowed.h"
#include "Results.h"

#include <chrono>
#include <memory>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <string_view>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace dtc::python {

namespace {

// Throws the exception that dtc._errors makes of an error. Takes the error.
[[noreturn]] void raise(dtc_status status, dtc_error* error) {
  const std::string text = error ? dtc_error_message(error) : "out of memory";
  const std::string json = error ? dtc_error_json(error) : "[]";
  dtc_error_free(error);
  nb::object exception = nb::module_::import_("dtc._errors").attr("make_error")(status, text, json);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

unsigned long mainThread = 0; // its number, as of threading.main_thread().ident

using Settings = std::vector<std::pair<std::string, std::string>>;

class Options {
public:
  explicit Options(const Settings& settings) : options_(dtc_options_create()) {
    if (!options_) throw std::bad_alloc();
    for (const auto& [name, value] : settings) {
      dtc_error* error = nullptr;
      const dtc_status status = dtc_options_set(options_.get(), name.c_str(), value.c_str(), &error);
      if (status != DTC_OK) raise(status, error);
    }
  }
  void shape(size_t argument, const std::vector<int64_t>& shape) {
    dtc_error* error = nullptr;
    const dtc_status status =
        dtc_options_set_argument_shape(options_.get(), argument, shape.data(), shape.size(), &error);
    if (status != DTC_OK) raise(status, error);
  }
  [[nodiscard]] const dtc_options* get() const { return options_.get(); }

private:
  struct Free {
    void operator()(dtc_options* o) const { dtc_options_free(o); }
  };
  std::unique_ptr<dtc_options, Free> options_;
};

class Context {
public:
  // `joins`: the other processes that mpirun or srun has started.
  Context(const Settings& settings, bool joins) {
    const Options options(settings);
    dtc_error* error = nullptr;
    dtc_status status = DTC_OK;
    {
      nb::gil_scoped_release unlocked;
      status = (joins ? dtc_processes_join : dtc_context_create)(options.get(), &context_, &error);
    }
    if (status != DTC_OK) raise(status, error);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { dtc_context_free(context_); }
  [[nodiscard]] dtc_context* get() const { return context_; }
  [[nodiscard]] int32_t rank() const { return dtc_process_rank(context_); }
  [[nodiscard]] int32_t processes() const { return dtc_process_count(context_); }
  [[nodiscard]] uint64_t calls() const { return dtc_processes_calls(context_); }
  // Throws nothing if the others cannot be told: they know that a process has failed.
  void refuse(const std::string& why) {
    nb::gil_scoped_release unlocked;
    (void)dtc_processes_refuse(context_, why.c_str(), nullptr);
  }
  void leave() {
    dtc_error* error = nullptr;
    dtc_status status = DTC_OK;
    {
      nb::gil_scoped_release unlocked;
      status = dtc_processes_leave(context_, &error);
    }
    if (status != DTC_OK) raise(status, error);
  }

private:
  dtc_context* context_ = nullptr;
};

nb::tuple shapeTuple(const int64_t* shape, int32_t rank) {
  nb::list out;
  for (int32_t i = 0; i < rank; ++i) out.append(shape[i]);
  return nb::tuple(out);
}

class Executable {
public:
  explicit Executable(dtc_executable* executable) : executable_(executable) {
    arguments_.resize(dtc_num_arguments(executable_));
    results_.resize(dtc_num_results(executable_));
    for (size_t i = 0; i < arguments_.size(); ++i) dtc_argument_info(executable_, i, &arguments_[i]);
    for (size_t i = 0; i < results_.size(); ++i) dtc_result_info(executable_, i, &results_[i]);
    local_ = static_cast<size_t>(dtc_local_devices(executable_, &first_));
    dtc_set_interrupt(executable_, &isInterrupted, nullptr);
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() {
    nb::gil_scoped_release unlocked; // a run may be in progress in another thread
    dtc_executable_free(executable_);
  }

  // (name, user name, dtype, shape, sharding, donated, carried), of which dtc.Value is made
  [[nodiscard]] nb::list describe(bool ofResults) const {
    nb::list out;
    for (const dtc_value_info& v : ofResults ? results_ : arguments_)
      out.append(nb::make_tuple(v.name, v.user_name, dtc_dtype_name(v.dtype), shapeTuple(v.shape, v.rank),
                                v.sharding, v.donated != 0,
                                v.carried < 0 ? nb::object(nb::none()) : nb::object(nb::int_(v.carried))));
    return out;
  }
  [[nodiscard]] nb::dict mesh() const {
    nb::dict out;
    for (size_t i = 0; i < dtc_num_mesh_axes(executable_); ++i) {
      int64_t size = 0;
      const char* name = dtc_mesh_axis(executable_, i, &size);
      out[name] = size;
    }
    return out;
  }
  [[nodiscard]] int64_t devices() const { return dtc_num_devices(executable_); }
  // The first device of this process, and how many it runs.
  [[nodiscard]] std::pair<int64_t, int64_t> localDevices() const {
    return {first_, static_cast<int64_t>(local_)};
  }
  // Of the shards of this process.
  [[nodiscard]] nb::list shardShapes(bool ofResults, size_t index) const {
    const auto& values = ofResults ? results_ : arguments_;
    if (index >= values.size()) throw nb::index_error();
    nb::list out;
    for (size_t k = 0; k < local_; ++k) {
      const int64_t device = first_ + static_cast<int64_t>(k);
      const int64_t* shape = ofResults ? dtc_result_shard_shape(executable_, index, device)
                                       : dtc_argument_shard_shape(executable_, index, device);
      out.append(shapeTuple(shape, values[index].rank));
    }
    return out;
  }
  [[nodiscard]] std::string text() { return dtc_program_text(executable_); }
  [[nodiscard]] int64_t copiedBytes() const { return dtc_copied_bytes(executable_); }
  [[nodiscard]] std::string warnings() const { return dtc_warnings(executable_); }

  // `arguments`: one tensor each; with `shards` one for each argument and device of this process. None: the value of an earlier
  // run. `out`: None, or what the results are written to. `like`: see toPython. `keep`: positions of arguments whose values
  // later runs may use, given None.
  nb::object run(nb::sequence arguments, nb::object out, nb::object like, bool shards,
                 const std::vector<size_t>& keep) {
    const size_t perValue = shards ? local_ : 1;
    std::vector<Borrowed> in(arguments_.size() * perValue),
        to(out.is_none() ? 0 : results_.size() * perValue);
    std::vector<dtc_buffer> inBuffers, outBuffers;
    borrow(in, arguments, arguments_, perValue, false, inBuffers);
    for (const size_t i : keep) inBuffers.at(i).flags |= DTC_KEEP;
    if (!out.is_none()) borrow(to, nb::cast<nb::sequence>(out), results_, perValue, true, outBuffers);
    const size_t count = results_.size() * perValue;
    if (out.is_none()) outBuffers.assign(count, dtc_buffer{});
    std::vector<dtc_tensor*> tensors(out.is_none() ? count : 0);
    dtc_run_arguments request = {};
    request.struct_size = sizeof request;
    request.arguments = inBuffers.data();
    request.num_arguments = inBuffers.size();
    request.results = outBuffers.data();
    request.num_results = outBuffers.size();
    request.tensors = tensors.empty() ? nullptr : tensors.data();
    request.argument_shards = request.result_shards = shards;
    dtc_error* error = nullptr;
    dtc_status status = DTC_OK;
    {
      nb::gil_scoped_release unlocked;
      status = dtc_run(executable_, &request, &error);
    }
    if (PyErr_Occurred()) { // of a signal's handler
      dtc_error_free(error);
      for (dtc_tensor* tensor : tensors) dtc_tensor_free(tensor);
      throw nb::python_error();
    }
    if (status != DTC_OK) raise(status, error);
    if (!out.is_none()) return out;
    return collect(tensors, like);
  }

  // The arguments of a call as arrays of NumPy, row-major copies; those of dtypes that NumPy lacks as their bits.
  nb::list values(nb::sequence arguments) {
    std::vector<Borrowed> in(arguments_.size());
    std::vector<dtc_buffer> buffers;
    borrow(in, arguments, arguments_, 1, false, buffers);
    nb::list out;
    for (size_t i = 0; i < buffers.size(); ++i)
      out.append((buffers[i].flags & DTC_SKIP) != 0 ? nb::object(nb::none())
                                                    : copiedToNumpy(buffers[i], arguments_[i].name));
    return out;
  }

  std::vector<bool> bindFile(const std::string& path) {
    std::vector<int32_t> bound(arguments_.size());
    dtc_error* error = nullptr;
    dtc_status status = DTC_OK;
    {
      nb::gil_scoped_release unlocked; // it waits for other processes
      status = dtc_bind_file(executable_, path.c_str(), bound.data(), &error);
    }
    if (status != DTC_OK) raise(status, error);
    return {bound.begin(), bound.end()};
  }

  // Of each argument whether the executable holds a value: it may be skipped.
  [[nodiscard]] std::vector<bool> held() const {
    std::vector<bool> out;
    for (size_t i = 0; i < arguments_.size(); ++i) out.push_back(dtc_argument_is_set(executable_, i) != 0);
    return out;
  }

  void carryOver() {
    dtc_error* error = nullptr;
    const dtc_status status = dtc_carry_over(executable_, &error);
    if (status != DTC_OK) raise(status, error);
  }

private:
  // Runs the handlers of signals that have come, of Ctrl-C first of all, which Python does in the main thread only: true
  // if one has raised an exception. Called without the interpreter lock, about once per step.
  static int32_t isInterrupted(void*) {
    using Clock = std::chrono::steady_clock;
    if (PyThread_get_thread_ident() != mainThread) return 0;
    constexpr std::chrono::milliseconds kPeriod(50);
    static Clock::time_point asked; // by the main thread alone
    const Clock::time_point now = Clock::now();
    if (now - asked < kPeriod) return 0;
    asked = now;
    nb::gil_scoped_acquire locked;
    return PyErr_CheckSignals() != 0;
  }

  // One buffer per object; None is DTC_SKIP.
  static void borrow(std::vector<Borrowed>& to, nb::sequence objects,
                     const std::vector<dtc_value_info>& about, size_t perValue, bool writable,
                     std::vector<dtc_buffer>& buffers) {
    const nb::object fast = nb::steal(PySequence_Fast(objects.ptr(), "expected a sequence of tensors"));
    if (!fast.is_valid()) throw nb::python_error();
    const auto given = static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.ptr()));
    if (given != to.size())
      throw nb::type_error(("expected " + std::to_string(to.size()) + (writable ? " result" : " argument") +
                            (to.size() == 1 ? "" : "s") + ", got " + std::to_string(given))
                               .c_str());
    buffers.reserve(given);
    for (size_t i = 0; i < given; ++i) {
      PyObject* object = PySequence_Fast_GET_ITEM(fast.ptr(), static_cast<Py_ssize_t>(i));
      if (object == Py_None) {
        dtc_buffer& skipped = buffers.emplace_back();
        skipped = {};
        skipped.flags = DTC_SKIP;
        continue;
      }
      to[i].borrow(object, about[i / perValue], writable);
      buffers.push_back(to[i].buffer());
    }
  }

  static nb::object collect(std::vector<dtc_tensor*>& tensors, nb::handle like) {
    nb::object out = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
    size_t done = 0;
    try {
      for (; done < tensors.size(); ++done)
        PyTuple_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(done),
                         toPython(tensors[done], like).release().ptr());
    } catch (...) {
      for (size_t i = done + 1; i < tensors.size(); ++i)
        dtc_tensor_free(tensors[i]); // toPython took the failed one
      throw;
    }
    return out;
  }

  dtc_executable* executable_;
  std::vector<dtc_value_info> arguments_, results_;
  size_t local_ = 1; // devices of this process
  int64_t first_ = 0;
};

// The characters of a str, or bytes.
std::string_view contentOf(nb::handle program) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(program.ptr())) return {PyBytes_AS_STRING(program.ptr()), nb::len(program)};
  const char* text = PyUnicode_AsUTF8AndSize(program.ptr(), &size);
  if (!text) throw nb::python_error();
  return {text, static_cast<size_t>(size)};
}

// `program`: str or bytes, or None to read the file `name`. `shapes`: those of arguments by position, None where there is
// nothing to infer from.
Executable* compile(const Context& context, const std::string& name, nb::object program,
                    const Settings& settings,
                    const std::vector<std::optional<std::vector<int64_t>>>& shapes) {
  const bool isFile = program.is_none();
  const std::string_view content = isFile ? std::string_view() : contentOf(program);
  Options options(settings);
  for (size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i]) options.shape(i, *shapes[i]);
  dtc_executable* executable = nullptr;
  dtc_error* error = nullptr;
  dtc_status status = DTC_OK;
  {
    nb::gil_scoped_release unlocked;
    status = isFile ? dtc_compile_file(context.get(), name.c_str(), options.get(), &executable, &error)
                    : dtc_compile(context.get(), name.c_str(), content.data(), content.size(), options.get(),
                                  &executable, &error);
  }
  if (status != DTC_OK) raise(status, error);
  return new Executable(executable);
}

// A program that is not compiled.
class Signature {
public:
  Signature(const std::string& name, nb::object program, const Settings& settings) {
    const bool isFile = program.is_none();
    const std::string_view content = isFile ? std::string_view() : contentOf(program);
    const Options options(settings);
    dtc_error* error = nullptr;
    const dtc_status status = isFile ? dtc_signature_of_file(name.c_str(), options.get(), &signature_, &error)
                                     : dtc_signature_of(name.c_str(), content.data(), content.size(),
                                                        options.get(), &signature_, &error);
    if (status != DTC_OK) raise(status, error);
  }
  Signature(const Signature&) = delete;
  Signature& operator=(const Signature&) = delete;
  ~Signature() { dtc_signature_free(signature_); }

  // As Executable::describe, with the names of symbolic sizes in shapes.
  [[nodiscard]] nb::list describe(bool ofResults) const {
    nb::list out;
    const size_t count =
        ofResults ? dtc_signature_num_results(signature_) : dtc_signature_num_arguments(signature_);
    for (size_t i = 0; i < count; ++i) {
      dtc_value_info v;
      ofResults ? dtc_signature_result(signature_, i, &v) : dtc_signature_argument(signature_, i, &v);
      nb::list shape;
      for (int32_t d = 0; d < v.rank; ++d) {
        const auto dim = static_cast<size_t>(d);
        const char* size = ofResults ? dtc_signature_result_size(signature_, i, dim)
                                     : dtc_signature_argument_size(signature_, i, dim);
        shape.append(v.shape[d] < 0 ? nb::object(nb::str(size)) : nb::object(nb::int_(v.shape[d])));
      }
      out.append(nb::make_tuple(v.name, v.user_name, dtc_dtype_name(v.dtype), nb::tuple(shape), v.sharding,
                                v.donated != 0,
                                v.carried < 0 ? nb::object(nb::none()) : nb::object(nb::int_(v.carried))));
    }
    return out;
  }
  // Which arguments a file has tensors of.
  [[nodiscard]] std::vector<bool> find(const std::string& path) const {
    std::vector<int32_t> bound(dtc_signature_num_arguments(signature_));
    dtc_error* error = nullptr;
    const dtc_status status = dtc_signature_find(signature_, path.c_str(), bound.data(), &error);
    if (status != DTC_OK) raise(status, error);
    return {bound.begin(), bound.end()};
  }

private:
  dtc_signature* signature_ = nullptr;
};

// What a command of dtc prints to standard output. Throws its messages as an exception.
std::string command(const std::vector<std::string>& words, std::variant<std::string, nb::bytes> given) {
  const auto* bytes = std::get_if<nb::bytes>(&given);
  const std::string_view input = bytes ? std::string_view(bytes->c_str(), bytes->size())
                                       : std::string_view(std::get<std::string>(given));
  std::vector<const char*> pointers;
  for (const std::string& w : words) pointers.push_back(w.c_str());
  std::string streams[2];
  const auto write = [](void* self, int32_t stream, const char* text, size_t size) {
    static_cast<std::string*>(self)[stream - 1].assign(text, size);
  };
  int32_t code = 0;
  {
    nb::gil_scoped_release unlocked;
    code = dtc_command(pointers.data(), pointers.size(), input.data(), input.size(), write, streams);
  }
  if (code == DTC_OK) return streams[0];
  nb::object exception =
      nb::module_::import_("dtc._errors").attr("make_command_error")(code, streams[0] + streams[1]);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

} // namespace

} // namespace dtc::python

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // torch.compile keeps its executables until the process exits
  using namespace dtc::python;
  m.doc() = "dtc's C API as Python objects; use the package dtc.";
  mainThread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  m.attr("version") = dtc_version();
  m.attr("abi_version") = dtc_abi_version();
  nb::class_<Context>(m, "Context", "worker threads, compiled kernels and libraries")
      .def(nb::init<const Settings&, bool>(), nb::arg("settings"), nb::arg("joins") = false)
      .def_prop_ro("rank", &Context::rank)
      .def_prop_ro("processes", &Context::processes)
      .def_prop_ro("calls", &Context::calls)
      .def("refuse", &Context::refuse, nb::arg("why"))
      .def("leave", &Context::leave);
  nb::class_<Executable>(m, "Executable")
      .def("describe", &Executable::describe, nb::arg("of_results"))
      .def_prop_ro("mesh", &Executable::mesh)
      .def_prop_ro("num_devices", &Executable::devices)
      .def_prop_ro("local_devices", &Executable::localDevices)
      .def("shard_shapes", &Executable::shardShapes, nb::arg("of_results"), nb::arg("index"))
      .def_prop_ro("text", &Executable::text)
      .def_prop_ro("warnings", &Executable::warnings)
      .def_prop_ro("copied_bytes", &Executable::copiedBytes)
      .def("run", &Executable::run, nb::arg("arguments"), nb::arg("out").none(), nb::arg("like").none(),
           nb::arg("shards"), nb::arg("keep") = std::vector<size_t>())
      .def("values", &Executable::values, nb::arg("arguments"))
      .def("bind_file", &Executable::bindFile, nb::arg("path"))
      .def("held", &Executable::held)
      .def("carry_over", &Executable::carryOver);
  nb::class_<Signature>(m, "Signature")
      .def(nb::init<const std::string&, nb::object, const Settings&>(), nb::arg("name"),
           nb::arg("program").none(), nb::arg("settings"))
      .def("describe", &Signature::describe, nb::arg("of_results"))
      .def("find", &Signature::find, nb::arg("path"));
  m.def("compile", &compile, nb::arg("context"), nb::arg("name"), nb::arg("program").none(),
        nb::arg("settings"), nb::arg("shapes"), nb::rv_policy::take_ownership);
  m.def(
      "file_has_weights", [](const std::string& path) { return dtc_file_has_weights(path.c_str()) != 0; },
      nb::arg("path"));
  m.def("command", &command, nb::arg("words"), nb::arg("input"));
}
