#include "dtc/Files/Checkpoint.h"

#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"
#include "dtc/Version.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace dtc {
namespace {

using json = nlohmann::json;
constexpr size_t kMaxCheckpointRank = 64, kMaxCheckpointPieces = 1 << 16;

std::string listText(const std::vector<int64_t>& numbers) { return "[" + joined(numbers) + "]"; }

std::string tensorJson(const CheckpointManifest::Entry& t) {
  return "{\"name\": " + jsonString(t.name) + ", \"dtype\": " + jsonString(dtypeName(t.dtype)) +
         ", \"shape\": " + listText(t.shape) + ", \"shards\": [" +
         joined(t.pieces, ", ",
                [](const CheckpointManifest::Piece& p) {
                  return "{\"offset\": " + listText(p.box.offset) + ", \"shape\": " + listText(p.box.shape) +
                         ", \"sha256\": " + jsonString(p.sha256) + "}";
                }) +
         "]}";
}

std::string sourceJson(const DataState::Source& s) {
  return "{\"argument\": " + jsonString(s.argument) + ", \"samples\": " + std::to_string(s.samples) +
         ", \"window\": " + std::to_string(s.window) + ", \"stride\": " + std::to_string(s.stride) +
         ", \"offset\": " + std::to_string(s.offset) + "}";
}

// Reads fields of objects; the first problem is kept.
class Fields {
public:
  std::string problem;

  const json& field(const json& object, const char* name) {
    static const json none;
    const auto at = object.is_object() ? object.find(name) : object.end();
    if (object.is_object() && at != object.end()) return *at;
    return refuse(name), none;
  }
  std::string text(const json& object, const char* name) {
    const json& v = field(object, name);
    return v.is_string() ? v.get<std::string>() : (refuse(name), "");
  }
  int64_t number(const json& object, const char* name) {
    const json& v = field(object, name);
    return natural(v) ? v.get<int64_t>() : (refuse(name), 0);
  }
  uint64_t word(const json& object, const char* name) {
    const json& v = field(object, name);
    return v.is_number_unsigned() ? v.get<uint64_t>() : (refuse(name), 0);
  }
  const json& list(const json& object, const char* name) {
    static const json none = json::array();
    const json& v = field(object, name);
    return v.is_array() ? v : (refuse(name), none);
  }
  std::vector<int64_t> sizes(const json& object, const char* name) {
    const json& v = list(object, name);
    if (v.size() > kMaxCheckpointRank || !std::ranges::all_of(v, natural))
      return refuse(name), std::vector<int64_t>();
    return v.get<std::vector<int64_t>>();
  }
  void refuse(const std::string& what) {
    if (problem.empty()) problem = "it has a missing or wrong \"" + what + "\"";
  }

private:
  static bool natural(const json& v) {
    return v.is_number_unsigned() && v.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
  }
};

DataState dataOf(Fields& fields, const json& object) {
  DataState data;
  data.position = fields.number(object, "position");
  data.seed = fields.word(object, "seed");
  const std::string order = fields.text(object, "order");
  data.fileOrder = order == "file";
  if (order != "file" && order != "shuffled") fields.refuse("order");
  for (const json& s : fields.list(object, "sources"))
    data.sources.push_back({fields.text(s, "argument"), fields.number(s, "samples"),
                            fields.number(s, "window"), fields.number(s, "stride"),
                            fields.number(s, "offset")});
  return data;
}

CheckpointManifest::Entry tensorOf(Fields& fields, const json& object) {
  CheckpointManifest::Entry t;
  t.name = fields.text(object, "name");
  const auto dtype = parseDType(fields.text(object, "dtype"));
  dtype ? void(t.dtype = *dtype) : fields.refuse("dtype");
  t.shape = fields.sizes(object, "shape");
  const json& pieces = fields.list(object, "shards");
  if (pieces.size() > kMaxCheckpointPieces) fields.refuse("shards");
  for (const json& p : pieces) {
    if (!fields.problem.empty()) break;
    t.pieces.push_back({{fields.sizes(p, "offset"), fields.sizes(p, "shape")}, fields.text(p, "sha256")});
  }
  return t;
}

bool overlap(const TensorBox& a, const TensorBox& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (a.offset[d] + a.shape[d] <= b.offset[d] || b.offset[d] + b.shape[d] <= a.offset[d]) return false;
  return true;
}

// Pieces within the tensor, of as many elements, of which no two overlap, tile it.
bool tiles(const CheckpointManifest::Entry& t) {
  const auto count = elementCount(t.shape);
  if (!count || !checkedMul(*count, dtypeBytes(t.dtype))) return false;
  int64_t sum = 0;
  std::vector<const TensorBox*> sorted;
  for (const CheckpointManifest::Piece& piece : t.pieces) {
    const TensorBox& p = piece.box;
    if (p.offset.size() != t.shape.size() || p.shape.size() != t.shape.size()) return false;
    for (size_t d = 0; d < t.shape.size(); ++d)
      if (p.offset[d] > t.shape[d] || p.shape[d] > t.shape[d] - p.offset[d]) return false;
    const int64_t elements = *elementCount(p.shape); // at most those of the tensor, if that has any
    if (elements > *count - sum) return false;
    sum += elements;
    if (elements > 0) sorted.push_back(&p);
  }
  if (sum != *count) return false;
  std::ranges::sort(sorted, {}, [](auto* p) -> const std::vector<int64_t>& { return p->offset; });
  for (size_t i = 0; i < sorted.size() && !t.shape.empty(); ++i)
    for (size_t k = i + 1; k < sorted.size(); ++k) {
      if (sorted[k]->offset[0] >= sorted[i]->offset[0] + sorted[i]->shape[0]) break;
      if (overlap(*sorted[i], *sorted[k])) return false;
    }
  return true;
}

} // namespace

