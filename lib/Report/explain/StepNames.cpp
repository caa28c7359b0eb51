#include "explain/StepNames.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/text/TextNames.h"
#include "dtc/IR/text/UserLocation.h"
#include "dtc/Passes/analysis/Collectives.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

namespace {

constexpr int kFar = 8; // ops between a slice of a bucket and the value that it is for

int64_t elements(const Module& m, ValueId v) { return m.typeOf(v).numElements().value_or(-1); }

// An op that only changes the shape.
bool keepsElements(const Module& m, OpId o) {
  return m[o].numOperands == 1 && m[o].numResults == 1 && m.record(o).flopsPerPoint == 0 &&
         elements(m, m.operand(o, 0)) == elements(m, m.result(o));
}

// Joins values along the last dim.
bool joins(const Module& m, OpId o) {
  int64_t sum = 0;
  for (ValueId v : m.operands(o)) sum += elements(m, v);
  return m[o].numOperands > 1 && m[o].numResults == 1 && m[o].numRegions == 0 &&
         sum == elements(m, m.result(o));
}

// The first element, in the last dim, of a slice; -1 for other ops.
int64_t startOf(const Module& m, OpId o) {
  const AttrId start = m.attr(o, "start"), limit = m.attr(o, "limit");
  if (!start.valid() || !limit.valid() || m.attrs[start].list.empty()) return -1;
  const Attr& last = m.attrs[m.attrs[start].list.back()];
  return last.kind == Attr::Int                           ? last.i
         : last.kind == Attr::Size && last.dim.isStatic() ? last.dim.value()
                                                          : -1;
}

// What the result of a message is beside its operand; "" if it has the operand's name.
std::string_view roleOf(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllGather: return "gathered";
  case CollectiveKind::P2p:
  case CollectiveKind::Permute: return "received";
  case CollectiveKind::AllToAll: return "exchanged";
  default: return "";
  }
}

// "%7"
bool isNumbered(std::string_view name) {
  return std::ranges::all_of(name.substr(1), [](char c) { return c >= '0' && c <= '9'; });
}

bool isFused(const Module& m, OpId o) { return m.record(o).regions == RegionKind::Fused; }

} // namespace

std::string kindText(std::string_view kind) {
  static constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
      {"gemm", "matmul"},      {"pointwise", "elementwise"},    {"row", "row-wise"},
      {"reduce", "reduction"}, {"columns", "column reduction"}, {"reductions", "grouped reductions"},
      {"ordered", "ordered"},  {"whole", "single op"},          {"view", "view"},
  };
  for (const auto& [word, text] : kTexts)
    if (word == kind) return std::string(text);
  return std::string(kind);
}

std::string fewNames(const std::vector<std::string>& all) {
  std::vector<std::string> names;
  for (const std::string& n : all)
    if (!n.empty() && std::ranges::find(names, n) == names.end()) names.push_back(n);
  const size_t shown =
      names.size() <= 3 && names.size() == all.size() ? names.size() : std::min<size_t>(2, names.size());
  std::string out;
  for (size_t i = 0; i < shown; ++i)
    out += (i == 0 ? "" : i + 1 == shown && shown == all.size() ? " and " : ", ") + names[i];
  if (shown < all.size())
    out += (shown ? " and " : "") + std::to_string(all.size() - shown) + (shown ? " more" : " values");
  return out;
}

StepNames::StepNames(const Module& m, FuncId f) : m_(m), names_(m, f), senders_(m, f) {
  addReaders(m[f].body);
  forEachOp(m_, m_[f].body, [&](OpId o) {
    if (reduces(m_.record(o).collective) && m_.record(o).async != AsyncForm::Done && m_[o].numOperands == 1)
      addBucket(o);
  });
}

void StepNames::addReaders(BlockId b) {
  for (OpId o : m_[b].ops) {
    for (ValueId v : m_.operands(o))
      if (std::vector<OpId>& readers = readers_[v]; readers.empty() || readers.back() != o)
        readers.push_back(o);
    if (isFused(m_, o)) continue;
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) addReaders(m_.region(o, r));
  }
}

const std::vector<OpId>& StepNames::readersOf(ValueId v) const {
  static const std::vector<OpId> kNone;
  const auto at = readers_.find(v);
  return at == readers_.end() ? kNone : at->second;
}

OpId StepNames::onlyReader(ValueId v) const {
  const std::vector<OpId>& readers = readersOf(v);
  return readers.size() == 1 ? readers[0] : OpId();
}

// The result of a message, once it has arrived.
ValueId StepNames::arrived(OpId message, uint32_t result) const {
  const ValueId own = m_.result(message, result);
  if (m_.record(message).async != AsyncForm::Start) return own;
  const OpId done = onlyReader(own);
  return done.valid() && m_.record(done).async == AsyncForm::Done && result < m_[done].numResults
             ? m_.result(done, result)
             : own;
}

