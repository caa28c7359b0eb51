// What each device receives for a window over a sharded dim: the rows that it lacks, counted one by one, in one p2p.
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/partition/Partition.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace dtc;

namespace {

struct Reads {
  int64_t size, stride, low, reach, result;
  [[nodiscard]] bool sees(int64_t from, int64_t to, int64_t row) const { // do the results [from, to) see it?
    return from < to && row >= stride * from - low && row < stride * (to - 1) - low + reach;
  }
};

int64_t begin(int64_t n, int64_t i, int64_t devices) { return i * n / devices; }

// By device.
std::vector<int64_t> missingRows(const Reads& r, int64_t devices) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < devices; ++i) {
    int64_t& missing = rows.emplace_back(0);
    for (int64_t row = 0; row < r.size; ++row)
      if (r.sees(begin(r.result, i, devices), begin(r.result, i + 1, devices), row) &&
          (row < begin(r.size, i, devices) || row >= begin(r.size, i + 1, devices)))
        ++missing;
  }
  return rows;
}

struct Received {
  std::vector<int64_t> rows; // by device
  int64_t batches = 0;
};

// Rows of one f32.
Received receivedRows(const std::string& text, int64_t devices) {
  Module m(standardOps());
  Diagnostics d;
  const bool parsed = parseModule({"window", text}, standardOps(), m, d) && verifyModule(m, d) &&
                      partition(m, d) && verifyModule(m, d);
  EXPECT_TRUE(parsed) << renderDiagnostics(d, m.source, false);
  Received out;
  if (!parsed) return out;
  out.rows.resize(static_cast<size_t>(devices));
  forEachOp(m, m[m.findFunction("main")].body, [&](OpId o) {
    EXPECT_TRUE(!m.record(o).isCollective() || m.record(o).async == AsyncForm::None);
    if (std::string_view(m.record(o).name) == "all_gather") ADD_FAILURE() << text;
    if (std::string_view(m.record(o).name) != "p2p") return;
    ++out.batches;
    for (AttrId entry : m.attrs[m.attr(o, "sends")].list) {
      const std::vector<AttrId>& n = m.attrs[entry].list;
      const Type& t = m.typeOf(m.operand(o, static_cast<size_t>(m.attrs[n[0]].i)));
      if (m.attrs[n[1]].i != m.attrs[n[2]].i)
        out.rows[static_cast<size_t>(m.attrs[n[2]].i)] += t.dims.back().value();
    }
  });
  return out;
}

std::string convText(const Reads& r, int64_t length, int64_t dilation, int64_t high, int64_t devices) {
  auto n = [](int64_t v) { return std::to_string(v); };
  return "mesh @m = [a=" + n(devices) + "]\nfunc @main(%x: f32[1, 1, " + n(r.size) +
         "] @m{_, _, a}, %w: f32[1, 1, " + n(length) + "] @m{_, _, _}) -> (f32[1, 1, " + n(r.result) +
         "] @m{_, _, a}) {\n  %y = conv %x, %w {stride = [" + n(r.stride) + "], dilation = [" + n(dilation) +
         "], padding = [[" + n(r.low) + ", " + n(high) + "]]} : f32[1, 1, " + n(r.result) +
         "] @m{_, _, a}\n  return %y\n}\n";
}

// Whatever the sizes: uneven and empty shards, several hops, strides, a result of another length. (Windows of one element that
// skip some read less than the range between the first and the last: a line of their own.)
TEST(Window, EachDeviceReceivesTheRowsThatItLacks) {
  int64_t uneven = 0;
  for (int64_t devices : {2, 3, 5, 8})
    for (int64_t size : {7, 16, 24, 40, 41, 120})
      for (int64_t length : {1, 2, 3, 5})
        for (int64_t dilation : {1, 3})
          for (int64_t stride : {1, 2, 4})
            for (int64_t low : {0, 1, 4}) {
              const int64_t reach = dilation * (length - 1) + 1, high = low, room = size + 2 * low - reach;
              if (room < 0) continue;
              const Reads r{size, stride, low, reach, room / stride + 1};
              const bool summed = length > r.result; // then the window is sharded, not the result
              if (summed) continue;
              const std::string text = convText(r, length, dilation, high, devices);
              const Received got = receivedRows(text, devices);
              const std::vector<int64_t> want = missingRows(r, devices);
              EXPECT_LE(got.batches, 1) << text;
              for (size_t d = 0; d < want.size(); ++d)
                if (reach == 1 && stride > 1)
                  EXPECT_LE(got.rows[d], want[d]) << text;
                else
                  EXPECT_EQ(got.rows[d], want[d]) << text;
              uneven += size % devices != 0;
              if (stride == 1 && r.result == size && size / devices >= reach && 2 * low == reach - 1)
                for (int64_t d = 0; d < devices; ++d) // the halo
                  EXPECT_EQ(got.rows[static_cast<size_t>(d)],
                            (d > 0 ? low : 0) + (d + 1 < devices ? low : 0));
            }
  EXPECT_GT(uneven, 700);
}