std::string manifestJson(const CheckpointManifest& m) {
  return "{\"format\": " + std::to_string(kCheckpointFormat) +
         ", \"dtc\": \"" DTC_VERSION "\",\n\"step\": " + std::to_string(m.step) +
         ", \"entry\": " + jsonString(m.entry) + ",\n\"command\": [" +
         joined(m.command, ", ", [](const std::string& word) { return jsonString(word); }) +
         "],\n\"data\": {\"position\": " + std::to_string(m.data.position) +
         ", \"seed\": " + std::to_string(m.data.seed) + ", \"order\": \"" +
         (m.data.fileOrder ? "file" : "shuffled") + "\", \"sources\": [" +
         joined(m.data.sources, ", ", sourceJson) + "]},\n\"bytes\": " + std::to_string(m.bytes) +
         ",\n\"tensors\": [\n  " + joined(m.tensors, ",\n  ", tensorJson) + "]}\n";
}

Result<CheckpointManifest> parseCheckpointManifest(std::string_view text) {
  const json object = json::parse(text.begin(), text.end(), nullptr, false);
  if (!object.is_object()) return inputError("it is not a JSON object");
  Fields fields;
  const int64_t format = fields.number(object, "format");
  if (fields.problem.empty() && format != kCheckpointFormat)
    return inputError("it has format " + std::to_string(format) + ", but this dtc reads format " +
                      std::to_string(kCheckpointFormat) + " only");
  CheckpointManifest m;
  m.step = fields.number(object, "step");
  m.entry = fields.text(object, "entry");
  for (const json& word : fields.list(object, "command"))
    word.is_string() ? m.command.push_back(word.get<std::string>()) : fields.refuse("command");
  m.data = dataOf(fields, fields.field(object, "data"));
  m.bytes = fields.number(object, "bytes");
  std::unordered_set<std::string> names;
  for (const json& tensor : fields.list(object, "tensors")) {
    if (!fields.problem.empty()) break;
    m.tensors.push_back(tensorOf(fields, tensor));
    const std::string& name = m.tensors.back().name;
    if (!fields.problem.empty()) return inputError(fields.problem + ", in tensor " + jsonString(name));
    if (!names.insert(name).second) return inputError("it has two tensors " + jsonString(name));
    if (!tiles(m.tensors.back()))
      return inputError("the shards of " + jsonString(name) + " do not tile " +
                        typeText(m.tensors.back().dtype, m.tensors.back().shape));
  }
  if (!fields.problem.empty()) return inputError(fields.problem);
  return m;
}

} // namespace dtc