// What a fused region yields for a result.
ValueId StepNames::inner(ValueId v) const {
  const OpId by = m_.definingOp(v);
  if (!by.valid() || !isFused(m_, by)) return v;
  const std::vector<ValueId>& yields = m_[m_.region(by)].yields;
  return m_[v].position < yields.size() ? yields[m_[v].position] : v;
}

// The operand of a fused region behind its argument.
ValueId StepNames::outer(ValueId v) const {
  if (m_[v].kind != ValueKind::BlockArg) return v;
  const OpId around = m_[BlockId(m_[v].owner)].parentOp;
  if (!around.valid() || !isFused(m_, around) || m_[v].position >= m_[around].numOperands) return v;
  return m_.operand(around, m_[v].position);
}

std::string StepNames::named(ValueId v) const {
  if (!m_[v].name.valid()) return "";
  if (m_[v].kind == ValueKind::BlockArg && m_[BlockId(m_[v].owner)].parentFunc.valid())
    if (std::string written = nameAt(m_.source, m_[v].loc); !written.empty())
      return written; // if it is imported
  // Copies of a value, of micro-batches or in recomputation, have its name, though the printer numbers them.
  std::string name = "%" + std::string(m_.strings[m_[v].name]);
  return isNumbered(name) ? "" : name;
}

std::string StepNames::statementOf(OpId o) const {
  const SourceRange loc = m_[o].loc;
  if (!loc.valid()) return "";
  const auto [at, isNew] = statements_.try_emplace(loc.begin);
  if (isNew) at->second = statementAt(m_.source, loc);
  return at->second;
}

// Small reductions that are one message: the operand joins them, and the readers of the result take them apart.
void StepNames::addBucket(OpId reducing) {
  const ValueId bucket = m_.operand(reducing, 0), result = arrived(reducing, 0);
  const OpId join = m_.definingOp(inner(bucket));
  if (!join.valid() || !joins(m_, join) || onlyReader(bucket) != reducing) return;
  std::vector<std::string> gradients, others;
  int64_t start = 0;
  for (ValueId part : m_.operands(join)) {
    Name name;
    for (OpId reader : readersOf(result))
      if (name.of.empty()) name = unpacked(reader, result, start);
    const Dim last = m_.typeOf(part).dims.back();
    start += last.isStatic() ? last.value() : 0;
    ValueId source = part;
    for (OpId by = m_.definingOp(source); by.valid() && keepsElements(m_, by); by = m_.definingOp(source))
      source = m_.operand(by, 0);
    if (source = outer(source); !name.of.empty()) packed_[source] = name;
    (name.role.empty() ? others : gradients).push_back(name.of.empty() ? named(source) : name.of);
  }
  const std::string role = gradients.empty() ? "bucket of" : "gradient bucket of";
  gradients.insert(gradients.end(), others.begin(), others.end());
  buckets_[bucket] = {role, fewNames(gradients)};
  buckets_[m_.result(reducing)] = buckets_[result] = {"reduced " + role, fewNames(gradients)};
  if (const OpId by = m_.definingOp(bucket); onlyCopies(by)) bucketCopies_[by] = {"pack", bucket};
  for (OpId reader : readersOf(result))
    if (onlyCopies(reader)) bucketCopies_[reader] = {"unpack", bucket};
}

bool StepNames::onlyCopies(OpId o) const {
  if (!isFused(m_, o)) return joins(m_, o) || startOf(m_, o) >= 0;
  const AttrId kind = m_.attr(o, "kind");
  return kind.valid() && m_.strings[m_.attrs[kind].text] == "copy";
}

// The name of what is taken from a bucket at `start` by a reader: the argument that is updated with it, or a result.
StepNames::Name StepNames::unpacked(OpId reader, ValueId bucket, int64_t start) const {
  if (!isFused(m_, reader)) return {"", startOf(m_, reader) == start ? named(m_.result(reader)) : ""};
  const BlockId body = m_.region(reader);
  for (OpId o : m_[body].ops)
    if (m_[o].numOperands == 1 && outer(m_.operand(o, 0)) == bucket && startOf(m_, o) == start)
      return takenBy(body, o);
  return {};
}

