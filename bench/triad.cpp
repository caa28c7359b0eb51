// The bandwidth ceiling of a CPU: a[i] = b[i] + s * c[i] on all cores, three words an element, with plain and with
// streaming stores. Prints "plain GB/s, streaming GB/s", the best of some rounds. Arguments: MiB per array, rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

typedef float Line __attribute__((ext_vector_type(16)));

template <bool Stream> static void part(Line* a, const Line* b, const Line* c, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const Line x = b[i] + 0.5f * c[i];
    if constexpr (Stream)
      __builtin_nontemporal_store(x, a + i);
    else
      a[i] = x;
  }
}

template <bool Stream> static double gigabytesPerSecond(Line* a, const Line* b, const Line* c, size_t n) {
  const size_t threads = std::max(1u, std::thread::hardware_concurrency());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> pool;
  for (size_t t = 0; t < threads; ++t)
    pool.emplace_back(part<Stream>, a, b, c, n * t / threads, n * (t + 1) / threads);
  for (std::thread& t : pool) t.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return 3.0 * static_cast<double>(n * sizeof(Line)) / took.count() / 1e9;
}

int main(int argc, char** argv) {
  const size_t n = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) * (1 << 20) / sizeof(Line);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  auto make = [&](float v) {
    auto* p = static_cast<Line*>(std::aligned_alloc(4096, n * sizeof(Line)));
    std::fill(p, p + n, Line(v));
    return p;
  };
  Line *a = make(0), *b = make(1), *c = make(2);
  double plain = 0, streaming = 0;
  for (int r = 0; r < rounds; ++r) {
    plain = std::max(plain, gigabytesPerSecond<false>(a, b, c, n));
    streaming = std::max(streaming, gigabytesPerSecond<true>(a, b, c, n));
  }
  std::printf("%.2f %.2f\n", plain, streaming);
  return reinterpret_cast<const float*>(a)[7] == 2.0f ? 0 : 1;
}
