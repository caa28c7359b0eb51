#include "dtc/Cuda/KernelFacts.h"
#include "Trace.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace dtc {
namespace {

constexpr int kWarp = 32, kSector = 32;
constexpr int64_t kLaneSteps = 20000;     // of each lane of a traced warp
constexpr int64_t kLongestSteps = 400000; // of the one thread that is followed to its end
constexpr int64_t kFirstSteps = 20000;    // until a thread accesses memory
constexpr int64_t kCachedBytes = 1 << 20; // an argument of so many stays in L2, if it is a small part
constexpr int64_t kCloseBytes = 32 << 10; // and one of so many in L1
constexpr double kNoticeable = 0.1;       // an argument with less of the traffic does not matter
constexpr double kSeen = 10;              // a trace with a smaller part of the bytes says little
constexpr double kStrided = 2;            // times as many bytes of sectors as are used

// A traced warp: its lanes up to a limit, and one of them further.
struct Warp {
  std::vector<ptx::ThreadTrace> lanes;
  ptx::ThreadTrace longest;
  double scale = 1; // what the limit has left out, of the lanes
};

// A set of disjoint runs of bytes, from accesses in any order.
class Runs {
public:
  void add(uint64_t begin, uint64_t bytes) { parts_[begin] = std::max(parts_[begin], begin + bytes); }
  // Calls fn(begin, bytes) for each maximal run.
  template <class Fn> void forEach(Fn&& fn) const {
    for (auto it = parts_.begin(); it != parts_.end();) {
      const uint64_t begin = it->first;
      uint64_t end = it->second;
      for (++it; it != parts_.end() && it->first <= end; ++it) end = std::max(end, it->second);
      fn(begin, end - begin);
    }
  }

private:
  std::map<uint64_t, uint64_t> parts_;
};

class Sampling {
public:
  Sampling(const ptx::Kernel& code, const ptx::Launch& launch, const GpuModel& gpu,
           const std::vector<int64_t>& argumentBytes, KernelFacts& facts)
      : code_(code), launch_(launch), gpu_(gpu), argumentBytes_(argumentBytes), facts_(facts) {}

  void run() {
    std::set<int64_t> blocks{0, launch_.blocks / 2};
    if (launch_.blocks > 2) blocks.insert(launch_.blocks - 2);
    const double share =
        double(launch_.blocks) / double(blocks.size()); // blocks that a sampled one stands for
    for (int64_t block : blocks) addBlock(block, share, double(blocks.size()));
    finish();
  }

private:
  std::vector<int> activeThreads(int64_t block) {
    std::vector<int> active;
    for (int t = 0; t < launch_.threads; ++t) {
      const auto first = ptx::traceThread(code_, launch_, gpu_, block, t, {kFirstSteps, true});
      if (!first.accesses.empty() || first.cutOff) active.push_back(t);
    }
    return active;
  }

  Warp traceWarp(int64_t block, int warp, int longest) {
    Warp w;
    const int end = std::min(launch_.threads, (warp + 1) * kWarp);
    for (int t = warp * kWarp; t < end; ++t)
      w.lanes.push_back(ptx::traceThread(code_, launch_, gpu_, block, t, {kLaneSteps}));
    const int lane = longest - warp * kWarp;
    w.longest = w.lanes[lane];
    if (w.longest.cutOff) {
      w.longest = ptx::traceThread(code_, launch_, gpu_, block, longest, {kLongestSteps});
      w.scale =
          double(w.longest.accesses.size()) / double(std::max<size_t>(1, w.lanes[lane].accesses.size()));
    }
    return w;
  }

  void addBlock(int64_t block, double share, double samples) {
    const std::vector<int> active = activeThreads(block);
    facts_.activeThreads = std::max(facts_.activeThreads, static_cast<int>(active.size()));
    if (active.empty()) return;
    std::set<int> warps;
    for (int t : active) warps.insert(t / kWarp);
    std::set<int> traced{*warps.begin(), *warps.rbegin()};
    for (int w : traced) {
      const int lane = *std::lower_bound(active.begin(), active.end(), w * kWarp);
      add(traceWarp(block, w, lane), share * double(warps.size()) / double(traced.size()),
          1 / (samples * double(traced.size())));
    }
  }

