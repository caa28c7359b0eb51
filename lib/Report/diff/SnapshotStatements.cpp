#include "diff/SnapshotStatements.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <set>
#include <utility>

namespace dtc {

namespace {

std::string attrText(const Module& m, const Attr& a) {
  switch (a.kind) {
  case Attr::Int: return a.isUnsigned ? std::to_string(static_cast<uint64_t>(a.i)) : std::to_string(a.i);
  case Attr::Float: { // numbers of f32 are not written with the digits of f64
    const bool isSingle = static_cast<double>(static_cast<float>(a.f)) == a.f;
    return printFloat(a.f, isSingle ? DType::F32 : DType::F64);
  }
  case Attr::Bool: return a.i ? "true" : "false";
  case Attr::String: return "\"" + std::string(m.strings[a.text]) + "\"";
  case Attr::Word: return std::string(m.strings[a.text]);
  case Attr::Size: return printDim(a.dim, m.dims, m.strings);
  case Attr::Axis: return printAxis(a.axis, m.strings);
  case Attr::Symbol: return "@" + std::string(m.strings[a.text]);
  case Attr::List: break;
  }
  return "[" + joined(a.list, ", ", [&](AttrId id) { return attrText(m, m.attrs[id]); }) + "]";
}

// Without those that say where an op comes from.
std::string attrsText(const Module& m, const AttrList& attrs) {
  std::string out;
  for (const auto& a : attrs) {
    const std::string_view name = m.strings[a.name];
    if (name == "within" || name == "name" || name == "loc") continue;
    out += (out.empty() ? "{" : ", ") + std::string(name) + " = " + attrText(m, m.attrs[a.value]);
  }
  return out.empty() ? out : out + "}";
}

} // namespace

StatementReader::StatementReader(const Module& m, FuncId entry, const Module* prepared,
                                 const PropagationReport* report)
    : m_(m), prepared_(prepared), report_(report), names_(m), lines_(m.source), of_(m.values.size(), -1),
      entry_(entry) {
  if (!report) return;
  shown_.emplace(m, *report);
  for (const ReshardReason& r : report->reshards) reshards_.emplace(r.reshard, &r);
}

std::vector<SnapshotStatement> StatementReader::run() {
  for (FuncId f : m_.order)
    if (m_[f].body.valid()) function(f);
  if (report_) reasons();
  return std::move(out_);
}

// The statement that was added last is at this place.
void StatementReader::place(SourceRange r, SourceRange value) {
  offsets_.push_back(r.begin);
  valueOffsets_.push_back(value.begin);
  if (r.valid()) places_.try_emplace(r.begin, static_cast<int32_t>(out_.size()) - 1);
}

void StatementReader::function(FuncId f) {
  function_ = f == entry_ ? "" : std::string(m_.strings[m_[f].name]);
  for (const FuncArg& a : m_[f].args) {
    const ValueId values[] = {a.value};
    SnapshotStatement& s = add(values);
    s.op = "argument";
    s.userName = userName(m_, a.attrs);
    if ("%" + s.userName == s.name) s.userName.clear();
    s.attributes = attrsText(m_, a.attrs);
    s.location = lines_.text(m_[a.value].loc, true);
    place(m_[a.value].loc, m_[a.value].loc);
  }
  block(m_[f].body);
  results(f);
}

SnapshotStatement& StatementReader::add(std::span<const ValueId> values) {
  SnapshotStatement& s = out_.emplace_back();
  s.function = function_;
  s.within = within_, s.executions = executions_;
  for (ValueId v : values) {
    of_[v.index] = static_cast<int32_t>(out_.size()) - 1;
    const std::string comma = s.type.empty() ? "" : ", ";
    const ValueId shown = shown_ ? shown_->shown(v) : v; // after the reshard, as the report has it
    if (comma.empty()) s.name = names_(shown), s.generated = names_.isGenerated(shown);
    s.type += comma + (m_[v].type.valid() ? printType(m_, m_[v].type) : "?");
    const std::string sharding = m_[shown].sharding.valid() ? printSharding(m_, m_[shown].sharding) : "";
    const std::string written = prepared_ ? annotation(m_[v].sharding, v) : sharding;
    if (!written.empty()) s.annotation += (s.annotation.empty() ? "" : ", ") + written;
    if (prepared_) s.sharding += comma + sharding;
  }
  return s;
}

// The values of the input keep their ids.
std::string StatementReader::annotation(ShardingId, ValueId v) const {
  if (v.index >= prepared_->values.size()) return "";
  const ShardingId written = (*prepared_)[v].sharding;
  return written.valid() ? printSharding(*prepared_, written) : "";
}

void StatementReader::block(BlockId b) {
  for (OpId o : m_[b].ops) op(o);
}

void StatementReader::op(OpId o) {
  if (reshards_.contains(o)) {
    of_[m_.result(o).index] = of(m_.operand(o, 0));
    return;
  }
  std::vector<ValueId> values;
  for (uint32_t r = 0; r < m_[o].numResults; ++r) values.push_back(m_.result(o, r));
  SnapshotStatement& s = add(values);
  const auto index = static_cast<int32_t>(out_.size()) - 1;
  statements_.emplace(o, index);
  s.op = m_.record(o).name;
  const UserPlace user = m_[o].numRegions == 0 ? userPlace(m_, o) : UserPlace();
  s.path = user.path;
  s.location = user.empty() ? lines_.text(m_[o].loc, true) : userLocation(m_, o);
  s.attributes = attrsText(m_, m_[o].attrs);
  if (m_[o].callee.valid()) s.attributes = "@" + std::string(m_.strings[m_[o].callee]) + " " + s.attributes;
  readOperands(o, s);
  place(m_[o].loc, values.empty() ? m_[o].loc : m_[values[0]].loc);
  const int32_t outer = std::exchange(within_, index);
  const int64_t outerExecutions = executions_;
  executions_ = countedExecutions(m_, o, executions_);
  for (uint32_t k = 0; k < m_[o].numRegions; ++k) {
    for (ValueId v : m_[m_.region(o, k)].args) of_[v.index] = index;
    carried(o, k);
    block(m_.region(o, k));
  }
  within_ = outer, executions_ = outerExecutions;
  carriedOut(o);
}

// An argument of a loop's body is what it starts from, so that carried values are not one.
void StatementReader::carried(OpId o, uint32_t region) {
  const RegionKind kind = m_.record(o).regions;
  if (kind != RegionKind::For && kind != RegionKind::While) return;
  const std::vector<ValueId>& args = m_[m_.region(o, region)].args;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0, firstStart = kind == RegionKind::For ? 2 : 0;
  for (size_t i = firstArg; i < args.size(); ++i)
    if (const size_t k = firstStart + i - firstArg; k < m_[o].numOperands)
      if (const int32_t start = of(m_.operand(o, static_cast<uint32_t>(k))); start >= 0)
        of_[args[i].index] = start;
}

// A result of a loop is what its body yields last, if that is made in the body.
void StatementReader::carriedOut(OpId o) {
  const RegionKind kind = m_.record(o).regions;
  if (kind != RegionKind::For && kind != RegionKind::While) return;
  const int32_t loop = statements_.at(o);
  const std::vector<ValueId>& yields = m_[m_.region(o, m_[o].numRegions - 1)].yields;
  for (uint32_t r = 0; r < std::min<size_t>(m_[o].numResults, yields.size()); ++r)
    if (of(yields[r]) > loop) of_[m_.result(o, r).index] = of(yields[r]);
}

void StatementReader::readOperands(OpId o, SnapshotStatement& s) const {
  std::string constants;
  size_t end = 0; // after the last literal
  for (ValueId v : m_.operands(o)) {
    const Value& value = m_[v];
    const bool literal = value.kind == ValueKind::Literal, symbol = value.kind == ValueKind::Symbol;
    constants +=
        std::string(constants.empty() ? "" : ", ") + (literal  ? attrText(m_, m_.attrs[value.literal])
                                                      : symbol ? printDim(value.symbol, m_.dims, m_.strings)
                                                               : "_");
    if (literal || symbol) end = constants.size();
    if (!literal && !symbol && of(v) >= 0) s.operands.push_back(of(v));
  }
  if (end == 0) return;
  if (end < constants.size()) constants.replace(end, constants.size() - end, ", ...");
  s.attributes += (s.attributes.empty() || s.attributes.ends_with(' ') ? "(" : " (") + constants + ")";
}

void StatementReader::results(FuncId f) {
  const std::vector<ValueId>& yields = m_[m_[f].body].yields;
  for (size_t r = 0; r < m_[f].results.size(); ++r) {
    const FuncResult& result = m_[f].results[r];
    SnapshotStatement& s = out_.emplace_back();
    place(result.loc, result.loc);
    s.function = function_;
    s.executions = 1;
    s.op = "result";
    s.name =
        result.label.valid() ? "%" + std::string(m_.strings[result.label]) : "result " + std::to_string(r);
    s.userName = userName(m_, result.attrs);
    if ("%" + s.userName == s.name) s.userName.clear();
    s.type = result.type.valid() ? printType(m_, result.type) : "?";
    s.attributes = attrsText(m_, result.attrs);
    const Module& text = prepared_ ? *prepared_ : m_;
    const FuncId own = text.findFunction(m_.strings[m_[f].name]);
    if (own.valid() && r < text[own].results.size() && text[own].results[r].sharding.valid())
      s.annotation = printSharding(text, text[own].results[r].sharding);
    if (prepared_ && result.sharding.valid()) s.sharding = printSharding(m_, result.sharding);
    s.location = lines_.text(result.loc, true);
    if (r < yields.size() && of(yields[r]) >= 0) s.operands.push_back(of(yields[r]));
  }
}

void StatementReader::reasons() {
  for (const ShardingReason& r : report_->shardings) {
    if (!r.from.valid() || of(r.value) < 0 || of(r.from) < 0 || of(r.value) == of(r.from)) continue;
    std::vector<int32_t>& from = out_[static_cast<size_t>(of(r.value))].from;
    if (std::ranges::find(from, of(r.from)) == from.end()) from.push_back(of(r.from));
  }
}

std::vector<int32_t> StatementReader::statementsOf(std::span<const OpId> ops) const {
  std::vector<int32_t> out;
  const auto add = [&](int32_t s) {
    if (s >= 0 && std::ranges::find(out, s) == out.end()) out.push_back(s);
  };
  const auto addOp = [&](OpId o) {
    if (const auto it = statements_.find(o); it != statements_.end()) add(it->second);
  };
  constexpr size_t kMost = 4; // one message may serve thousands of values
  for (OpId o : ops) {
    if (out.size() >= kMost) break;
    if (const auto it = reshards_.find(o); it != reshards_.end()) {
      add(of(m_.operand(o, 0)));
      if (it->second->cause.valid()) addOp(it->second->cause);
      if (it->second->needs.valid()) addOp(it->second->needs);
    } else {
      addOp(o);
    }
  }
  return out;
}

} // namespace dtc
