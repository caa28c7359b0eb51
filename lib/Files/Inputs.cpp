#include "dtc/Files/Inputs.h"

#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/Diagnostics.h"
#include "dtc/Support/ElementCount.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <stdexcept>

namespace dtc {
namespace {

Tensor asBool(const Tensor& in) {
  Tensor out(DType::Bool, in.shape());
  for (int64_t i = 0; i < in.numElements(); ++i) out.setInt(i, in.getFloat(i) != 0.0);
  return out;
}

// The tensor of a file for an argument: same shape, and same dtype except for bools, which take any number as
// "not 0".
Result<TensorSource> fitting(Result<TensorSource> source, const std::string& path, const InputArgument& arg) {
  if (!source)
    return Error{source.error().kind, source.error().message + " (argument %" + arg.name + " is " +
                                          typeText(arg.dtype, arg.shape) + ")"};
  if (source->shape() != arg.shape)
    return inputError("'" + path + "' holds " + typeText(source->dtype(), source->shape()) +
                      ", but argument %" + arg.name + " is " + typeText(arg.dtype, arg.shape));
  if (arg.dtype != DType::Bool || source->dtype() == DType::Bool) return source;
  DTC_TRY(auto t, source->tensor());
  return TensorSource(asBool(t));
}

std::optional<DType> wantedDType(const InputArgument& arg) {
  return arg.dtype == DType::Bool ? std::nullopt : std::optional(arg.dtype);
}

Result<TensorSource> fromNpy(const std::string& path, const InputArgument& arg) {
  DTC_TRY(auto file, InputFile::open(path));
  return fitting(openNpy(std::move(file), wantedDType(arg)), path, arg);
}

Result<TensorSource> fromRaw(const std::string& path, const InputArgument& arg) {
  auto file = InputFile::open(path);
  if (!file) return Error{file.error().kind, "argument %" + arg.name + ": " + file.error().message};
  auto source = openRaw(*std::move(file), arg.dtype, arg.shape);
  if (!source) return Error{source.error().kind, "argument %" + arg.name + ": " + source.error().message};
  return source;
}

// The bytes of a text as integers; the leading dims of the argument are 1.
Result<TensorSource> fromText(const std::string& text, const InputArgument& arg) {
  const auto count = static_cast<int64_t>(text.size());
  const bool row = !arg.shape.empty() && arg.shape.back() == count && elementCount(arg.shape) == count;
  if (!row || !isInteger(arg.dtype) || arg.dtype == DType::I8)
    return inputError("argument %" + arg.name + " is " + typeText(arg.dtype, arg.shape) +
                      ", but the text is " + typeText(DType::U8, {count}));
  Tensor t(arg.dtype, arg.shape);
  for (int64_t i = 0; i < count; ++i) t.setInt(i, static_cast<unsigned char>(text[static_cast<size_t>(i)]));
  return TensorSource(std::move(t));
}

// Made where it is read: each of several processes makes its shards.
TensorSource madeInParts(const InputSpec& spec, const InputArgument& arg, size_t position) {
  return {arg.dtype, arg.shape,
          [spec, dtype = arg.dtype, position](int64_t begin, std::span<std::byte> out) -> Status {
            constexpr size_t kElements = 1 << 16; // at once
            const auto width = static_cast<size_t>(dtypeBytes(dtype));
            int64_t first = begin / static_cast<int64_t>(width);
            while (!out.empty()) {
              const size_t count = std::min(kElements, out.size() / width);
              const Tensor t = makeInput(spec, dtype, {static_cast<int64_t>(count)}, position, first);
              std::ranges::copy(t.bytes(), out.begin());
              out = out.subspan(count * width);
              first += static_cast<int64_t>(count);
            }
            return Ok{};
          }};
}

// The files that bindings name, each opened once.
using Archives = std::map<std::string, std::unique_ptr<TensorArchive>>;

Result<TensorSource> fromArchive(TensorArchive& archive, const InputBinding& b, const InputArgument& arg) {
  for (const std::string& name : {arg.name, arg.userName})
    if (!name.empty() && archive.has(name))
      return fitting(archive.tensor(name, wantedDType(arg), &arg.shape), b.path + "', tensor '" + name, arg);
  const std::vector<std::string> names = archive.names();
  if (names.size() == 1 && b.pattern == arg.name)
    return fitting(archive.tensor(names[0], wantedDType(arg), &arg.shape), b.path + "', tensor '" + names[0],
                   arg);
  std::vector<std::string_view> known(names.begin(), names.end());
  const std::string wanted = arg.userName.empty() ? arg.name : arg.userName;
  const std::string_view near = nearestWord(wanted, known);
  return inputError("'" + b.path + "' has no tensor '" + wanted + "' for argument %" + arg.name +
                    (near.empty() ? "" : "; it has '" + std::string(near) + "'"));
}

bool isPattern(std::string_view p) { return p.find_first_of("*?") != std::string_view::npos; }

Result<TensorSource> valueOf(const InputBinding& b, const InputArgument& arg, size_t position,
                             Archives& archives, ReaderShare share) {
  auto count = elementCount(arg.shape);
  auto bytes = count ? checkedMul(*count, dtypeBytes(arg.dtype)) : std::nullopt;
  std::string tooLarge =
      "not enough memory for argument %" + arg.name + ", " + typeText(arg.dtype, arg.shape);
  if (!bytes) return machineError(tooLarge);
  try {
    switch (b.kind) {
    case InputBinding::Npy: return fromNpy(b.path, arg);
    case InputBinding::Raw: return fromRaw(b.path, arg);
    case InputBinding::Text: return fromText(b.text, arg);
    case InputBinding::Archive: return fromArchive(*archives.at(b.path), b, arg);
    case InputBinding::Made:
      // A pattern may match arguments of several dtypes: random and iota values are limited to the range of
      // each.
      if (Status fits = checkInputRange(b.spec, arg.dtype, *count);
          !fits && (b.spec.kind == InputSpec::Const || !isPattern(b.pattern)))
        return usageError("--input " + fits.error().message + " (argument %" + arg.name + " is " +
                          typeText(arg.dtype, arg.shape) + ")");
      if (share.size > 1) return madeInParts(b.spec, arg, position);
      return TensorSource(makeInput(b.spec, arg.dtype, arg.shape, position));
    }
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}
  return machineError(tooLarge);
}

// The binding of each argument, or -1.
struct Binder {
  std::span<const InputBinding> bindings;
  std::span<const InputArgument> arguments;
  const Archives& archives;
  std::vector<int> chosen;

