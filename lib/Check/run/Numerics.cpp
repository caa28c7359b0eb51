#include "dtc/Check/run/Numerics.h"
#include "dtc/Check/run/RunCheck.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/simplify/Specialize.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Units.h"
#include "run/NumericsGradient.h"
#include "run/RandomArguments.h"
#include <algorithm>

namespace dtc {

namespace {

std::string_view kindName(NumericsSection::Kind k) {
  switch (k) {
  case NumericsSection::Sharded: return "sharded";
  case NumericsSection::Differences: return "differences";
  case NumericsSection::Derived: return "derived";
  }
  return "";
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
  Session session(m, f);
  if (Status s = session.lower(Stage::Reference, diags); !s) return s;
  Module unsharded = session.module();
  const FuncId global = session.entry();
  if (Status s = session.lower(Stage::Local, diags); !s) return s;
  Module& local = session.module();
  const FuncId sharded = session.entry();
  DTC_TRY(auto args, randomArguments(unsharded, global));
  DTC_TRY(auto reference, runReference(unsharded, global, args));
  DTC_TRY(auto got, runReference(local, sharded, args));
  NamedTensors values;
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    const StrId label = m[f].results[r].label;
    values.emplace_back(label.valid() ? "%" + std::string(m.strings[label]) : "result " + std::to_string(r),
                        &got.rd[r]);
  }
  section.title = titleOf(local, sharded);
  const std::vector<CompareOptions> options = CommRounding(local, sharded).ofResults();
  for (const ResultCheck& r : checkResults(reference, values, options).results)
    section.rows.push_back(rowOf(r));
  report.sections.push_back(std::move(section));
  return Ok{};
}

std::string rowText(const NumericsRow& r) {
  std::string out = "  " + r.name + ": " + (r.pass ? "ok" : "FAILED");
  if (!r.where.empty())
    out += ", largest difference " + significant(r.error) + " " + (r.where[0] == '[' ? "at " : "") + r.where +
           " (allowed " + significant(r.allowed) + ")";
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
  Module m = program; // each copy of a function has its own value numbers
  if (!specialize(m, diags, entries)) return inputError("");
  for (FuncId f : entries)
    if (Status s = compareSharded(m, f, report, diags); !s) return s.error();
  if (Status s = checkGradients(m, report, diags); !s) return s.error();
  const auto empty = [](const NumericsSection& s) { return s.rows.empty(); };
  if (std::ranges::all_of(report.sections, empty))
    return inputError("nothing to compare: " + (report.sections.empty() ? "no function has results"
                                                                        : report.sections[0].function + ": " +
                                                                              report.sections[0].note));
  return report;
}

} // namespace dtc
