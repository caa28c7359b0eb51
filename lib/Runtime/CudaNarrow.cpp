#include "CudaNarrow.h"

#include <algorithm>
#include <bit>

namespace dtc {
namespace {

bool whole(int64_t n) { return n % 16 == 0; }
bool whole(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

// Does the operand lie as cuBLASLt takes f8: along k, at whole 16 bytes?
bool liesAlongK(const PlacedGemm& g, bool second) {
  const PlacedGemm::Axis& rows = second ? g.n : g.m;
  const int64_t row = second ? rows.b : rows.a;
  return (second ? g.k.b : g.k.a) == 1 && (rows.extent == 1 || (whole(row) && row >= g.k.extent)) &&
         whole(second ? g.b : g.a) &&
         std::ranges::all_of(g.batch, [&](const auto& axis) { return whole(second ? axis.b : axis.a); });
}

std::string dtypesOf(const PlacedNarrow& n) {
  const std::string a(dtypeName(n.a));
  return n.a == n.b ? a : a + " by " + std::string(dtypeName(n.b));
}

class Planning {
public:
  explicit Planning(const NarrowPlanner& with) : w_(with) {}

  // As f8 whole, as f8 without what the library does beside, then the same as copies.
  Result<NarrowProduct> run(const PlacedGemm& given) {
    for (const PlacedGemm* g : {&given, given.plain.get()})
      if (Status s = g ? begin(*g, g != &given) : Status(Ok{}); !s) return s.error();
    if (given.k.extent == 0) return takes(ways_.back().gemm, ways_.back().begun);
    const std::string dtypes = dtypesOf(*ways_[0].gemm.narrow);
    std::string why;
    for (const Way& way : ways_) {
      auto made = asF8(way);
      if (made || made.error().kind != Error::Machine)
        return named(std::move(made), "products of " + dtypes + " on tensor cores of f8");
      if (why.empty()) why = made.error().message;
    }
    const DType wide = given.dtype == DType::F16 ? DType::F16 : DType::BF16;
    Result<NarrowProduct> made = machineError("");
    for (const Way& way : ways_)
      if (!made && made.error().kind == Error::Machine) made = asWider(way, wide);
    return named(std::move(made),
                 "products of " + dtypes + " as " + std::string(dtypeName(wide)) + ", because " + why);
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

  // One that is rounded to f8 is stored as f32 here; rows that are looked up are copied to where they can be read.
  Status begin(const PlacedGemm& given, bool plain) {
    Way& way = ways_.emplace_back();
    way.begun.plain = plain;
    PlacedGemm g = given;
    g.plain.reset();
    if (!g.narrow) {
      int64_t elements = g.m.extent * g.n.extent;
      for (const PlacedGemm::Axis& axis : g.batch) elements *= axis.extent;
      auto sums = w_.room(elements * dtypeBytes(DType::F32));
      if (!sums) return sums.error();
      const DType rounded = g.dtype;
      way.begun.after = widenResult(g, *sums);
      if (Status s = convertBy(w_.places, rounded, DType::F32, way.begun.after); !s) return s;
      g.narrow = PlacedNarrow{.a = rounded, .b = rounded};
      g.dtype = DType::F32, g.result.reset();
    }
    if (Status s = packOperands(w_.places, w_.room, g, true, way.begun.packs); !s) return s;
    way.gemm = CudaGemm::oriented(g);
    return Ok{};
  }

  Result<NarrowProduct> asF8(const Way& way) {
    PlacedGemm g = way.gemm;
    const CudaDeviceInfo& gpu = w_.places.device(w_.place).info();
    if (gpu.major * 10 + gpu.minor < 89) return machineError("this GPU has no tensor cores for them");
    if (!whole(g.n.extent) || !whole(g.k.extent)) return machineError("sizes are no multiples of 16");
    NarrowProduct out = way.begun;
    for (const bool second : {false, true}) {
      if (liesAlongK(g, second)) continue;
      if (Status s = copied(g, second, g.operandType(second), out); !s) return s.error();
    }
    PlacedNarrow& n = *g.narrow;
    if ((n.aScaled && !n.aScale) || (n.bScaled && !n.bScale)) {
      auto made = scales(g, out);
      if (!made) return made.error();
      if (n.aScaled) n.aScale = *made + (n.turned ? kWord : 0);
      if (n.bScaled) n.bScale = *made + (n.turned ? 0 : kWord);
    }
    return takes(g, out);
  }

  Result<NarrowProduct> asWider(const Way& way, DType wide) {
    PlacedGemm g = way.gemm;
    NarrowProduct out = way.begun;
    for (const bool second : {false, true})
      if (Status s = copied(g, second, wide, out); !s) return s.error();
    CublasGemm::Alpha alpha;
    if (g.narrow->scales) {
      auto made = scales(g, out);
      auto constants = w_.room(2 * kWord);
      if (!made || !constants) return (made ? constants : made).error();
      alpha = {*made + 2 * kWord, *constants, *constants + kWord};
      Status filled = w_.places.start(w_.place, [&](const CudaDevice& d, const CudaStream& s) -> Status {
        if (Status zero = d.fillWord(*constants, 0, s); !zero) return zero;
        return d.fillWord(*constants + kWord, std::bit_cast<uint32_t>(1.0F), s);
      });
      if (!filled) return filled.error();
    }
    g.narrow = PlacedNarrow{.a = wide, .b = wide};
    return takes(g, out, alpha);
  }

  Result<NarrowProduct> takes(const PlacedGemm& g, NarrowProduct out, const CublasGemm::Alpha& alpha = {}) {
    auto gemm = CudaGemm::plan(w_.library, w_.places.device(w_.place), g, w_.deterministic, false, alpha);
    if (!gemm) return gemm.error();
    out.gemm = std::move(*gemm);
    return out;
  }

  // The operand as `to`, dense; f8 along k.
  Status copied(PlacedGemm& g, bool second, DType to, NarrowProduct& out) {
    const DType from = g.operandType(second);
    auto copy = w_.room(denseElements(g, second) * dtypeBytes(to));
    if (!copy) return copy.error();
    std::vector<CudaPack> packs = packsOf(g, second, *copy, dtypeBytes(to), to == from);
    Status s = to == from ? copyBytesBy(w_.places, packs) : convertBy(w_.places, to, from, packs);
    if (!s) return s;
    out.packs.insert(out.packs.end(), packs.begin(), packs.end());
    (second ? g.b : g.a) = *copy;
    return Ok{};
  }

  // Three f32: a's scale, b's, and both.
  Result<std::byte*> scales(const PlacedGemm& g, NarrowProduct& out) {
    auto words = w_.room(3 * kWord);
    if (!words) return words.error();
    out.scales = g.narrow->scales;
    for (int64_t i = 0; i < 3; ++i) {
      out.scales->buffers.push_back(*words + i * kWord);
      out.scales->bytes.push_back(dtypeBytes(DType::F32));
    }
    return *words;
  }

  static constexpr int64_t kWord = 16; // numbers lie at multiples of it
  const NarrowPlanner& w_;
  std::vector<Way> ways_;
};

} // namespace

Result<NarrowProduct> planNarrow(const NarrowPlanner& planner, const PlacedGemm& gemm) {
  return Planning(planner).run(gemm);
}

} // namespace dtc
