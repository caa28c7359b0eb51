#include "SafetensorsHeader.h"

#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

namespace dtc {
namespace {

struct Name {
  const char* text;
  DType dtype;
};
constexpr Name kNames[] = {{"BOOL", DType::Bool},      {"U8", DType::U8},          {"I8", DType::I8},
                           {"U16", DType::U16},        {"I16", DType::I16},        {"U32", DType::U32},
                           {"I32", DType::I32},        {"U64", DType::U64},        {"I64", DType::I64},
                           {"F8_E4M3", DType::F8E4M3}, {"F8_E5M2", DType::F8E5M2}, {"BF16", DType::BF16},
                           {"F16", DType::F16},        {"F32", DType::F32},        {"F64", DType::F64}};
constexpr size_t kMaxSafetensorsRank = 64;

std::optional<DType> dtypeOf(std::string_view text) {
  for (const Name& n : kNames)
    if (text == n.text) return n.dtype;
  return std::nullopt;
}

// A JSON event handler that builds no value: a hostile text costs no more memory than what is kept. Repeated
// keys in an object are an error, which nlohmann::json itself would not report.
class Events : public nlohmann::json_sax<nlohmann::json> {
public:
  std::string problem; // of the first error
  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a bool"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a fractional number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool string(string_t&) override { return other("a string"); }
  bool binary(binary_t&) override { return other("bytes"); }
  bool start_array(std::size_t) override { return other("a list"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse("is not JSON at byte " + std::to_string(position));
  }

protected:
  bool refuse(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }
  // Handles an unexpected event.
  virtual bool other(std::string_view what) = 0;
};

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}
class HeaderEvents : public Events {
public:
  std::vector<SafetensorsEntry> entries;

  bool start_object(std::size_t) override {
    if (depth_ == 0) return ++depth_, true;
    if (depth_ == 1 && metadata_) return ++depth_, true;
    if (depth_ != 1) return other("an object");
    ++depth_;
    entries.emplace_back().name = name_;
    seen_ = 0;
    return true;
  }
  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    if (metadata_) return metadata_ = false, metadataKeys_.clear(), true;
    return seen_ == 7 || refuse(of() + " lacks its dtype, shape or data_offsets");
  }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      name_ = text;
      metadata_ = text == "__metadata__";
      return names_.insert(text).second || refuse("names " + jsonString(text) + " twice");
    }
    if (metadata_) return metadataKeys_.insert(text).second || refuse("names " + jsonString(text) + " twice");
    field_ = text == "dtype" ? 1 : text == "shape" ? 2 : text == "data_offsets" ? 4 : 0;
    if (field_ == 0) return refuse(of() + " has the key " + jsonString(text));
    if (seen_ & field_) return refuse(of() + " has the key " + jsonString(text) + " twice");
    seen_ |= field_;
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || field_ != 1) return other("a string");
    entries.back().dtypeName = text;
    entries.back().dtype = dtypeOf(text);
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || metadata_ || field_ == 1) return other("a list");
    depth_ = 3;
    numbers_.clear();
    return true;
  }
  bool number_unsigned(number_unsigned_t n) override {
    if (depth_ != 3) return other("a number");
    if (n > static_cast<uint64_t>(INT64_MAX)) return refuse(of() + " has a number past 2^63-1");
    if (numbers_.size() == kMaxSafetensorsRank) return refuse(of() + " has a list of more than 64 numbers");
    numbers_.push_back(static_cast<int64_t>(n));
    return true;
  }
  bool end_array() override {
    depth_ = 2;
    if (field_ == 2) return entries.back().shape = numbers_, true;
    if (numbers_.size() != 2) return refuse(of() + " has data_offsets that are not two numbers");
    entries.back().begin = numbers_[0];
    entries.back().end = numbers_[1];
    return true;
  }

private:
  std::string of() const { return "has an invalid entry " + jsonString(name_) + ": it"; }
  bool other(std::string_view what) override {
    return refuse(depth_ == 0
                      ? "is " + std::string(what) + ", not an object"
                      : "has " + std::string(what) + " in an unexpected position, in " + jsonString(name_));
  }

  int depth_ = 0; // 1: names, 2: an entry, 3: a list in it
  bool metadata_ = false;
  unsigned field_ = 0, seen_ = 0; // bits: 1 dtype, 2 shape, 4 data_offsets
  std::string name_;
  std::vector<int64_t> numbers_;
  std::unordered_set<std::string> names_, metadataKeys_;
};