StepNames::Name StepNames::takenBy(BlockId body, OpId slice) const {
  const OpId around = m_[body].parentOp;
  ValueId v = m_.result(slice);
  for (int i = 0; i < kFar; ++i) {
    for (size_t y = 0; y < m_[body].yields.size(); ++y)
      if (m_[body].yields[y] == v)
        if (std::string name = named(m_.result(around, static_cast<uint32_t>(y))); !name.empty())
          return {"", std::move(name)};
    const auto next = std::ranges::find_if(m_[body].ops, [&](OpId o) {
      const auto operands = m_.operands(o);
      return std::ranges::find(operands, v) != operands.end();
    });
    if (next == m_[body].ops.end() || m_[*next].numResults != 1) return {};
    for (ValueId other : m_.operands(*next))
      if (const ValueId argument = outer(other); argument != other &&
                                                 m_[argument].kind == ValueKind::BlockArg &&
                                                 elements(m_, argument) == elements(m_, v))
        return {"gradient of", named(argument)};
    v = m_.result(*next);
  }
  return {};
}

StepNames::Name StepNames::describe(ValueId v) const {
  if (const auto at = buckets_.find(v); at != buckets_.end()) return at->second;
  if (std::string name = named(v); !name.empty()) return {"", name};
  if (const auto at = packed_.find(v); at != packed_.end()) return partialOf(at->second);
  const OpId by = m_.definingOp(v);
  if (!by.valid()) return argument(v);
  if (m_.record(by).async == AsyncForm::Done) {
    const OpId start = m_.definingOp(m_.operand(by, 0));
    return start.valid() ? describeMessage(start, v) : Name{"", names_(v)};
  }
  if (hasGroups(m_.record(by).collective)) return describeMessage(by, v);
  if (const OpId reader = onlyReader(v); reader.valid() && reduces(m_.record(reader).collective)) {
    const ValueId result = arrived(reader, 0);
    if (std::string name = named(result); !name.empty()) return {"partial", name};
    Name own = generatedFor(v);
    own.role = "partial " + own.role;
    return own;
  }
  return generatedFor(v);
}

// An unnamed argument of a block is what its loop carries for a result.
StepNames::Name StepNames::argument(ValueId v) const {
  if (std::string written = nameAt(m_.source, m_[v].loc); !written.empty()) return {"", std::move(written)};
  const OpId loop = m_[v].kind == ValueKind::BlockArg ? m_[BlockId(m_[v].owner)].parentOp : OpId();
  if (!loop.valid() || isFused(m_, loop)) return {"", names_(v)};
  const uint32_t carried = m_.record(loop).regions == RegionKind::For ? 1 : 0; // after the loop's index
  const uint32_t position = m_[v].position;
  const auto resultOr = [&](uint32_t result) {
    const std::string name = result < m_[loop].numResults ? named(m_.result(loop, result)) : "";
    return name.empty() ? statementOf(loop) : name;
  };
  const std::string of = resultOr(position < carried ? 0 : position - carried);
  if (of.empty())
    return {"argument of " + std::string(m_.record(loop).name) + " of", printType(m_, m_[v].type)};
  return {position < carried ? "index of" : "carried", of};
}

// An unnamed result of a collective is named after its operand.
StepNames::Name StepNames::describeMessage(OpId by, ValueId v) const {
  if (const ValueId result = arrived(by, m_[v].position); result != v)
    if (std::string name = named(result); !name.empty()) return {"", name};
  if (m_[by].numOperands == 0) return generatedFor(v);
  Name operand = sent(by, std::min<uint32_t>(m_[v].position, m_[by].numOperands - 1));
  const CollectiveKind kind = m_.record(by).collective;
  if (const std::string word(roleOf(kind)); !word.empty()) {
    if (operand.role.starts_with(word)) return operand; // a ring passes it on
    return Name{operand.role.empty() ? word : word + " " + operand.role, operand.of, operand.generated};
  }
  if (!reduces(kind)) return operand;
  constexpr std::string_view kPartial = "partial ";
  Name reduced = operand;
  if (reduced.role.starts_with(kPartial)) reduced.role.erase(0, kPartial.size());
  return reduced;
}

// The operand of a message. A function that only receives it has a constant in its place.
StepNames::Name StepNames::sent(OpId message, uint32_t operand) const {
  const auto from = senders_.of(message, operand);
  if (!from) return describe(m_.operand(message, operand));
  std::unique_ptr<StepNames>& names = others_[from->function];
  if (!names) names = std::make_unique<StepNames>(m_, from->function);
  return names->sent(from->message, operand);
}

// The op, and the statement that it is generated for.
StepNames::Name StepNames::generatedFor(ValueId v) const {
  OpId by = m_.definingOp(inner(v));
  if (!by.valid()) by = m_.definingOp(v);
  if (!by.valid()) return {"", names_(v)};
  std::string statement = statementOf(by);
  if (statement.empty() || isNumbered(statement)) // the text does not name it, either: a reader that is named
    if (Name reader = namedReader(v); !reader.of.empty())
      return reader.role.empty() ? Name{std::string(m_.record(by).name) + " for", reader.of, true} : reader;
  // Numbers are not those of the text.
  if (statement.empty()) return {std::string(m_.record(by).name) + " of", printType(m_, m_[v].type), true};
  return {std::string(m_.record(by).name) + " in", std::move(statement), true};
}

