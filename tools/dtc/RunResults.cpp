#include "RunResults.h"

#include "dtc/Files/TensorFiles.h"
#include "dtc/Files/TensorText.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Suggest.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace dtc {

// The part of NAME=FILE after the first equals sign, or all of FILE.
static std::string fileOf(const std::string& output) { return output.substr(output.find('=') + 1); }

RunResults::RunResults(const Module& m, FuncId func) {
  const Function& f = m[func];
  const StrId nameAttr = m.strings.find("name");
  for (size_t i = 0; i < f.results.size(); ++i) {
    const FuncResult& r = f.results[i];
    const AttrId user = nameAttr ? findAttr(r.attrs, nameAttr) : AttrId();
    all.push_back({r.label ? std::string(m.strings[r.label]) : std::to_string(i),
                   user ? std::string(m.strings[m.attrs[user].text]) : "", printType(m, r.type),
                   m.types[r.type].dtype == DType::U8});
    const Type& global = globalTypeOf(m, r);
    all.back().dtype = global.dtype;
    if (global.isStatic()) all.back().shape = global.staticShape();
  }
}

const RunResult* RunResults::find(std::string_view name) const {
  if (name.starts_with('%')) name.remove_prefix(1);
  for (auto of : {&RunResult::name, &RunResult::userName})
    if (auto found = std::ranges::find(all, name, of); found != all.end() && !name.empty()) return &*found;
  return nullptr;
}

Status RunResults::validate(std::span<const std::string> prints, std::span<const std::string> texts,
                            std::span<const std::string> outputs) const {
  auto known = [&](std::string_view flag, std::string_view name) -> Status {
    if (find(name)) return Ok{};
    if (name.starts_with('%')) name.remove_prefix(1);
    std::vector<std::string_view> names;
    for (const RunResult& r : all) names.push_back(r.name);
    return usageError(std::string(flag) + ": unknown result '" + std::string(name) + "'" +
                      suggestion(Vocabulary::Plain, name, names));
  };
  for (const std::string& name : prints)
    if (Status s = known("--print", name); !s) return s;
  for (const std::string& name : texts) {
    if (Status s = known("--print-text", name); !s) return s;
    if (const RunResult& r = *find(name); !r.bytes)
      return usageError("--print-text: expected a result of u8, the bytes of a text, but '" + r.name +
                        "' is " + r.type);
  }
  for (const std::string& text : outputs) {
    size_t equals = text.find('=');
    if (text == "-" || (equals != std::string::npos && text.substr(equals + 1) == "-"))
      return usageError("--output '" + text +
                        "': tensor files are binary and are not written to standard output; "
                        "name a .npy, .npz or .safetensors file, or print values with --print or --json");
    if (equals == std::string::npos && isTensorArchive(text)) continue; // all results
    if (equals == std::string::npos || equals == 0 || (!text.ends_with(".npy") && !isTensorArchive(text)))
      return usageError("--output '" + text + "' is not NAME=FILE.npy, FILE.npz or FILE.safetensors");
    if (Status s = known("--output", std::string_view(text).substr(0, equals)); !s) return s;
  }
  for (const std::string& text : outputs)
    if (Status s = checkOutput(text); !s) return s;
  return Ok{};
}

// What would make writing the file of one --output fail after the run.
Status RunResults::checkOutput(const std::string& output) const {
  const std::string path = fileOf(output);
  if (!isTensorArchive(path)) return Ok{}; // .npy holds every dtype
  std::vector<FileLayout::Entry> entries;
  for (const size_t i : written(output)) entries.push_back({all[i].name, all[i].dtype, all[i].shape});
  Status holds = checkTensorArchive(path, entries);
  if (!holds) return usageError("--output: " + holds.error().message);
  return Ok{};
}

