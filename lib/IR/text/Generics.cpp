#include "text/Generics.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Counted.h"

#include <algorithm>
#include <cctype>

namespace dtc {

constexpr DiagKind kParameterTwice{"generic-parameter", "@{0} already has a parameter '{1}'"};
constexpr DiagKind kParameterIsDType{"generic-parameter",
                                     "'{0}' is a dtype; a parameter has a name of its own"};
constexpr DiagKind kNotInferred{"generic-parameter",
                                "the arguments of @{0} do not say what '{1}' is; it is inferred from a type "
                                "in which it stands alone, as in '%x: {2}'"};
constexpr DiagKind kGenericRank{"argument-type", "argument {0} of @{1} has {2}, but the value given has {3}"};
constexpr DiagKind kGenericCount{"argument-count", "@{0} takes {1}, but {2} given"};

bool Generics::read(FunctionOnCall& f, bool& isGeneric) {
  const size_t back = in_.pos;
  f.firstToken = in_.pos;
  in_.pos += atWord("spmd") ? 2 : 1;
  const bool named = expectName(Tok::Symbol, "the function's name, such as '@main'", f.name);
  isGeneric = named && at(Tok::LBracket);
  const bool ok = named && (!isGeneric || parameters(f));
  f.arguments = in_.pos;
  in_.pos = back;
  return ok;
}

// "[T, N, S...]"
bool Generics::parameters(FunctionOnCall& f) {
  ++in_.pos;
  if (at(Tok::RBracket)) return unexpected("the name of a parameter, such as 'T' or 'S...'");
  return commaList(Tok::RBracket, "']'", [&] {
    FunctionOnCall::Parameter p;
    if (!expectName("the name of a parameter, such as 'T' or 'S...'", p.name)) return false;
    if (parseDType(m_.strings[p.name.name]))
      return error(kParameterIsDType, p.name.range, m_.strings[p.name.name]);
    for (const FunctionOnCall::Parameter& before : f.parameters)
      if (before.name.name == p.name.name)
        return error(kParameterTwice, p.name.range, m_.strings[f.name.name], m_.strings[p.name.name]);
    p.pack = accept(Tok::Ellipsis);
    f.parameters.push_back(p);
    return true;
  });
}

std::vector<size_t> Generics::elements(size_t open) const {
  std::vector<size_t> first;
  const size_t close = std::max<size_t>(tokens()[open].match, open + 1);
  for (size_t i = open + 1; i < close; ++i) {
    if (i == open + 1 || tokens()[i - 1].kind == Tok::Comma) first.push_back(i);
    if (tokens()[i].match > i) i = tokens()[i].match;
  }
  return first;
}

bool Generics::bind(const FunctionOnCall& f, std::span<const TypeId> given, SourceRange call,
                    GenericBinding& out) {
  const std::string_view name = m_.strings[f.name.name];
  const std::vector<size_t> arguments = elements(f.arguments);
  if (arguments.size() != given.size()) {
    diags_
        .error(kGenericCount, call, name, counted(arguments.size(), "argument"),
               std::to_string(given.size()) + (given.size() == 1 ? " is" : " are"))
        .note(f.name.range, "@" + std::string(name) + " is defined here");
    return false;
  }
  auto isParameter = [&](StrId word) {
    return std::ranges::any_of(f.parameters, [&](const auto& p) { return p.name.name == word; });
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const size_t type = arguments[i] + 2; // after "%x :"
    if (!given[i].valid() || type + 1 >= tokens().size() || tokens()[type + 1].kind != Tok::LBracket)
      continue;
    const Type t = m_.types[given[i]];
    const StrId dtype = m_.strings.intern(text(tokens()[type]));
    if (isParameter(dtype)) out.dtypes.try_emplace(dtype, t.dtype);
    if (!bindDims(f, type + 1, i, t, call, out)) return false;
  }
  for (const FunctionOnCall::Parameter& p : f.parameters) {
    const StrId word = p.name.name;
    if (p.pack ? out.packs.contains(word) : out.dtypes.contains(word) || out.sizes.contains(word)) continue;
    const std::string shown(m_.strings[word]);
    diags_
        .error(kNotInferred, call, name, shown,
               p.pack ? "f32[" + shown + "...]" : shown + "[]' or '%x: f32[" + shown + "]")
        .note(p.name.range, "the parameter is declared here");
    return false;
  }
  return true;
}

bool Generics::bindDims(const FunctionOnCall& f, size_t open, size_t argument, const Type& given,
                        SourceRange call, GenericBinding& out) {
  const std::vector<size_t> dims = elements(open);
  auto parameterAt = [&](size_t token, bool pack) {
    const StrId word = tokens()[token].kind == Tok::Word ? m_.strings.intern(text(tokens()[token])) : StrId();
    const bool known = std::ranges::any_of(
        f.parameters, [&](const auto& p) { return p.name.name == word && p.pack == pack; });
    return known ? word : StrId();
  };
  const auto pack =
      std::ranges::find_if(dims, [&](size_t d) { return tokens()[d + 1].kind == Tok::Ellipsis; });
  const size_t fixed = dims.size() - (pack != dims.end());
  const bool atLeast = pack != dims.end();
  if (atLeast ? given.rank() < fixed : given.rank() != fixed) {
    diags_
        .error(kGenericRank, call, argument, m_.strings[f.name.name],
               (atLeast ? "at least " : "") + counted(fixed, "dim"), counted(given.rank(), "dim"))
        .note(tokens()[open].range(), "the argument is declared here");
    return false;
  }
  size_t at = 0;
  for (size_t d : dims) {
    if (pack != dims.end() && d == *pack) {
      const size_t count = given.rank() - fixed;
      if (const StrId word = parameterAt(d, true); word.valid())
        out.packs.try_emplace(word, given.dims.begin() + static_cast<ptrdiff_t>(at),
                              given.dims.begin() + static_cast<ptrdiff_t>(at + count));
      at += count;
      continue;
    }
    const Tok next = tokens()[d + 1].kind;
    if (const StrId word = parameterAt(d, false);
        word.valid() && (next == Tok::Comma || next == Tok::RBracket))
      out.sizes.try_emplace(word, given.dims[at]);
    ++at;
  }
  return true;
}

std::string Generics::valueOf(const FunctionOnCall::Parameter& p, const GenericBinding& b,
                              std::string_view between) const {
  if (!p.pack) {
    const auto dtype = b.dtypes.find(p.name.name);
    return dtype != b.dtypes.end() ? std::string(dtypeName(dtype->second))
                                   : printDim(b.sizes.at(p.name.name), m_.dims, m_.strings);
  }
  std::string out;
  for (Dim d : b.packs.at(p.name.name))
    out.append(out.empty() ? "" : between).append(printDim(d, m_.dims, m_.strings));
  return out;
}

std::string Generics::nameOf(const FunctionOnCall& f, const GenericBinding& b) const {
  std::string out(m_.strings[f.name.name]);
  for (const FunctionOnCall::Parameter& p : f.parameters) {
    const std::string value = valueOf(p, b, "x");
    out += "_" + (value.empty() ? "scalar" : value);
  }
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

std::string Generics::textOf(const FunctionOnCall& f, const GenericBinding& b) const {
  std::string out;
  for (const FunctionOnCall::Parameter& p : f.parameters) {
    const std::string value = valueOf(p, b, ", ");
    out += (out.empty() ? "" : ", ") + std::string(m_.strings[p.name.name]) + " = " +
           (p.pack ? "[" + value + "]" : value);
  }
  return out;
}

} // namespace dtc
