// Programs whose devices differ: the functions of a program have disjoint sets of devices that cover the mesh,
// one signature, and matching collectives.
#include "verify/Verifier.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/RankSchedule.h"

#include <algorithm>
#include <set>

namespace dtc {
namespace {

constexpr DiagKind kDeviceSet{"device-set", "@{0}: {1}"};
constexpr DiagKind kHolders{"holders", "{0}: {1}"};
constexpr DiagKind kProgramSignature{"program-signature",
                                     "@{0} is @{1} on other devices, so that {2} must be {3}, but it is {4}"};
constexpr DiagKind kCallOfPart{"call-of-part",
                               "@{0} runs on a part of the devices and cannot be called by @{1}"};
constexpr DiagKind kCollectivesDiffer{"collective-mismatch",
                                      "@{0} on device {1} and @{2} on device {3} do not match: {4}"};
constexpr DiagKind kNoPartner{"collective-deadlock",
                              "@{0} would deadlock: device {1} waits in '{2}' for device {3}, but @{4} {5}"};
constexpr DiagKind kUnmatchedControl{
    "unmatched-control", "{0} may differ between @{1} and @{2}, whose devices share {3} in this '{4}': use "
                         "the same constants or unsharded arguments in both"};

class DeviceCheck {
public:
  DeviceCheck(const Module& m, FuncId entry, Diagnostics& diags)
      : m_(m), entry_(entry), functions_(functionsOfProgram(m, entry)), mesh_(meshValueOf(m, entry)),
        diags_(diags) {}

  void run() {
    const size_t before = diags_.numErrors();
    sets();
    for (FuncId f : functions_) signature(f);
    if (diags_.numErrors() == before) holders();
    if (diags_.numErrors() == before) collectives();
  }

private:
  std::string_view name(FuncId f) const { return m_.strings[m_[f].name]; }
  Diagnostic& setError(FuncId f, const std::string& why) {
    return diags_.error(kDeviceSet, m_[f].loc, name(f), why);
  }
  int64_t deviceAt(int64_t coordinate) const {
    return mesh_.devices.empty() ? coordinate : mesh_.devices[static_cast<size_t>(coordinate)];
  }

  void sets() {
    const int64_t count = mesh_.numDevices();
    std::map<int64_t, FuncId> runs; // by device
    for (FuncId f : functions_)
      for (int64_t device : devicesOf(m_, f)) {
        const bool exists = isDevice(device);
        const auto [at, isNew] = runs.try_emplace(device, f);
        if (!exists)
          setError(f, "the mesh has no device " + std::to_string(device));
        else if (!isNew)
          setError(f, "device " + std::to_string(device) + " also runs @" + std::string(name(at->second)))
              .note(m_[at->second].loc, "it is listed here");
      }
    for (int64_t p = 0; p < count; ++p)
      if (!runs.contains(deviceAt(p)))
        return void(setError(entry_, "no function of this program runs on device " +
                                         std::to_string(deviceAt(p)) + ": add {program = @" +
                                         std::string(name(entry_)) + ", devices = [" +
                                         std::to_string(deviceAt(p)) + "]} to one"));
  }

  // One argument or result, as callers see it.
  std::string partText(StrId label, TypeId type, TypeId global, ShardingId sharding,
                       const AttrList& attrs) const {
    const std::string devices = holdersText(m_, attrs);
    return (label.valid() ? "%" + std::string(m_.strings[label]) + ": " : "") + printType(m_, type) +
           (global.valid() ? " of " + printType(m_, global) : "") +
           (sharding.valid() ? " " + printSharding(m_, sharding) : "") + devices;
  }
  std::vector<std::string> partsOf(const Function& f) const {
    std::vector<std::string> parts;
    for (const FuncArg& a : f.args)
      parts.push_back(
          partText(m_[a.value].name, m_[a.value].type, a.globalType, m_[a.value].sharding, a.attrs));
    for (const FuncResult& r : f.results)
      parts.push_back(partText(r.label, r.type, r.globalType, r.sharding, r.attrs));
    return parts;
  }
  void signature(FuncId f) {
    const auto differs = [&](const std::string& what, const std::string& wanted, const std::string& found) {
      diags_.error(kProgramSignature, m_[f].loc, name(f), name(entry_), what, wanted, found)
          .note(m_[entry_].loc, "@" + std::string(name(entry_)) + " is declared here");
    };
    const Function &own = m_[f], &wanted = m_[entry_];
    const auto counts = [](const Function& of) {
      return "(" + std::to_string(of.args.size()) + ", " + std::to_string(of.results.size()) + ")";
    };
    if (counts(own) != counts(wanted)) return differs("(arguments, results)", counts(wanted), counts(own));
    if (const MeshId mesh = meshOfFunction(m_, f); mesh != meshOfFunction(m_, entry_))
      return differs("its mesh", "that of @" + std::string(name(entry_)), "another one");
    const std::vector<std::string> expected = partsOf(wanted), found = partsOf(own);
    for (size_t i = 0; i < expected.size(); ++i)
      if (expected[i] != found[i])
        return differs((i < own.args.size() ? "argument " : "result ") +
                           std::to_string(i < own.args.size() ? i : i - own.args.size()),
                       expected[i], found[i]);
  }

