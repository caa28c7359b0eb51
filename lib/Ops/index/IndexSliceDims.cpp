#include "index/IndexSlices.h"

#include <algorithm>

namespace dtc {
namespace {

struct Names {
  const char *window, *dropped, *batching, *indicesBatching, *map;
};
constexpr Names kGatherNames = {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                "start_indices_batching_dims", "start_index_map"};
constexpr Names kScatterNames = {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                                 "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"};

// The integers of an attribute, which must be distinct and below `bound`.
bool distinctDims(const OpQuery& q, const char* name, size_t bound, std::vector<int64_t>& out) {
  if (q.rawAttr(name).valid()) out = q.intsAttr(name);
  std::vector<bool> seen(bound);
  for (int64_t d : out) {
    if (d < 0 || static_cast<size_t>(d) >= bound || seen[static_cast<size_t>(d)])
      return reportShape(q, std::string("needs ") + name + " to be distinct numbers from 0 to " +
                                std::to_string(static_cast<int64_t>(bound) - 1));
    seen[static_cast<size_t>(d)] = true;
  }
  return true;
}

// The dims of the operand that are dropped, batching or indexed, from the attributes.
bool operandRoles(const OpQuery& q, const Names& names, SliceDims& s, std::vector<bool>& dropped) {
  const size_t rank = q.type(0).rank(), indicesRank = q.type(1).rank();
  std::vector<int64_t> gone, batching, theirs, map;
  if (!distinctDims(q, names.dropped, rank, gone) || !distinctDims(q, names.batching, rank, batching) ||
      !distinctDims(q, names.indicesBatching, indicesRank, theirs) || !distinctDims(q, names.map, rank, map))
    return false;
  s.operand.resize(rank);
  dropped.assign(rank, false);
  for (int64_t d : gone) dropped[static_cast<size_t>(d)] = true;
  if (batching.size() != theirs.size())
    return reportShape(q, std::string("needs as many ") + names.batching + " as " + names.indicesBatching);
  for (size_t i = 0; i < batching.size(); ++i) {
    const auto d = static_cast<size_t>(batching[i]), e = static_cast<size_t>(theirs[i]);
    if (dropped[d] || theirs[i] == s.vector)
      return reportShape(q, std::string("has a dim of ") + names.batching + " in another role, too");
    if (!(q.type(0).dims[d] == q.type(1).dims[e]))
      return reportDims(q, "needs dim", "equal to dim", 0, d, 1, e);
    s.operand[d].batch = static_cast<int>(theirs[i]);
    dropped[d] = true;
  }
  for (size_t i = 0; i < map.size(); ++i) {
    const auto d = static_cast<size_t>(map[i]);
    if (s.operand[d].batch >= 0)
      return reportShape(q, std::string("has a dim of ") + names.batching + " in " + names.map + ", too");
    s.operand[d].indexed = static_cast<int>(i);
  }
  const Dim components =
      static_cast<size_t>(s.vector) < indicesRank ? q.type(1).dims[static_cast<size_t>(s.vector)] : Dim(1);
  if (!(components == Dim(static_cast<int64_t>(map.size()))))
    return reportShape(q, std::string("needs ") + std::to_string(map.size()) +
                              " index components, one for each dim of " + names.map);
  return true;
}

// The window sizes, which dims the window tensor keeps, and which dims of the operand a window covers in
// full.
bool windowSizes(const OpQuery& q, const std::vector<int64_t>& window, const std::vector<bool>& dropped,
                 SliceDims& s) {
  const bool gather = isGatherSlices(q);
  std::vector<Dim> sizes(s.operand.size(), Dim(1));
  if (gather) {
    sizes = *sizesAttr(q, "slice_sizes");
    if (sizes.size() != s.operand.size() || !std::all_of(sizes.begin(), sizes.end(), isSize))
      return reportShape(q, "needs " + std::to_string(s.operand.size()) + " slice_sizes, one for each dim");
  }
  size_t next = 0;
  for (size_t d = 0; d < s.operand.size(); ++d) {
    SliceDims::OperandDim& o = s.operand[d];
    if (!dropped[d]) {
      o.window = static_cast<int>(window[next++]);
      if (!gather) sizes[d] = q.type(2).dims[static_cast<size_t>(o.window)];
      s.result[static_cast<size_t>(o.window)] = sizes[d];
    } else if (!isOneDim(sizes[d])) {
      return reportShape(q, "needs slice_sizes to be 1 in dim " + std::to_string(d) +
                                ", which is dropped from the windows");
    }
    o.size = sizes[d];
    const Dim own = q.type(0).dims[d];
    // A shard with offsets may be empty, and if a batching dim is empty there is no window.
    const bool sharded = (!gather && q.operandTypes.size() > 3) || o.batch >= 0;
    if (!sharded && o.size.isStatic() && own.isStatic() && o.size.value() > own.value())
      return reportShape(q, "takes " + std::to_string(o.size.value()) + " elements of dim " +
                                std::to_string(d) + ", which has " + std::to_string(own.value()));
    // A gather's start is clamped to 0; a scatter's may be out of range.
    o.full = o.window >= 0 && o.size == own && (gather || o.indexed < 0);
  }
  return true;
}

} // namespace

bool isGatherSlices(const OpQuery& q) { return std::string_view(q.record->name) == "gather_slices"; }

bool sliceDims(const OpQuery& q, SliceDims& s) {
  const bool gather = isGatherSlices(q);
  const Names& names = gather ? kGatherNames : kScatterNames;
  const size_t indicesRank = q.type(1).rank();
  s.vector = q.intAttr("index_vector_dim");
  if (s.vector < 0 || static_cast<size_t>(s.vector) > indicesRank)
    return reportShape(q, "needs index_vector_dim from 0 to " + std::to_string(indicesRank));
  std::vector<bool> dropped;
  if (!operandRoles(q, names, s, dropped)) return false;
  const size_t batchDims = indicesRank - (static_cast<size_t>(s.vector) < indicesRank);
  const auto windows = static_cast<size_t>(std::count(dropped.begin(), dropped.end(), false));
  std::vector<int64_t> window;
  if (!distinctDims(q, names.window, batchDims + windows, window)) return false;
  if (window.size() != windows || (!gather && q.type(2).rank() != batchDims + windows))
    return reportShape(q, std::string("needs one dim of ") + names.window + " per dim of the windows, " +
                              std::to_string(windows) + ", and one per dim of the indices, " +
                              std::to_string(batchDims));
  std::sort(window.begin(), window.end());
  s.result.assign(batchDims + windows, Dim(1));
  if (!windowSizes(q, window, dropped, s)) return false;
  std::vector<int> batch;
  for (size_t d = 0; d < s.result.size(); ++d)
    if (!std::binary_search(window.begin(), window.end(), static_cast<int64_t>(d)))
      batch.push_back(static_cast<int>(d));
  size_t next = 0;
  for (size_t d = 0; d < indicesRank; ++d) {
    s.indices.push_back(static_cast<int64_t>(d) == s.vector ? -1 : batch[next++]);
    if (s.indices[d] < 0) continue;
    const auto at = static_cast<size_t>(s.indices[d]);
    s.result[at] = q.type(1).dims[d];
    if (!gather && !(q.type(2).dims[at] == s.result[at]))
      return reportDims(q, "needs dim", "equal to dim", 1, d, 2, at);
  }
  return true;
}

std::optional<int64_t> scatteredRows(const OpQuery& q, const SliceDims& s) {
  int row = -1;
  for (size_t d = 0; d < s.operand.size(); ++d) {
    const SliceDims::OperandDim& o = s.operand[d];
    if (o.full) continue;
    if (row >= 0 || o.indexed < 0 || o.window >= 0 || !o.placed()) return std::nullopt;
    row = static_cast<int>(d);
  }
  const bool last = static_cast<size_t>(s.vector) + 1 >= q.type(1).rank();
  if (row < 0 || !last) return std::nullopt;
  int next = row;
  for (int at : s.indices)
    if (at >= 0 && at != next++) return std::nullopt;
  return next > row ? std::optional<int64_t>(row) : std::nullopt;
}

} // namespace dtc