// Of a padded row: x's element at each place of the result, counted for every place whose owner lacks it. What the filling of
// "replicate" repeats travels once.
int64_t lackedByPadding(const std::string& mode, int64_t size, int64_t low, int64_t high, int64_t device,
                        int64_t devices) {
  const int64_t result = size + low + high;
  int64_t rows = 0;
  bool first = false, last = false; // already counted
  for (int64_t at = begin(result, device, devices); at < begin(result, device + 1, devices); ++at) {
    int64_t from = at - low;
    if (mode == "reflect") from = from < 0 ? -from : from >= size ? 2 * (size - 1) - from : from;
    if (mode == "circular") from = (from + size) % size;
    const bool before = from < 0, after = from >= size;
    if (mode == "replicate") from = std::clamp<int64_t>(from, 0, size - 1);
    if (from >= begin(size, device, devices) && from < begin(size, device + 1, devices)) continue;
    if ((before && first) || (after && last)) continue;
    first = first || before, last = last || after;
    ++rows;
  }
  return rows;
}

TEST(Window, PaddingReceivesTheElementsThatItLacks) {
  for (const std::string mode : {"reflect", "replicate", "circular"})
    for (int64_t devices : {2, 3, 5})
      for (int64_t size : {7, 12, 30, 41})
        for (int64_t low : {0, 1, 2, 5})
          for (int64_t high : {0, 1, 3}) {
            if (low + high == 0) continue;
            auto n = [](int64_t v) { return std::to_string(v); };
            const std::string type = "f32[1, 1, " + n(size + low + high) + "] @m{_, _, a}",
                              text = "mesh @m = [a=" + n(devices) + "]\nfunc @main(%x: f32[1, 1, " + n(size) +
                                     "] @m{_, _, a}) -> (" + type + ") {\n  %y = pad %x {low = [0, 0, " +
                                     n(low) + "], high = [0, 0, " + n(high) + "], mode = \"" + mode +
                                     "\"} : " + type + "\n  return %y\n}\n";
            const Received got = receivedRows(text, devices);
            for (int64_t d = 0; d < devices; ++d)
              EXPECT_EQ(got.rows[static_cast<size_t>(d)], lackedByPadding(mode, size, low, high, d, devices))
                  << text << "device " << d;
          }
}

// The rows of x, of `size`, for which needs(row) holds and that the device does not have.
template <class Needs> int64_t lacked(int64_t size, int64_t device, int64_t devices, Needs&& needs) {
  int64_t rows = 0;
  for (int64_t row = 0; row < size; ++row) {
    const bool own = row >= begin(size, device, devices) && row < begin(size, device + 1, devices);
    rows += !own && needs(row);
  }
  return rows;
}

std::string number(int64_t v) { return std::to_string(v); }

// The window is longer than the result, as in a weight's gradient: sharded, and every result needs what a part of it sees.
TEST(Window, APartOfTheWindowReceivesItsHalo) {
  for (int64_t devices : {2, 3, 5})
    for (int64_t length : {5, 9, 14})
      for (int64_t result : {1, 2, 4})
        for (int64_t dilation : {1, 2})
          for (int64_t low : {0, 1}) {
            const int64_t size = dilation * (length - 1) + result - 2 * low;
            if (size < 1) continue;
            const std::string text =
                "mesh @m = [a=" + number(devices) + "]\nfunc @main(%x: f32[1, 1, " + number(size) +
                "] @m{_, _, a}, %w: f32[1, 1, " + number(length) + "] @m{_, _, a}) -> (f32[1, 1, " +
                number(result) + "] @m{_, _, _ | sum(a)}) {\n  %y = conv %x, %w {dilation = [" +
                number(dilation) + "], padding = [[" + number(low) + ", " + number(low) + "]]} : f32[1, 1, " +
                number(result) + "] @m{_, _, _ | sum(a)}\n  return %y\n}\n";
            const Received got = receivedRows(text, devices);
            for (int64_t d = 0; d < devices; ++d) {
              const int64_t from = begin(length, d, devices), to = begin(length, d + 1, devices);
              const int64_t want = lacked(size, d, devices, [&](int64_t row) {
                return from < to && row >= dilation * from - low && row < dilation * (to - 1) + result - low;
              });
              EXPECT_EQ(got.rows[static_cast<size_t>(d)], want) << text << "device " << d;
            }
          }
}

