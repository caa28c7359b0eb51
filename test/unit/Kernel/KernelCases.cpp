#include "KernelCases.h"
#include <cstdlib>

namespace dtc {

std::vector<Tensor> randomArguments(const Module& m, FuncId f) {
  std::vector<Tensor> args;
  InputSpec spec{InputSpec::Randn, 11, 1.0, 0};
  for (const FuncArg& a : m[f].args) {
    const Type& t = m.typeOf(a.value);
    args.push_back(makeInput(spec, t.dtype, t.staticShape(), args.size()));
  }
  return args;
}

void KernelCases::add(Module& m, FuncId f, std::vector<Tensor> args, const std::string& text) {
  EvalOptions options;
  std::unordered_map<ValueId, std::pair<Tensor, Tensor>> values; // R64 and Rd
  for (size_t i = 0; i < args.size(); ++i) values[m[f].args[i].value] = {args[i], args[i]};
  auto evaluated = [&](OpId o, std::unordered_map<ValueId, std::pair<Tensor, Tensor>>& scope) {
    for (Precision p : {Precision::R64, Precision::Rd}) {
      std::vector<Tensor> in;
      for (ValueId v : m.operands(o)) {
        if (auto it = scope.find(v); it != scope.end()) {
          in.push_back(p == Precision::R64 ? it->second.first : it->second.second);
          continue;
        }
        Tensor t(m.typeOf(v).dtype, {});
        const Attr& a = m.attrs[m[v].literal];
        if (a.kind == Attr::Float)
          t.setFloat(0, a.f);
        else if (isFloat(t.dtype()))
          t.setFloat(0, static_cast<double>(a.i));
        else
          t.setInt(0, a.i);
        in.push_back(t);
      }
      Diagnostics diags;
      EvalOptions eval;
      eval.precision = p;
      auto out = evaluateOp(queryOf(m, o, diags), in, eval);
      ASSERT_TRUE(out.ok()) << text << ": " << out.error().message;
      for (size_t r = 0; r < out->size(); ++r) {
        auto& slot = scope[m.result(o, r)];
        (p == Precision::R64 ? slot.first : slot.second) = (*out)[r];
      }
    }
  };
  for (OpId fused : std::vector<OpId>(m[m[f].body].ops)) {
    if (m.record(fused).regions != RegionKind::Fused) {
      evaluated(fused, values);
      continue;
    }
    const BlockId body = m.region(fused);
    std::unordered_map<ValueId, std::pair<Tensor, Tensor>> inner;
    std::vector<Tensor> operands;
    for (size_t i = 0; i < m[fused].numOperands; ++i) {
      const ValueId v = m.operand(fused, i);
      inner[m[body].args[i]] = values.at(v);
      operands.push_back(values.at(v).second);
    }
    for (OpId o : std::vector<OpId>(m[body].ops)) evaluated(o, inner);
    auto call = set_.add(m, fused);
    ASSERT_TRUE(call.ok()) << text << ": " << call.error().message;
    for (uint32_t r = 0; r < m[fused].numResults; ++r)
      values[m.result(fused, r)] = inner.at(m[body].yields[r]);
    if (const KernelCall* kernel = std::get_if<KernelCall>(&*call)) {
      Planned p{text, *kernel, {}, {}, {}, {}};
      for (uint32_t i : kernel->inputs) p.inputs.push_back(operands[i]);
      for (uint32_t r : kernel->outputs) {
        p.r64.push_back(inner.at(m[body].yields[r]).first);
        p.rd.push_back(inner.at(m[body].yields[r]).second);
      }
      ASSERT_TRUE(kernel->sizes.empty());
      planned_.push_back(std::move(p));
    }
  }
}

void KernelCases::compare(const Planned& p, std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const CompareReport report = compareTensors(outputs[i], p.r64[i], p.rd[i]);
    const KernelSource& kernel = set_.kernels()[p.call.kernel];
    EXPECT_TRUE(report.pass) << p.text << ", output " << i << ": " << report.reason << "\n"
                             << kernel.cpp << kernel.cuda;
  }
}