// The results of an op that an operand is read for: a fused region may compute others from other operands.
std::vector<ValueId> StepNames::resultsFrom(OpId o, ValueId operand) const {
  std::vector<ValueId> out;
  if (!isFused(m_, o)) {
    for (uint32_t r = 0; r < m_[o].numResults; ++r) out.push_back(m_.result(o, r));
    return out;
  }
  const Block& body = m_[m_.region(o)];
  std::unordered_set<ValueId> reached;
  for (size_t a = 0; a < body.args.size() && a < m_[o].numOperands; ++a)
    if (m_.operand(o, static_cast<uint32_t>(a)) == operand) reached.insert(body.args[a]);
  for (OpId inner : body.ops)
    if (std::ranges::any_of(m_.operands(inner), [&](ValueId v) { return reached.contains(v); }))
      for (uint32_t r = 0; r < m_[inner].numResults; ++r) reached.insert(m_.result(inner, r));
  for (size_t y = 0; y < body.yields.size() && y < m_[o].numResults; ++y)
    if (reached.contains(body.yields[y])) out.push_back(m_.result(o, static_cast<uint32_t>(y)));
  return out;
}

// The first named value on the way to a result, or the gradient that it is added up to.
StepNames::Name StepNames::namedReader(ValueId v) const {
  for (int i = 0; i < kFar && !readersOf(v).empty(); ++i) {
    const std::vector<ValueId> results = resultsFrom(readersOf(v)[0], v);
    for (ValueId result : results)
      if (std::string name = named(result); !name.empty()) return {"", name};
    if (results.empty()) return {};
    v = results[0];
    if (const auto at = packed_.find(v); at != packed_.end()) return partialOf(at->second);
  }
  return {};
}

// Of a value before it is copied to a bucket.
StepNames::Name StepNames::partialOf(const Name& packed) {
  return {packed.role.empty() ? "partial" : "partial " + packed.role, packed.of};
}

std::string StepNames::text(const Name& n, bool ofBuffer) const {
  if (n.role.empty()) return n.of;
  // A step has its kind before its name, which says more than the last op.
  if (n.generated && !ofBuffer) return n.role.substr(n.role.rfind(' ') + 1) + " " + n.of;
  return n.role + " " + n.of;
}

SourceRange StepNames::location(ValueId v) const {
  OpId by = m_.definingOp(inner(v));
  if (!by.valid() || !m_[by].loc.valid()) by = m_.definingOp(v);
  if (by.valid()) return m_[by].loc;
  const OpId around = m_[v].kind == ValueKind::BlockArg ? m_[BlockId(m_[v].owner)].parentOp : OpId();
  return m_[v].loc.valid() || !around.valid() ? m_[v].loc : m_[around].loc; // a loop that a pass made
}

std::string StepNames::userPathOf(OpId o) const {
  const std::string path = userPlace(m_, o).path;
  return path.empty() ? "" : " (" + path + ")";
}

std::string StepNames::step(OpId o) const {
  if (m_[o].numResults == 0) return "";
  if (const auto at = bucketCopies_.find(o); at != bucketCopies_.end())
    return text(buckets_.at(at->second.bucket), false) + userPathOf(o);
  const ValueId v = m_.result(o);
  Name name = describe(v);
  if (hasGroups(m_.record(o).collective)) {
    // The kind of the message says what it does to its operand.
    if (const ValueId result = arrived(o, 0); !named(result).empty())
      name = {"", named(result)};
    else if (m_[o].numOperands > 0)
      name = sent(o, 0);
    // Each message of a ring passes the same value on.
    if (const std::string_view word = roleOf(m_.record(o).collective);
        !word.empty() && !name.generated && name.role == word)
      name.role.clear();
  }
  const bool several = m_[o].numResults > 1 && name.role.empty();
  return text(name, false) + (several ? ", ..." : "") + userPathOf(o);
}

std::string StepNames::kind(OpId o) const {
  const OpRecord& record = m_.record(o);
  if (hasGroups(record.collective)) return collectiveName(record.collective);
  if (const auto at = bucketCopies_.find(o); at != bucketCopies_.end()) return at->second.kind;
  if (const AttrId kind = m_.attr(o, "kind"); kind.valid() && isFused(m_, o)) {
    const std::string_view word = m_.strings[m_.attrs[kind].text];
    // A kernel of one op is called after it.
    if ((word == "ordered" || word == "whole") && m_[o].numResults > 0)
      if (const OpId op = m_.definingOp(inner(m_.result(o))); op.valid()) return m_.record(op).name;
    return kindText(word);
  }
  return record.name;
}

} // namespace dtc
