#pragma once
// A graph of a file as a function of a module: each node by its row, with its location and name.
#include "dtc/Import/graph/Problem.h"
#include "dtc/Import/rows/Context.h"
#include <functional>

namespace dtc {

// The ops of a framework.
struct ImportTable {
  // The row of a node; nullptr: unsupported.
  std::function<const ImportRow*(const ImportNode&)> find;
  // A remark on an op without a row: "; did you mean 'aten.relu'?"
  std::function<std::string(const ImportNode&)> remark;
  // In place of `find`, for rows that need more than an ImportContext: the results of a node; nothing if it is
  // unsupported.
  std::function<std::optional<ImportResults>(ImportContext&)> convert = {};
  // What is wrong with an argument that the row did not read: "has the argument …"; "" if nothing is. Absent:
  // all are fine.
  std::function<std::string(const ImportContext&, const ImportArgument&)> unread = {};
};

// Imports the first graph as @main. `file` must have its listing as the module's source (graph/Listing.h).
// Continues after a node that does not import, and lists all of them in `problems`, if given, else reports
// them to `diags`. False if there were any.
[[nodiscard]] bool importGraph(Module&, const ImportFile&, const ImportTable&, Diagnostics&,
                               std::vector<ImportProblem>* problems = nullptr);

// A name of a file as one that the IR can have: letters, digits and _, not beginning with a digit. "" if
// nothing is left.
[[nodiscard]] std::string importedName(std::string_view name);

} // namespace dtc