  // The devices of a function all hold an argument, or none does, and then none reads it.
  void holders() {
    const DevicePrograms programs = programsOf(m_, entry_);
    for (size_t i = 0; i < functions_.size(); ++i) {
      const FuncId f = functions_[i];
      const std::vector<int64_t> own = programs.coordinatesOf(i);
      const AbsentValues absent(m_, f);
      const auto check = [&](const std::string& what, const AttrList& attrs, SourceRange range) {
        const std::vector<bool> holds = holdersOf(m_, mesh_, attrs);
        const auto held =
            std::ranges::count_if(own, [&](int64_t p) { return holds[static_cast<size_t>(p)]; });
        if (held != 0 && held != std::ssize(own))
          diags_.error(kHolders, range, what,
                       "some devices of @" + std::string(name(f)) +
                           " hold it and others do not: list all of them or none");
        return held == 0;
      };
      for (const FuncArg& a : m_[f].args) {
        const std::string what = "argument " + printValueName(m_, a.value);
        if (check(what, a.attrs, m_[a.value].loc) && !absent(a.value))
          diags_.error(kHolders, m_[a.value].loc, what,
                       "@" + std::string(name(f)) + " reads it, but its devices do not hold it");
      }
      for (size_t r = 0; r < m_[f].results.size(); ++r)
        check("result " + std::to_string(r), m_[f].results[r].attrs, m_[f].results[r].loc);
    }
    listedHolders();
  }

  // Lists of holders name devices of the mesh, and a carried result is returned by the devices that hold its argument.
  void listedHolders() {
    const Function& f = m_[entry_];
    const StrId key = m_.strings.find("devices"), carry = m_.strings.find("carry");
    const auto exist = [&](const std::string& what, const AttrList& attrs, SourceRange range) {
      const AttrId listed = key.valid() ? findAttr(attrs, key) : AttrId();
      if (!listed.valid()) return;
      if (m_.attrs[listed].list.empty())
        diags_.error(kHolders, range, what, "no device holds it: list at least one");
      for (AttrId a : m_.attrs[listed].list)
        if (const int64_t device = m_.attrs[a].i; !isDevice(device))
          diags_.error(kHolders, range, what, "the mesh has no device " + std::to_string(device));
    };
    const auto complete = [&](const std::string& what, const AttrList& attrs, ShardingId id,
                              SourceRange range) {
      if (!id.valid() || m_.shardings[id].mesh != meshOfFunction(m_, entry_)) return;
      const std::vector<bool> holds = holdersOf(m_, mesh_, attrs);
      std::set<std::vector<int64_t>> all, held;
      for (int64_t p = 0; p < mesh_.numDevices(); ++p) {
        std::vector<int64_t> shard;
        for (const DimSharding& d : m_.shardings[id].dims)
          for (const AxisRef& a : d.axes()) shard.push_back(mesh_.indexAlong(a, p));
        for (const PendingAxis& a : m_.shardings[id].pending) shard.push_back(mesh_.indexAlong(a.axis, p));
        all.insert(shard);
        if (holds[static_cast<size_t>(p)]) held.insert(std::move(shard));
      }
      if (held.size() != all.size())
        diags_.error(kHolders, range, what,
                     "its holders have " + std::to_string(held.size()) + " of its " +
                         std::to_string(all.size()) + " shards: list devices for all");
    };
    std::map<StrId, const FuncArg*> args;
    for (const FuncArg& a : f.args) {
      exist("argument " + printValueName(m_, a.value), a.attrs, m_[a.value].loc);
      complete("argument " + printValueName(m_, a.value), a.attrs,
               a.globalType.valid() ? m_[a.value].sharding : ShardingId(), m_[a.value].loc);
      args.emplace(m_[a.value].name, &a);
    }
    for (size_t r = 0; r < f.results.size(); ++r) {
      const FuncResult& result = f.results[r];
      const std::string what = "result " + std::to_string(r);
      exist(what, result.attrs, result.loc);
      complete(what, result.attrs, result.globalType.valid() ? result.sharding : ShardingId(), result.loc);
      const AttrId carried = carry.valid() ? findAttr(result.attrs, carry) : AttrId();
      const auto arg = args.find(result.label);
      if (carried.valid() && m_.attrs[carried].i && arg != args.end() &&
          holdersOf(m_, mesh_, result.attrs) != holdersOf(m_, mesh_, arg->second->attrs))
        diags_.error(kHolders, result.loc, what, "it is carried, but other devices hold its argument");
    }
  }

  bool isDevice(int64_t device) const {
    return mesh_.devices.empty() ? device >= 0 && device < mesh_.numDevices()
                                 : std::ranges::find(mesh_.devices, device) != mesh_.devices.end();
  }

