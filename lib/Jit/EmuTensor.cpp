// Tensor cores and asynchronous copies of cuda-emu. Fragments are those of the PTX ISA ("Matrix Fragments for mma.m16n8k16",
// "ldmatrix"): what is said of each lane's registers in Device/cuda.h.
#include "EmuCluster.h"
#include "dtc/Support/DType.h"
#include <bit>
#include <cstring>

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

} // namespace

// These operations have no mask: a lane that has returned, or that the block never had, is missed.
bool EmuCluster::wholeWarp(uint32_t begin, uint32_t lanes) {
  if (lanes == 0xffffffffu) return true;
  const auto first = static_cast<uint32_t>(__builtin_ctz(lanes)),
             gone = static_cast<uint32_t>(__builtin_ctz(~lanes));
  const bool exists = begin % perBlock_ + gone < perBlock_;
  fail(begin + first, describe(begin + first) + ", which takes all 32 lanes of a warp, and lane " +
                          std::to_string(gone) + (exists ? " has returned" : " is not there"));
  return false;
}

// A tensor core sums 16 products and what was there in an order, and with roundings, that nobody promises: here exactly, rounded
// once.
void EmuCluster::multiply(uint32_t begin, uint32_t lanes) {
  if (!wholeWarp(begin, lanes)) return;
  const bool half = threads_[begin].kind == static_cast<int32_t>(EmuWarpOp::MmaF16);
  auto element = [&](uint32_t word, int number) {
    const auto bits = static_cast<uint16_t>(word >> (16 * number));
    return half ? f16ToFloat(bits) : bf16ToFloat(bits);
  };
  float a[16][16], b[16][8];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const auto& own = registersOf<MmaRegisters>(threads_[begin + lane]);
    const uint32_t r = lane / 4, q = lane % 4 * 2;
    for (uint32_t n = 0; n < 2; ++n)
      for (uint32_t i = 0; i < 4; ++i) {
        a[r + 8 * (i % 2)][q + 8 * (i / 2) + n] = element(own.a[i], static_cast<int>(n));
        if (i < 2) b[q + 8 * i + n][r] = element(own.b[i], static_cast<int>(n));
      }
  }
  for (uint32_t lane = 0; lane < 32; ++lane) {
    auto& own = registersOf<MmaRegisters>(threads_[begin + lane]);
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      double sum = own.c[i];
      for (uint32_t k = 0; k < 16; ++k) sum += double{a[row][k]} * double{b[k][column]};
      own.c[i] = static_cast<float>(sum);
    }
  }
}

void EmuCluster::giveMatrices(uint32_t begin, uint32_t lanes) {
  if (!wholeWarp(begin, lanes)) return;
  const bool turned = threads_[begin].kind == static_cast<int32_t>(EmuWarpOp::MatricesTurned);
  for (uint32_t i = begin; i < begin + 32; ++i)
    if (!inShared(registersOf<MatrixRegisters>(threads_[i]).from, blockOf(i)))
      return fail(i, describe(i) + ", and its row is not in the block's shared memory");
  for (uint32_t lane = 0; lane < 32; ++lane) {
    auto& own = registersOf<MatrixRegisters>(threads_[begin + lane]);
    for (uint32_t m = 0; m < 4; ++m) {
      auto at = [&](uint32_t row, uint32_t column) -> uint32_t {
        return registersOf<MatrixRegisters>(threads_[begin + 8 * m + row]).row[column];
      };
      const uint32_t r = lane / 4, q = lane % 4 * 2;
      own.x[m] = turned ? at(q, r) | at(q + 1, r) << 16 : at(r, q) | at(r, q + 1) << 16;
    }
  }
}

// --- asynchronous copies ---

EmuCell* EmuCluster::sharedCell(const void* p) {
  if (!kernel_.checked) return nullptr;
  const auto from = static_cast<size_t>(static_cast<const uint8_t*>(p) - workspace_.shared.get());
  const size_t block = numBlocks_ == 1 ? 0 : from / stride_;
  return &workspace_
              .sharedCells[block * sharedCells_ + ((from - block * stride_ - kSharedAlign) >> granuleShift_)];
}

// With the room around it, which the checks of an access tell from it.
bool EmuCluster::inShared(const void* p, uint32_t block) const {
  const auto* at = static_cast<const uint8_t*>(p);
  return at >= sharedOf(block) - kSharedAlign && at < sharedOf(block) + stride_ - kSharedAlign;
}

void EmuCluster::noteCopier(uint8_t* to, uint32_t copier, const char* place) {
  for (uint32_t i = 0; i < 16; i += static_cast<uint32_t>(kernel_.granule)) {
    EmuCell* const cell = sharedCell(to + i);
    cell->copier = copier;
    if (copier) cell->copierPlace = placeNumber(place);
  }
}

// Begins: the source is read, and nobody may touch the destination until the thread has waited.
void EmuCluster::copyAsync(void* to, const void* from, int32_t bytes, const char* place) {
  EmuThread& thread = threads_[current_];
  const auto count = static_cast<uint32_t>(bytes);
  const auto refuse = [&](const std::string& why) {
    fail(current_, "thread " + emuTuple(thread.view.thread) + " at line " + lineOf(0, place) + ": " + why);
  };
  if (count > 16) return refuse("a copy of 16 bytes reads " + std::to_string(bytes));
  auto* begin = static_cast<uint8_t*>(to);
  if (!inShared(begin, blockOf(current_)))
    return refuse("an asynchronous copy to memory that is not the block's shared memory");
  const auto* source = static_cast<const uint8_t*>(from);
  if (running_->holds(source) || static_cast<size_t>(source - workspace_.shared.get()) < stride_ * numBlocks_)
    return refuse("an asynchronous copy from memory that is not global");
  if (kernel_.checked) {
    access(from, emu::accessCode(4, emu::Read) | count, place);
    if (!failed()) access(to, emu::accessCode(4, emu::Write) | 16, place);
    if (failed()) return;
    noteCopier(begin, current_ + 1, place);
  }
  EmuCopy& copy = thread.copies.emplace_back();
  copy.to = begin, copy.place = place, copy.group = thread.copyGroup;
  copy.from = source, copy.count = count;
  std::memcpy(copy.bytes.data(), from, count);
  std::memset(begin, 0xff, 16); // where nothing is checked, NaN shows
}

void EmuCluster::copyCommit() { ++threads_[current_].copyGroup; }

// It may be read at any time until the thread has waited.
bool EmuCluster::copySourceKept(const EmuCopy& copy) {
  if (std::memcmp(copy.from, copy.bytes.data(), copy.count) == 0) return true;
  fail(current_, "thread " + emuTuple(threads_[current_].view.thread) + " at line " + lineOf(0, copy.place) +
                     ": what is copied has changed before the thread has waited for the copy");
  return false;
}

void EmuCluster::copyWait(int32_t left, const char* /*place*/) {
  EmuThread& thread = threads_[current_];
  size_t done = 0;
  for (const EmuCopy& copy : thread.copies) {
    if (copy.group + static_cast<uint32_t>(left) >= thread.copyGroup) break;
    ++done;
    if (kernel_.checked) {
      noteCopier(copy.to, 0, copy.place);
      access(copy.to, emu::accessCode(4, emu::Write) | 16, copy.place); // by the thread, now
    }
    if (failed() || !copySourceKept(copy)) return;
    std::memcpy(copy.to, copy.bytes.data(), 16);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(done));
}

} // namespace dtc
