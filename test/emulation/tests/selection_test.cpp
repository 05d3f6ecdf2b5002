// weft/device_selection.h over the emulation: warps that find where a mask is true, and the boxes that stay.
#include <doctest/doctest.h>

#include "../../runtime_lib/plain_boxes.h"
#include "device.h"
#include "weft/device_selection.h"

namespace {

__global__ void find(const uint8_t* mask, int64_t* positions, int64_t* count, int64_t length, int64_t most) {
  if (weft::warp() != 0) return;
  weft::true_positions_by_warp(
      length, most, [=](int64_t i) { return mask[i] != 0; }, [=](int64_t j, int64_t i) { positions[j] = i; },
      [=](int64_t n) { count[0] = n; });
}

template <weft::BoxForm kForm>
__global__ void choose(const float* edges, const float* scores, int64_t* chosen, int64_t length, int64_t places,
                       weft::BoxLimits<float> limits) {
  if (weft::warp() != 0) return;
  weft::choose_boxes_by_warp<float, kForm>(
      length, places, limits, [=](int64_t i) { return scores[i]; },
      [=](int64_t i, int64_t k) { return edges[4 * i + k]; }, [=](int64_t j) { return chosen[j]; },
      [=](int64_t j, int64_t at) { chosen[j] = at; });
}

template <weft::BoxForm kForm>
void check_boxes(const BoxLine<float>& line, int64_t places, const weft::BoxLimits<float>& limits) {
  CAPTURE(line.length());
  const Buffer<float> edges(line.edges), scores(line.scores);
  const Buffer<int64_t> chosen(static_cast<size_t>(places));
  const Stream stream;
  CHECK(run(stream.handle, choose<kForm>, 1, 64, edges.at, scores.at, chosen.at, line.length(), places, limits) ==
        cudaSuccess);
  stream.wait();
  CHECK(chosen.read() == kept_boxes<kForm>(line, places, limits));
}

}  // namespace

TEST_CASE("device selection: places of true elements") {
  for (const int64_t length : {1, 32, 70, 200})
    for (const int64_t most : {length, length / 3}) {
      std::vector<uint8_t> mask;
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < length; ++i) {
        mask.push_back(i % 7 == 3 || i % 5 == 0);
        if (mask.back() && int64_t(expected.size()) < most) expected.push_back(i);
      }
      const Buffer<uint8_t> in(mask);
      const Buffer<int64_t> positions(size_t(most + 1)), count(1);
      const Stream stream;
      CHECK(run(stream.handle, find, 1, 64, in.at, positions.at, count.at, length, most) == cudaSuccess);
      stream.wait();
      CHECK(count.read()[0] == int64_t(expected.size()));
      std::vector<int64_t> found = positions.read();
      found.resize(expected.size());
      CHECK(found == expected);
    }
}

TEST_CASE("device selection: the boxes that comparing all pairs leaves") {
  for (const int64_t length : {1, 40, 100})
    for (const unsigned room : {12u, 60u}) {
      const BoxLine<float> line = drawn_boxes<float>(length, room, 9);
      check_boxes<weft::BoxForm::Corners>(line, length, {length, 0.4f, 0.3f, true});
      check_boxes<weft::BoxForm::Middle>(line, length, {3, 0.1f, 0, false});
    }
}
