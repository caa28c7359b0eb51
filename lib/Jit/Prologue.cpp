#include "dtc/Jit/Prologue.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Sha256.h"
#include <algorithm>
#include <cctype>
#include <iterator>

namespace dtc {
namespace {

// Headers with one family of kernels each.
constexpr std::string_view kCpuFamilies[] = {"special.h", "attention.h", "sort.h", "join.h"};
constexpr std::string_view kGpuFamilies[] = {"special.h",
                                             "rows.h",
                                             "columns.h",
                                             "scan.h",
                                             "attention_block.h",
                                             "attention_tensor.h",
                                             "attention_gradient.h",
                                             "attention_gradient_mask.h",
                                             "attention_gradient_block.h",
                                             "grouped_block.h",
                                             "sort_block.h",
                                             "scatter_block.h",
                                             "join_block.h"};

bool isNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// All names that begin with dtc_ or DTC_, outside of comments.
std::set<std::string_view> namesIn(std::string_view text) {
  std::set<std::string_view> out;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at, 2) == "//") {
      at = std::min(text.find('\n', at), text.size());
    } else if (isNameChar(text[at])) {
      const size_t begin = at;
      while (at < text.size() && isNameChar(text[at])) ++at;
      const std::string_view name = text.substr(begin, at - begin);
      if (name.starts_with("dtc_") || name.starts_with("DTC_")) out.insert(name);
    } else {
      ++at;
    }
  }
  return out;
}

// A macro generates names from prefixes: `dtc_row_##name`.
bool isUsed(std::string_view given, const std::set<std::string_view>& names) {
  const auto at = names.lower_bound(given);
  return at != names.end() && (given.ends_with('_') ? at->starts_with(given) : *at == given);
}

} // namespace

Prologue::Prologue(std::string_view begin, std::initializer_list<std::string_view> common,
                   std::span<const std::string_view> families)
    : begin_(begin) {
  Names known;
  const auto add = [&](std::string_view name, bool always) {
    const auto all = deviceFiles();
    const auto file = std::ranges::find_if(all, [&](const EmbeddedFile& f) { return f.name == name; });
    DTC_CHECK(file != all.end(), "a device header is not embedded");
    Part part{name, file->text, always, namesIn(file->text), {}};
    std::set_difference(part.uses.begin(), part.uses.end(), known.begin(), known.end(),
                        std::inserter(part.produces, part.produces.end()));
    // A name that a macro makes by `dtc_##name` does not occur in the text.
    DTC_CHECK(part.always || !part.uses.contains("dtc_"),
              "a device header that is included on demand generates names by a macro");
    known.insert(part.produces.begin(), part.produces.end());
    parts_.push_back(std::move(part));
  };
  for (std::string_view name : common) add(name, true);
  for (std::string_view name : families) add(name, false);
  digest_ = toHex(Sha256().field(complete()).finish());
}

std::string Prologue::complete() const {
  std::string out(begin_);
  for (const Part& part : parts_) out.append("#line 1 \"").append(part.name).append("\"\n").append(part.text);
  return out;
}

std::string Prologue::of(std::span<const std::string_view> units) const {
  Names wanted;
  for (std::string_view unit : units) wanted.merge(namesIn(unit));
  // A header uses those before it, so the last is decided first.
  std::vector<const Part*> taken;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    if (!part->always &&
        std::ranges::none_of(part->produces, [&](std::string_view given) { return isUsed(given, wanted); }))
      continue;
    taken.push_back(&*part);
    wanted.insert(part->uses.begin(), part->uses.end());
  }
  std::string out(begin_);
  for (auto part = taken.rbegin(); part != taken.rend(); ++part)
    out.append("#line 1 \"").append((*part)->name).append("\"\n").append((*part)->text);
  return out;
}

const Prologue& cpuPrologue() {
  static const Prologue prologue(
      "", {"types.h", "core.h", "math.h", "erf.h", "ops.h", "cpu.h", "planes.h", "lanes.h"}, kCpuFamilies);
  return prologue;
}

const Prologue& cudaPrologue() {
  static const Prologue prologue("", {"types.h", "cuda.h", "core.h", "ops.h", "device.h"}, kGpuFamilies);
  return prologue;
}

const Prologue& emuPrologue() {
  static const Prologue prologue("#define DTC_EMULATED\n",
                                 {"types.h", "core.h", "math.h", "erf.h", "ops.h", "emu.h", "device.h"},
                                 kGpuFamilies);
  return prologue;
}

} // namespace dtc
