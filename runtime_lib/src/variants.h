// Presents an executable of several variants as one executable, whose lengths are open where its variants differ. The
// variant that runs is chosen when the lengths of a request are known.
//
//   variant seq=1     x [1, 4]
//   variant seq=8     x [8, 4]     ->     x [seq: 1 or 8, 4]     memory, streams and signals as many as either needs
#pragma once
#include <deque>
#include <vector>

#include "lengths.h"

namespace weft {

/// The whole of an emitted executable; one without variants stays as it is.
class WholeExecutable {
 public:
  explicit WholeExecutable(const Executable& emitted, bool generates = true);
  WholeExecutable(const WholeExecutable&) = delete;
  WholeExecutable& operator=(const WholeExecutable&) = delete;

  const Executable& get() const { return whole_; }

 private:
  int name_length(const char* name);
  int length_of(const std::vector<const Port*>& port, int dim);
  Program program(size_t number);
  std::vector<Stream>& streams(size_t program);
  std::span<const Port> ports(size_t program, std::span<const Port> Program::*ports);
  Port port(const std::vector<const Port*>& of_variants);

  Executable whole_;
  std::vector<Executable> executables_;  // of the variants
  std::vector<Variant> variants_;
  std::vector<const char*> names_;  // of lengths
  std::vector<Program> programs_;
  // Data to which the members above refer; a deque's elements do not move.
  std::deque<std::vector<Stream>> streams_;
  std::deque<std::vector<Port>> ports_;
  std::deque<std::vector<Bound>> bounds_;
  std::deque<std::vector<int64_t>> values_;
};

/// The first variant that takes these lengths; an unclaimed length is at its bound. Throws Failure (wrong input) that
/// lists the variants. 0 without variants.
size_t choose_variant(const Executable& whole, const LengthClaims& claims);

/// The variant of that number, or the executable if it has no variants.
const Executable& variant_of(const Executable& whole, size_t number);
size_t variant_count(const Executable& whole);

}  // namespace weft