// As in the gradient of x: a row of the result needs the rows of x whose windows reach it.
TEST(Window, ATransposedWindowReceivesTheRowsThatReachItsShard) {
  for (int64_t devices : {2, 3, 5})
    for (int64_t size : {7, 12, 25})
      for (int64_t stride : {1, 2, 3})
        for (int64_t length : {3, 4})
          for (int64_t low : {0, 1}) {
            const int64_t result = stride * (size - 1) + length - 2 * low;
            const std::string text = "mesh @m = [a=" + number(devices) + "]\nfunc @main(%x: f32[1, 1, " +
                                     number(size) + "] @m{_, _, a}, %w: f32[1, 1, " + number(length) +
                                     "] @m{_, _, _}) -> (f32[1, 1, " + number(result) +
                                     "] @m{_, _, a}) {\n  %y = conv %x, %w {transposed = true, stride = [" +
                                     number(stride) + "], padding = [[" + number(low) + ", " + number(low) +
                                     "]]} : f32[1, 1, " + number(result) + "] @m{_, _, a}\n  return %y\n}\n";
            const Received got = receivedRows(text, devices);
            for (int64_t d = 0; d < devices; ++d) {
              const int64_t from = begin(result, d, devices), to = begin(result, d + 1, devices);
              const int64_t want = lacked(size, d, devices, [&](int64_t row) {
                return stride * row - low < to && stride * row - low + length > from;
              });
              EXPECT_EQ(got.rows[static_cast<size_t>(d)], want) << text << "device " << d;
            }
          }
}

// Windows that differ in length, and the gradient of max_pool: cotangents and indices of the windows that see the shard.
TEST(Window, AdaptiveMeansAndUnpoolingReceiveWhatTheyLack) {
  for (int64_t devices : {2, 3, 5})
    for (int64_t size : {7, 12, 25})
      for (int64_t windows : {5, 7, 11}) {
        const std::string mesh = "mesh @m = [a=" + number(devices) + "]\n";
        const std::string pool =
            mesh + "func @main(%x: f32[1, 1, " + number(size) + "] @m{_, _, a}) -> (f32[1, 1, " +
            number(windows) + "] @m{_, _, a}) {\n  %y = adaptive_avg_pool %x {output_size = [" +
            number(windows) + "]} : f32[1, 1, " + number(windows) + "] @m{_, _, a}\n  return %y\n}\n";
        const Received pooled = receivedRows(pool, devices);
        const int64_t given = (size - 3) / 2 + 1;
        const std::string in = "[1, 1, " + number(given) + "] @m{_, _, a}",
                          out = "f32[1, 1, " + number(size) + "] @m{_, _, a}";
        const std::string back = mesh + "func @main(%y: f32" + in + ", %i: i32" + in + ") -> (" + out +
                                 ") {\n  %x = max_unpool %y, %i {size = [" + number(size) +
                                 "], stride = [2], low = [0], reach = [3]} : " + out + "\n  return %x\n}\n";
        const Received unpooled = receivedRows(back, devices);
        for (int64_t d = 0; d < devices; ++d) {
          const int64_t from = begin(windows, d, devices), to = begin(windows, d + 1, devices);
          EXPECT_EQ(pooled.rows[static_cast<size_t>(d)],
                    lacked(size, d, devices,
                           [&](int64_t row) {
                             return from < to && row >= from * size / windows &&
                                    row < (to * size + windows - 1) / windows;
                           }))
              << pool << "device " << d;
          const int64_t first = begin(size, d, devices), end = begin(size, d + 1, devices);
          EXPECT_EQ(
              unpooled.rows[static_cast<size_t>(d)],
              2 * lacked(given, d, devices,
                         [&](int64_t row) { return first < end && 2 * row < end && 2 * row + 3 > first; }))
              << back << "device " << d;
        }
      }
}

} // namespace
