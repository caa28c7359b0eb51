// dtc devices: what this machine can run on.
#include "Verbs.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Jit/Nvrtc.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <thread>

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
  for (const CudaDeviceInfo& d : driver->devices())
    out["gpus"].push_back({{"ordinal", d.ordinal},
                           {"name", d.name},
                           {"target", d.arch()},
                           {"compute_capability", std::to_string(d.major) + "." + std::to_string(d.minor)},
                           {"memory_bytes", d.memoryBytes},
                           {"multiprocessors", d.multiprocessors}});
  return out;
}

Json report() {
  Json out = Json::array();
  out.push_back({{"backend", "cpu"},
                 {"available", true},
                 {"cores", std::thread::hardware_concurrency()},
                 {"vectors", cpuLevelName(hostCpuLevel())}});
  out.push_back({{"backend", "cuda-emu"}, {"available", true}});
  out.push_back(cudaReport());
  Json nvrtc = {{"compiler", "nvrtc"}};
  auto version = Nvrtc().version();
  nvrtc["available"] = version.ok();
  nvrtc[version.ok() ? "version" : "why_not"] = version.ok() ? *version : version.error().message;
  out.push_back(nvrtc);
  return out;
}

std::string reportText(const Json& all) {
  std::string out;
  for (const Json& entry : all) {
    std::string name = entry.contains("backend") ? entry["backend"] : entry["compiler"];
    out += name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ');
    if (!entry["available"].get<bool>()) {
      out += "not here: " + entry["why_not"].get<std::string>() + "\n";
      continue;
    }
    if (name == "cpu")
      out += "any number of logical devices on " + std::to_string(entry["cores"].get<unsigned>()) +
             " cores, " + entry["vectors"].get<std::string>() + " kernels\n";
    else if (name == "cuda-emu")
      out += "generated CUDA kernels, executed on the CPU\n";
    else if (name == "nvrtc")
      out += "version " + entry["version"].get<std::string>() + ": PTX and cubins, with or without a GPU\n";
    else
      out += "driver " + entry["driver"].get<std::string>() + "\n";
    if (entry.contains("gpus"))
      for (const Json& g : entry["gpus"])
        out += "  " + std::to_string(g["ordinal"].get<int>()) + ": " + g["name"].get<std::string>() + ", " +
               g["target"].get<std::string>() + ", " +
               std::to_string(g["memory_bytes"].get<uint64_t>() >> 20) + " MiB\n";
  }
  return out;
}

} // namespace

Verb devicesVerb() {
  Verb v;
  v.name = "devices";
  v.usage = "[--json]";
  v.summary = "what this machine can run on";
  v.examples = "  dtc devices\n  dtc devices --json | jq '.[] | select(.available)'";
  v.declare = [](CLI::App& app) -> std::function<int(Environment&)> {
    auto json = std::make_shared<bool>(false);
    app.add_flag("--json", *json, "for other programs");
    return [json](Environment& env) {
      Json all = report();
      env.out(*json ? all.dump(2) + "\n" : reportText(all));
      return kExitDone;
    };
  };
  return v;
}

} // namespace dtc
