// Each rank feeds its parts of the inputs, and writes its part of the last logits to memory that all ranks read. One
// barrier separates the invocation and the choice. The barrier at the end of the next invocation keeps the logits until
// all have chosen.
#include "generator.h"

#include <algorithm>
#include <cstring>

#include "lengths.h"
#include "text_length.h"
#include "variants.h"
#include "wait.h"

namespace weft {

namespace {

/// A whole number in an array of this type.
void store_integer(DType dtype, char* at, int64_t value) {
  const auto store = [&](auto number) { memcpy(at, &number, sizeof number); };
  switch (dtype) {
    case DType::I64:
      return store(value);
    case DType::I32:
      return store(int32_t(value));
    case DType::Bool:
      return store(value != 0);
    case DType::F32:
      return store(float(value));
    default:
      fail(kBug, "a generation feeds no %s", dtype_name(dtype));
  }
}

int64_t integer_at(DType dtype, const char* at) {
  if (dtype == DType::I32) {
    int32_t value;
    return memcpy(&value, at, sizeof value), value;
  }
  int64_t value;
  return memcpy(&value, at, sizeof value), value;
}

std::vector<char> integers(DType dtype, int64_t count, const std::function<int64_t(int64_t)>& element) {
  const int64_t bytes = element_bytes(dtype);
  std::vector<char> out(size_t(count * bytes));
  for (int64_t i = 0; i < count; ++i) store_integer(dtype, out.data() + i * bytes, element(i));
  return out;
}

template <class T>
void scatter_logits(const char* from, const std::vector<int64_t>& tokens, double* to) {
  const T* logits = reinterpret_cast<const T*>(from);
  for (size_t i = 0; i < tokens.size(); ++i) to[tokens[i]] = double(logits[i]);
}

/// Scatters the logits of these tokens, contiguous at `from`, to the indices of their tokens.
void scatter_logits(DType dtype, const char* from, const std::vector<int64_t>& tokens, double* to) {
  switch (dtype) {
    case DType::F32:
      return scatter_logits<float>(from, tokens, to);
    case DType::F64:
      return scatter_logits<double>(from, tokens, to);
    case DType::F16:
      return scatter_logits<half>(from, tokens, to);
    case DType::BF16:
      return scatter_logits<bfloat16>(from, tokens, to);
    default:
      fail(kBug, "logits of type %s", dtype_name(dtype));
  }
}

const Port* fed_port(const Executable& executable, const char* name) {
  return name == nullptr ? nullptr : &port_named(executable, name, &Program::inputs);
}

double milliseconds_since(int64_t begin_ns) { return double(now_ns() - begin_ns) / 1e6; }

}  // namespace

std::vector<char> integers(DType dtype, const std::vector<int64_t>& numbers) {
  return integers(dtype, int64_t(numbers.size()), [&](int64_t i) { return numbers[size_t(i)]; });
}

std::vector<char> Generated::elements(DType dtype) const { return integers(dtype, tokens); }

Generator::Generator(RankBase& rank, Inputs& inputs, States& states, const Options& options)
    : rank_(rank),
      inputs_(inputs),
      states_(states),
      generation_(*rank.executable.generation),
      ports_(rank.executable),
      tokens_(fed_port(rank.executable, generation_.tokens)),
      positions_(fed_port(rank.executable, generation_.positions)),
      mask_(fed_port(rank.executable, generation_.mask)),
      start_(counts_tokens(generation_) ? read_text_length(options, generation_) : 0) {
  const Shape& shape = port_named(rank.executable, generation_.logits, &Program::outputs).shape;
  vocabulary_ = shape.dims[shape.ndim - 1];
  for (size_t v = 0; v < variant_count(rank.executable); ++v)
    logits_.push_back(shared_part(variant_of(rank.executable, v), rank.rank));
}

/// The part of the logits that a rank shares: of several that hold the same, the first does.
std::optional<PortView> Generator::shared_part(const Executable& variant, int rank) const {
  const Program& program = program_of(variant, rank);
  const Port* held = find_port(program.outputs, generation_.logits);
  const bool shares =
      held != nullptr && holds(program, *held, rank) && writes_part(variant, *held, &Program::outputs, rank);
  return shares ? std::optional(PortView(*held, rank)) : std::nullopt;
}

/// How many of the `left` tokens the program is fed next: as many as a variant accepts.
int64_t Generator::next_count(int64_t left) const {
  for (const Bound& bound : tokens_->layout.bounds) {
    if (bound.dim != 1 || bound.values.empty()) continue;
    const auto above = std::upper_bound(bound.values.begin(), bound.values.end(), left);
    if (above == bound.values.begin()) fail(kBug, "no variant is fed single tokens");
    return *(above - 1);
  }
  return std::min(left, tokens_->shape.dims[1]);
}

/// How many tokens the states hold: their length, or `counted` if their size is fixed.
int64_t Generator::past(int64_t counted) const {
  if (counts_tokens(generation_)) return counted;
  return generation_.past == nullptr ? 0 : states_.length(generation_.past, generation_.past_dim);
}

void Generator::check(const Text& text, int64_t batch, int64_t length) const {
  if (batch == 0 || length == 0) fail(kWrongInput, "'%s': the prompt is empty", tokens_->name);
  if (!text.unfed.empty() && batch != int64_t(text.unfed.size()))
    fail(kWrongInput, "'%s': %ld rows, but the text has %zu", tokens_->name, long(batch), text.unfed.size());
  const int64_t fed = length + sampling_.max_new - 1;  // the last token is not
  // States of a fixed size take any number of tokens, unless a mask has a column for each.
  const int64_t before = counts_tokens(generation_) && mask_ == nullptr ? 0 : past_;
  if (before + fed > generation_.room)
    fail(kWrongInput, "'%s': %ld tokens and the %ld to be fed for %ld new ones are more than the %ld that have room",
         tokens_->name, long(before), long(fed), long(sampling_.max_new), long(generation_.room));
}

void Generator::take_rows(const Text& text, const WholeTensor& prompt) {
  const int64_t batch = prompt.shape[0], length = prompt.shape[1], bytes = element_bytes(tokens_->dtype);
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    if (!text.unfed.empty()) rows[size_t(b)].push_back(text.unfed[size_t(b)]);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t token = integer_at(tokens_->dtype, prompt.elements + (b * length + i) * bytes);
      if (token < 0 || token >= vocabulary_)
        fail(kWrongInput, "'%s': token %ld lies outside of the vocabulary of %ld", tokens_->name, long(token),
             long(vocabulary_));
      rows[size_t(b)].push_back(token);
    }
  }
  rows_ = std::move(rows);
}

