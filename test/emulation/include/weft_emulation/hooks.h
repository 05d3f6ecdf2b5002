// Replacements of device-only language (shared arrays, clocks, ordered loads) for the runtime's device header, and the
// settings of the emulation.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <source_location>

namespace weft::emulation {

/// Block-shared memory: the same address for all threads of a block that pass the same key; 0xff bytes at first, red
/// zones around it.
void* shared_memory(const void* key, size_t bytes, const char* what);

template <class T, size_t N, int Site>
T* shared_array() {
  static const char key = 0;  // its address names this instantiation
  return static_cast<T*>(shared_memory(&key, N * sizeof(T), __PRETTY_FUNCTION__));
}

/// Nanoseconds of a clock that all ranks share.
uint64_t clock_ns();
/// Lets other threads run: what a thread that polls does between two looks.
void pause();
/// A thread may be held up here by chance, where the order of memory accesses of several threads matters.
void perturb();

template <class T>
T load_acquire(const T* at) {
  perturb();
  return std::atomic_ref<T>(*const_cast<T*>(at)).load(std::memory_order_acquire);
}
template <class T>
void store_release(T* at, T value) {
  perturb();
  std::atomic_ref<T>(*at).store(value, std::memory_order_release);
}

/// The value before.
template <class T>
T add_acquire_release(T* at, T value) {
  perturb();
  return std::atomic_ref<T>(*at).fetch_add(value, std::memory_order_acq_rel);
}

enum class Order : uint8_t { Random, Fixed };

/// Read once from WEFT_EMULATION_SEED, _ORDER (random, fixed), _WORKERS, _DEVICES, _SMS, _DELAY_US, _NVLINK; tests set
/// them between programs, while nothing runs.
struct Knobs {
  uint64_t seed = 1;
  Order order = Order::Random;  // of operations that could start, of blocks, of the threads of a block
  int workers = 0;              // OS threads that run operations; 0: as many as processors, at least 2
  int devices = 1;              // at most 8; with nccl all 8 unless set
  int driver = 0;               // the CUDA version that it supports; 0: no driver
  int sms = 132;                // multiprocessors of a device: 2048 threads or 32 blocks are resident on each
  int delay_us = 0;             // longest time by which an operation is held up by chance
  bool nvlink = true;           // NCCL's ranks reach each other's memory by loads and stores
  bool nccl = false;            // ranks that are threads talk through NCCL, not through their common memory
  bool processes = false;       // ranks are processes, and talk through NCCL
};
Knobs& knobs();

/// Prints the message with the running kernel, block and thread, and aborts.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace weft::emulation
