// The memory bandwidth of this CPU, for each mixture of reads and writes of a kernel; the roofline of bench/cpu.py.
//   read    s += a[i]                 1 word read
//   copy    a[i] = s * b[i]           1 read, 1 written
//   triad   a[i] = b[i] + s * c[i]    2 read, 1 written
//   update  a[i] = s * a[i] + b[i]    2 read, 1 of them written in place
// Arguments: kind, MiB of all arrays together, rounds, threads. Prints the best GB/s of the rounds, the better of plain and
// streaming stores. Words count once where they are read and once where they are written, as the
// program requests them, not as the caches transfer them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

typedef float Line __attribute__((ext_vector_type(16)));
enum Kind { Read, Copy, Triad, Update };

template <Kind K, bool Stream> Line part(Line* a, Line* b, Line* c, size_t begin, size_t end) {
  Line sums[8] = {};
  for (size_t i = begin; i + 8 <= end; i += 8)
    for (size_t k = 0; k < 8; ++k) {
      if constexpr (K == Read) {
        sums[k] += a[i + k];
        continue;
      }
      Line x;
      if constexpr (K == Copy) x = 0.5f * b[i + k];
      if constexpr (K == Triad) x = b[i + k] + 0.5f * c[i + k];
      if constexpr (K == Update) x = 0.5f * a[i + k] + b[i + k];
      if constexpr (Stream)
        __builtin_nontemporal_store(x, a + i + k);
      else
        a[i + k] = x;
    }
  Line all = sums[0];
  for (size_t k = 1; k < 8; ++k) all += sums[k];
  return all;
}

// Threads that spin until the next round, so that no round includes the time to wake them.
class Team {
public:
  explicit Team(size_t threads) : count_(threads) {
    for (size_t t = 1; t < threads; ++t) pool_.emplace_back([this, t] { member(t); });
  }
  ~Team() {
    stop_ = true;
    ++round_;
    for (std::thread& t : pool_) t.join();
  }
  template <class Fn> double seconds(Fn&& fn) {
    done_ = 0;
    work_ = [](void* self, size_t t) { (*static_cast<Fn*>(self))(t); };
    self_ = &fn;
    const auto begin = std::chrono::steady_clock::now();
    ++round_;
    fn(0);
    while (done_ != count_ - 1) wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

private:
  static void wait() {
#if defined(__x86_64__)
    __builtin_ia32_pause(); // does not yield the core: the rounds are short
#else
    std::this_thread::yield();
#endif
  }
  void member(size_t t) {
    for (unsigned seen = 0;;) {
      while (round_ == seen) wait();
      seen = round_;
      if (stop_) return;
      work_(self_, t);
      ++done_;
    }
  }
  size_t count_;
  std::vector<std::thread> pool_;
  std::atomic<unsigned> round_{0};
  std::atomic<size_t> done_{0};
  std::atomic<bool> stop_{false};
  void (*work_)(void*, size_t) = nullptr;
  void* self_ = nullptr;
};

struct Arrays {
  Line *a, *b, *c;
  size_t lines; // of each
};

template <Kind K, bool Stream>
double rate(Team& team, size_t threads, const Arrays& x, int words, int rounds) {
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    const double took = team.seconds([&](size_t t) {
      volatile float keep =
          part<K, Stream>(x.a, x.b, x.c, x.lines * t / threads, x.lines * (t + 1) / threads)[0];
      (void)keep;
    });
    best = std::max(best, words * static_cast<double>(x.lines * sizeof(Line)) / took / 1e9);
  }
  return best;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("usage: streams read|copy|triad|update MIB ROUNDS THREADS\n", stderr), 2;
  const std::string kind = argv[1];
  const size_t words =
      std::strtoull(argv[2], nullptr, 10) * (1 << 20) / sizeof(Line) / 48 * 48; // of all arrays
  const int rounds = std::atoi(argv[3]);
  const size_t threads = std::max<size_t>(1, std::strtoull(argv[4], nullptr, 10));
  Team team(threads);
  auto* memory = static_cast<Line*>(std::aligned_alloc(4096, words * sizeof(Line) + 4096));
  team.seconds([&](size_t t) {
    std::fill(memory + words * t / threads, memory + words * (t + 1) / threads, Line(1));
  });
  const Arrays one{memory, memory, memory, words}, two{memory, memory + words / 2, memory, words / 2},
      three{memory, memory + words / 3, memory + words / 3 * 2, words / 3};
  double best = 0;
  if (kind == "read") best = rate<Read, false>(team, threads, one, 1, rounds);
  if (kind == "copy")
    best = std::max(rate<Copy, false>(team, threads, two, 2, rounds),
                    rate<Copy, true>(team, threads, two, 2, rounds));
  if (kind == "triad")
    best = std::max(rate<Triad, false>(team, threads, three, 3, rounds),
                    rate<Triad, true>(team, threads, three, 3, rounds));
  if (kind == "update") best = rate<Update, false>(team, threads, two, 3, rounds);
  std::printf("%.2f\n", best);
}
