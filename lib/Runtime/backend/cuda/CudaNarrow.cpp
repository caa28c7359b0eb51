#include "backend/cuda/CudaNarrow.h"

#include <algorithm>
#include <bit>

namespace dtc {
namespace {

bool isMultipleOf16(int64_t n) { return n % 16 == 0; }
bool isMultipleOf16(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

// Whether the operand has the f8 layout of cuBLASLt: contiguous along k, rows aligned to 16 bytes.
bool isContiguousAlongK(const PlacedGemm& g, bool second) {
  const PlacedGemm::Axis& rows = second ? g.n : g.m;
  const int64_t row = second ? rows.b : rows.a;
  return (second ? g.k.b : g.k.a) == 1 && (rows.extent == 1 || (isMultipleOf16(row) && row >= g.k.extent)) &&
         isMultipleOf16(second ? g.b : g.a) && std::ranges::all_of(g.batch, [&](const auto& axis) {
           return isMultipleOf16(second ? axis.b : axis.a);
         });
}

std::string dtypesOf(const PlacedNarrow& n) {
  const std::string a(dtypeName(n.a));
  return n.a == n.b ? a : a + " by " + std::string(dtypeName(n.b));
}

class Planning {
public:
  explicit Planning(const NarrowPlanner& with) : w_(with) {}

  // Tries f8 with the full epilogue, f8 with less of it, then the same with operands converted to a wider dtype.
  Result<NarrowProduct> run(const PlacedGemm& given) {
    uint32_t plain = 0;
    for (const PlacedGemm* g = &given; g; g = g->plain.get())
      if (Status s = begin(*g, plain++); !s) return s.error();
    if (given.k.extent == 0) return takes(ways_.back().gemm, ways_.back().begun);
    const std::string dtypes = dtypesOf(*ways_[0].gemm.narrow);
    std::string why;
    for (const Way& way : ways_) {
      auto made = asF8(way);
      if (made || made.error().kind != Error::Machine)
        return named(std::move(made), "matmuls of " + dtypes + " on f8 tensor cores");
      if (why.empty()) why = made.error().message;
    }
    const DType wide = given.dtype == DType::F16 ? DType::F16 : DType::BF16;
    Result<NarrowProduct> made = machineError("");
    for (const Way& way : ways_)
      if (!made && made.error().kind == Error::Machine) made = asWider(way, wide);
    return named(std::move(made),
                 "matmuls of " + dtypes + " as " + std::string(dtypeName(wide)) + ": " + why);
  }

private:
  static Result<NarrowProduct> named(Result<NarrowProduct> made, std::string note) {
    if (made) made->note = std::move(note);
    return made;
  }

  struct Way {
    PlacedGemm gemm;
    NarrowProduct begun;
  };

  // A result that is rounded to f8 is computed as f32 first; rows selected by an index are copied.
  Status begin(const PlacedGemm& given, uint32_t plain) {
    Way& way = ways_.emplace_back();
    way.begun.plain = plain;
    PlacedGemm g = given;
    g.plain.reset();
    if (!g.narrow) {
      int64_t elements = g.m.extent * g.n.extent;
      for (const PlacedGemm::Axis& axis : g.batch) elements *= axis.extent;
      DTC_TRY(auto sums, w_.room(elements * dtypeBytes(DType::F32)));
      const DType rounded = g.dtype;
      way.begun.after = widenResult(g, sums);
      if (Status s = convertBy(w_.queue, rounded, DType::F32, way.begun.after); !s) return s;
      g.narrow = PlacedNarrow{.a = rounded, .b = rounded};
      g.dtype = DType::F32, g.result.reset();
    }
    if (Status s = packOperands(w_.queue, w_.room, g, true, way.begun.packs); !s) return s;
    way.gemm = CudaGemm::oriented(g);
    return Ok{};
  }

  Result<NarrowProduct> asF8(const Way& way) {
    PlacedGemm g = way.gemm;
    const CudaDeviceInfo& gpu = w_.queue.device(w_.coordinate).info();
    if (gpu.major * 10 + gpu.minor < 89) return machineError("this GPU has no f8 tensor cores");
    if (!isMultipleOf16(g.n.extent) || !isMultipleOf16(g.k.extent))
      return machineError("n or k is not a multiple of 16");
    NarrowProduct out = way.begun;
    for (const bool second : {false, true}) {
      if (isContiguousAlongK(g, second)) continue;
      if (Status s = copied(g, second, g.operandType(second), out); !s) return s.error();
    }
    PlacedNarrow& n = *g.narrow;
    if ((n.aScaled && !n.aScale) || (n.bScaled && !n.bScale)) {
      DTC_TRY(auto made, scales(g, out));
      if (n.aScaled) n.aScale = made + (n.swapped ? kWord : 0);
      if (n.bScaled) n.bScale = made + (n.swapped ? 0 : kWord);
    }
    return takes(g, out);
  }

  Result<NarrowProduct> asWider(const Way& way, DType wide) {
    PlacedGemm g = way.gemm;
    NarrowProduct out = way.begun;
    for (const bool second : {false, true})
      if (Status s = copied(g, second, wide, out); !s) return s.error();
    CublasGemm::DeviceScale alpha;
    if (g.narrow->scales) {
      auto made = scales(g, out);
      auto constants = w_.room(2 * kWord);
      if (!made || !constants) return (made ? constants : made).error();
      alpha = {*made + 2 * kWord, *constants, *constants + kWord};
      Status filled = w_.queue.start(w_.coordinate, [&](const CudaDevice& d, const CudaStream& s) -> Status {
        if (Status zero = d.fillWord(*constants, 0, s); !zero) return zero;
        return d.fillWord(*constants + kWord, std::bit_cast<uint32_t>(1.0F), s);
      });
      if (!filled) return filled.error();
    }
    g.narrow = PlacedNarrow{.a = wide, .b = wide};
    return takes(g, out, alpha);
  }

  Result<NarrowProduct> takes(const PlacedGemm& g, NarrowProduct out,
                              const CublasGemm::DeviceScale& alpha = {}) {
    DTC_TRY(out.gemm,
            CudaGemm::plan(w_.library, w_.queue.device(w_.coordinate), g, w_.deterministic, false, alpha));
    return out;
  }

  // The operand converted to `to`, contiguous; f8 along k.
  Status copied(PlacedGemm& g, bool second, DType to, NarrowProduct& out) {
    const DType from = g.operandType(second);
    DTC_TRY(auto copy, w_.room(denseElements(g, second) * dtypeBytes(to)));
    std::vector<CudaPack> packs = packsOf(g, second, copy, dtypeBytes(to), to == from);
    Status s = to == from ? copyBytesBy(w_.queue, packs) : convertBy(w_.queue, to, from, packs);
    if (!s) return s;
    out.packs.insert(out.packs.end(), packs.begin(), packs.end());
    (second ? g.b : g.a) = copy;
    return Ok{};
  }

  // Three f32: the scale of a, of b, and their product.
  Result<std::byte*> scales(const PlacedGemm& g, NarrowProduct& out) {
    DTC_TRY(auto words, w_.room(3 * kWord));
    out.scales = g.narrow->scales;
    for (int64_t i = 0; i < 3; ++i) {
      out.scales->buffers.push_back(words + i * kWord);
      out.scales->bytes.push_back(dtypeBytes(DType::F32));
    }
    return words;
  }

  static constexpr int64_t kWord = 16; // spacing of the scales
  const NarrowPlanner& w_;
  std::vector<Way> ways_;
};

} // namespace

Result<NarrowProduct> planNarrow(const NarrowPlanner& planner, const PlacedGemm& gemm) {
  return Planning(planner).run(gemm);
}

} // namespace dtc
