#include "dtc/Train/TrainProgram.h"

#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Session/ArgumentSizes.h"

#include <algorithm>
#include <set>

namespace dtc {

static std::string userNameOf(const Module& m, const AttrList& attrs) {
  const StrId name = m.strings.find("name");
  const AttrId user = name ? findAttr(attrs, name) : AttrId();
  return user ? std::string(m.strings[m.attrs[user].text]) : "";
}

std::vector<InputArgument> inputArgumentsOf(const Module& m, FuncId f) {
  std::vector<InputArgument> arguments;
  for (const FuncArg& a : m[f].args) {
    const Type& type = globalTypeOf(m, a);
    arguments.push_back(
        {std::string(m.strings[m[a.value].name]), userNameOf(m, a.attrs), type.dtype, type.staticShape()});
  }
  return arguments;
}

TrainProgram trainProgramOf(const Module& m, FuncId f) {
  // Keys of a line of the log.
  constexpr std::string_view kReserved[] = {"step", "seconds", "tokens_per_s", "samples_per_s", "peak_bytes"};
  TrainProgram program;
  program.entry = m.strings[m[f].name];
  program.arguments = inputArgumentsOf(m, f);
  std::set<std::string> names;
  for (auto [result, argument] : carriedResults(m, f)) {
    const InputArgument& a = program.arguments[argument];
    std::string name = a.userName.empty() || names.contains(a.userName) ? a.name : a.userName;
    names.insert(name);
    program.state.push_back({result, argument, std::move(name)});
  }
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    const FuncResult& result = m[f].results[r];
    const Type& type = globalTypeOf(m, result);
    if (!isFloat(type.dtype) || !type.dims.empty()) continue;
    std::string name = result.label ? std::string(m.strings[result.label]) : userNameOf(m, result.attrs);
    if (name.empty()) name = std::to_string(r);
    if (std::ranges::find(kReserved, name) != std::end(kReserved)) name.insert(0, "result_");
    program.scalars.push_back({r, std::move(name)});
  }
  const auto named = std::ranges::find(program.scalars, "loss", &ScalarResult::name);
  const auto fresh = std::ranges::find_if(program.scalars, [&](const ScalarResult& s) {
    return std::ranges::none_of(program.state, [&](const CarriedState& c) { return c.result == s.result; });
  });
  const auto loss = named != program.scalars.end() ? named : fresh;
  if (loss != program.scalars.end()) program.loss = static_cast<size_t>(loss - program.scalars.begin());
  return program;
}

} // namespace dtc
