#include "dtc/IR/verify/CommContract.h"

#include <algorithm>
#include <charconv>

namespace dtc {

namespace {

bool isNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class ContractReader {
public:
  ContractReader(std::string_view text, ContractError& problem) : text_(text), problem_(problem) {}

  std::optional<CommContract> read() {
    CommContract c;
    if (!path(c)) return std::nullopt;
    c.what = word(c.whatBegin, c.whatEnd);
    if (c.what.empty()) return fail("expected 'none', 'any' or a collective, as in \"all_reduce(tp) <= 1\"");
    const bool none = c.what == CommContract::kNone;
    if (none) c.what = CommContract::kAny;
    space();
    if (at_ < text_.size() && text_[at_] == '(') {
      if (!axes(c)) return std::nullopt;
    } else if (!none) {
      return fail("expected '(' and mesh axes, as in \"all_reduce(tp) <= 1\"");
    }
    if (!none && !bound(c)) return std::nullopt;
    space();
    if (at_ < text_.size())
      return fail(none ? "expected '(' and mesh axes, or nothing, after 'none'"
                       : "expected the end of the contract");
    return c;
  }

private:
  void space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  std::string word(uint32_t& begin, uint32_t& end) {
    space();
    begin = static_cast<uint32_t>(at_);
    while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
    end = static_cast<uint32_t>(at_);
    return std::string(text_.substr(begin, end - begin));
  }
  // The error is located at the next word or character.
  std::nullopt_t fail(std::string message) {
    space();
    size_t end = at_;
    while (end < text_.size() && isNameChar(text_[end])) ++end;
    problem_ = {static_cast<uint32_t>(at_), static_cast<uint32_t>(std::max(end, at_ + 1)),
                std::move(message)};
    return std::nullopt;
  }

  // "block.0/layer.1:"
  bool path(CommContract& c) {
    const size_t colon = text_.find(':');
    if (colon == std::string_view::npos) return true;
    const std::string_view path = text_.substr(0, colon);
    const bool isPath =
        std::ranges::all_of(path, [](char x) { return isNameChar(x) || x == '.' || x == '/'; });
    if (!isPath || (path != CommContract::kGradient && path.find('.') == std::string_view::npos)) {
      fail("expected 'grad' before ':', as in \"grad: none(dp)\", or an inlined call, as in "
           "\"layer.0: none\"");
      return false;
    }
    c.within = path;
    at_ = colon + 1;
    return true;
  }

  bool axes(CommContract& c) {
    do {
      ++at_; // '(' or ','
      CommContract::Axis axis;
      axis.name = word(axis.begin, axis.end);
      if (axis.name.empty()) {
        fail("expected a mesh axis");
        return false;
      }
      c.axes.push_back(std::move(axis));
      space();
    } while (at_ < text_.size() && text_[at_] == ',');
    if (at_ >= text_.size() || text_[at_] != ')') {
      fail("expected ',' or ')' after a mesh axis");
      return false;
    }
    ++at_;
    return true;
  }

  bool bound(CommContract& c) {
    space();
    const std::string_view sign = text_.substr(at_, 2);
    if (sign != "<=" && sign != "==") {
      fail("expected '<=' or '==' and a number, as in \"all_reduce(tp) <= 1\"");
      return false;
    }
    c.exactly = sign == "==";
    at_ += 2;
    space();
    const char* end = text_.data() + text_.size();
    auto [stop, bad] = std::from_chars(text_.data() + at_, end, c.count);
    if (bad != std::errc() || c.count < 0) {
      fail("expected the number of collectives, an integer of at least 0");
      return false;
    }
    at_ = static_cast<size_t>(stop - text_.data());
    return true;
  }

  std::string_view text_;
  ContractError& problem_;
  size_t at_ = 0;
};

// Finds the strings of `comm = ["…", "…"]` after a function's name. The text has been parsed before, so it is
// well-formed.
class ContractRanges {
public:
  ContractRanges(std::string_view text, uint32_t from) : text_(text), at_(from) {}

