// One convolution with bias and Relu, called from convolution.py: the kernel that emitted programs call, with buffers
// of its own.
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "weft/direct_convolution.h"
#include "weft/host.h"

namespace {

/// Memory in large pages, as the runtime has it for buffers and weights.
template <class T>
struct LargePages {
  using value_type = T;
  T* allocate(size_t count) {
    constexpr size_t kPage = size_t{1} << 21;
    const size_t bytes = (count * sizeof(T) + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, bytes);
    madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { std::free(memory); }
  bool operator==(const LargePages&) const = default;
};
using Floats = std::vector<float, LargePages<float>>;

/// Buffers that all layers use in turn, as in a network: an image that was just written, and warm memory.
Floats image, y;

struct Layer {
  weft::SlidingWindow window;
  weft::Convolution shape;
  Floats x, filters, bias;
  weft::Team team{1};

  void run() {
    const int64_t channels = shape.groups * shape.filters;
    float* const to = y.data();
    const float* const added = bias.data();
    weft::convolve<float>(
        team, window, shape, image.data(), filters.data(),
        [&](int64_t m, int64_t n0, auto width, const float* sums) {
#pragma omp simd
          for (int64_t j = 0; j < width; ++j) {
            const float sum = sums[j] + added[n0 + j];
            to[m * channels + n0 + j] = sum > 0 ? sum : 0;
          }
        },
        [&](int64_t m, int64_t n0, int64_t width) {
          for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(to + m * channels + n0 + j, 1);
        });
  }
};

}  // namespace

extern "C" {

/// Numbers are the fields of SlidingWindow and of Convolution, in their order. x is NHWC, the filters are OIHW.
Layer* make_layer(const int64_t* numbers, const float* x, const float* filters, const float* bias) {
  auto layer = std::make_unique<Layer>();
  int64_t* const window = layer->window.in;
  for (int i = 0; i < 18; ++i) window[i] = numbers[i];
  layer->shape = {numbers[18], numbers[19], numbers[20], numbers[21]};
  const auto& [batch, groups, channels, per_group] = layer->shape;
  layer->x.assign(x, x + batch * layer->window.in_count() * groups * channels);
  layer->filters.resize(size_t(weft::packed_filter_count(layer->window, layer->shape)));
  weft::pack_filters(layer->window, layer->shape, filters, layer->filters.data());
  layer->bias.assign(bias, bias + groups * per_group);
  const auto reserve = [](Floats& memory, int64_t count) { memory.resize(std::max(memory.size(), size_t(count))); };
  reserve(image, batch * layer->window.in_count() * groups * channels);
  reserve(y, batch * layer->window.out_count() * groups * per_group);
  return layer.release();
}

/// The result of the last call.
const float* last_result() { return y.data(); }

/// Seconds of one call.
double time_layer(Layer* layer) {
  std::copy(layer->x.begin(), layer->x.end(), image.begin());
  const auto start = std::chrono::steady_clock::now();
  layer->run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
}