void Generator::begin(const Text& text, const WholeTensor& prompt, const Sampling& sampling) {
  sampling_ = sampling;
  past_ = past(text.past < 0 ? start_ : text.past);
  check(text, prompt.shape[0], prompt.shape[1] + (text.unfed.empty() ? 0 : 1));
  take_rows(text, prompt);
  first_ = count_ = 0;
  load_next();
}

void Generator::give(const Port* port, const std::vector<int64_t>& shape,
                     const std::function<int64_t(int64_t)>& element) {
  if (port == nullptr) return;
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  inputs_.give({port->name, shape, integers(port->dtype, count, element).data()});
}

/// Puts the next tokens that the program can take into its inputs. Without states it takes the whole text anew.
void Generator::load_next() {
  if (rank_.options.poison) rank_.poison(states_.ranges());
  const auto batch = int64_t(rows_.size()), length = int64_t(rows_[0].size());
  first_ = generation_.past == nullptr ? 0 : first_ + count_;
  count_ = next_count(length - first_);
  inputs_.expect({{tokens_->name, {batch, count_}}});
  give(tokens_, {batch, count_}, [&](int64_t i) { return rows_[size_t(i / count_)][size_t(first_ + i % count_)]; });
  if (positions_ != nullptr) {
    std::vector<int64_t> shape = {count_};
    if (positions_->shape.ndim == 2) shape.insert(shape.begin(), positions_->shape.dims[0] == 1 ? 1 : batch);
    give(positions_, shape, [&](int64_t i) { return past_ + i % count_; });
  }
  give(mask_, {batch, past_ + count_}, [](int64_t) { return 1; });
  inputs_.upload(states_);
}

/// Runs the program until all tokens of the text are fed. False: a rank has complained.
bool Generator::feed_rest(const std::function<bool()>& is_refused) {
  for (;;) {
    rank_.barrier();  // all have loaded their inputs, and looked for complaints of the invocation before
    rank_.iterate();
    fetch_lengths(rank_);
    states_.advance();
    if (is_refused()) return false;
    ++rank_.invocation;
    past_ = past(past_ + count_);
    if (first_ + count_ == int64_t(rows_[0].size())) return true;
    load_next();
  }
}

