#include "dtc/Check/Numerics.h"
#include "NumericsGradient.h"
#include "RandomArguments.h"
#include "dtc/Check/RunCheck.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/Text.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/Specialize.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Support/Json.h"
#include <algorithm>
#include <cstdio>

namespace dtc {

namespace {

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

std::string_view kindName(NumericsSection::Kind k) {
  switch (k) {
  case NumericsSection::Sharded: return "sharded";
  case NumericsSection::Differences: return "differences";
  case NumericsSection::Derived: return "derived";
  }
  return "";
}

// The passes that text of this level needs, up to the program of one device.
Status runPasses(Module& m, std::vector<PassStep> steps, Diagnostics& diags, PipelineState& state) {
  std::erase_if(steps, [](const PassStep& s) { return s.pass->gives == Level::Scheduled; });
  PipelineHooks hooks;
  hooks.state = &state;
  return runPipeline(m, steps, diags, hooks);
}

NumericsRow rowOf(const ResultCheck& r) {
  const CompareReport& c = r.report;
  NumericsRow row;
  row.name = r.name;
  row.pass = c.pass;
  row.error = c.maxAbs;
  row.allowed = c.allowedMax;
  if (c.whereAbs >= 0) row.where = indexText(c.whereAbs, r.shape);
  row.detail =
      c.pass ? "all " + std::to_string(c.elements) + (c.elements == 1 ? " element" : " elements") : c.reason;
  return row;
}

std::string titleOf(Module& local, FuncId f) {
  const MeshId mesh = meshOfFunction(local, f);
  std::string title = "sharded against unsharded";
  if (!mesh.valid()) return title;
  const Mesh& on = local.shardings.mesh(mesh);
  const int64_t n = on.numDevices();
  return title + ", on @" + std::string(local.strings[on.name]) + " of " + std::to_string(n) +
         (n == 1 ? " device" : " devices");
}

Status compareSharded(const Module& m, FuncId f, NumericsReport& report, Diagnostics& diags) {
  NumericsSection section;
  const std::string name(m.strings[m[f].name]);
  section.function = "@" + name;
  if (m[f].spmd) {
    section.title = "sharded against unsharded";
    section.note = "this is local text, which has no unsharded form";
    report.sections.push_back(std::move(section));
    return Ok{};
  }
  const StandardPipeline pipeline = standardPipeline(levelOf(m, f), 1, "");
  Module whole = m;
  keepReached(whole, f); // inlined into others it would be gone
  PipelineState state;
  if (Status s = runPasses(whole, pipeline.reference, diags, state); !s) return s;
  Module local = whole;
  if (Status s = runPasses(local, pipeline.propagate, diags, state); !s) return s;
  if (Status s = runPasses(local, pipeline.lower, diags, state); !s) return s;
  const FuncId global = whole.findFunction(name), cut = local.findFunction(name);
  auto args = randomArguments(whole, global);
  if (!args) return args.error();
  auto reference = runReference(whole, global, *args);
  if (!reference) return reference.error();
  auto got = runReference(local, cut, *args);
  if (!got) return got.error();
  std::vector<std::string> names;
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    const StrId label = m[f].results[r].label;
    names.push_back(label.valid() ? "%" + std::string(m.strings[label]) : "result " + std::to_string(r));
  }
  section.title = titleOf(local, cut);
  const std::vector<CompareOptions> options = WireRounding(local, cut).ofResults();
  for (const ResultCheck& r : checkResults(*reference, got->rd, names, options).results)
    section.rows.push_back(rowOf(r));
  report.sections.push_back(std::move(section));
  return Ok{};
}

std::string rowText(const NumericsRow& r) {
  std::string out = "  " + r.name + ": " + (r.pass ? "ok" : "FAILED");
  if (!r.where.empty())
    out += ", largest difference " + number(r.error) + " " + (r.where[0] == '[' ? "at " : "") + r.where +
           " (allowed " + number(r.allowed) + ")";
  return out + ", " + r.detail + "\n";
}

std::string rowJson(const NumericsSection& s, const NumericsRow& r) {
  return "{\"function\": " + jsonString(s.function) + ", \"check\": " + jsonString(kindName(s.kind)) +
         ", \"name\": " + jsonString(r.name) + ", \"pass\": " + (r.pass ? "true" : "false") +
         ", \"error\": " + jsonNumber(r.error) + ", \"allowed\": " + jsonNumber(r.allowed) +
         ", \"where\": " + jsonString(r.where) + ", \"detail\": " + jsonString(r.detail) + "}";
}

} // namespace

bool NumericsReport::pass() const {
  return std::all_of(sections.begin(), sections.end(), [](const NumericsSection& s) {
    return std::all_of(s.rows.begin(), s.rows.end(), [](const NumericsRow& r) { return r.pass; });
  });
}

std::string NumericsReport::text() const {
  std::string out;
  size_t rows = 0, failed = 0;
  for (const NumericsSection& s : sections) {
    out += s.function + ": " + s.title + "\n";
    if (!s.note.empty()) out += "  " + s.note + "\n";
    for (const NumericsRow& r : s.rows) out += rowText(r), ++rows, failed += !r.pass;
  }
  return out + std::to_string(rows) + (rows == 1 ? " comparison, " : " comparisons, ") +
         std::to_string(failed) + " failed\n";
}

std::string NumericsReport::json() const {
  std::string out = std::string("{\"pass\": ") + (pass() ? "true" : "false") + ", \"checks\": [";
  bool first = true;
  for (const NumericsSection& s : sections)
    for (const NumericsRow& r : s.rows) {
      out += (first ? "\n " : ",\n ") + rowJson(s, r);
      first = false;
    }
  return out + "]}\n";
}

Result<NumericsReport> checkNumerics(const Module& program, std::span<const FuncId> entries,
                                     Diagnostics& diags) {
  NumericsReport report;
  Module m = program; // each copy of a function has numbers of its own
  if (!specialize(m, diags, entries)) return inputError("");
  for (FuncId f : entries)
    if (Status s = compareSharded(m, f, report, diags); !s) return s.error();
  if (Status s = checkGradients(m, report, diags); !s) return s.error();
  return report;
}

} // namespace dtc
