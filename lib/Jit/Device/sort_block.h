// Device header, the order of a row's elements by the threads of one CUDA block.

// order[i * stride]: where the i-th of the n elements keys[j * stride] stands, the first of equals first: a bitonic network
// (Batcher 1968) whose merges begin with a mirrored step, so that all of its comparisons point one way and those with places
// past n fall away. Indices settle ties: the network need not be stable.
template <bool Descending, int Threads, class T>
static __device__ void dtc_block_sort_order(const T* keys, i32* order, i64 stride, i64 n) {
  for (i64 i = threadIdx.x; i < n; i += Threads) order[i * stride] = (i32)i;
  __syncthreads();
  i64 size = 1;
  while (size < n) size *= 2;
  for (i64 run = 2; run <= size; run *= 2)
    for (i64 apart = run / 2; apart > 0; apart /= 2) {
      for (i64 k = threadIdx.x; k < size / 2; k += Threads) {
        const i64 block = k / apart, within = k % apart, low = block * 2 * apart + within;
        const i64 high = apart == run / 2 ? (block + 1) * 2 * apart - 1 - within : low + apart;
        if (high >= n) continue;
        const i32 a = order[low * stride], b = order[high * stride];
        const auto first = dtc_sort_key<Descending>(keys + a * stride);
        const auto second = dtc_sort_key<Descending>(keys + b * stride);
        if (second < first || (second == first && b < a)) {
          order[low * stride] = b;
          order[high * stride] = a;
        }
      }
      __syncthreads();
    }
}
