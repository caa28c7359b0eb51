#include "Trace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <deque>
#include <unordered_set>

namespace dtc::ptx {
namespace {

constexpr int kWarp = 32, kSector = 32;
// Cycles until a result can be read; microbenchmarks of several generations agree within a factor of 1.5.
constexpr double kArithmetic = 5, kSpecialLatency = 20, kShared = 29, kCached = 35, kMma = 33, kBarrier = 30,
                 kClusterBarrier = 200, kDivision = 150;

struct Value {
  uint64_t bits = 0;
  bool data = false;
};

uint64_t truncated(uint64_t v, int bits) { return bits >= 64 ? v : v & ((uint64_t(1) << bits) - 1); }
int64_t extended(uint64_t v, int bits) {
  return bits >= 64 ? static_cast<int64_t>(v) : static_cast<int64_t>(v << (64 - bits)) >> (64 - bits);
}
uint64_t widened(uint64_t v, Type t) {
  return t.kind == 's' ? static_cast<uint64_t>(extended(v, t.bits)) : truncated(v, t.bits);
}

bool below(uint64_t a, uint64_t b, Type t) {
  if (t.kind == 'f')
    return t.bits == 64 ? std::bit_cast<double>(a) < std::bit_cast<double>(b)
                        : std::bit_cast<float>(uint32_t(a)) < std::bit_cast<float>(uint32_t(b));
  return t.kind == 's' ? extended(a, t.bits) < extended(b, t.bits)
                       : truncated(a, t.bits) < truncated(b, t.bits);
}

bool compared(std::string_view how, uint64_t a, uint64_t b, Type t) {
  const bool less = below(a, b, t), more = below(b, a, t);
  if (how == "nan") return false;
  if (how == "num") return true;
  if (how.size() > 2 && how[2] == 'u') how.remove_suffix(1); // ltu: true of NaN
  if (how == "eq") return !less && !more;
  if (how == "ne") return less || more;
  if (how == "lt" || how == "lo") return less;
  if (how == "gt" || how == "hi") return more;
  if (how == "le" || how == "ls") return !more;
  return !less; // ge, hs
}

uint64_t highProduct(uint64_t a, uint64_t b, Type t) {
  if (t.bits < 64)
    return t.kind == 's' ? uint64_t((extended(a, t.bits) * extended(b, t.bits)) >> t.bits)
                         : (truncated(a, t.bits) * truncated(b, t.bits)) >> t.bits;
  return t.kind == 's' ? uint64_t((__int128(int64_t(a)) * __int128(int64_t(b))) >> 64)
                       : uint64_t((static_cast<unsigned __int128>(a) * b) >> 64);
}

uint64_t divided(uint64_t a, uint64_t b, Type t, bool rest) {
  const uint64_t x = widened(a, t), y = widened(b, t);
  if (y == 0) return 0;
  if (t.kind != 's') return rest ? x % y : x / y;
  const auto p = static_cast<int64_t>(x), q = static_cast<int64_t>(y);
  if (q == -1) return rest ? 0 : uint64_t(0) - x; // INT64_MIN / -1 traps
  return static_cast<uint64_t>(rest ? p % q : p / q);
}

uint64_t shifted(uint64_t a, uint64_t by, const Instruction& i) {
  by = truncated(by, 32);
  const Type t = i.type;
  if (i.op == Op::Shl) return by >= uint64_t(t.bits) ? 0 : a << by;
  if (t.kind == 's') return static_cast<uint64_t>(extended(a, t.bits) >> std::min<uint64_t>(by, t.bits - 1));
  return by >= uint64_t(t.bits) ? 0 : truncated(a, t.bits) >> by;
}

class Thread {
public:
  Thread(const Kernel& k, const Launch& launch, const GpuModel& gpu, int64_t block, int thread)
      : k_(k), launch_(launch), gpu_(gpu), block_(block), thread_(thread), values_(k.registers),
        ready_(k.registers, 0), loaded_(k.registers, false), visits_(k.code.size(), 0) {}

