#include "dtc/Support/Suggest.h"
#include "import/OnnxContext.h"

#include <unordered_map>

namespace dtc::onnx {

namespace {

using Table = std::unordered_map<std::string_view, const OnnxRow*>;

const Table& table() {
  static const Table rows = [] {
    Table t;
    for (const auto family :
         {elementwiseRows(), activationRows(), castRows(),      constantRows(),  shapeRows(),    sliceRows(),
          indexRows(),       reduceRows(),     normalizeRows(), lossRows(),      contractRows(), windowRows(),
          quantizeRows(),    recurrentRows(),  controlRows(),   attentionRows(), imageRows(),    resizeRows(),
          signalRows(),      randomRows(),     optimizerRows(), featureRows()})
      for (const OnnxRow& row : family) t.emplace(row.op, &row);
    return t;
  }();
  return rows;
}

struct Reason {
  std::string_view op, why;
};
constexpr std::string_view kDataDependent =
    ": the size of its result depends on data, and dtc has static sizes";
constexpr std::string_view kStrings = ": dtc has no strings";
constexpr std::string_view kSequences = ": dtc has no sequences of tensors; return the tensors themselves";
constexpr Reason kReasons[] = {
    {"NonMaxSuppression", kDataDependent},
    {"Unique", kDataDependent},
    {"StringConcat", kStrings},
    {"StringNormalizer", kStrings},
    {"StringSplit", kStrings},
    {"RegexFullMatch", kStrings},
    {"ImageDecoder", ": decode images before the model"},
    {"SequenceAt", kSequences},
    {"SequenceConstruct", kSequences},
    {"SequenceEmpty", kSequences},
    {"SequenceErase", kSequences},
    {"SequenceInsert", kSequences},
    {"SequenceLength", kSequences},
    {"SequenceMap", kSequences},
    {"SplitToSequence", kSequences},
    {"ConcatFromSequence", kSequences},
    {"Optional", kSequences},
    {"ai.onnx.preview.training.Gradient", ": import the model without it, and differentiate it with 'grad'"},
};

} // namespace

std::optional<ImportResults> converted(OnnxContext& c) {
  const auto found = table().find(c.node.target);
  if (found == table().end()) return std::nullopt;
  const OnnxRow& row = *found->second;
  if (c.opset() < row.since)
    c.fail("is of opset " + std::to_string(c.opset()) + ", but opset " + std::to_string(row.since) +
           " is the oldest that is supported for it; convert the model first: "
           "onnx.version_converter.convert_version(model, 13)");
  return row.convert(c);
}

std::string remarkOn(std::string_view op) {
  for (const Reason& r : kReasons)
    if (r.op == op) return std::string(r.why);
  if (op.find('.') != std::string_view::npos)
    return ": ops of other domains are imported only where the model defines them as functions";
  std::vector<std::string_view> known;
  for (const auto& [name, row] : table()) known.push_back(name);
  const std::string_view near = nearestWord(op, known);
  return near.empty() ? "" : "; did you mean '" + std::string(near) + "'?";
}

} // namespace dtc::onnx
