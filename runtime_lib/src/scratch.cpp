// A stack of blocks for each thread. Where one block was too small for what kernels need at a time, they become a
// single one as soon as none is in use.
#include "weft/scratch.h"

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

namespace weft::detail {

namespace {

constexpr size_t kScratchAlign = 64;

struct Release {
  void operator()(std::byte* memory) const { operator delete(memory, std::align_val_t(kScratchAlign)); }
};

struct Block {
  explicit Block(size_t bytes)
      : memory(static_cast<std::byte*>(operator new(bytes, std::align_val_t(kScratchAlign)))), size(bytes) {}

  std::unique_ptr<std::byte, Release> memory;
  size_t size, used = 0;
};

class Stack {
 public:
  void* take(size_t bytes) {
    bytes = (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
    if (blocks_.empty() || blocks_.back().size - blocks_.back().used < bytes) {
      blocks_.emplace_back(std::max(bytes, wanted_));
      wanted_ = 0;
    }
    Block& block = blocks_.back();
    void* const memory = block.memory.get() + block.used;
    block.used += bytes;
    return memory;
  }

  void give_back(void* memory) {
    const auto block = std::find_if(blocks_.rbegin(), blocks_.rend(), [](const Block& b) { return b.used > 0; });
    block->used = static_cast<size_t>(static_cast<std::byte*>(memory) - block->memory.get());
    const bool is_idle = std::all_of(blocks_.begin(), blocks_.end(), [](const Block& b) { return b.used == 0; });
    if (!is_idle || blocks_.size() == 1) return;
    for (const Block& each : blocks_) wanted_ += each.size;
    blocks_.clear();
  }

 private:
  std::vector<Block> blocks_;
  size_t wanted_ = 0;  // of the next block
};

}  // namespace

// The address sanitizer watches blocks of the heap, each by itself.
#ifdef __SANITIZE_ADDRESS__
void* take_scratch(size_t bytes) { return operator new(bytes, std::align_val_t(kScratchAlign)); }
void give_scratch_back(void* memory) { Release()(static_cast<std::byte*>(memory)); }
#else
static Stack& own_stack() {
  thread_local Stack stack;
  return stack;
}

void* take_scratch(size_t bytes) { return own_stack().take(bytes); }
void give_scratch_back(void* memory) { own_stack().give_back(memory); }
#endif

}  // namespace weft::detail
