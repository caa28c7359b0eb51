// Shuffles, votes, tensor cores. Fragments are those of the PTX ISA ("Matrix Fragments for mma.m16n8k16",
// "ldmatrix"); lib/Kernel/device/cuda.h describes each lane's registers.
#include "EmuWarp.h"

#include "dtc/Support/DType.h"
#include <algorithm>
#include <bit>

namespace dtc {
namespace {

struct MmaRegisters { // `__emu_mma` of emu.h
  uint32_t a[4], b[2];
  float c[4];
};
struct alignas(16) MatrixRegisters { // `__emu_matrices`
  uint16_t row[8];
  uint32_t x[4];
  const void* from; // where `row` was read
};

template <class T> T& registersOf(const EmuThread& t) { return *std::bit_cast<T*>(t.value); }

// The lane that `lane` reads, or -1 where it keeps its own value (PTX ISA, shfl.sync).
int sourceLane(const EmuThread& t, int lane) {
  const int width = t.width, first = lane & ~(width - 1), last = first | (width - 1);
  switch (static_cast<EmuWarpOp>(t.kind)) {
  case EmuWarpOp::Shuffle: return first | (t.argument & (width - 1));
  case EmuWarpOp::Up: return lane - t.argument >= first ? lane - t.argument : -1;
  case EmuWarpOp::Down: return lane + t.argument <= last ? lane + t.argument : -1;
  default: return (lane ^ t.argument) <= last ? lane ^ t.argument : -1;
  }
}

// Lanes that have returned need not arrive; but one that took part in this operation with another mask is an
// error.
std::optional<EmuWarpError> otherMask(const EmuWarp& warp, uint32_t taking) {
  const auto me = static_cast<uint32_t>(std::countr_zero(taking));
  const EmuThread& t = warp.lanes[me];
  std::optional<EmuWarpError> error;
  eachLane(t.mask & ~taking, [&](uint32_t lane) {
    if (error || lane >= warp.lanes.size()) return;
    const EmuThread& other = warp.lanes[lane];
    if (other.state != EmuState::Done) return;
    const std::string who = describe(t) + ", but thread " + emuTuple(other.view.thread);
    if (other.mask != 0 && other.mask != t.mask && other.kind == t.kind && sameLocation(other, t))
      error = EmuWarpError{me, who + " took part with mask " + emuHex(other.mask)};
    else if (warp.checked && !other.leaves)
      error = EmuWarpError{me, who + " has returned without it"};
  });
  return error;
}

// The value from such a lane is undefined.
EmuWarpError reportMissingSource(const EmuWarp& warp, uint32_t lane, uint32_t source) {
  const EmuThread& t = warp.lanes[lane];
  const bool exists = source < warp.lanes.size();
  return {lane, describe(t) + " and reads lane " + std::to_string(source) +
                    (!(t.mask >> source & 1)                                ? ", which is not in the mask"
                     : exists && warp.lanes[source].state == EmuState::Done ? ", which has returned"
                                                                            : ", which does not exist")};
}

// The operations of tensor cores have no mask: a lane that has returned, or that the block does not have, is
// an error. So is a row of a matrix that is not in shared memory.
std::optional<EmuWarpError> refusedMatrices(const EmuWarp& warp, uint32_t taking, bool loads) {
  if (taking != 0xffffffffu) {
    const auto first = static_cast<uint32_t>(std::countr_zero(taking)),
               gone = static_cast<uint32_t>(std::countr_zero(~taking));
    return EmuWarpError{first, describe(warp.lanes[first]) +
                                   ", which takes all 32 lanes of a warp, and lane " + std::to_string(gone) +
                                   (gone < warp.lanes.size() ? " has returned" : " does not exist")};
  }
  for (uint32_t lane = 0; loads && lane < 32; ++lane) {
    const auto* from = static_cast<const uint8_t*>(registersOf<MatrixRegisters>(warp.lanes[lane]).from);
    if (from < warp.memory.data() || from >= warp.memory.data() + warp.memory.size())
      return EmuWarpError{lane,
                          describe(warp.lanes[lane]) + ", and its row is not in the block's shared memory"};
  }
  return std::nullopt;
}

// A tensor core sums 16 products and the accumulator in an unspecified order, with unspecified roundings:
// here exactly, with one rounding.
void multiply(std::span<EmuThread> threads) {
  const bool half = threads[0].kind == static_cast<int32_t>(EmuWarpOp::MmaF16);
  auto element = [&](uint32_t word, int number) {
    const auto bits = static_cast<uint16_t>(word >> (16 * number));
    return half ? f16ToFloat(bits) : bf16ToFloat(bits);
  };
  float a[16][16], b[16][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const auto& own = registersOf<MmaRegisters>(threads[lane]);
    const uint32_t r = lane / 4, q = lane % 4 * 2;
    for (uint32_t n = 0; n < 2; ++n)
      for (uint32_t i = 0; i < 4; ++i) {
        a[r + 8 * (i % 2)][q + 8 * (i / 2) + n] = element(own.a[i], static_cast<int>(n));
        if (i < 2) b[q + 8 * i + n][r] = element(own.b[i], static_cast<int>(n));
      }
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    auto& own = registersOf<MmaRegisters>(threads[lane]);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      double sum = own.c[i];
      for (uint32_t k = 0; k < 16; ++k) sum += double{a[row][k]} * double{b[k][column]};
      own.c[i] = static_cast<float>(sum);
    }
  }
}

void storeMatrices(std::span<EmuThread> threads) {
  const bool transposed = threads[0].kind == static_cast<int32_t>(EmuWarpOp::MatricesTransposed);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    auto& own = registersOf<MatrixRegisters>(threads[lane]);
    for (uint32_t m = 0; m < 4; ++m) {
      auto at = [&](uint32_t row, uint32_t column) -> uint32_t {
        return registersOf<MatrixRegisters>(threads[8 * m + row]).row[column];
      };
      const uint32_t r = lane / 4, q = lane % 4 * 2;
      own.x[m] = transposed ? at(q, r) | at(q + 1, r) << 16 : at(r, q) | at(r, q + 1) << 16;
    }
  }
}

} // namespace

