#pragma once
// The lines of a program's text, and the layers among them.
#include "dtc/Support/Diagnostics.h"
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace dtc {

using ReportValue = nlohmann::ordered_json;

// Lines count from 0, over the text and the files that it imports.
class SourceIndex {
public:
  explicit SourceIndex(const SourceText& source); // must outlive this object
  [[nodiscard]] size_t size() const { return begins_.size(); }
  // -1 for a range outside of the text.
  [[nodiscard]] int at(SourceRange r) const { return r.valid() ? atOffset(r.begin) : -1; }
  [[nodiscard]] std::string_view text(size_t line) const;
  // Of the names before a statement with several results, the one that `path`, the name when inlined, ends with; or "".
  [[nodiscard]] std::string resultAt(SourceRange statement, const std::string& path) const;
  // The line at which the function begins whose text contains a line; -1: none.
  [[nodiscard]] int functionOf(int line) const;
  // [{"name", "first"}]
  [[nodiscard]] ReportValue files() const;

private:
  [[nodiscard]] int atOffset(uint32_t offset) const;
  const SourceText& source_;
  std::vector<uint32_t> begins_;
  std::vector<int> functions_; // the lines at which they begin
};

// Messages of a collective in one run.
struct MessageCount {
  int row = 0; // collectives that are equal except for their layer are one row
  int64_t messages = 0;
};

// What is known of a line.
struct LineFacts {
  std::string name;                         // of its statement or argument: "blocks_0_h"
  std::string userPath;                     // "layers.0.attn"
  std::string user;                         // "model.py:12:9 (layers.0.attn)"
  std::string shape;                        // types, shardings and costs: equal for equal lines of layers
  bool statement = false;                   // not an argument
  std::vector<int> values;                  // those that it defines
  std::map<int, int64_t> messages;          // that it needs, in one run, by row of the collectives
  double flops = 0, bytes = 0, seconds = 0; // of one device, in one run
  double commBytes = 0, commSeconds = 0;
  double resultBytes = 0; // of its results on one device
};

// Lines without values of their own, such as calls and the results of a function: the name that they begin with.
void nameLines(const SourceIndex&, std::vector<LineFacts>&);

// Statements whose names differ in one number only: "blocks_0", "blocks_1".
struct SourceLayer {
  std::string prefix; // "blocks_#"
  int64_t number = 0;
  std::vector<int> lines; // ascending
  int equalTo = -1;       // an earlier layer with the same statements, shardings and costs
  [[nodiscard]] std::string name() const;
};

struct SourceLayers {
  std::vector<SourceLayer> layers;
  std::vector<int> of; // by line: its layer, or -1
};

[[nodiscard]] SourceLayers layersOf(const SourceIndex&, const std::vector<LineFacts>&);

} // namespace dtc