  std::string listArguments() const {
    std::string text;
    for (const InputArgument& a : arguments) text += "\n  %" + a.name + ": " + typeText(a.dtype, a.shape);
    return text.empty() ? "\n  (the function has none)" : text;
  }
  bool named(const InputArgument& a, std::string_view pattern) const {
    return matchesPattern(pattern, a.name) || (!a.userName.empty() && matchesPattern(pattern, a.userName));
  }
  bool anyNamed(std::string_view name) const {
    for (const InputArgument& a : arguments)
      if (named(a, name)) return true;
    return false;
  }
  bool isWeights(const InputBinding& b) const { return b.pattern == "weights" && !anyNamed("weights"); }

  std::string exact(size_t i) {
    const std::string& name = bindings[i].pattern;
    bool found = false;
    for (size_t a = 0; a < arguments.size(); ++a) {
      if (!named(arguments[a], name)) continue;
      if (chosen[a] >= 0) return "--input binds %" + arguments[a].name + " twice";
      chosen[a] = static_cast<int>(i);
      found = true;
    }
    if (found) return "";
    std::vector<std::string_view> names;
    for (const InputArgument& a : arguments) names.push_back(a.name);
    std::string_view nearest = nearestWord(name, names);
    return "--input names '" + name + "', but no argument has that name" +
           (nearest.empty() ? "." : "; did you mean '" + std::string(nearest) + "'?") +
           " The arguments are:" + listArguments();
  }

