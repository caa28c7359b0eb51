// The report as a table and as JSON.
#include "dtc/Report/kernels/KernelReport.h"
#include "dtc/Support/Units.h"
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

namespace dtc {
namespace {

using Json = nlohmann::ordered_json;

std::string text(const char* format, auto... values) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

int localBytes(const KernelFacts& f) {
  return std::max(f.usage.stackBytes, f.usage.spillStoreBytes + f.usage.spillLoadBytes);
}

std::string percentText(double share) { return text("%.0f %%", 100 * share); }

// The usual access of each argument, in bytes; * where 16 would divide the rows.
std::string accessText(const KernelFacts& f) {
  std::string out;
  for (size_t a = 0; a < f.arguments.size(); ++a) {
    out += out.empty() ? "" : " ";
    out +=
        f.arguments[a].widest == 0 ? "-" : std::to_string(f.arguments[a].usual) + (f.isNarrow(a) ? "*" : "");
  }
  return out;
}

// What each kernel is limited by.
std::string speedText(const std::vector<KernelRow>& rows, std::string_view arch) {
  std::string out = "expected speed on " + std::string(arch) +
                    " (a model, docs/gpu.md), most time lost first:\n" +
                    text("%-32s %4s %8s  %s\n", "kernel", "uses", "roofline", "limit");
  std::string small;
  for (const KernelRow& r : rows) {
    if (r.estimate.small) {
      small += (small.empty() ? "" : ", ") + r.name;
      continue;
    }
    const std::string percent = r.estimate.percent > 0 ? std::to_string(r.estimate.percent) + " %" : "?";
    out += text("%-32.32s %4lld %8s  ", r.name.c_str(), static_cast<long long>(r.uses), percent.c_str()) +
           r.estimate.reason + (r.fallback ? " (cuDNN's call, where it is installed)" : "") + "\n";
    for (const KernelComplaint& c : r.complaints)
      if (r.estimate.reason.find(c.text) == std::string::npos) out += std::string(48, ' ') + c.text + "\n";
  }
  return out + (small.empty() ? "" : "small, less than " + bytesText(kSmallBytes) + ": " + small + "\n");
}

std::string resourcesText(const std::vector<KernelRow>& rows) {
  std::string out = text("%-32s %4s %6s %5s %7s %6s %8s %6s %6s  %s\n", "kernel", "regs", "shared", "local",
                         "threads", "active", "blocks", "per SM", "KiB", "access");
  std::set<std::string> seen;
  for (const KernelRow& r : rows) {
    const KernelFacts& f = r.facts;
    out += text("%-32.32s %4d %6lld %5d %7d %6s %8lld %6d %6s  ", r.name.c_str(), f.usage.registers,
                static_cast<long long>(f.sharedBytes), localBytes(f), f.threadsPerBlock,
                f.traced ? percentText(f.activeShare()).c_str() : "?", static_cast<long long>(f.blocks),
                f.blocksAtOnce, f.traced ? text("%.1f", f.bytesInFlight / 1024).c_str() : "?") +
           accessText(f) + "\n";
  }
  return out;
}

std::string matmulsText(const std::vector<MatmulRow>& rows) {
  int64_t matmuls = 0, calls = 0;
  std::string several;
  for (const MatmulRow& r : rows) {
    matmuls += r.uses, calls += r.uses * r.calls;
    if (r.calls > 1)
      several += text("  %lld uses, %lld calls each: ", static_cast<long long>(r.uses),
                      static_cast<long long>(r.calls)) +
                 r.shape + "\n";
  }
  if (matmuls == 0) return {};
  return text("library calls: %lld for %lld matmuls\n", static_cast<long long>(calls),
              static_cast<long long>(matmuls)) +
         several;
}

std::string readersText(const std::vector<std::string>& readers) {
  std::string out;
  for (const std::string& r : readers) out += (out.empty() ? "" : ", ") + r;
  return out.empty() ? "a result" : out;
}

std::string passesText(const std::vector<PassesRow>& rows) {
  std::string out;
  for (const PassesRow& r : rows)
    out += text("%4lld x %10s  %lld of %lld  ", static_cast<long long>(r.uses), bytesText(r.bytes).c_str(),
                static_cast<long long>(r.passes), static_cast<long long>(r.least)) +
           r.writer + " -> " + readersText(r.readers) + (r.where.empty() ? "" : " (" + r.where + ")") + "\n";
  return out.empty() ? out : "passes over large values, and how many are needed:\n" + out;
}

Json argumentJson(const KernelFacts& f, size_t number) {
  const ArgumentFacts& a = f.arguments[number];
  const bool in = number < f.inputs;
  return {{"argument", in ? "in" + std::to_string(number) : "out" + std::to_string(number - f.inputs)},
          {"widest_bytes", a.widest},
          {"usual_bytes", a.usual},
          {"row_bytes", a.run},
          {"divisible", a.divisible}};
}

Json kernelJson(const KernelRow& r) {
  const KernelFacts& f = r.facts;
  Json arguments = Json::array(), complaints = Json::array();
  for (size_t a = 0; a < f.arguments.size(); ++a) arguments.push_back(argumentJson(f, a));
  for (const KernelComplaint& c : r.complaints) complaints.push_back({{"kind", c.kind}, {"text", c.text}});
  return {{"kernel", r.name},
          {"uses", r.uses},
          {"fallback", r.fallback},
          {"schedule", r.schedule},
          {"bytes", f.bytes},
          {"registers", f.usage.registers},
          {"shared_bytes", f.sharedBytes},
          {"local_bytes", localBytes(f)},
          {"threads", f.threadsPerBlock},
          {"blocks", f.blocks},
          {"blocks_per_sm", f.blocksAtOnce},
          {"analyzed", f.traced},
          {"active_threads", f.activeThreads},
          {"bytes_in_flight", static_cast<int64_t>(f.bytesInFlight)},
          {"wide_divisions", f.divisions},
          {"wide_divisions_in_loops", f.loopDivisions},
          {"instructions_per_element", std::round(10 * f.instructionsPerElement()) / 10},
          {"arguments", arguments},
          {"small", r.estimate.small},
          {"roofline_percent", r.estimate.percent},
          {"limit", r.estimate.reason},
          {"complaints", complaints}};
}

} // namespace

std::string kernelsText(const ProgramKernels& program, std::string_view arch) {
  if (program.kernels.empty()) return matmulsText(program.matmuls);
  return speedText(program.kernels, arch) + resourcesText(program.kernels) + matmulsText(program.matmuls) +
         passesText(program.passes);
}

std::string kernelsJson(const ProgramKernels& program) {
  Json kernels = Json::array(), matmuls = Json::array(), passes = Json::array();
  for (const KernelRow& r : program.kernels) kernels.push_back(kernelJson(r));
  for (const MatmulRow& r : program.matmuls)
    matmuls.push_back({{"shape", r.shape}, {"uses", r.uses}, {"calls", r.calls}});
  for (const PassesRow& r : program.passes)
    passes.push_back({{"writer", r.writer},
                      {"readers", r.readers},
                      {"type", r.type},
                      {"uses", r.uses},
                      {"bytes", r.bytes},
                      {"passes", r.passes},
                      {"least", r.least}});
  return Json{{"kernels", kernels}, {"matmuls", matmuls}, {"passes", passes}}.dump(1);
}

} // namespace dtc