  ThreadTrace run(const Limits& limits) {
    for (size_t at = 0; at < k_.code.size();) {
      if (++trace_.steps > limits.steps) {
        trace_.cutOff = true;
        break;
      }
      const Instruction& i = k_.code[at];
      wait(i);
      trace_.issue += issueSlots(i);
      now_ += issueSlots(i);
      const bool taken = i.guard < 0 || (values_[i.guard].bits != 0) != i.guardNegated;
      if (i.op == Op::Branch) earliest_ = now_;
      if (i.guard >= 0 && values_[i.guard].data && (i.op == Op::Branch || i.op == Op::Exit))
        trace_.byData = true;
      if (!taken) {
        ++at;
        continue;
      }
      if (i.op == Op::Exit) break;
      if (i.op == Op::Branch) {
        at = i.target >= 0 ? static_cast<size_t>(i.target) : at + 1;
        continue;
      }
      execute(i, static_cast<int>(at));
      if (limits.firstAccess && !trace_.accesses.empty()) break;
      ++at;
    }
    trace_.cycles = now_;
    return std::move(trace_);
  }

private:
  Value read(const Operand& o) const {
    switch (o.kind) {
    case Operand::Register:
      return {o.negated ? !values_[o.reg].bits : values_[o.reg].bits, values_[o.reg].data};
    case Operand::Immediate: return {static_cast<uint64_t>(o.value)};
    case Operand::Special: return {special(o.name)};
    case Operand::Memory: {
      Value v = o.reg >= 0 ? values_[o.reg] : Value{};
      v.bits += static_cast<uint64_t>(o.value);
      return v;
    }
    case Operand::Vector: { // the lowest first
      Value v;
      const int each = o.parts.size() == 2 ? width_ / 2 : o.parts.empty() ? 0 : width_ / int(o.parts.size());
      for (size_t p = 0; p < o.parts.size(); ++p) {
        const Value part = read(o.parts[p]);
        v.bits |= truncated(part.bits, each) << (p * each % 64), v.data |= part.data;
      }
      return v;
    }
    default: return {};
    }
  }

  uint64_t special(std::string_view name) const {
    const int64_t cluster = std::max(1, launch_.cluster);
    if (name == "tid.x") return thread_;
    if (name == "ntid.x") return launch_.threads;
    if (name == "ctaid.x") return block_;
    if (name == "nctaid.x") return launch_.blocks;
    if (name == "laneid") return thread_ % kWarp;
    if (name == "warpid") return thread_ / kWarp;
    if (name == "cluster_ctarank" || name == "cluster_ctaid.x") return block_ % cluster;
    if (name == "cluster_nctarank" || name == "cluster_nctaid.x") return cluster;
    if (name == "clusterid.x") return block_ / cluster;
    if (name == "nclusterid.x") return launch_.blocks / cluster;
    return name.ends_with(".y") || name.ends_with(".z") ? (name.starts_with("n") ? 1 : 0) : 0;
  }

  // Waits until the operands are there.
  void wait(const Instruction& i) {
    double until = now_;
    bool forLoad = false;
    const auto need = [&](int reg) {
      if (reg < 0 || ready_[reg] <= now_) return;
      forLoad |= loaded_[reg];
      until = std::max(until, ready_[reg]);
    };
    need(i.guard);
    for (size_t o = i.writes() ? 1 : 0; o < i.operands.size(); ++o) {
      need(i.operands[o].reg);
      for (const Operand& part : i.operands[o].parts) need(part.reg);
    }
    if (i.op == Op::CopyWait) {
      const auto left = i.operands.empty() ? size_t(0) : static_cast<size_t>(i.operands[0].value);
      while (groups_.size() > left) {
        if (groups_.front() > until) until = groups_.front(), forLoad = true;
        groups_.pop_front();
      }
    }
    if (forLoad && until > now_ + kShared) ++trace_.waits;
    if (i.op == Op::CopyWait) earliest_ = std::max(now_, until);
    now_ = std::max(now_, until);
  }

  // The assembler moves a load up in its basic block, but not beyond a store or a barrier.
  double issuedAt(const Operand& address) const {
    return std::min(now_, std::max(earliest_, address.reg >= 0 ? ready_[address.reg] : 0));
  }

  void write(const Operand& o, Value v, double latency, bool load = false) {
    if (o.kind == Operand::Vector) {
      const int each = o.parts.empty() ? 0 : width_ / static_cast<int>(o.parts.size());
      for (size_t p = 0; p < o.parts.size(); ++p)
        write(o.parts[p], {load ? 0 : truncated(v.bits >> (p * each % 64), each), v.data}, latency, load);
      return;
    }
    if (o.kind != Operand::Register) return;
    values_[o.reg] = v;
    ready_[o.reg] = now_ + latency;
    loaded_[o.reg] = load;
  }