  // A file without a name: binds every argument that it has a tensor for.
  std::string byName(size_t i) {
    const TensorArchive& archive = *archives.at(bindings[i].path);
    bool found = false;
    for (size_t a = 0; a < arguments.size(); ++a) {
      const InputArgument& arg = arguments[a];
      if (!archive.has(arg.name) && (arg.userName.empty() || !archive.has(arg.userName))) continue;
      found = true;
      if (chosen[a] < 0)
        chosen[a] = static_cast<int>(i);
      else if (bindings[static_cast<size_t>(chosen[a])].pattern.empty())
        return "--input binds %" + arg.name + " twice: '" + bindings[static_cast<size_t>(chosen[a])].path +
               "' and '" + bindings[i].path + "' both have it";
    }
    return found ? ""
                 : "--input '" + bindings[i].path +
                       "' has no tensor with the name of an argument. The arguments are:" + listArguments();
  }

  std::string choose() {
    chosen.assign(arguments.size(), -1);
    for (size_t i = 0; i < bindings.size(); ++i)
      if (!bindings[i].pattern.empty() && !isPattern(bindings[i].pattern) && !isWeights(bindings[i]))
        if (std::string why = exact(i); !why.empty()) return why;
    for (size_t i = 0; i < bindings.size(); ++i)
      if (bindings[i].pattern.empty() && !bindings[i].byDefault)
        if (std::string why = byName(i); !why.empty()) return why;
    auto fill = [&](size_t i, auto wanted) {
      for (size_t a = 0; a < arguments.size(); ++a)
        if (chosen[a] < 0 && wanted(arguments[a])) chosen[a] = static_cast<int>(i);
    };
    for (size_t i = 0; i < bindings.size(); ++i) {
      const std::string& p = bindings[i].pattern;
      if (!isPattern(p) && !isWeights(bindings[i])) continue;
      for (size_t before = 0; before < i; ++before)
        if (bindings[before].pattern == p) return "--input binds '" + p + "' twice";
    }
    for (size_t i = 0; i < bindings.size(); ++i) {
      const std::string& p = bindings[i].pattern;
      if (!isPattern(p) || p == "*") continue;
      if (!anyNamed(p))
        return "--input '" + p + "=…' matches no argument. The arguments are:" + listArguments();
      fill(i, [&](const InputArgument& a) { return named(a, p); });
    }
    for (size_t i = 0; i < bindings.size(); ++i)
      if (isWeights(bindings[i])) fill(i, [](const InputArgument& a) { return isFloat(partType(a.dtype)); });
    for (size_t i = 0; i < bindings.size(); ++i)
      if (bindings[i].byDefault)
        fill(i, [&](const InputArgument& a) {
          const TensorArchive& archive = *archives.at(bindings[i].path);
          return archive.has(a.name) || (!a.userName.empty() && archive.has(a.userName));
        });
    for (size_t i = 0; i < bindings.size(); ++i)
      if (bindings[i].pattern == "*") fill(i, [](const InputArgument&) { return true; });
    return "";
  }
};

} // namespace

bool matchesPattern(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string inputForms() {
  return "  --input x=FILE.npy               a NumPy file with x's dtype and shape\n"
         "  --input FILE.npz                 every argument that the file has a tensor for; also "
         "FILE.safetensors\n"
         "  --input DIR/                     the same, from the newest checkpoint of a run\n"
         "  --input weights=FILE.safetensors every unbound float argument, by its name in the "
         "file\n"
         "  --input x=raw:FILE               the first bytes of a file\n"
         "  --input 'x=text:WORDS'           the bytes of the words\n"
         "  --input 'x=randn(SEED[,STD])'    also uniform(SEED,LO,HI) randint(SEED,LO,HI) zeros ones "
         "iota const(V)\n"
         "  --input 'blocks.*=zeros'         every argument whose name matches\n"
         "  --input 'weights=randn(7,0.02)'  every unbound float argument\n"
         "  --input '*=randn(1)'             every other argument\n";
}

// Names of rules in other libraries: "; write randn(7)".
static std::string ruleHint(std::string_view value) {
  const std::string_view word = value.substr(0, value.find('('));
  const std::string_view given = word.size() < value.size() ? value.substr(word.size()) : "(1)";
  if (word == "full" || word == "constant" || word == "fill") return "; write const" + std::string(given);
  if (word == "normal" || word == "random" || word == "rand" || word == "random_normal" || word == "gaussian")
    return "; write randn" + std::string(given);
  if (word == "random_uniform") return "; write uniform" + std::string(given == "(1)" ? "(1,0,1)" : given);
  if (word == "arange" || word == "range") return "; write iota";
  return "";
}

// A file of named tensors, or a folder with a checkpoint.
static bool namesTensors(std::string_view path) {
  return isTensorArchive(path) || (path.size() > 1 && path.ends_with('/'));
}

Result<InputBinding> parseInputBinding(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == std::string_view::npos && namesTensors(text)) {
    InputBinding b;
    b.kind = InputBinding::Archive;
    b.path = text;
    return b;
  }
  if (std::error_code none; equals == std::string_view::npos && std::filesystem::is_directory(text, none))
    return usageError("--input '" + std::string(text) + "' is a folder: write " + std::string(text) + "/");
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    return usageError("--input '" + std::string(text) + "' is not NAME=VALUE. The forms are:\n" +
                      inputForms());
  InputBinding b;
  std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name.starts_with('%')) name.remove_prefix(1);
  b.pattern = name;
  if (value.starts_with("text:")) {
    b.kind = InputBinding::Text;
    b.text = value.substr(5);
    return b;
  }
  if (value.starts_with("raw:")) {
    b.kind = InputBinding::Raw;
    b.path = value.substr(4);
    return b;
  }
  if (isInputSpec(value)) {
    auto spec = parseInputSpec(value);
    if (!spec) return usageError("--input '" + std::string(text) + "': " + spec.error().message);
    b.spec = *spec;
    return b;
  }
  if (!value.ends_with(".npy") && !namesTensors(value))
    return usageError("--input '" + std::string(text) + "': '" + std::string(value) +
                      "' is not a .npy, .npz or .safetensors file, nor a known form" + ruleHint(value) +
                      ". The forms are:\n" + inputForms());
  b.kind = namesTensors(value) ? InputBinding::Archive : InputBinding::Npy;
  b.path = value;
  return b;
}