  void collectives() {
    RankReader reader(m_, entry_);
    const DevicePrograms programs = programsOf(m_, entry_);
    if (const auto d = reader.read()) {
      diags_
          .error(kUnmatchedControl, m_[d->control].loc, printValueName(m_, d->decides),
                 name(programs.at(d->coordinates[0])), name(programs.at(d->coordinates[1])),
                 "'" + std::string(m_.record(d->rendezvous).name) + "'", m_.record(d->control).name)
          .note(m_[d->rendezvous].loc, "the devices wait for each other here");
      return;
    }
    const auto problem = validateRanks(reader.ranks());
    if (!problem) return;
    const FuncId here = programs.at(problem->coordinate), there = programs.at(problem->other);
    if (problem->kind == RankMismatch::Differs) {
      diags_
          .error(kCollectivesDiffer, m_[problem->op].loc, name(here), deviceAt(problem->coordinate),
                 name(there), deviceAt(problem->other), difference(problem->op, problem->otherOp))
          .note(m_[problem->otherOp].loc, "@" + std::string(name(there)) + " is here");
      return;
    }
    const OpId at = problem->otherOp;
    Diagnostic& error = diags_.error(
        kNoPartner, m_[problem->op].loc, name(here), deviceAt(problem->coordinate),
        m_.record(problem->op).name, deviceAt(problem->other), name(there),
        at.valid() ? "waits in '" + std::string(m_.record(at).name) + "' there" : "has returned there");
    if (at.valid()) error.note(m_[at].loc, "it waits here");
  }

  std::string opText(OpId o) const {
    std::string text = "'" + std::string(m_.record(o).name) + "'";
    if (m_[o].numRegions > 0) return text;
    for (size_t i = 0; i < m_[o].numOperands; ++i)
      text += (i ? ", " : " of ") + printType(m_, m_[m_.operand(o, i)].type);
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      text += (r ? ", " : " to ") + printType(m_, m_[m_.result(o, r)].type);
    return text;
  }
  std::string difference(OpId a, OpId b) const {
    if (opText(a) != opText(b)) return opText(a) + ", and " + opText(b);
    for (const AttrSpec& spec : m_.record(a).attrs)
      if (m_.attr(a, spec.name) != m_.attr(b, spec.name))
        return "'" + std::string(m_.record(a).name) + "' with another '" + spec.name + "'";
    return opText(a) +
           (m_[a].numRegions > 0 ? " with other bounds or collectives" : " in other control flow");
  }

  const Module& m_;
  FuncId entry_;
  std::vector<FuncId> functions_;
  Mesh mesh_;
  Diagnostics& diags_;
};

bool listsHolders(const Module& m, const Function& f) {
  const StrId key = m.strings.find("devices");
  const auto lists = [&](const auto& part) { return key.valid() && findAttr(part.attrs, key).valid(); };
  return std::ranges::any_of(f.args, lists) || std::ranges::any_of(f.results, lists);
}

} // namespace

void verifyDevices(const Module& m, Diagnostics& diags) {
  const size_t before = diags.numErrors();
  const StrId program = m.strings.find("program");
  for (FuncId f : m.order) {
    if (!m[f].body.valid()) continue;
    const auto fault = [&](const std::string& why) {
      diags.error(kDeviceSet, m[f].loc, m.strings[m[f].name], why);
    };
    const FuncId entry = entryOfProgram(m, f);
    const bool part = program.valid() && findAttr(m[f].attrs, program).valid();
    const bool lists = !devicesOf(m, f).empty();
    if ((part || lists) && !m[f].spmd)
      fault("only a local function ('spmd') has devices of its own");
    else if (part && !lists)
      fault("its devices are not listed: add devices = […]");
    else if (!lists && listsHolders(m, m[f]))
      fault("only a function with devices of its own has arguments or results that some devices hold");
    else if (!entry.valid())
      continue; // its name is unknown, which is reported already
    else if (part && (entry == f || entryOfProgram(m, entry) != entry))
      fault("'program' must name another function, the entry of the program");
    else if (part && devicesOf(m, entry).empty())
      fault("the devices of @" + std::string(m.strings[m[entry].name]) +
            " are not listed: add devices = […] to it");
    forEachOp(m, m[f].body, [&](OpId o) {
      const FuncId callee = m[o].callee.valid() ? m.findFunction(m.strings[m[o].callee]) : FuncId();
      if (callee.valid() && !devicesOf(m, callee).empty())
        diags.error(kCallOfPart, m[o].loc, m.strings[m[callee].name], m.strings[m[f].name]);
    });
  }
  if (diags.numErrors() != before) return;
  for (FuncId f : m.order)
    if (m[f].body.valid() && entryOfProgram(m, f) == f && !devicesOf(m, f).empty())
      DeviceCheck(m, f, diags).run();
}

} // namespace dtc
