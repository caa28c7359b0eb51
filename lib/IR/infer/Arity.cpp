// Parses the operand and result texts of a record.
#include "dtc/IR/OpRecord.h"

namespace dtc {

namespace {

// Calls fn(word) for each comma-separated word of "x, w, b?".
template <class Fn> void forEachWord(std::string_view text, Fn&& fn) {
  size_t i = 0;
  while (i < text.size()) {
    size_t end = text.find(',', i);
    if (end == std::string_view::npos) end = text.size();
    size_t begin = text.find_first_not_of(' ', i);
    if (begin < end) {
      size_t last = text.find_last_not_of(' ', end - 1);
      fn(text.substr(begin, last - begin + 1));
    }
    i = end + 1;
  }
}

bool repeats(std::string_view word) { return word.size() > 3 && word.substr(word.size() - 3) == "..."; }

// "vh?compute_uv" -> compute_uv, "indices?" -> indices; empty for a result that is always present.
std::string_view presenceAttr(std::string_view word) {
  const size_t mark = word.find('?');
  if (mark == std::string_view::npos) return {};
  return mark + 1 < word.size() ? word.substr(mark + 1) : word.substr(0, mark);
}

// Word `index` of a comma-separated list; the last word applies to all further positions. Empty for an empty
// list.
std::string_view wordAt(std::string_view text, size_t index) {
  std::string_view found;
  size_t i = 0;
  forEachWord(text, [&](std::string_view word) {
    if (i++ <= index) found = word;
  });
  return found;
}

} // namespace

Arity operandArity(const OpRecord& record) {
  Arity a;
  forEachWord(record.operands, [&](std::string_view word) {
    if (repeats(word)) {
      a.max = ~0u;
    } else {
      if (word.back() != '?') ++a.min;
      if (a.max != ~0u) ++a.max;
    }
  });
  return a;
}

std::string_view operandName(const OpRecord& record, size_t operand) {
  std::string_view word = wordAt(record.operands, operand);
  if (repeats(word)) return word.substr(0, word.size() - 3);
  if (!word.empty() && word.back() == '?') word.remove_suffix(1);
  return word;
}

uint32_t numResultsOf(const OpQuery& q) {
  uint32_t n = 0;
  forEachWord(q.record->results, [&](std::string_view word) {
    const std::string_view attr = presenceAttr(word);
    if (!repeats(word) && (attr.empty() || q.boolAttr(attr))) ++n;
  });
  return n;
}

std::string_view optionalResultAttr(const OpRecord& record) {
  std::string_view attr;
  forEachWord(record.results, [&](std::string_view word) { attr = presenceAttr(word); });
  return attr;
}

OpRecord::LiteralType literalTypeAt(const OpRecord& record, size_t operand) {
  if (!record.operandTypes) return record.literal;
  std::string_view word = wordAt(record.operandTypes, operand);
  if (word == "bool") return OpRecord::LiteralType::Bool;
  if (word == "i32") return OpRecord::LiteralType::I32;
  if (word == "any" && record.literal == OpRecord::LiteralType::Exponent) return record.literal;
  if (word == "int")
    return record.literal == OpRecord::LiteralType::Exponent ? record.literal : OpRecord::LiteralType::I32;
  return OpRecord::LiteralType::Like;
}

} // namespace dtc
