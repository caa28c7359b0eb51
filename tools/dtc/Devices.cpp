// dtc devices: lists the backends, GPUs and libraries of this machine.
#include "Verbs.h"
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Cuda/CudaLibraries.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Support/Cores.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace dtc {

namespace {

using Json = nlohmann::ordered_json;

Json cudaReport() {
  Json out = {{"backend", "cuda"}};
  auto driver = CudaDriver::open();
  out["available"] = driver.ok();
  if (!driver) {
    out["why_not"] = driver.error().message;
    return out;
  }
  out["driver"] =
      std::to_string(driver->version() / 1000) + "." + std::to_string(driver->version() % 1000 / 10);
  out["gpus"] = Json::array();
  for (const CudaDeviceInfo& d : driver->devices()) {
    Json peers = Json::array(); // the GPUs whose memory its kernels can read
    for (const CudaDeviceInfo& other : driver->devices())
      if (other.ordinal != d.ordinal && driver->reaches(d.ordinal, other.ordinal))
        peers.push_back(other.ordinal);
    out["gpus"].push_back({{"ordinal", d.ordinal},
                           {"name", d.name},
                           {"target", d.arch()},
                           {"compute_capability", std::to_string(d.major) + "." + std::to_string(d.minor)},
                           {"memory_bytes", d.memoryBytes},
                           {"multiprocessors", d.multiprocessors},
                           {"peers", peers}});
  }
  return out;
}

Json report() {
  Json out = Json::array();
  out.push_back({{"backend", "cpu"},
                 {"available", true},
                 {"cores", availableCores()},
                 {"vectors", cpuLevelName(hostCpuLevel())}});
  out.push_back({{"backend", "cuda-emu"}, {"available", true}});
  out.push_back(cudaReport());
  for (const CudaLibraryInfo& library : cudaLibraries()) {
    // NVRTC is listed as a compiler, the others as libraries.
    Json entry = {
        {library.name == "NVRTC" ? "compiler" : "library", library.name == "NVRTC" ? "nvrtc" : library.name}};
    entry["available"] = !library.version.empty();
    entry["use"] = library.use;
    if (!library.path.empty()) entry["path"] = library.path;
    entry[library.version.empty() ? "why_not" : "version"] =
        library.version.empty() ? library.whyNot : library.version;
    out.push_back(entry);
  }
  return out;
}

std::string gpuText(const Json& g) {
  std::string out = "  " + std::to_string(g["ordinal"].get<int>()) + ": " + g["name"].get<std::string>() +
                    ", " + g["target"].get<std::string>() + ", " +
                    std::to_string(g["memory_bytes"].get<uint64_t>() >> 20) + " MiB, " +
                    std::to_string(g["multiprocessors"].get<int>()) + " multiprocessors";
  std::string peers;
  for (const Json& p : g["peers"]) peers += (peers.empty() ? "" : ", ") + std::to_string(p.get<int>());
  return out + (peers.empty() ? "" : ", reaches " + peers) + "\n";
}

// The text after an entry's name.
std::string entryText(const Json& entry, const std::string& name) {
  if (!entry["available"].get<bool>()) return "unavailable: " + entry["why_not"].get<std::string>();
  if (entry.contains("use"))
    return "version " + entry["version"].get<std::string>() + ": " + entry["use"].get<std::string>() + " (" +
           entry["path"].get<std::string>() + ")";
  if (name == "cpu")
    return "any number of logical devices on " + std::to_string(entry["cores"].get<unsigned>()) + " cores, " +
           entry["vectors"].get<std::string>() + " kernels";
  if (name == "cuda-emu") return "generated CUDA kernels, executed on the CPU";
  return "driver " + entry["driver"].get<std::string>();
}

std::string reportText(const Json& all) {
  std::string out;
  for (const Json& entry : all) {
    std::string name;
    for (const char* key : {"backend", "compiler", "library"})
      if (entry.contains(key)) name = entry[key];
    out += name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') + entryText(entry, name) + "\n";
    if (entry.contains("gpus"))
      for (const Json& g : entry["gpus"]) out += gpuText(g);
  }
  return out;
}

} // namespace

Verb devicesVerb() {
  Verb v;
  v.name = "devices";
  v.usage = "[--json]";
  v.summary = "list the backends, GPUs and libraries of this machine";
  v.examples = "  dtc devices\n  dtc devices --json | jq '.[] | select(.available)'";
  v.declare = [](CLI::App& app) -> std::function<Result<int>(Environment&)> {
    auto json = std::make_shared<bool>(false);
    app.add_flag("--json", *json, "print the report as JSON");
    return [json](Environment& env) {
      Json all = report();
      env.out(*json ? all.dump(2) + "\n" : reportText(all));
      return kExitDone;
    };
  };
  return v;
}

} // namespace dtc
