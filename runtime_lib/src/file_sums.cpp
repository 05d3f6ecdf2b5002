// A slot has few sums: with many inputs, several share one in turns.
#include "file_sums.h"

#include <algorithm>

#include "checksum.h"
#include "failure.h"
#include "nearest.h"

namespace weft {

void FileSums::add(const std::string& input, const std::vector<int64_t>& shape, std::string_view elements) {
  constexpr size_t kSmall = size_t{16} << 20;  // takes 2 ms, or 40 if the processor has no instruction for it
  if (world_.shape.ranks == 1) return;
  has_new_ = true;
  auto found = std::find(inputs_.begin(), inputs_.end(), input);
  if (found == inputs_.end()) found = inputs_.insert(found, input);
  uint32_t crc = crc32c(0, shape.data(), shape.size() * sizeof(int64_t));
  if (checks_all_ || elements.size() <= kSmall) crc = crc32c(crc, elements.data(), elements.size());
  const size_t sum = size_t(found - inputs_.begin()) % RankSlot::kFileSums;
  auto& mine = world_.rank(rank_).file_sums[sum];
  mine.store(mine.load() * 0x9e3779b97f4a7c15u + crc);  // of several readings, their order counts
}

void FileSums::check() {
  has_new_ = false;
  for (int r = 1; rank_ == 0 && r < world_.shape.ranks; ++r)
    for (size_t sum = 0; sum < RankSlot::kFileSums; ++sum) {
      if (world_.rank(r).file_sums[sum].load() == world_.rank(0).file_sums[sum].load()) continue;
      std::vector<std::string> inputs;
      for (size_t i = sum; i < inputs_.size(); i += RankSlot::kFileSums) inputs.push_back("'" + inputs_[i] + "'");
      fail(kWrongInput, "rank %d has read another file for %s than rank 0: files lie alike on all machines", r,
           list_text(inputs).c_str());
    }
}

}  // namespace weft