  // `share`: warps of the launch that this one stands for; `part`: of the averages over threads.
  void add(const Warp& w, double share, double part) {
    const ptx::ThreadTrace& t = w.longest;
    facts_.issue += share * t.issue, facts_.special += share * kWarp * t.special;
    facts_.f64 += share * kWarp * t.f64, facts_.sharedTraffic += share * kWarp * double(t.sharedBytes);
    facts_.tensorFlops += share * double(t.flops);
    facts_.loadedBytes += part * double(t.loadedBytes);
    facts_.waits += part * double(t.waits), facts_.cycles += part * t.cycles;
    facts_.byData |= t.byData, facts_.cutOff |= t.cutOff;
    addRequests(w, share * w.scale);
  }

  // What the lanes of a warp access at a time is one request, of as many sectors as it touches.
  void addRequests(const Warp& w, double share) {
    std::map<std::pair<int, int64_t>, std::set<uint64_t>> requests;
    for (const ptx::ThreadTrace& lane : w.lanes)
      for (const ptx::Access& a : lane.accesses) {
        const int argument = ptx::argumentAt(a.address);
        if (argument < 0 || argument >= static_cast<int>(facts_.arguments.size())) continue;
        ArgumentFacts& facts = facts_.arguments[argument];
        facts.widest = std::max(facts.widest, a.bytes), facts.stored |= a.store, facts.ofData |= a.ofData;
        facts.traffic += share * a.bytes;
        widths_[argument][a.bytes] += share * a.bytes;
        runs_[argument].add(a.address, a.bytes);
        for (uint64_t s = a.address / kSector; s <= (a.address + a.bytes - 1) / kSector; ++s)
          requests[{a.instruction, a.visit}].insert(s);
      }
    std::set<uint64_t> seen;
    for (const auto& [which, sectors] : requests)
      for (uint64_t s : sectors)
        if (seen.insert(s).second) facts_.arguments[ptx::argumentAt(s * kSector)].sectors += share * kSector;
  }

  void finish() {
    for (auto& [argument, widths] : widths_) {
      ArgumentFacts& facts = facts_.arguments[argument];
      const auto most = [](const auto& a, const auto& b) { return a.second < b.second; };
      facts.usual = std::max_element(widths.begin(), widths.end(), most)->first;
      std::map<int64_t, int64_t> lengths; // of runs, by bytes
      int64_t total = 0, dividing = 0;
      runs_[argument].forEach([&](uint64_t begin, uint64_t bytes) {
        total += static_cast<int64_t>(bytes),
            lengths[static_cast<int64_t>(bytes)] += static_cast<int64_t>(bytes);
        if (begin % 16 == 0 && bytes % 16 == 0) dividing += static_cast<int64_t>(bytes);
      });
      facts.run = std::max_element(lengths.begin(), lengths.end(), most)->first;
      facts.divisible = 2 * dividing > total;
      facts_.traffic += facts.traffic;
      const int64_t bytes = argumentBytes_[argument];
      facts_.sectors +=
          bytes > kCloseBytes ? facts.sectors : std::min(facts.sectors, double(bytes) * gpu_.multiprocessors);
    }
  }

  const ptx::Kernel& code_;
  const ptx::Launch& launch_;
  const GpuModel& gpu_;
  const std::vector<int64_t>& argumentBytes_;
  KernelFacts& facts_;
  std::map<int, std::map<int, double>> widths_; // by argument and width: bytes
  std::map<int, Runs> runs_;
};

// The blocks of a cluster, which the text has as a directive.
int clusterOf(std::string_view ptx, std::string_view kernel) {
  size_t at = ptx.find(".entry " + std::string(kernel) + "(");
  if (at == std::string_view::npos) return 1;
  const std::string_view header = ptx.substr(at, ptx.find('{', at) - at);
  at = header.find(".reqnctapercluster");
  return at == std::string_view::npos ? 1
                                      : std::max(1, std::atoi(std::string(header.substr(at + 18)).c_str()));
}

} // namespace

