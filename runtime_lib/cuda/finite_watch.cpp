#include "finite_watch.h"

#include <algorithm>

#include "finite_form.h"

namespace weft {

FiniteWatch::FiniteWatch(size_t streams, Memory memory) : memory_(std::move(memory)), open_(streams) {
  kept_.push_back(memory_(sizeof(NotFiniteFound), "what --check-nan finds"));
  found_ = reinterpret_cast<NotFiniteFound*>(kept_.back().get());
}

void FiniteWatch::begin_invocation(cudaStream_t stream) {
  checks_.clear();
  streams_.clear();
  for (OpenSteps& open : open_) open.touched.clear(), open.begins.clear(), open.used.clear(), open.count = 0;
  check_cuda(cudaMemsetAsync(found_, 0xff, sizeof(NotFiniteFound), stream), "clearing what is found");
}

void FiniteWatch::begin_step(int number, cudaStream_t stream) {
  streams_.emplace_back(number, stream);
  OpenSteps& open = open_[size_t(number)];
  open.begins.push_back(open.touched.size());
  open.used.push_back(open.count);
}

/// Memory for the marks of a buffer. Larger memory replaces the former one, which is kept because kernels may still use
/// it: marks of steps that are open lie there.
NotFiniteMark* FiniteWatch::take_marks(OpenSteps& open, int64_t elements) {
  const int64_t more = marks_of(elements);
  if (open.count + more > open.capacity) {
    open.capacity = std::max(2 * open.capacity, open.count + more);
    kept_.push_back(memory_(open.capacity * int64_t{sizeof(NotFiniteMark)}, "marks of --check-nan"));
    open.marks = reinterpret_cast<NotFiniteMark*>(kept_.back().get());
  }
  NotFiniteMark* marks = open.marks + open.count;
  open.count += more;
  return marks;
}

void FiniteWatch::touch(const void* at, int64_t count, DType dtype) {
  if (streams_.empty() || !is_real(dtype) || count == 0) return;
  const auto& [number, stream] = streams_.back();
  OpenSteps& open = open_[size_t(number)];
  for (size_t i = open.begins.back(); i < open.touched.size(); ++i)
    if (open.touched[i].at == at && open.touched[i].count >= count) return;
  open.touched.push_back({at, count, dtype, take_marks(open, count)});
  mark_not_finite(stream, dtype, at, count, open.touched.back().before);
}

void FiniteWatch::end_step(const Step& step) {
  OpenSteps& open = open_[size_t(streams_.back().first)];
  for (size_t i = open.begins.back(); i < open.touched.size(); ++i) {
    const Touched& each = open.touched[i];
    find_not_finite(streams_.back().second, each.dtype, each.at, each.count, each.before, uint32_t(checks_.size()),
                    found_);
    checks_.push_back({step, each.count});
  }
  open.touched.resize(open.begins.back());
  open.count = open.used.back();
  open.begins.pop_back();
  open.used.pop_back();
  streams_.pop_back();
}

void FiniteWatch::end_invocation(cudaStream_t stream) {
  NotFiniteFound found;
  check_cuda(cudaMemcpyAsync(&found, found_, sizeof found, cudaMemcpyDeviceToHost, stream), "reading a value");
  check_cuda(cudaStreamSynchronize(stream), "reading a value");
  for (int kind = 0; kind < kNumberKinds; ++kind) {
    first_[kind] = {};
    if (found.place[kind] == NotFiniteFound::kNone) continue;
    const Check& check = checks_[size_t(found.check(kind))];
    const NotFinite number = {found.element(kind), kind == int(NumberKind::NaN)};
    first_[kind] = {int64_t(found.ns[kind]), oddity_text(check.step, check.count, number)};
  }
}

}  // namespace weft
