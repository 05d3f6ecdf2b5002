#include "weft/scratch.h"

#include <thread>
#include <vector>

#include "doctest/doctest.h"

using weft::Scratch;

#ifndef __SANITIZE_ADDRESS__  // which gives each of them a block of its own

TEST_CASE("scratch: what was given back is given again") {
  const auto places = [] {
    const Scratch<float> a(1000);
    const Scratch<double> b(5);
    return std::vector<const void*>{a.get(), b.get()};
  };
  const std::vector<const void*> first = places();
  CHECK(places() == places());
  const Scratch<char> outer(1);
  CHECK(places() != first);
}

TEST_CASE("scratch: blocks become one when none is in use") {
  std::thread([] {  // which has no memory yet
    {
      const Scratch<char> a(100);
      const Scratch<char> b(100'000);
      CHECK(b.get() != a.get() + 128);
    }
    const Scratch<char> a(100);
    const Scratch<char> b(100'000);
    CHECK(b.get() == a.get() + 128);
  })
      .join();
}

#endif

TEST_CASE("scratch: memory in use is nobody else's, and begins at a multiple of 64") {
  for (int round = 0; round < 3; ++round) {
    const Scratch<int64_t> a(3);
    for (int i = 0; i < 3; ++i) a[i] = i;
    for (int64_t count : {1, 7, 70'000}) {
      const Scratch<int64_t> b(count);
      CHECK(reinterpret_cast<uintptr_t>(b.get()) % 64 == 0);
      for (int64_t i = 0; i < count; ++i) b[i] = -1;
      std::thread([&] {
        const Scratch<int64_t> c(count);
        for (int64_t i = 0; i < count; ++i) c[i] = -2;
      }).join();
      CHECK(b[count - 1] == -1);
    }
    CHECK((a[0] == 0 && a[1] == 1 && a[2] == 2));
  }
}

TEST_CASE("scratch: no elements, no memory") { CHECK(Scratch<float>(0).get() == nullptr); }