std::optional<EmuWarpError> completeWarpOp(const EmuWarp& warp, uint32_t taking) {
  if (auto error = otherMask(warp, taking)) return error;
  const auto op = static_cast<EmuWarpOp>(warp.lanes[static_cast<size_t>(std::countr_zero(taking))].kind);
  const bool loads = op == EmuWarpOp::Matrices || op == EmuWarpOp::MatricesTransposed;
  if (loads || op == EmuWarpOp::MmaBf16 || op == EmuWarpOp::MmaF16) {
    if (auto error = refusedMatrices(warp, taking, loads)) return error;
    loads ? storeMatrices(warp.lanes) : multiply(warp.lanes);
    return std::nullopt;
  }
  uint32_t votes = 0;
  eachLane(taking, [&](uint32_t lane) { votes |= warp.lanes[lane].value ? 1u << lane : 0; });
  std::optional<EmuWarpError> error;
  eachLane(taking, [&](uint32_t lane) {
    EmuThread& thread = warp.lanes[lane];
    if (error || op == EmuWarpOp::Sync) return;
    if (op == EmuWarpOp::Ballot)
      thread.result = votes;
    else if (op == EmuWarpOp::Any)
      thread.result = votes != 0;
    else if (op == EmuWarpOp::All)
      thread.result = votes == taking;
    else {
      const int source = sourceLane(thread, static_cast<int>(lane));
      if (source >= 0 && !(taking >> source & 1))
        error = reportMissingSource(warp, lane, static_cast<uint32_t>(source));
      else
        thread.result = source < 0 ? thread.value : warp.lanes[static_cast<size_t>(source)].value;
    }
  });
  return error;
}

uint32_t orderLanes(std::span<EmuThread> warp, uint32_t taking) {
  std::array<uint32_t, 32> known{};
  uint32_t clock = 0;
  eachLane(taking, [&](uint32_t own) {
    const EmuThread& t = warp[own];
    clock = std::max(clock, t.clock);
    for (size_t lane = 0; lane < 32 && t.laneClocks; ++lane)
      known[lane] = std::max(known[lane], (*t.laneClocks)[lane]);
  });
  ++clock;
  eachLane(taking, [&](uint32_t lane) { known[lane] = clock; });
  eachLane(taking, [&](uint32_t lane) {
    EmuThread& t = warp[lane];
    t.clock = clock;
    if (!t.laneClocks) t.laneClocks = std::make_unique<std::array<uint32_t, 32>>();
    *t.laneClocks = known;
  });
  return clock;
}

} // namespace dtc
