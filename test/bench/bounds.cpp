// The best rates of a core: multiplications and additions in registers, reading memory, copying it.
//
//   bounds MEGABYTES      prints gigaflops, and gigabytes a second of reading and of copying as much memory
//
// The megabytes may have a fraction.
// Each figure is the best of some rounds. A copy counts what is read and what is written; of a plain loop and memcpy,
// which writes past the caches, the faster one holds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
typedef float Vector __attribute__((vector_size(kBytes), aligned(4), may_alias));
constexpr int64_t kLanes = kBytes / 4;
constexpr int kRounds = 12;

/// The shortest time of a round, in seconds.
template <class Work>
double best(const Work& work) {
  double shortest = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    shortest = std::min(shortest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return shortest;
}

volatile float result;

double gigaflops() {
  constexpr int64_t kSteps = 20'000'000;
  constexpr int kSums = 12;
  const double seconds = best([] {
    const Vector zero = Vector{} + result, x = zero + 0.5f, y = zero + 0.25f;
    Vector sums[kSums];
#pragma GCC unroll 12
    for (int v = 0; v < kSums; ++v) sums[v] = zero + float(v);  // equal ones would be computed once
    for (int64_t i = 0; i < kSteps; ++i)
#pragma GCC unroll 12
      for (int v = 0; v < kSums; ++v) sums[v] = sums[v] * x + y;
    float all = 0;
    for (const Vector& sum : sums) all += sum[0];
    result = all * 0;
  });
  return 2e-9 * kSums * kLanes * kSteps / seconds;
}

/// Reads the array in `kStreams` parts side by side: what fetches ahead follows several of them.
template <int64_t kStreams>
double read_seconds(const std::vector<float>& from, int64_t count) {
  const int64_t part = count / kStreams;
  return best([&] {
    Vector sums[8] = {};
    for (int64_t i = 0; i < part; i += 8 / kStreams * kLanes)
#pragma GCC unroll 8
      for (int64_t v = 0; v < 8; ++v)
        sums[v] += *reinterpret_cast<const Vector*>(from.data() + v % kStreams * part + i + v / kStreams * kLanes);
    float all = 0;
    for (const Vector& sum : sums) all += sum[0];
    result = all * 0;
  });
}

double gigabytes_read(const std::vector<float>& from) {
  const int64_t count = int64_t(from.size()) / (64 * kLanes) * 64 * kLanes;
  const double seconds =
      std::min({read_seconds<1>(from, count), read_seconds<2>(from, count), read_seconds<4>(from, count)});
  return 4e-9 * double(count) / seconds;
}

double gigabytes_copied(const std::vector<float>& from, std::vector<float>& to) {
  const int64_t count = int64_t(from.size()) / kLanes * kLanes;
  const double loop = best([&] {
    for (int64_t i = 0; i < count; i += kLanes) {
      *reinterpret_cast<Vector*>(to.data() + i) = *reinterpret_cast<const Vector*>(from.data() + i);
      asm volatile("" ::: "memory");
    }
  });
  const double function = best([&] {
    std::memcpy(to.data(), from.data(), size_t(count) * 4);
    asm volatile("" ::: "memory");
  });
  return 8e-9 * double(count) / std::min(loop, function);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t elements = size_t((argc > 1 ? atof(argv[1]) : 64) * (1 << 18));
  const std::vector<float> from(elements, 1.0f);
  std::vector<float> to(elements);
  printf("%.1f %.1f %.1f\n", gigaflops(), gigabytes_read(from), gigabytes_copied(from, to));
}