double KernelFacts::instructionsPerElement() const {
  return elements > 0 ? issue * kWarp / double(elements) : 0;
}
double KernelFacts::activeShare() const {
  return threadsPerBlock > 0 ? double(activeThreads) / threadsPerBlock : 0;
}

bool KernelFacts::isSample() const { return byData && kSeen * traffic < double(bytes); }

bool KernelFacts::isNarrow(size_t argument) const {
  const ArgumentFacts& a = arguments[argument];
  return a.traffic >= kNoticeable * traffic && a.usual > 0 && a.usual < a.wanted && a.divisible && !a.ofData;
}

bool KernelFacts::isStrided(size_t argument) const {
  const ArgumentFacts& a = arguments[argument];
  return a.sectors >= kNoticeable * sectors && a.sectors > kStrided * a.traffic && !a.ofData;
}

// Threads handle as many elements as fit in 16 bytes of the widest dtype, of arguments that matter.
static void setWanted(KernelFacts& f, const KernelLaunch& launch) {
  int64_t most = 0;
  for (int64_t bytes : launch.argumentBytes) most = std::max(most, bytes);
  int largest = 1;
  for (size_t a = 0; a < launch.elementBytes.size(); ++a)
    if (double(launch.argumentBytes[a]) >= kNoticeable * double(most))
      largest = std::max(largest, launch.elementBytes[a]);
  for (size_t a = 0; a < launch.elementBytes.size(); ++a)
    f.arguments[a].wanted = std::clamp(16 * launch.elementBytes[a] / largest, 1, 16);
}

// By Little's law, from the time of a thread without contention; stores have their part of the bandwidth.
static void setInFlight(KernelFacts& f, const GpuModel& gpu) {
  const double blocks = std::min<double>(f.blocksAtOnce, std::ceil(double(f.blocks) / gpu.multiprocessors));
  const double latency = gpu.latencySeconds * gpu.hertz;
  double loads = 0;
  for (const ArgumentFacts& a : f.arguments) loads += a.stored ? 0 : a.traffic;
  if (f.cycles > 0)
    f.bytesInFlight = blocks * f.activeThreads * f.loadedBytes * std::min(1.0, latency / f.cycles);
  f.bytesNeeded = f.traffic > 0 ? gpu.bytesNeeded() * loads / f.traffic : 0;
}

KernelFacts kernelFacts(const FittedKernel& kernel, std::string_view ptx, const KernelLaunch& launch,
                        const GpuModel& gpu) {
  KernelFacts facts;
  facts.kernel = kernel.usage.kernel, facts.usage = kernel.usage;
  facts.threadsPerBlock = kernel.schedule.threadsPerBlock, facts.blocks = launch.blocks;
  facts.sharedBytes = kernel.usage.sharedBytes + kernel.schedule.sharedBytes;
  facts.blocksAtOnce = gpu.blocksAtOnce(facts.threadsPerBlock, kernel.usage.registers, facts.sharedBytes);
  facts.inputs = launch.inputs, facts.bytes = launch.bytes, facts.elements = launch.elements;
  facts.arguments.resize(launch.argumentBytes.size());
  setWanted(facts, launch);
  const ptx::Kernel code = ptx::parseKernel(ptx, kernel.usage.kernel);
  if (code.code.empty() || launch.blocks == 0) return facts;
  facts.traced = true;
  const std::vector<bool> loops = ptx::inLoops(code);
  for (size_t i = 0; i < code.code.size(); ++i)
    if (ptx::isWideDivision(code.code[i])) ++facts.divisions, facts.loopDivisions += loops[i];
  ptx::Launch traced{facts.threadsPerBlock, clusterOf(ptx, kernel.usage.kernel), launch.blocks, {}, {}};
  for (uint32_t memory : launch.memoryOf) traced.params.push_back(ptx::addressOf(memory));
  for (int64_t size : launch.sizes) traced.params.push_back(static_cast<uint64_t>(size));
  for (int64_t bytes : launch.argumentBytes)
    traced.cached.push_back(bytes <= kCachedBytes && 8 * bytes <= launch.bytes);
  Sampling(code, traced, gpu, launch.argumentBytes, facts).run();
  setInFlight(facts, gpu);
  return facts;
}

} // namespace dtc
