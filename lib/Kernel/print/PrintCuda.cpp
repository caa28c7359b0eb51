#include "print/PrintCuda.h"

#include "print/CudaEmitter.h"
#include "print/PrintAttention.h"
#include "print/PrintCalls.h"
#include "schedule/TileSchedule.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

using NestRows = std::vector<std::optional<RowSchedule>>; // of each nest; nothing: no row schedule

// How a thread processes the elements of a nest without reductions.
enum class Elements : uint8_t {
  Tiled,  // in packs, through shared memory where operands are contiguous along different axes
  Packed, // in packs
  Single,
};

void printNest(const Kernel& k, const Nest& nest, int threads, Elements elements, int sorters,
               KernelText& out, Emitter::Scope& top) {
  if (threads == kMaxThreads && elements == Elements::Tiled && printTile(k, nest, out, top)) return;
  if (threads == kMaxThreads)
    if (const std::optional<ColumnSchedule> columns = columnScheduleOf(k, nest))
      return printColumns(k, nest, threads, *columns, out, top);
  if (elements != Elements::Single && printPacks(k, nest, threads, out, top)) return;
  if (nest.sort)
    out.printed.schedule = (sorters > 1 ? std::to_string(sorters) + " blocks of " : "") +
                           std::to_string(threads) + " threads per row, tiles of " +
                           std::to_string(sortRoom(k, *nest.sort)) + " in shared memory";
  if (nest.sortDigit)
    out.printed.schedule = std::to_string(threads) + " threads per tile of " + std::to_string(kSortTile);
  CudaEmitter(k, out, threads, sorters).print(nest, planForThreads(k, nest), top);
}

// `sorters`: the blocks of a cluster, which share a row that is sorted.
PrintedKernel printNests(const Kernel& k, int threads, const NestRows& rows,
                         Elements elements = Elements::Tiled, int sorters = 1) {
  KernelText out;
  Emitter::Scope top;
  out.printed.cluster = sorters;
  if (std::none_of(rows.begin(), rows.end(),
                   [](const auto& r) { return r && (r->rows() > 1 || r->cluster > 1); }))
    line(top, std::string("const ") + (smallIndices(k) ? "i32" : "i64") + " unit = blockIdx.x" +
                  (sorters > 1 ? " / " + std::to_string(sorters) : "") + ";");
  for (size_t i = 0; i < k.nests.size(); ++i)
    if (rows[i])
      printRows(k, k.nests[i], threads, *rows[i], out, top);
    else
      printNest(k, k.nests[i], threads, elements, sorters, out, top);
  out.printed.body = top.text;
  out.printed.blocks = out.printed.units;
  out.printed.threadsPerBlock = threads;
  return std::move(out.printed);
}

} // namespace

// The schedules of the only nest, if it has rows. Several nests share a block's threads, so each has one
// schedule.
std::vector<PrintedKernel> printCuda(const Kernel& k, const Target& target, size_t maxKernels) {
  if (k.attentionGradient) return printAttentionGradient(k, target, maxKernels);
  if (k.joined) return {printJoin(k, true)};
  if (k.grouped) return {printGrouped(k)};
  if (const std::optional<ScatterSchedule> scatter = scatterScheduleOf(k, target))
    return {printScatter(k, *scatter)};
  const int threads = threadsFor(k);
  std::vector<PrintedKernel> out;
  if (k.attention)
    for (const AttentionTile& tile : attentionTiles(k, target)) {
      if (out.size() == maxKernels) break;
      KernelText text;
      CudaEmitter emitter(k, text, threads);
      printAttention(emitter, k, text.printed, tile);
      text.printed.blocks = text.printed.units;
      out.push_back(std::move(text.printed));
    }
  if (!out.empty()) return out;
  const NestRows none(k.nests.size());
  for (const ScanSchedule& s : scanSchedules(k, target))
    if (out.size() < maxKernels) out.push_back(printScan(k, s));
  if (const int blocks = sortBlocks(k, target); blocks > 1)
    out.push_back(printNests(k, threads, none, Elements::Tiled, blocks));
  if (k.nests.size() == 1) {
    for (const RowSchedule& s :
         severalOf(rowSchedules(k, k.nests[0], planForThreads(k, k.nests[0]), target, 0), maxKernels))
      out.push_back(printNests(k, s.threads, {s}));
  } else {
    NestRows rows = none;
    for (size_t i = 0; i < k.nests.size(); ++i)
      if (const std::vector<RowSchedule> all =
              rowSchedules(k, k.nests[i], planForThreads(k, k.nests[i]), target, threads);
          !all.empty())
        rows[i] = all.front();
    if (rows != none) out.push_back(printNests(k, threads, rows));
  }
  if (out.size() < maxKernels) out.push_back(printNests(k, threads, none));
  auto packed = [&](const Nest& nest) {
    const NestPlan plan = planForThreads(k, nest);
    return packOf(k, nest, plan) > 1 || stridedPack(k, nest, plan) > 1;
  };
  auto tiled = [&](const Nest& nest) { return tileScheduleOf(k, nest).has_value(); };
  if (out.size() < maxKernels && threads == kMaxThreads && std::ranges::any_of(k.nests, tiled))
    out.push_back(printNests(k, threads, none, Elements::Packed));
  if (out.size() < maxKernels && std::ranges::any_of(k.nests, packed))
    out.push_back(printNests(k, threads, none, Elements::Single));
  return out;
}

} // namespace dtc
