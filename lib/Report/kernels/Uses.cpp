#include "kernels/Uses.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include <algorithm>

namespace dtc {
namespace {

class Collection {
public:
  Collection(Module& m, KernelSet& set, KernelSet& libraries) : m_(m), set_(set), libraries_(libraries) {}

  Status function(FuncId f) {
    mesh_ = meshValueOf(m_, f);
    return block(m_[f].body);
  }

  ProgramUses uses;

private:
  Status block(BlockId b) {
    const std::vector<OpId> ops = m_[b].ops; // the set may append to the module's tables
    for (OpId o : ops) {
      if (m_.record(o).regions == RegionKind::Fused) {
        DTC_TRY(auto call, set_.add(m_, o));
        uses.steps.push_back({o, "view"});
        std::visit([&](const auto& c) { add(o, c); }, call);
        DTC_TRY(auto preferred, libraries_.add(m_, o));
        if (std::holds_alternative<ConvCall>(preferred) || std::holds_alternative<AttentionCall>(preferred))
          uses.kernels.back().fallback = uses.steps.back().library = true;
        continue;
      }
      uses.steps.push_back({o, std::string(m_.record(o).name)});
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (Status s = block(m_.region(o, r)); !s) return s;
    }
    return Ok{};
  }

  std::vector<int64_t> sizesOf(std::span<const Dim> dims) const {
    std::vector<int64_t> sizes;
    for (Dim d : dims) sizes.push_back(dimAt(m_, d, mesh_, 0).value_or(0));
    return sizes;
  }
  int64_t elementsOf(ValueId v) const {
    int64_t n = 1;
    for (int64_t s : shapeAt(m_, m_.values[v.index].type, mesh_, 0).value_or(std::vector<int64_t>{})) n *= s;
    return n;
  }

  void addKernel(OpId o, uint32_t kernel, std::span<const uint32_t> inputs, std::span<const uint32_t> outputs,
                 std::vector<int64_t> sizes) {
    const KernelSource& source = set_.kernels()[kernel];
    KernelUse use{.kernel = kernel, .op = o};
    KernelLaunch& launch = use.launch;
    launch.inputs = source.numInputs;
    for (uint32_t b = 0; b < source.buffers.size(); ++b) {
      const bool in = b < source.numInputs;
      const auto& numbers = in ? inputs : outputs;
      const uint32_t at = in ? b : b - source.numInputs;
      int64_t elements = 1; // of a library's own memory
      if (at < numbers.size())
        elements = elementsOf(in ? m_.operand(o, numbers[at]) : m_.result(o, numbers[at]));
      launch.elements = std::max(launch.elements, elements);
      launch.argumentBytes.push_back(elements * dtypeBytes(source.buffers[b].dtype));
      launch.elementBytes.push_back(static_cast<int>(dtypeBytes(source.buffers[b].dtype)));
      launch.memoryOf.push_back(source.buffers[b].updates.value_or(b));
    }
    launch.bytes = source.bytes(sizes), launch.sizes = std::move(sizes);
    if (launch.bytes == 0) // an epilogue, whose bytes are part of its matmul
      for (int64_t bytes : launch.argumentBytes) launch.bytes += bytes;
    uses.kernels.push_back(std::move(use));
  }

  // A kernel that moves all elements of one value: its result has the operand's bytes in another order.
  bool copies(const KernelUse& use) const {
    const KernelSource& source = set_.kernels()[use.kernel];
    const auto moves = [&](OpId o) {
      const OpRecord& r = m_.record(o);
      return r.lowering == Lowering::Loops && !r.scalar && !r.scalarFor && r.combines == PendingKind::None;
    };
    return std::ranges::all_of(m_[m_.region(use.op)].ops, moves) && source.numInputs == 1 &&
           source.buffers.size() == 2 && source.buffers[0].dtype == source.buffers[1].dtype &&
           use.launch.argumentBytes[0] == use.launch.argumentBytes[1];
  }

  void add(OpId o, const KernelCall& c) {
    addKernel(o, c.kernel, c.inputs, c.outputs, sizesOf(c.sizes));
    StepUse& step = uses.steps.back();
    step.name = set_.kernels()[c.kernel].name, step.copies = copies(uses.kernels.back());
  }
  void add(OpId o, const GemmCall& c) {
    StepUse& step = uses.steps.back();
    step.name = "matmul", step.library = true;
    if (c.epilogue) {
      addKernel(o, c.epilogue->kernel, c.epilogue->inputs, c.epilogue->outputs, sizesOf(c.sizes));
      step.name += " + " + set_.kernels()[c.epilogue->kernel].name, step.epilogue = true;
    }
    if (c.narrow && c.narrow->scales)
      addKernel(o, c.narrow->scales->kernel, c.narrow->scales->inputs, {}, sizesOf(c.narrow->scales->sizes));
    uses.matmuls.push_back({c.bound(sizesOf(c.sizes))});
  }
  void add(OpId o, const ConvCall& c) { add(o, c.own); }
  void add(OpId o, const AttentionCall& c) { add(o, c.own); }
  void add(OpId, const FactorizationCall& c) {
    uses.steps.back().name = c.what.name(), uses.steps.back().library = true;
  }
  void add(OpId, const ViewCall&) { uses.steps.back().view = true; }

  Module& m_;
  KernelSet &set_, &libraries_;
  Mesh mesh_;
};

} // namespace

Result<ProgramUses> usesOf(Module& m, FuncId entry, KernelSet& set, KernelSet& libraries) {
  Collection collection(m, set, libraries);
  for (FuncId f : functionsOfProgram(m, entry))
    if (Status s = collection.function(f); !s) return s.error();
  return std::move(collection.uses);
}

} // namespace dtc