// {"metadata": anything, "weight_map": {"name": "file"}}
class IndexEvents : public Events {
public:
  std::map<std::string, std::string, std::less<>> files;
  bool haveMap = false;

  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return (depth_ > 0 && !map_) ? enter() : other("a list"); }
  bool end_array() override { return leave(); }
  bool key(string_t& text) override {
    if (depth_ == 1) {
      map_ = text == "weight_map";
      if (map_ && haveMap) return refuse("has two weight_maps");
      haveMap = haveMap || map_;
    }
    name_ = text;
    return true;
  }
  bool string(string_t& text) override {
    if (!map_) return depth_ > 0 || other("a string");
    if (depth_ != 2) return other("a string");
    return files.emplace(name_, text).second || refuse("names " + jsonString(name_) + " twice");
  }
  bool null() override { return anything("null"); }
  bool boolean(bool) override { return anything("a bool"); }
  bool number_integer(number_integer_t) override { return anything("a number"); }
  bool number_unsigned(number_unsigned_t) override { return anything("a number"); }
  bool number_float(number_float_t, const string_t&) override { return anything("a number"); }

private:
  bool anything(std::string_view what) { return (!map_ && depth_ > 0) || other(what); }
  bool enter() {
    if (map_ && depth_ >= 2) return other("an object");
    return ++depth_, true;
  }
  bool leave() {
    if (--depth_ == 1) map_ = false;
    return true;
  }
  bool other(std::string_view what) override {
    return refuse("has " + std::string(what) + " in an unexpected position");
  }
  int depth_ = 0;
  bool map_ = false;
  std::string name_;
};

template <class E> Status readEvents(std::string_view json, E& events) {
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events))
    return inputError(events.problem.empty() ? "is not JSON" : events.problem);
  return Ok{};
}

std::string countText(int64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

// Checks that the ranges start at 0, are contiguous in order, and end at the end.
std::string tiling(std::vector<SafetensorsEntry>& entries, int64_t dataBytes) {
  std::sort(entries.begin(), entries.end(), [](auto& a, auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  int64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.begin != at)
      return "leaves a gap or an overlap before " + jsonString(e.name) + ", at byte " + std::to_string(at) +
             " of the data";
    if (e.end < e.begin || e.end > dataBytes)
      return "puts " + jsonString(e.name) + " outside the file's " + countText(dataBytes) + " of data";
    at = e.end;
  }
  if (at != dataBytes)
    return "accounts for " + countText(at) + " of data, but the file has " + std::to_string(dataBytes);
  return "";
}

std::string sizes(const SafetensorsEntry& e) {
  const auto count = elementCount(e.shape);
  if (!count) return "gives " + jsonString(e.name) + " more than 2^63-1 elements";
  if (!e.dtype) return "";
  const auto bytes = checkedMul(*count, dtypeBytes(*e.dtype));
  if (!bytes || *bytes != e.end - e.begin)
    return "gives " + jsonString(e.name) + " " + countText(e.end - e.begin) +
           ", but its dtype and shape need " + (bytes ? std::to_string(*bytes) : "more than 2^63-1");
  return "";
}

} // namespace

std::string_view safetensorsName(DType d) {
  for (const Name& n : kNames)
    if (n.dtype == d) return n.text;
  return "";
}

Result<std::vector<SafetensorsEntry>> parseSafetensorsHeader(std::string_view json, int64_t dataBytes) {
  HeaderEvents events;
  if (Status s = readEvents(json, events); !s) return inputError("its header " + s.error().message);
  std::string why;
  for (const SafetensorsEntry& e : events.entries)
    if (why.empty()) why = sizes(e);
  if (why.empty()) why = tiling(events.entries, dataBytes);
  if (!why.empty()) return inputError("its header " + why);
  return std::move(events.entries);
}

Result<std::map<std::string, std::string, std::less<>>> parseSafetensorsIndex(std::string_view json) {
  IndexEvents events;
  if (Status s = readEvents(json, events); !s) return inputError("it " + s.error().message);
  if (!events.haveMap) return inputError("it has no \"weight_map\"");
  return std::move(events.files);
}

} // namespace dtc
