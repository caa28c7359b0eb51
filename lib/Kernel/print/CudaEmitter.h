#pragma once
// What the printers of CUDA nests share. A block computes a unit; its threads share the loops over the unit's
// elements. Values that do not depend on the thread are computed by all of them.
#include "print/Emitter.h"
#include "schedule/ColumnSchedule.h"
#include "schedule/CudaPlan.h"
#include "schedule/RowSchedule.h"
#include "schedule/ScanSchedule.h"
#include "schedule/ScatterSchedule.h"

namespace dtc {

// Prints a nest without a schedule of its own: plain loops, or sorts of rows.
class CudaEmitter : public Emitter {
public:
  // `sorters`: blocks that share a sorted row.
  CudaEmitter(const loops::Kernel& k, KernelText& out, int threads, int sorters = 1)
      : Emitter(k, out), threads_(threads), sorters_(sorters), index_(smallIndices(k) ? "i32" : "i64") {}

  void print(const loops::Nest& nest, const loops::NestPlan& plan, Scope& top);
  int lanes() const override { return 1; }

protected:
  using Kernel = loops::Kernel;
  using Nest = loops::Nest;
  using Node = loops::Node;
  using Store = loops::Store;
  static std::string text(int64_t n) { return std::to_string(n); }

  // Counts the units, and returns their number as text.
  virtual std::string countUnits();
  // Declares a unit's coordinates in `row`; returns the condition under which the unit exists, "": always.
  virtual std::string beginUnit(Scope& top, Scope& row, const std::string& unit);
  virtual void printUnit(Scope& row, const std::string& unit); // its number
  void decode(Scope& row, const std::string& unit);

  std::string indexType() const override { return index_; }
  bool cooperative() const override { return true; }
  std::string lanesLoop(AxisId a) override;
  std::string nearFunction(const Node& call) const override;
  Value loadText(const Node& node, Scope& s, bool vector) override;
  void storeText(const Store& store, Scope& s) override;
  [[nodiscard]] bool isMove(const Store& store) const;
  // True if a store writes elements of inputs, or constants, that conditions select: their bits, without a conversion
  // to the dtype of the computation. bitsText: of such a value.
  [[nodiscard]] bool movesBits(const Store& store) const;
  std::string bitsText(NodeId n, DType dtype, Scope& s);
  void betweenStores(Scope& rows) override {
    if (rows.vector < 0) line(rows, "__syncthreads();");
  }
  std::string sortCall(const loops::SortRow& sort) override;
  std::string sortDigitCall() const override { return "dtc_block_sort_"; }
  std::string acrossLanes(loops::ReduceKind kind, const std::string& acc) override {
    return std::string("dtc_block_") + reduceName(kind) + "<" + text(threads_) + ">(" + acc + ")";
  }
  virtual std::string barrier() const { return "__syncthreads();"; } // of the threads of a row

  // --- packs: neighbors that a thread loads or stores at once ---
  // The element of a pack to which `s` stores, "": to memory.
  virtual std::string packElement(const Store& store, Scope& s);
  std::string packText(const Store& store) const {
    return "packed" + std::to_string(&store - nest_->stores.data());
  }
  // A pack of `n` stored values, as computed (narrow floats: in f32), and the conversion to memory.
  void declarePack(const Store& store, int64_t n, Scope& s) const;
  std::string packResult(const Store& store) const;
  // "in0 + at", at the first element of a pack along `lane`.
  std::string packAt(uint32_t buffer, AffineId address, AxisId lane, Scope& s);
  // The pack, or zeros of its type where the load's condition is false.
  std::string loadedPack(const Node& load, const std::string& pack, const std::string& type, Scope& s);
  [[nodiscard]] std::string packTypeOf(uint32_t buffer, int64_t n) const;
  // Element `lane` of a loaded pack, converted for computation.
  static std::string laneText(DType dtype, const std::string& pack, const std::string& lane) {
    return isNarrowFloat(dtype) ? "dtc_lane(" + pack + ", " + lane + ")" : pack + ".at[" + lane + "]";
  }

  int threads_, sorters_;
  std::string index_;                  // the type of loop variables and addresses
  std::string thread_ = "threadIdx.x"; // among those of a row
  int rowThreads_ = threads_;          // of a block, that share a row
  bool movesBits_ = true;              // stores of loaded elements skip conversions, and loads ahead
  std::unordered_map<uint32_t, std::string> bits_; // of loads: an element as memory has it
  std::string packLane_;                           // the element of packs to which stores go; "": to memory
};

[[nodiscard]] bool isCallOf(const loops::Kernel& k, loops::NodeId n, std::string_view function);

// Each prints one nest. A thread's packs of a nest without reductions; false where packs have no benefit.
[[nodiscard]] bool printPacks(const loops::Kernel& k, const loops::Nest& nest, int threads, KernelText& out,
                              Emitter::Scope& top);
// Tiles in shared memory; false where all accesses are contiguous along one axis.
[[nodiscard]] bool printTile(const loops::Kernel& k, const loops::Nest& nest, KernelText& out,
                             Emitter::Scope& top);
void printColumns(const loops::Kernel& k, const loops::Nest& nest, int threads, const ColumnSchedule& columns,
                  KernelText& out, Emitter::Scope& top);
void printRows(const loops::Kernel& k, const loops::Nest& nest, int threads, const RowSchedule& rows,
               KernelText& out, Emitter::Scope& top);
// Of the only nest.
[[nodiscard]] PrintedKernel printScan(const loops::Kernel& k, const ScanSchedule& scan);
[[nodiscard]] PrintedKernel printScatter(const loops::Kernel& k, const ScatterSchedule& scatter);

} // namespace dtc