  void execute(const Instruction& i, int at) {
    width_ = i.type.bits;
    switch (i.op) {
    case Op::Load: return load(i, at);
    case Op::Store:
    case Op::Atomic: return store(i, at);
    case Op::CopyAsync: return copyAsync(i, at);
    case Op::CopyCommit: groups_.push_back(copied_); return;
    case Op::CopyWait: return;
    case Op::Barrier:
    case Op::ClusterBarrier:
      now_ += i.op == Op::Barrier ? kBarrier : kClusterBarrier, earliest_ = now_;
      return;
    case Op::LoadMatrix: trace_.sharedBytes += i.accessBytes; return write(i.operands[0], {0, true}, kShared);
    case Op::Mma: trace_.flops += i.flops; return write(i.operands[0], {0, true}, kMma);
    case Op::Special: ++trace_.special; return write(i.operands[0], {0, true}, kSpecialLatency);
    case Op::Shuffle: {
      const Value v = read(i.operands[1]);
      return write(i.operands[0], {v.bits, v.data}, kShared);
    }
    default: return compute(i);
    }
  }

  void compute(const Instruction& i) {
    if (i.operands.empty() || !i.writes()) return;
    if (i.type.kind == 'f' && i.type.bits == 64) ++trace_.f64;
    Value v;
    Value in[3];
    for (size_t o = 1; o < i.operands.size() && o <= 3; ++o)
      in[o - 1] = read(i.operands[o]), v.data |= in[o - 1].data;
    const bool computed = result(i, in[0].bits, in[1].bits, in[2].bits, v.bits);
    if (!computed) v = {0, true};
    if (i.op == Op::Setp && (i.compare == "nan" || i.compare == "num")) v.data = false;
    if (i.type.kind != 'f' && i.type.kind != 'p' && i.op != Op::Setp)
      v.bits = truncated(v.bits, i.op == Op::MulWide || i.op == Op::MadWide ? 2 * i.type.bits : i.type.bits);
    write(i.operands[0], v, isWideDivision(i) ? kDivision : kArithmetic);
  }

  // False: not computed (floats, and what an index does not need).
  static bool result(const Instruction& i, uint64_t a, uint64_t b, uint64_t c, uint64_t& out) {
    const Type t = i.type;
    if (i.op == Op::Mov || i.op == Op::Cvta) return out = a, true;
    if (i.op == Op::Selp) return out = c ? a : b, true;
    if (i.op == Op::Setp) return out = compared(i.compare, a, b, t), true;
    if (t.kind == 'p') {
      out = i.op == Op::And ? a & b : i.op == Op::Or ? a | b : i.op == Op::Xor ? a ^ b : !a;
      return i.op == Op::And || i.op == Op::Or || i.op == Op::Xor || i.op == Op::Not;
    }
    if (t.kind == 'f' || i.from.kind == 'f') return false;
    switch (i.op) {
    case Op::Add: return out = a + b, true;
    case Op::Sub: return out = a - b, true;
    case Op::Mul: return out = a * b, true;
    case Op::MulHi: return out = highProduct(a, b, t), true;
    case Op::MulWide: return out = widened(a, t) * widened(b, t), true;
    case Op::Mad: return out = a * b + c, true;
    case Op::MadWide: return out = widened(a, t) * widened(b, t) + c, true;
    case Op::Shl:
    case Op::Shr: return out = shifted(a, b, i), true;
    case Op::And: return out = a & b, true;
    case Op::Or: return out = a | b, true;
    case Op::Xor: return out = a ^ b, true;
    case Op::Not: return out = ~a, true;
    case Op::Neg: return out = uint64_t(0) - a, true;
    case Op::Abs: return out = static_cast<uint64_t>(std::abs(extended(a, t.bits))), true;
    case Op::Min: return out = below(a, b, t) ? a : b, true;
    case Op::Max: return out = below(a, b, t) ? b : a, true;
    case Op::Div:
    case Op::Rem: return out = divided(a, b, t, i.op == Op::Rem), true;
    case Op::Cvt: return out = widened(a, i.from), true;
    case Op::ActiveMask: return out = 0xffffffff, true;
    default: return false;
    }
  }