/// Writes this rank's part of the logits of each row's last token to memory that all ranks read.
void Generator::share_logits() const {
  const std::optional<PortView>& logits = logits_[rank_.variant_number];
  if (!logits) return;
  const Port& port = logits->port;
  const bool has_lengths = port.shape.ndim == 3;
  const std::vector<int64_t>& tokens = logits->index.back();
  const int64_t element = element_bytes(port.dtype);
  const int64_t width = logits->extents.back() * element;  // a ragged slice has room for more than it holds
  // The index of the last token among this rank's tokens of a text, and the number of tokens that fit.
  int64_t last = 0, rows = 1;
  if (has_lengths) {
    const std::vector<int64_t>& places = logits->index[1];
    const auto before = [&](int64_t place) {
      return std::lower_bound(places.begin(), places.end(), place) - places.begin();
    };
    const int64_t wanted = port.shape.dims[1] > 1 ? count_ - 1 : 0;
    last = before(wanted);
    if (last == int64_t(places.size()) || places[size_t(last)] != wanted) return;
    const bool is_dense = has_length_at_run_time(port, 1) && !port.layout.by_bounds;
    rows = is_dense ? before(count_) : logits->extents[1];
  }
  const std::vector<int64_t>& held = logits->index[0];
  auto* shared = reinterpret_cast<double*>(rank_.world.staging());
  for (size_t b = 0; b < held.size() && held[b] < int64_t(rows_.size()); ++b) {
    const Range range{port.in_window, port.offset + (int64_t(b) * rows + last) * width,
                      int64_t(tokens.size()) * element};
    rank_.fetch(range);
    scatter_logits(port.dtype, rank_.at(range), tokens, shared + held[b] * vocabulary_);
  }
}

/// Whether each row has ended.
bool Generator::is_over() const {
  const std::span<const int64_t> end = generation_.end;
  return std::all_of(rows_.begin(), rows_.end(), [&](const std::vector<int64_t>& row) {
    return std::find(end.begin(), end.end(), row.back()) != end.end();
  });
}

/// Adds a token to each row; one that has ended is filled up with the token that ends it. False: the logits allow no
/// choice.
bool Generator::choose(bool is_first) {
  const auto* shared = reinterpret_cast<const double*>(rank_.world.staging());
  const std::span<const int64_t> end = generation_.end;
  for (size_t b = 0; b < rows_.size(); ++b) {
    std::vector<int64_t>& row = rows_[b];
    const bool is_ended = !is_first && std::find(end.begin(), end.end(), row.back()) != end.end();
    const int64_t position = past_ + (generation_.past == nullptr ? count_ : 0);
    const std::span<const double> logits(shared + int64_t(b) * vocabulary_, size_t(vocabulary_));
    const int64_t token =
        is_ended ? row.back() : choose_token(logits, sampling_, draw_for_token(sampling_.seed, int64_t(b), position));
    if (token < 0) {
      rank_.complain(text("no token can be chosen: '%s' holds infinities, or what is no number", generation_.logits));
      rank_.barrier();  // all have said so
      return false;
    }
    row.push_back(token);
  }
  return true;
}

std::vector<int64_t> Generator::last_tokens() const {
  std::vector<int64_t> out;
  for (const std::vector<int64_t>& row : rows_) out.push_back(row.back());
  return out;
}

Generated Generator::run(Text& text, const std::function<bool()>& is_refused,
                         const std::function<void(const std::vector<int64_t>&)>& tell) {
  Generated out;
  out.batch = int64_t(rows_.size());
  out.prompt_tokens = int64_t(rows_[0].size());
  for (int64_t n = 0; n < sampling_.max_new && (n == 0 || !is_over()); ++n) {
    const int64_t begin = now_ns();
    if (n > 0) load_next();
    if (!feed_rest(is_refused)) return out;
    share_logits();
    rank_.barrier();
    if (!choose(n == 0)) return out;
    if (n == 0)
      out.prompt_ms = milliseconds_since(begin);
    else
      out.token_ms.push_back(milliseconds_since(begin));
    // The last token is not told: if its receiver complained, not all ranks would see that before they go on.
    if (tell && n + 1 < sampling_.max_new && !is_over()) tell(last_tokens());
  }
  text.past = past_;
  text.unfed.clear();
  if (generation_.past != nullptr) text.unfed = last_tokens();
  for (const std::vector<int64_t>& row : rows_)
    out.tokens.insert(out.tokens.end(), row.begin() + std::ptrdiff_t(out.prompt_tokens), row.end());
  out.is_complete = true;
  return out;
}

}  // namespace weft