  // The text between the quotes of each string.
  std::vector<SourceRange> find() {
    std::vector<SourceRange> out;
    bool inComm = false;
    for (std::string_view w = next(); !w.empty(); w = next()) {
      if (w == "func" || w == "mesh" || w == "return") break;
      if (!inComm) {
        inComm = w == "comm";
      } else if (w[0] == '"') {
        const auto begin = static_cast<uint32_t>(w.data() - text_.data() + 1);
        out.push_back({begin, begin + static_cast<uint32_t>(w.size() - 2)});
      } else if (w == "]") {
        break;
      }
    }
    return out;
  }

private:
  // A word, a string with its quotes, or one character; "" at the end.
  std::string_view next() {
    while (at_ < text_.size()) {
      const size_t begin = at_;
      const char c = text_[at_++];
      if (c == '/' && text_.substr(at_, 1) == "/") {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"') {
        while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
        at_ = std::min(at_ + 1, text_.size());
        return text_.substr(begin, at_ - begin);
      } else if (isNameChar(c) || c == '%' || c == '@') {
        while (at_ < text_.size() && isNameChar(text_[at_])) ++at_;
        return text_.substr(begin, at_ - begin);
      } else if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
        return text_.substr(begin, 1);
      }
    }
    return {};
  }

  std::string_view text_;
  size_t at_;
};

// "block.0/layer.1: none(dp)" has the callee "layer", where the contract is "none(dp)"; for "layer.1.grad:
// none(dp)" it is "grad: none(dp)".
std::string calledFunction(std::string_view text, std::string_view& there) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  const ContractCall call = lastCall(text.substr(0, colon));
  there = text.substr(call.ofGradient ? colon - CommContract::kGradient.size() : colon + 1);
  while (there.starts_with(' ')) there.remove_prefix(1);
  return call.function;
}

// Removes and returns the first call of a path.
std::string_view nextCall(std::string_view& path) {
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view call = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return call;
}

std::string_view withoutGradient(std::string_view call) {
  if (call.ends_with(kGradientOfCall)) call.remove_suffix(kGradientOfCall.size());
  return call;
}

} // namespace

ContractCall lastCall(std::string_view path) {
  ContractCall out;
  std::string_view last = path.substr(path.rfind('/') + 1); // npos + 1 is 0
  out.ofGradient = last.ends_with(kGradientOfCall);
  last = withoutGradient(last);
  const size_t dot = last.rfind('.');
  out.function = last.substr(0, dot);
  if (dot != std::string_view::npos)
    std::from_chars(last.data() + dot + 1, last.data() + last.size(), out.index);
  return out;
}

bool isPartOfCall(std::string_view path, std::string_view within) {
  while (!within.empty()) {
    const std::string_view wanted = nextCall(within), call = nextCall(path);
    // For an enclosing call it does not matter whether the gradient is taken of the whole call or inside it.
    const bool same = within.empty() ? wanted == call : withoutGradient(wanted) == withoutGradient(call);
    if (!same) return false;
  }
  return true;
}

std::optional<CommContract> parseCommContract(std::string_view text, ContractError& problem) {
  return ContractReader(text, problem).read();
}

bool isContractCollective(const OpRecord& r) {
  if (!r.isCollective() || r.async != AsyncForm::None || r.element || operandArity(r).max == 0) return false;
  return std::ranges::any_of(r.attrs, [](const AttrSpec& a) { return a.type == AttrType::Axes; });
}

std::vector<WrittenContract> contractsOf(const Module& m, const Function& f) {
  std::vector<WrittenContract> out;
  const StrId name = m.strings.find("comm");
  const AttrId comm = name.valid() ? findAttr(f.attrs, name) : AttrId();
  if (!comm.valid()) return out;
  auto look = [&](SourceRange from, std::string_view wanted, WrittenContract& c) {
    if (!from.valid() || from.end > m.source.text.size()) return false;
    for (SourceRange r : ContractRanges(m.source.text, from.end).find())
      if (std::string_view(m.source.text).substr(r.begin, r.end - r.begin) == wanted) {
        c.text = r;
        return true;
      }
    return false;
  };
  for (AttrId id : m.attrs[comm].list) {
    WrittenContract c{id, f.loc, true};
    const std::string_view text = m.strings[m.attrs[id].text];
    if (!look(f.loc, text, c)) {
      c.exact = false; // written on the called function, or with escapes
      std::string_view there;
      const std::string called = calledFunction(text, there);
      for (const Function& g : m.functions)
        if (!called.empty() && m.strings[g.name] == called && look(g.loc, there, c)) break;
    }
    out.push_back(c);
  }
  return out;
}

} // namespace dtc
