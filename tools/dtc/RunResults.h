#pragma once
// The results of a run: their names, the files that --output writes, and their text.
#include "dtc/Check/run/NanSearch.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorPieces.h"

namespace dtc {

struct RunResult {
  std::string name;     // in the program, or its position
  std::string userName; // {name = "result['loss']"}; empty if none
  std::string type;     // "u8[N]"
  bool bytes = false;   // u8
  Tensor value = {};
  DType dtype = DType::F32;
  std::vector<int64_t> shape = {}; // if it is static
  int64_t elements = 0;
  NonFiniteCount nonFinite = {};
};

class RunResults {
public:
  // The names of a function's results, whose values are set later.
  RunResults(const Module&, FuncId);
  // Error (Usage): --print, --print-text or --output names an unknown result, one that is not bytes, or a file that
  // cannot hold its results.
  [[nodiscard]] Status validate(std::span<const std::string> prints, std::span<const std::string> texts,
                                std::span<const std::string> outputs) const;
  // Writes the file of one --output, NAME=FILE or an archive of all results.
  [[nodiscard]] Status write(const std::string& output) const;
  // The results of one --output.
  [[nodiscard]] std::vector<size_t> written(const std::string& output) const;
  // In a run of several processes: writes the file of one --output together, from pieces of its results; for files
  // that divides() names. Error (Machine): it cannot be written.
  [[nodiscard]] Status writeTogether(const std::string& output, std::span<const PiecedTensor> all,
                                     WriterGroup& group) const;
  // Whether several processes can write its file together: .npy and .safetensors, without complex elements.
  [[nodiscard]] bool divides(const std::string& output) const;
  // Those of --print, or all if there is none; validated.
  [[nodiscard]] std::vector<const RunResult*> chosen(std::span<const std::string> prints) const;
  // The bytes of a result as lines of text; validated.
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] NamedTensors values() const;
  [[nodiscard]] std::string nonFiniteJson() const; // of results that have such elements; may be empty

  std::vector<RunResult> all;

private:
  [[nodiscard]] Status checkOutput(const std::string& output) const;
  [[nodiscard]] const RunResult* find(std::string_view name) const; // by either name; null if unknown
};

[[nodiscard]] std::string resultText(const RunResult&); // "y = [1, 2]\n"
[[nodiscard]] std::string resultJson(const RunResult&); // "\"y\": {\"dtype\": …}"

} // namespace dtc