std::vector<const RunResult*> RunResults::chosen(std::span<const std::string> prints) const {
  std::vector<const RunResult*> out;
  for (const RunResult& r : all)
    if (prints.empty() ||
        std::ranges::any_of(prints, [&](const std::string& name) { return find(name) == &r; }))
      out.push_back(&r);
  return out;
}

std::string RunResults::text(std::string_view name) const { return bytesAsText(find(name)->value); }

NamedTensors RunResults::values() const {
  NamedTensors named;
  for (const RunResult& r : all) named.emplace_back(r.name, &r.value);
  return named;
}

Status RunResults::write(const std::string& output) const {
  size_t equals = output.find('=');
  if (equals == std::string::npos) return writeTensorArchive(output, values());
  const RunResult& r = *find(std::string_view(output).substr(0, equals));
  const std::string path = output.substr(equals + 1);
  return isTensorArchive(path) ? writeTensorArchive(path, {{r.name, &r.value}}) : writeNpy(path, r.value);
}

std::vector<size_t> RunResults::written(const std::string& output) const {
  const size_t equals = output.find('=');
  std::vector<size_t> numbers;
  for (size_t i = 0; i < all.size(); ++i)
    if (equals == std::string::npos || find(std::string_view(output).substr(0, equals)) == &all[i])
      numbers.push_back(i);
  return numbers;
}

bool RunResults::divides(const std::string& output) const {
  const std::string path = fileOf(output);
  const auto complex = [&](size_t i) { return isComplex(all[i].dtype); };
  std::error_code ignored;
  const bool regular =
      !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored);
  return regular && (path.ends_with(".npy") ||
                     (path.ends_with(".safetensors") && std::ranges::none_of(written(output), complex)));
}

Status RunResults::writeTogether(const std::string& output, std::span<const PiecedTensor> pieces,
                                 WriterGroup& group) const {
  const std::string path = fileOf(output);
  std::vector<PiecedTensor> tensors;
  std::vector<FileLayout::Entry> entries;
  for (const size_t i : written(output)) {
    tensors.push_back(pieces[i]);
    entries.push_back({pieces[i].name, pieces[i].dtype, pieces[i].shape});
  }
  return dtc::writeTogether(
      path, path.ends_with(".npy") ? npyLayout(entries[0]) : safetensorsLayout(std::move(entries)), tensors,
      group);
}

std::string RunResults::nonFiniteJson() const {
  std::string text;
  for (const RunResult& r : all)
    if (r.nonFinite.nan + r.nonFinite.infinite > 0)
      text += (text.empty() ? "" : ", ") + jsonString(r.name) +
              ": {\"nan\": " + std::to_string(r.nonFinite.nan) +
              ", \"infinite\": " + std::to_string(r.nonFinite.infinite) + "}";
  return text;
}

std::string resultText(const RunResult& r) {
  const std::string value = tensorText(r.value);
  return r.name + (value.find('\n') == std::string::npos ? " = " : " =\n") + value + "\n";
}

// A complex number is the list of its real and imaginary part.
static std::string elementJson(const Tensor& t, int64_t k) {
  if (isComplex(t.dtype())) {
    const Tensor parts = t.parts();
    return "[" + elementJson(parts, 2 * k) + ", " + elementJson(parts, 2 * k + 1) + "]";
  }
  return isFloat(t.dtype()) && !std::isfinite(t.getFloat(k)) ? jsonNumber(t.getFloat(k)) : elementText(t, k);
}

std::string resultJson(const RunResult& r) {
  const Tensor& t = r.value;
  std::string shape, values;
  for (int64_t n : t.shape()) shape += (shape.empty() ? "" : ", ") + std::to_string(n);
  for (int64_t k = 0; k < t.numElements(); ++k) values += (k ? ", " : "") + elementJson(t, k);
  return jsonString(r.name) + ": {\"dtype\": " + jsonString(dtypeName(t.dtype())) + ", \"shape\": [" + shape +
         "], \"values\": [" + values + "]}";
}

} // namespace dtc
