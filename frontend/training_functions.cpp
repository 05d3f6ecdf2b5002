// sgd, momentum, adam, adamw and adafactor follow PyTorch 2.15 (torch/optim), lamb and lion their papers. A rate
// reaches its last value in the last step. Functions of the domain weft.part are internal: schedules cannot name them.
// weft.Constant is a Constant of 64 bits: 1 - 0.999999 in 32 bits would be wrong by 1 %.
#include "frontend/training_functions.h"

namespace weftc {

static constexpr const char* kFunctions = R"onnx(
<domain: "weft.loss", opset_import: ["" : 18],
 doc_string: "Classes are the last dimension of the scores; those of position t are for the label at t + shift.">
cross_entropy <shift: int = 0, ignore: int = -100, reduction: string = "mean"> (scores, labels) => (loss)
{
  last_dim = Constant <value_ints = [-1]> ()
  predicted, wanted = weft.part.shifted <shift = @shift> (scores, labels)
  classes = Shape <start = -1> (scores)
  row_shape = Concat <axis = 0> (last_dim, classes)
  score_rows = Reshape (predicted, row_shape)
  label_rows = Reshape (wanted, last_dim)
  loss = SoftmaxCrossEntropyLoss <ignore_index = @ignore, reduction = @reduction> (score_rows, label_rows)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "The scores of positions that have a label, and these labels.">
shifted <shift: int = 0> (scores, labels) => (predicted, wanted)
{
  first = Constant <value_int = @shift> ()
  one = Constant <value_ints = [1]> ()
  zero = Constant <value_ints = [0]> ()
  last_dim = Constant <value_ints = [-1]> ()
  row_dim = Constant <value_ints = [-2]> ()
  end = Constant <value_ints = [9223372036854775807]> ()
  first_label = Reshape (first, one)
  rows = Shape <start = -2, end = -1> (scores)
  last_row = Sub (rows, first_label)
  predicted = Slice (scores, zero, last_row, row_dim)
  wanted = Slice (labels, first_label, end, last_dim)
}

<domain: "weft.metric", opset_import: ["" : 18],
 doc_string: "The part of the labels that have the highest score; shift and ignore as in cross_entropy.">
accuracy <shift: int = 0, ignore: int = -100> (scores, labels) => (part)
{
  ignored = Constant <value_int = @ignore> ()
  predicted, shown = weft.part.shifted <shift = @shift> (scores, labels)
  best = ArgMax <axis = -1, keepdims = 0> (predicted)
  wanted = Cast <to = 7> (shown)
  is_hit = Equal (best, wanted)
  is_ignored = Equal (wanted, ignored)
  is_valid = Not (is_ignored)
  is_valid_hit = And (is_hit, is_valid)
  hit = Cast <to = 1> (is_valid_hit)
  valid = Cast <to = 1> (is_valid)
  hits = ReduceSum <keepdims = 0> (hit)
  count = ReduceSum <keepdims = 0> (valid)
  part = Div (hits, count)
}

<domain: "weft.loss", opset_import: ["" : 18]>
mean_squared_error (predictions, targets) => (loss)
{
  error = Sub (predictions, targets)
  square = Mul (error, error)
  loss = ReduceMean <keepdims = 0> (square)
}

<domain: "weft.loss", opset_import: ["" : 18]>
mean_absolute_error (predictions, targets) => (loss)
{
  error = Sub (predictions, targets)
  distance = Abs (error)
  loss = ReduceMean <keepdims = 0> (distance)
}

<domain: "weft.loss", opset_import: ["" : 18], doc_string: "Scores are log-odds, labels 0, 1 or between.">
binary_cross_entropy (scores, labels) => (loss)
{
  of_none = Softplus (scores)
  of_labels = Mul (scores, labels)
  each = Sub (of_none, of_labels)
  loss = ReduceMean <keepdims = 0> (each)
}

<domain: "weft.optimizer", opset_import: ["" : 18]>
sgd <weight_decay: float = 0.0> (w, gradient, step, rate) => (w_next)
{
  decay = Constant <value_float = @weight_decay> ()
  is_decayed = Cast <to = 9> (decay)
  rate_w = CastLike (rate, w)
  whole = If (is_decayed) <
    then_branch = decayed () => (float decayed_gradient) {
      decay_w = CastLike (decay, w)
      shrink = Mul (w, decay_w)
      decayed_gradient = Add (gradient, shrink)
    },
    else_branch = kept () => (float kept_gradient) { kept_gradient = Identity (gradient) }>
  change = Mul (whole, rate_w)
  w_next = Sub (w, change)
}

<domain: "weft.optimizer", opset_import: ["" : 18]>
momentum <momentum: float = 0.9, nesterov: int = 0, weight_decay: float = 0.0>
  (w, gradient, velocity, step, rate) => (w_next, velocity_next)
{
  decay = Constant <value_float = @weight_decay> ()
  factor = Constant <value_float = @momentum> ()
  is_nesterov = Constant <value_int = @nesterov> ()
  looks_ahead = Cast <to = 9> (is_nesterov)
  decay_w = CastLike (decay, w)
  factor_w = CastLike (factor, w)
  rate_w = CastLike (rate, w)
  shrink = Mul (w, decay_w)
  whole = Add (gradient, shrink)
  kept = Mul (velocity, factor_w)
  velocity_next = Add (kept, whole)
  direction = If (looks_ahead) <
    then_branch = ahead () => (float ahead_direction) {
      later = Mul (velocity_next, factor_w)
      ahead_direction = Add (whole, later)
    },
    else_branch = here () => (float here_direction) { here_direction = Identity (velocity_next) }>
  change = Mul (direction, rate_w)
  w_next = Sub (w, change)
}

<domain: "weft.optimizer", opset_import: ["" : 18], doc_string: "Decay is a part of the gradient.">
adam <betas: floats = [0.9, 0.999], epsilon: float = 1e-8, weight_decay: float = 0.0>
  (w, gradient, m, v, step, rate) => (w_next, m_next, v_next)
{
  decay = Constant <value_float = @weight_decay> ()
  decay_w = CastLike (decay, w)
  shrink = Mul (w, decay_w)
  whole = Add (gradient, shrink)
  direction, m_next, v_next = weft.part.adam_direction <betas = @betas, epsilon = @epsilon> (whole, m, v, step)
  rate_w = CastLike (rate, w)
  change = Mul (direction, rate_w)
  w_next = Sub (w, change)
}

<domain: "weft.optimizer", opset_import: ["" : 18], doc_string: "Decay is beside the gradient.">
adamw <betas: floats = [0.9, 0.999], epsilon: float = 1e-8, weight_decay: float = 0.01>
  (w, gradient, m, v, step, rate) => (w_next, m_next, v_next)
{
  shrunk = weft.part.shrunk <weight_decay = @weight_decay> (w, rate)
  direction, m_next, v_next = weft.part.adam_direction <betas = @betas, epsilon = @epsilon> (gradient, m, v, step)
  rate_w = CastLike (rate, w)
  change = Mul (direction, rate_w)
  w_next = Sub (shrunk, change)
}

<domain: "weft.optimizer", opset_import: ["" : 18],
 doc_string: "Each tensor's step is as long as the tensor (arXiv 1904.00962): its rate is scaled by the ratio of norms.">
lamb <betas: floats = [0.9, 0.999], epsilon: float = 1e-6, weight_decay: float = 0.01>
  (w, gradient, m, v, step, rate) => (w_next, m_next, v_next)
{
  decay = Constant <value_float = @weight_decay> ()
  zero = Constant <value_float = 0.0> ()
  one = Constant <value_float = 1.0> ()
  decay_w = CastLike (decay, w)
  direction, m_next, v_next = weft.part.adam_direction <betas = @betas, epsilon = @epsilon> (gradient, m, v, step)
  shrink = Mul (w, decay_w)
  whole = Add (direction, shrink)
  w_squares = ReduceSumSquare <keepdims = 0> (w)
  squares = ReduceSumSquare <keepdims = 0> (whole)
  w_norm = Sqrt (w_squares)
  norm = Sqrt (squares)
  zero_w = CastLike (zero, w)
  one_w = CastLike (one, w)
  product = Mul (w_norm, norm)
  has_both = Greater (product, zero_w)
  ratio = Div (w_norm, norm)
  trust = Where (has_both, ratio, one_w)
  rate_w = CastLike (rate, w)
  length = Mul (trust, rate_w)
  change = Mul (whole, length)
  w_next = Sub (w, change)
}

<domain: "weft.optimizer", opset_import: ["" : 18], doc_string: "The sign of a mean (arXiv 2302.06675).">
lion <betas: floats = [0.9, 0.99], weight_decay: float = 0.0> (w, gradient, m, step, rate) => (w_next, m_next)
{
  beta = weft.Constant <value_floats = @betas> ()
  first = Constant <value_int = 0> ()
  second = Constant <value_int = 1> ()
  one = Constant <value = double {1}> ()
  beta1 = Gather (beta, first)
  beta2 = Gather (beta, second)
  part1 = Sub (one, beta1)
  part2 = Sub (one, beta2)
  part1_w = CastLike (part1, w)
  part2_w = CastLike (part2, w)
  error = Sub (gradient, m)
  change1 = Mul (error, part1_w)
  mean = Add (m, change1)
  direction = Sign (mean)
  change2 = Mul (error, part2_w)
  m_next = Add (m, change2)
  shrunk = weft.part.shrunk <weight_decay = @weight_decay> (w, rate)
  rate_w = CastLike (rate, w)
  change = Mul (direction, rate_w)
  w_next = Sub (shrunk, change)
}

<domain: "weft.optimizer", overload: "vector", opset_import: ["" : 18],
 doc_string: "Means of the squares of rows and of columns (arXiv 1804.04235), of a vector each square's own mean.">
adafactor <beta2_decay: float = -0.8, epsilons: floats = [1.1920929e-7, 1e-3], d: float = 1.0, weight_decay: float = 0.0>
  (float[N] w, float[N] gradient, float[N] variance, step, rate) => (w_next, variance_next)
{
  square = Mul (gradient, gradient)
  variance_next = weft.part.adafactor_mean <beta2_decay = @beta2_decay> (variance, square, step)
  w_next = weft.part.adafactor_step <epsilons = @epsilons, d = @d, weight_decay = @weight_decay>
    (w, gradient, variance_next, step, rate)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "Rows and columns are those of the last two dimensions.">
adafactor <beta2_decay, epsilons, d, weight_decay>
  (w, gradient, row, column, step, rate) => (w_next, row_next, column_next)
{
  last_dim = Constant <value_ints = [-1]> ()
  row_dim = Constant <value_ints = [-2]> ()
  first = Constant <value_int = 0> ()
  epsilon = Constant <value_floats = @epsilons> ()
  square = Mul (gradient, gradient)
  row_mean = ReduceMean (square, last_dim)
  row_next = weft.part.adafactor_mean <beta2_decay = @beta2_decay> (row, row_mean, step)
  column_mean = ReduceMean (square, row_dim)
  column_next = weft.part.adafactor_mean <beta2_decay = @beta2_decay> (column, column_mean, step)
  product = Mul (row_next, column_next)
  whole = ReduceMean (row_next, row_dim)
  least = Gather (epsilon, first)
  least_w = CastLike (least, w)
  divisor = Max (whole, least_w)
  variance = Div (product, divisor)
  w_next = weft.part.adafactor_step <epsilons = @epsilons, d = @d, weight_decay = @weight_decay>
    (w, gradient, variance, step, rate)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "Early values count as much as late ones, and less later on.">
adafactor_mean <beta2_decay> (mean, value, step) => (mean_next)
{
  exponent = weft.Constant <value_float = @beta2_decay> ()
  wide_step = Cast <to = 11> (step)
  part = Pow (wide_step, exponent)
  part_v = CastLike (part, value)
  error = Sub (value, mean)
  change = Mul (error, part_v)
  mean_next = Add (mean, change)
}

<domain: "weft.part", opset_import: ["" : 18],
 doc_string: "A step relative to the size of the tensor, and no longer than d in the root of its mean square.">
adafactor_step <epsilons, d, weight_decay> (w, gradient, variance, step, rate) => (w_next)
{
  epsilon = Constant <value_floats = @epsilons> ()
  first = Constant <value_int = 0> ()
  second = Constant <value_int = 1> ()
  one = Constant <value_float = 1.0> ()
  longest = Constant <value_float = @d> ()
  least = Gather (epsilon, first)
  least_size = Gather (epsilon, second)
  least_square = Mul (least, least)
  least_w = CastLike (least_square, w)
  least_size_w = CastLike (least_size, w)
  one_w = CastLike (one, w)
  longest_w = CastLike (longest, w)
  rate_w = CastLike (rate, w)
  bounded = Max (variance, least_w)
  root = Sqrt (bounded)
  direction = Div (gradient, root)
  direction_square = Mul (direction, direction)
  direction_mean = ReduceMean <keepdims = 0> (direction_square)
  length = Sqrt (direction_mean)
  lengths = Div (length, longest_w)
  shortening = Max (lengths, one_w)
  step_root = Sqrt (step)
  step_rate = Div (one, step_root)
  least_rate = Min (rate, step_rate)
  least_rate_w = CastLike (least_rate, w)
  w_square = Mul (w, w)
  w_mean = ReduceMean <keepdims = 0> (w_square)
  w_root = Sqrt (w_mean)
  size = Max (w_root, least_size_w)
  far = Mul (size, least_rate_w)
  distance = Div (far, shortening)
  shrunk = weft.part.shrunk <weight_decay = @weight_decay> (w, rate)
  change = Mul (direction, distance)
  w_next = Sub (shrunk, change)
}

<domain: "weft.part", opset_import: ["" : 18],
 doc_string: "Means of the gradient and of its square, which make up for their start at 0. 1 - beta ^ step needs 64 bits.">
adam_direction <betas: floats = [0.9, 0.999], epsilon: float = 1e-8> (gradient, m, v, step) => (direction, m_next, v_next)
{
  beta = weft.Constant <value_floats = @betas> ()
  small = Constant <value_float = @epsilon> ()
  first = Constant <value_int = 0> ()
  second = Constant <value_int = 1> ()
  one = Constant <value = double {1}> ()
  beta1 = Gather (beta, first)
  beta2 = Gather (beta, second)
  part1 = Sub (one, beta1)
  part2 = Sub (one, beta2)
  wide_step = Cast <to = 11> (step)
  power1 = Pow (beta1, wide_step)
  power2 = Pow (beta2, wide_step)
  whole1 = Sub (one, power1)
  whole2 = Sub (one, power2)
  root2 = Sqrt (whole2)
  scale1 = Div (one, whole1)
  scale2 = Div (one, root2)
  beta2_g = CastLike (beta2, gradient)
  part1_g = CastLike (part1, gradient)
  part2_g = CastLike (part2, gradient)
  scale1_g = CastLike (scale1, gradient)
  scale2_g = CastLike (scale2, gradient)
  small_g = CastLike (small, gradient)
  error = Sub (gradient, m)
  change = Mul (error, part1_g)
  m_next = Add (m, change)
  kept = Mul (v, beta2_g)
  square = Mul (gradient, gradient)
  square_part = Mul (square, part2_g)
  v_next = Add (kept, square_part)
  m_mean = Mul (m_next, scale1_g)
  v_root = Sqrt (v_next)
  v_mean_root = Mul (v_root, scale2_g)
  denominator = Add (v_mean_root, small_g)
  direction = Div (m_mean, denominator)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "Decay that is no part of the gradient.">
shrunk <weight_decay> (w, rate) => (shrunk)
{
  decay = weft.Constant <value_float = @weight_decay> ()
  one = Constant <value = double {1}> ()
  wide_rate = Cast <to = 11> (rate)
  decayed = Mul (wide_rate, decay)
  rest = Sub (one, decayed)
  rest_w = CastLike (rest, w)
  shrunk = Mul (w, rest_w)
}

<domain: "weft.part", opset_import: ["" : 18]>
unscaled (gradient, scale) => (own)
{
  part = Reciprocal (scale)
  part_g = CastLike (part, gradient)
  own = Mul (gradient, part_g)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "As a float: all that matters is whether it is 0.">
count_not_finite (gradient) => (count)
{
  is_nan = IsNaN (gradient)
  is_infinite = IsInf (gradient)
  is_odd = Or (is_nan, is_infinite)
  odd = Cast <to = 1> (is_odd)
  count = ReduceSum <keepdims = 0> (odd)
}

<domain: "weft.part", opset_import: ["" : 18],
 doc_string: "Half the scale after a step that is skipped, and twice the scale after 2000 that were good.">
next_loss_scale (scale, good, odd) => (scale_next, good_next, are_finite, skipped)
{
  zero = Constant <value_float = 0.0> ()
  one = Constant <value_float = 1.0> ()
  half = Constant <value_float = 0.5> ()
  two = Constant <value_float = 2.0> ()
  many = Constant <value_float = 2000.0> ()
  are_finite = Equal (odd, zero)
  skipped = Where (are_finite, zero, one)
  counted = Add (good, one)
  is_full = GreaterOrEqual (counted, many)
  larger = Mul (scale, two)
  smaller = Mul (scale, half)
  good_scale = Where (is_full, larger, scale)
  good_count = Where (is_full, zero, counted)
  scale_next = Where (are_finite, good_scale, smaller)
  good_next = Where (are_finite, good_count, zero)
}

<domain: "weft.part", opset_import: ["" : 18]>
moving_average <decay> (mean, value) => (mean_next)
{
  given = weft.Constant <value_float = @decay> ()
  one = Constant <value = double {1}> ()
  rest = Sub (one, given)
  rest_w = CastLike (rest, mean)
  error = Sub (value, mean)
  change = Mul (error, rest_w)
  mean_next = Add (mean, change)
}

<domain: "weft.rate", opset_import: ["" : 18]>
constant <rate, warmup: float = 0.0> (step) => (rate_now)
{
  all = Constant <value_float = 1.0> ()
  rate_now = weft.part.scaled <rate = @rate, warmup = @warmup> (step, all)
}

<domain: "weft.rate", opset_import: ["" : 18], doc_string: "From rate to rate * final in a line.">
linear <rate, steps, warmup: float = 0.0, final: float = 0.0> (step) => (rate_now)
{
  left = weft.part.left <warmup = @warmup, steps = @steps> (step)
  rate_now = weft.part.scaled <rate = @rate, warmup = @warmup, final = @final> (step, left)
}

<domain: "weft.rate", opset_import: ["" : 18], doc_string: "From rate to rate * final along half a cosine.">
cosine <rate, steps, warmup: float = 0.0, final: float = 0.0> (step) => (rate_now)
{
  pi = Constant <value_float = 3.14159265358979> ()
  half = Constant <value_float = 0.5> ()
  left = weft.part.left <warmup = @warmup, steps = @steps> (step)
  angle = Mul (left, pi)
  wave = Cos (angle)
  below = Mul (wave, half)
  bent = Sub (half, below)
  rate_now = weft.part.scaled <rate = @rate, warmup = @warmup, final = @final> (step, bent)
}

<domain: "weft.rate", opset_import: ["" : 18],
 doc_string: "Warm-up, stable, decay: from rate to rate * final in the last `tail` of the steps, as 1 - sqrt.">
wsd <rate, steps, warmup: float = 0.0, final: float = 0.0, tail: float = 0.2> (step) => (rate_now)
{
  one = Constant <value_float = 1.0> ()
  all = Constant <value_float = @steps> ()
  share = Constant <value_float = @tail> ()
  zero = Constant <value_float = 0.0> ()
  tail_given = Mul (all, share)
  tail_steps = Max (tail_given, one)
  tail_start = Sub (all, tail_steps)
  gone = Sub (step, tail_start)
  fraction = Div (gone, tail_steps)
  in_tail = Clip (fraction, zero, one)
  root = Sqrt (in_tail)
  left = Sub (one, root)
  rate_now = weft.part.scaled <rate = @rate, warmup = @warmup, final = @final> (step, left)
}

<domain: "weft.part", opset_import: ["" : 18],
 doc_string: "The rate times what the warm-up lets through, times a factor from final to 1 where `left` is 0 to 1.">
scaled <rate, warmup: float = 0.0, final: float = 0.0> (step, left) => (rate_now)
{
  base = Constant <value_float = @rate> ()
  given = Constant <value_float = @warmup> ()
  least = Constant <value_float = @final> ()
  one = Constant <value_float = 1.0> ()
  steps = Max (given, one)
  line = Div (step, steps)
  part = Min (line, one)
  range = Sub (one, least)
  above = Mul (left, range)
  factor = Add (above, least)
  whole = Mul (base, part)
  rate_now = Mul (whole, factor)
}

<domain: "weft.part", opset_import: ["" : 18], doc_string: "From 1 to 0 between the warm-up and the last step.">
left <steps, warmup: float = 0.0> (step) => (part)
{
  all = Constant <value_float = @steps> ()
  before = Constant <value_float = @warmup> ()
  zero = Constant <value_float = 0.0> ()
  one = Constant <value_float = 1.0> ()
  given = Sub (all, before)
  span = Max (given, one)
  ahead = Sub (all, step)
  line = Div (ahead, span)
  part = Clip (line, zero, one)
}
)onnx";

// Types give the number of dimensions that a function is for; in this one, OUTER is replaced by the dims before rows
// and columns.
static constexpr const char* kAdafactorOfRows = R"onnx(
<domain: "weft.optimizer", overload: "NAME", opset_import: ["" : 18]>
adafactor <beta2_decay: float = -0.8, epsilons: floats = [1.1920929e-7, 1e-3], d: float = 1.0, weight_decay: float = 0.0>
  (float[OUTER R, C] w, float[OUTER R, C] gradient, float[OUTER R, 1] row, float[OUTER 1, C] column, step, rate)
  => (w_next, row_next, column_next)
{
  w_next, row_next, column_next = weft.part.adafactor
    <beta2_decay = @beta2_decay, epsilons = @epsilons, d = @d, weight_decay = @weight_decay>
    (w, gradient, row, column, step, rate)
}
)onnx";

static std::string with(std::string text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

std::string training_functions() {
  std::string text = kFunctions;
  for (const auto& [name, outer] :
       {std::pair{"matrix", ""}, {"matrices", "A,"}, {"images", "A, B,"}, {"volumes", "A, B, D,"}})
    text += with(with(kAdafactorOfRows, "NAME", name), "OUTER", outer);
  return text;
}

}  // namespace weftc
