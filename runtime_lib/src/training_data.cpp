// Files are mapped. A batch is assembled row by row, so that only the needed parts of a file are read.
#include "training_data.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "checks.h"
#include "nearest.h"
#include "text_ports.h"
#include "weft/random.h"

namespace weft {

int64_t shuffled(int64_t index, int64_t count, uint64_t seed, int64_t epoch) {
  constexpr int kRounds = 6;
  const int half = (std::max(2, int(std::bit_width(uint64_t(count - 1)))) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t at = uint64_t(index);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t draw = philox({uint32_t(right), uint32_t(right >> 32), uint32_t(round), uint32_t(epoch)},
                                   {uint32_t(seed), uint32_t(seed >> 32)})[0];
      left = std::exchange(right, (left ^ draw) & mask);
    }
    at = left << half | right;
  } while (at >= uint64_t(count));
  return int64_t(at);
}

static int64_t product_from(const std::vector<int64_t>& shape, size_t first) {
  return std::accumulate(shape.begin() + long(std::min(first, shape.size())), shape.end(), int64_t{1},
                         std::multiplies<>());
}

int64_t TrainingData::Source::sample_elements() const { return product_from(file_shape(port), 1); }

int64_t TrainingData::Source::samples() const {
  return is_text ? header.shape[0] / sample_elements() : header.shape[0];
}

/// Copies a sample to row `to` of the batch, as the port's elements.
void TrainingData::Source::read(int64_t sample, int64_t to) {
  const int64_t elements = sample_elements(), width = npy_element_bytes(header, port.dtype, file);
  const std::string_view bytes =
      mapping.bytes().substr(size_t(header.data_offset + sample * elements * width), size_t(elements * width));
  const int64_t row = int64_t(batch.size()) / file_shape(port)[0];
  NpyHeader one = header;
  one.shape = {elements};
  if (is_stored_as(one, port.dtype)) {
    memcpy(batch.data() + to * row, bytes.data(), bytes.size());
  } else {
    const std::vector<char> converted = converted_elements(one, bytes, port.dtype, file);
    memcpy(batch.data() + to * row, converted.data(), converted.size());
  }
}

void TrainingData::open(const Port& port, const Samples& given_by) {
  const std::string& file = given_by.files.at(port.name);
  Source& source = *sources_.emplace_back(std::make_unique<Source>(port, file));
  const std::vector<int64_t> wanted = file_shape(port), &given = source.header.shape;
  if (!port.layout.bounds.empty() || wanted.empty())
    fail(kWrongInput,
         "%s %s=%s: '%s' is %s; an input of a training has a first dimension, of samples, and no length that a run "
         "decides",
         given_by.flag, port.name, file.c_str(), port.name, port_shape_text(port).c_str());
  const bool is_rows = given.size() == wanted.size() && std::equal(given.begin() + 1, given.end(), wanted.begin() + 1);
  source.is_text = !is_rows && given.size() == 1 && wanted.size() == 2;
  if (!is_rows && !source.is_text)
    fail(kWrongInput, "%s: shape %s; '%s' takes samples of %s", file.c_str(), shape_text(given).c_str(), port.name,
         shape_text({wanted.begin() + 1, wanted.end()}).c_str());
  if (source.header.is_fortran)
    fail(kWrongInput, "%s: elements in Fortran order; samples must lie in C order", file.c_str());
  const int64_t bytes = product_from(given, 0) * npy_element_bytes(source.header, port.dtype, file);
  if (int64_t(source.mapping.bytes().size()) != source.header.data_offset + bytes)
    fail(kWrongInput, "%s: %zu bytes; its header asks for %ld", file.c_str(), source.mapping.bytes().size(),
         long(source.header.data_offset + bytes));
  const int64_t samples = source.samples();
  if (samples_ >= 0 && samples != samples_)
    fail(kWrongInput, "%s has %ld samples, %s has %ld: one of each belong together", file.c_str(), long(samples),
         sources_.front()->file.c_str(), long(samples_));
  if (samples_ >= 0 && wanted[0] != batch_)
    fail(kWrongInput, "'%s' has %ld samples a step, '%s' has %ld", port.name, long(wanted[0]),
         sources_.front()->port.name, long(batch_));
  samples_ = samples, batch_ = wanted[0];
  if (samples < (given_by.are_all_taken ? 1 : batch_))
    fail(kWrongInput, "%s has %ld sample%s, a step takes %ld", file.c_str(), long(samples), samples == 1 ? "" : "s",
         long(batch_));
  source.batch.resize(size_t(port_bytes(port)));
}

TrainingData::TrainingData(const Executable& executable, const Options& options, const Samples& samples)
    : shuffles_(samples.shuffles), seed_(samples.seed) {
  std::vector<std::string> names;
  for (const Port* port : distinct_ports(executable, &Program::inputs)) {
    if (is_state_input(executable, port->name) || is_fed(executable, port->name)) continue;
    names.emplace_back(port->name);
    if (samples.files.contains(port->name))
      open(*port, samples);
    else if (!options.inputs.contains(port->name))
      fail(kWrongInput, "input '%s' (%s, %s) is missing: %s %s=FILE.npy", port->name, dtype_name(port->dtype),
           port_shape_text(*port).c_str(), samples.flag, port->name);
  }
  for (const auto& [name, file] : samples.files)
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail(kWrongInput, "there is no input '%s'%s; there are: %s", name.c_str(), did_you_mean(name, names).c_str(),
           list_text(names).c_str());
}

void TrainingData::add_to(FileSums& sums) const {
  for (const auto& source : sources_)
    sums.add(source->port.name, source->header.shape,
             source->mapping.bytes().substr(size_t(source->header.data_offset)));
}

int64_t TrainingData::tokens() const {
  for (const auto& source : sources_)
    if (source->is_text) return batch_ * source->sample_elements();
  return 0;
}

/// A batch whose row i is the sample that `sample_of` says.
template <class SampleOf>
std::vector<WholeTensor> TrainingData::filled(const SampleOf& sample_of) {
  std::vector<WholeTensor> tensors;
  for (const auto& source : sources_) {
    for (int64_t i = 0; i < batch_; ++i) source->read(sample_of(i), i);
    tensors.push_back({source->port.name, file_shape(source->port), source->batch.data()});
  }
  return tensors;
}

std::vector<WholeTensor> TrainingData::batch_of(int64_t step) {
  const int64_t epoch = step / steps_per_epoch(), first = step % steps_per_epoch() * batch_;
  return filled([&](int64_t i) { return shuffles_ ? shuffled(first + i, samples_, seed_, epoch) : first + i; });
}

std::vector<Stretch> TrainingData::stretches() const {
  std::vector<Stretch> made;
  for (int64_t first = 0, count = batch_; first < samples_; first += count) {
    while (first + count > samples_ || batch_ % count != 0) --count;
    made.push_back({first, count});
  }
  return made;
}

std::vector<WholeTensor> TrainingData::batch_of(const Stretch& stretch) {
  return filled([&](int64_t i) { return stretch.first + i % stretch.count; });
}

}  // namespace weft