Result<std::vector<TensorSource>> bindInputs(std::span<const InputBinding> bindings,
                                             std::span<const InputArgument> arguments, ReaderShare share) {
  Archives archives;
  for (const InputBinding& b : bindings) {
    if (b.kind != InputBinding::Archive || archives.contains(b.path)) continue;
    DTC_TRY(auto archive, openTensorArchive(b.path, share));
    archives.emplace(b.path, std::move(archive));
  }
  Binder binder{bindings, arguments, archives, {}};
  if (std::string why = binder.choose(); !why.empty()) return usageError(why);
  std::string unbound, names;
  for (size_t a = 0; a < arguments.size(); ++a)
    if (binder.chosen[a] < 0) {
      names += (names.empty() ? "%" : ", %") + arguments[a].name;
      unbound += "\n  %" + arguments[a].name + ": " + typeText(arguments[a].dtype, arguments[a].shape);
    }
  if (!unbound.empty())
    return usageError("no --input for " + names + unbound + "\nThe forms are:\n" + inputForms());
  std::vector<TensorSource> values;
  for (size_t a = 0; a < arguments.size(); ++a) {
    DTC_TRY(auto t,
            valueOf(bindings[static_cast<size_t>(binder.chosen[a])], arguments[a], a, archives, share));
    values.push_back(std::move(t));
  }
  return values;
}

} // namespace dtc