void KernelCases::runOnCpu(int64_t unitsAtATime) {
  CpuJit jit;
  std::vector<SourceUnit> units;
  for (const KernelSource& k : set_.kernels()) units.push_back({k.name, k.cpp});
  auto module = jit.compile(units);
  ASSERT_TRUE(module.ok()) << module.error().message;
  for (Planned& p : planned_) {
    const KernelSource& k = set_.kernels()[p.call.kernel];
    auto* run = module->function<void(void* const*, const int64_t*, int64_t, int64_t, void*)>(k.name);
    ASSERT_NE(run, nullptr) << k.name;
    std::vector<Tensor> outputs;
    for (const Tensor& t : p.rd) outputs.emplace_back(t.dtype(), t.shape());
    std::vector<void*> buffers;
    for (Tensor& t : p.inputs) buffers.push_back(t.bytes().data());
    for (Tensor& t : outputs) buffers.push_back(t.bytes().data());
    const int64_t count = k.units(p.sizes),
                  step = unitsAtATime > 0 ? unitsAtATime : std::max<int64_t>(count, 1);
    void* scratch = std::aligned_alloc(64, static_cast<size_t>((k.scratchBytes(p.sizes) + 127) / 64 * 64));
    for (int64_t u = 0; u < count; u += step)
      run(buffers.data(), p.sizes.data(), u, std::min(count, u + step), scratch);
    std::free(scratch);
    compare(p, outputs);
  }
}

void KernelCases::runOnEmulator() {
  size_t schedules = 1;
  for (const KernelSource& k : set_.kernels()) schedules = std::max(schedules, 1 + k.otherCuda.size());
  for (size_t i = 0; i < schedules; ++i) runOnEmulator(i);
}

void KernelCases::runOnEmulator(size_t schedule) {
  CpuJit jit;
  CudaEmu emulator(jit);
  std::vector<SourceUnit> units;
  for (const KernelSource& k : set_.kernels())
    if (schedule <= k.otherCuda.size()) units.push_back({k.name, k.cudaSchedule(schedule).cuda});
  auto module = emulator.compile(units);
  ASSERT_TRUE(module.ok()) << module.error().message;
  for (Planned& p : planned_) {
    const KernelSource& k = set_.kernels()[p.call.kernel];
    if (schedule > k.otherCuda.size()) continue;
    const CudaSchedule form = k.cudaSchedule(schedule);
    std::vector<Tensor> outputs;
    for (const Tensor& t : p.rd) outputs.emplace_back(t.dtype(), t.shape());
    std::vector<void*> buffers, arguments;
    std::vector<EmuBuffer> ranges;
    auto add = [&](Tensor& t, bool output) {
      ranges.push_back({static_cast<uint32_t>(buffers.size()), t.bytes().size(), !output, output, output});
      buffers.push_back(t.bytes().data());
    };
    for (Tensor& t : p.inputs) add(t, false);
    for (Tensor& t : outputs) add(t, true);
    for (void*& b : buffers) arguments.push_back(&b);
    for (int64_t& s : p.sizes) arguments.push_back(&s);
    const int64_t blocks = form.blocks(p.sizes);
    if (blocks == 0) continue;
    Status done = module->launch(k.name, {{static_cast<uint32_t>(blocks), 1, 1},
                                          {static_cast<uint32_t>(form.threadsPerBlock), 1, 1},
                                          static_cast<uint32_t>(form.sharedBytes),
                                          arguments.data(),
                                          static_cast<uint32_t>(arguments.size()),
                                          ranges,
                                          nullptr});
    ASSERT_TRUE(done.ok()) << p.text << ": " << done.error().message << "\n" << form.cuda;
    compare(p, outputs);
  }
}

} // namespace dtc