  // Records an access of an argument; its latency in cycles.
  double access(const Instruction& i, int at, const Value& address, int bytes, bool stores) {
    trace_.accesses.push_back({at, visits_[at]++, address.bits, bytes, stores, address.data});
    if (stores) return 0;
    const auto argument = static_cast<size_t>(argumentAt(address.bits));
    if (argument < launch_.cached.size() && launch_.cached[argument])
      return gpu_.l2LatencySeconds * gpu_.hertz;
    trace_.loadedBytes += bytes;
    const bool again = !touched_.insert(address.bits / kSector).second && !address.data;
    return again && i.space != Space::Constant ? kCached : gpu_.latencySeconds * gpu_.hertz;
  }

  bool isGlobal(const Instruction& i, const Value& address) const {
    return i.space == Space::Global || (i.space == Space::Generic && argumentAt(address.bits) >= 0);
  }

  void load(const Instruction& i, int at) {
    const Operand& from = i.operands.at(1);
    if (i.space == Space::Param) {
      const size_t digits = from.name.rfind('_');
      const bool own = from.name.find("_param_") != std::string::npos;
      const auto number = own ? std::stoul(from.name.substr(digits + 1)) : launch_.params.size();
      const bool known = own && number < launch_.params.size();
      return write(i.operands[0], {known ? launch_.params[number] : 0, !known}, kArithmetic);
    }
    const Value address = read(from);
    double latency = kShared;
    if (isGlobal(i, address))
      latency = access(i, at, address, i.accessBytes, false);
    else if (i.space != Space::Local)
      trace_.sharedBytes += i.accessBytes;
    write(i.operands[0], {0, true}, latency - (now_ - issuedAt(from)), isGlobal(i, address));
  }

  void store(const Instruction& i, int at) {
    const bool atomic = i.op == Op::Atomic && i.writes();
    const Value address = read(i.operands.at(atomic ? 1 : 0));
    double latency = kShared;
    if (isGlobal(i, address)) {
      access(i, at, address, i.accessBytes, true);
      earliest_ = now_;
      latency = gpu_.latencySeconds * gpu_.hertz;
    } else if (i.space != Space::Local && i.space != Space::Param) {
      trace_.sharedBytes += i.accessBytes;
    }
    if (atomic) write(i.operands[0], {0, true}, latency, true);
  }

  void copyAsync(const Instruction& i, int at) { // cp.async [shared], [global], bytes, bytes that are there
    if (i.operands.size() < 3) return;
    const Value address = read(i.operands[1]);
    const auto bytes = static_cast<int>(read(i.operands.back()).bits);
    if (bytes <= 0) return;
    copied_ = std::max(copied_, now_ + access(i, at, address, bytes, false));
    trace_.sharedBytes += bytes;
  }

  const Kernel& k_;
  const Launch& launch_;
  const GpuModel& gpu_;
  int64_t block_;
  int thread_;
  std::vector<Value> values_;
  std::vector<double> ready_; // by register
  std::vector<bool> loaded_;  // from memory
  std::vector<int64_t> visits_;
  std::unordered_set<uint64_t> touched_; // sectors
  std::deque<double> groups_;            // when the copies of each will be there
  double now_ = 0, copied_ = 0;
  double earliest_ = 0; // when the next load can be issued
  int width_ = 32;
  ThreadTrace trace_;
};

} // namespace

double issueSlots(const Instruction& i) {
  const bool wide = i.type.bits == 64 && i.type.kind != 'f';
  switch (i.op) {
  case Op::Mov:
  case Op::Cvta:
  case Op::CopyCommit: return 0;
  case Op::Cvt: return i.type.kind == 'f' || i.from.kind == 'f' ? 1 : 0; // of integers: mostly free
  case Op::Add:
  case Op::Sub:
  case Op::And:
  case Op::Or:
  case Op::Xor:
  case Op::Setp:
  case Op::Selp:
  case Op::Shl:
  case Op::Shr:
  case Op::Min:
  case Op::Max:
  case Op::Neg: return wide ? 2 : 1;
  case Op::Mul:
  case Op::Mad: return wide ? 4 : 1;
  case Op::MulHi: return wide ? 8 : 1;
  case Op::Div:
  case Op::Rem:
    if (i.type.kind == 'f') return i.opcode.find("rn") != std::string::npos ? 10 : 4;
    return wide ? 100 : 20;
  case Op::Call: return 60;
  case Op::Load: return i.space == Space::Param ? 0 : 1;
  default: return 1;
  }
}

ThreadTrace traceThread(const Kernel& kernel, const Launch& launch, const GpuModel& gpu, int64_t block,
                        int thread, const Limits& limits) {
  return Thread(kernel, launch, gpu, block, thread).run(limits);
}

} // namespace dtc::ptx
