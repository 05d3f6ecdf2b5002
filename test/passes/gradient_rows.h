// One small model or more for each record that has a gradient, for gradient_coverage_test.cpp.
#pragma once
#include "test/passes/gradient_check.h"

namespace weftc::test {

constexpr GradientRow kGradientRows[] = {
    // Pointwise
    {"Abs", "x[$a, $b]", "z = Abs(x)"},
    {"Acos", "x[$a, $b]", "h = Mul(x, half) z = Acos(h)"},
    {"Acosh", "x[$a, $b]", "e = Exp(x) h = Add(e, two) z = Acosh(h)"},
    {"Add", "x[$a, $(1|$b)], w[$(1|$a), $b]", "z = Add(x, w)"},
    {"Asin", "x[$a, $b]", "h = Mul(x, half) z = Asin(h)"},
    {"Asinh", "x[$a, $b]", "z = Asinh(x)"},
    {"Atan", "x[$a, $b]", "z = Atan(x)"},
    {"Atanh", "x[$a, $b]", "h = Mul(x, half) z = Atanh(h)"},
    {"BiasAdd", "x[2, $a, $b], w[$b], v[2, $a, $b]", "z = com.microsoft.BiasAdd(x, w, v)"},
    {"BiasGelu", "x[$a, $b], w[$b]", "z = com.microsoft.BiasGelu(x, w)"},
    {"BiasSplitGelu", "x[2, $a, 4], w[4]", "z = com.microsoft.BiasSplitGelu(x, w)"},
    {"Cast", "x[$a, $b], w[$b]", "c = Cast<to = 11>(x) z = Mul(c, w)"},
    {"CastLike", "x[$a, $b], w[$b]", "c = CastLike(x, w) z = Mul(c, w)"},
    {"Celu", "x[$a, $b]", "z = Celu<alpha = $(0.5|1.5)>(x)"},
    {"Clip", "x[$a, $b], w[], v[]", "e = Exp(w) l = Neg(e) z = Clip(x, $(l|), $(v|e))"},
    {"Cos", "x[$a, $b]", "z = Cos(x)"},
    {"Cosh", "x[$a, $b]", "z = Cosh(x)"},
    {"DequantizeLinear", "x[3]",
     "q = Constant<value = int8[2, 3] {1, -2, 1, 3, 1, -1}>() z = DequantizeLinear<axis = 1>(q, x)", true},
    {"Div", "x[$a, $(1|$b)], w[$(1|$a), $b]", "e = Exp(w) z = Div(x, e)"},
    {"Div", "x[$a, $b], w[$b]", "e = Exp(w) z = Div(e, x)"},
    {"Dropout", "x[$a, $b]",
     "t = Constant<value = bool {$(0|1)}>() r = Constant<value = float {0.25}>() "
     "z = Dropout<seed = 3>(x, r, t)"},
    {"Elu", "x[$a, $b]", "z = Elu<alpha = $(0.5|1.5)>(x)"},
    {"Erf", "x[$a, $b]", "z = Erf(x)"},
    {"Exp", "x[$a, $b]", "z = Exp(x)"},
    {"FastGelu", "x[$a, $b], w[$b]", "z = com.microsoft.FastGelu(x, w)"},
    {"Gelu", "x[$a, $b]", "z = Gelu<approximate = \"$(none|tanh)\">(x)"},
    {"HardSigmoid", "x[$a, $b]", "h = Mul(x, four) z = HardSigmoid<alpha = $(0.2|0.3)>(h)"},
    {"HardSwish", "x[$a, $b]", "h = Mul(x, four) z = HardSwish(h)"},
    {"Identity", "x[$a, $b]", "z = Identity(x)"},
    {"Imputer", "x[$a, $b]", "z = ai.onnx.ml.Imputer<imputed_value_floats = [0.5], replaced_value_float = 0.25>(x)"},
    {"LeakyRelu", "x[$a, $b]", "z = LeakyRelu<alpha = $(0.1|0.3)>(x)"},
    {"Log", "x[$a, $b]", "e = Exp(x) h = Add(e, half) z = Log(h)"},
    {"Max", "x[$a, $b], w[$b], v[$a, 1]", "z = Max(x, w$(|, v))"},
    {"Mean", "x[$a, $b], w[$b], v[$a, 1]", "z = Mean(x, w$(|, v))"},
    {"Min", "x[$a, $b], w[$b], v[$a, 1]", "z = Min(x, w$(|, v))"},
    {"Mish", "x[$a, $b]", "z = Mish(x)"},
    {"Mod", "x[$a, $b], w[$b]", "h = Mul(x, four) e = Exp(w) z = Mod<fmod = $(0|1)>(h, e)"},
    {"Mul", "x[$a, $(1|$b)], w[$(1|$a), $b]", "z = Mul(x, w)"},
    {"Neg", "x[$a, $b]", "z = Neg(x)"},
    {"PRelu", "x[$a, $b], w[$(1|$b)]", "z = PRelu(x, w)"},
    {"Pow", "x[$a, $b], w[$b]", "e = Exp(x) z = Pow(e, w)"},
    {"QuickGelu", "x[$a, $b]", "z = com.microsoft.QuickGelu<alpha = $(1.0|1.7)>(x)"},
    {"Reciprocal", "x[$a, $b]", "e = Exp(x) z = Reciprocal(e)"},
    {"Relu", "x[$a, $b]", "z = Relu(x)"},
    {"Scaler", "x[$a, 3]", "z = ai.onnx.ml.Scaler<offset = [0.5, 1.0, -1.0], scale = [2.0, 0.5, 1.5]>(x)", true},
    {"Selu", "x[$a, $b]", "z = Selu(x)"},
    {"Shrink", "x[$a, $b]", "z = Shrink<lambd = 0.3, bias = $(0.1|0.0)>(x)"},
    {"Sigmoid", "x[$a, $b]", "z = Sigmoid(x)"},
    {"Sin", "x[$a, $b]", "z = Sin(x)"},
    {"Sinh", "x[$a, $b]", "z = Sinh(x)"},
    {"Softplus", "x[$a, $b]", "z = Softplus(x)"},
    {"Softsign", "x[$a, $b]", "z = Softsign(x)"},
    {"Sqrt", "x[$a, $b]", "e = Exp(x) z = Sqrt(e)"},
    {"Sub", "x[$a, $(1|$b)], w[$(1|$a), $b]", "z = Sub(x, w)"},
    {"Sum", "x[$a, $b], w[$b], v[$a, 1]", "z = Sum(x, w$(|, v))"},
    {"SwiGLU", "x[$a, $b], w[$a, $b]", "z = SwiGLU<alpha = $(1.0|1.7)>(x, w)"},
    {"Swish", "x[$a, $b]", "z = Swish<alpha = $(1.0|0.7)>(x)"},
    {"Tan", "x[$a, $b]", "z = Tan(x)"},
    {"Tanh", "x[$a, $b]", "z = Tanh(x)"},
    {"ThresholdedRelu", "x[$a, $b]", "z = ThresholdedRelu<alpha = 0.2>(x)"},
    {"Where", "x[$a, $b], w[$b], bool c[$a, 1]", "z = Where(c, x, w)"},

    // Views
    {"ArrayFeatureExtractor", "x[$a, 3]",
     "i = Constant<value = int64[1, 2] {2, 0}>() z = ai.onnx.ml.ArrayFeatureExtractor(x, i)"},
    {"AlignedOperand", "x[$a, $b], w[$b]", "o = weft.AlignedOperand<broadcast = 1>(x, w) z = Mul(o, x)"},
    {"CenterCropPad", "x[$a, $b]", "s = Constant<value = int64[2] {$(2|3|5), $(1|3|6)}>() z = CenterCropPad(x, s)"},
    {"Compress", "x[4, $a]", "c = Constant<value = bool[4] {1, 0, 1, 1}>() z = Compress<axis = 0>(x, c)"},
    {"Concat", "x[$a, $b], w[$a, $b]", "z = Concat<axis = $(0|1|-1)>(x, w, x)"},
    {"ConcatFromSequence", "x[$a, $b], w[$a, $b]",
     "s = SequenceConstruct(x, w) z = ConcatFromSequence<axis = $(0|1), new_axis = $(0|1)>(s)"},
    {"DepthToSpace", "x[$a, $(4|8), 2, 3]", "z = DepthToSpace<blocksize = 2, mode = \"$(DCR|CRD)\">(x)"},
    {"Expand", "x[$a, 1], w[$b]", "s = Shape(w) t = Concat<axis = 0>(two_i, one_i, s) e = Expand(x, t) z = Mul(e, w)"},
    {"FeatureVectorizer", "x[$a, 2], w[$a, 3]", "z = ai.onnx.ml.FeatureVectorizer<inputdimensions = [2, 3]>(x, w)",
     true},
    {"Flatten", "x[$a, $b, $c]", "z = Flatten<axis = $(0|1|2|3)>(x)"},
    {"OptionalGetElement", "x[$a, $b]", "o = Optional(x) z = OptionalGetElement(o)"},
    {"OneHot", "x[2]",
     "i = Constant<value = int64[3] {1, 3, 0}>() d = Constant<value = int64 {4}>() z = OneHot<axis = $(0|1)>(i, d, x)"},
    {"Optional", "x[$a, $b]", "o = Optional(x) z = OptionalGetElement(o)"},
    {"Pad", "x[4, 4]",
     "p = Constant<value = int64[4] {1, -1, 2, 3}>() c = Constant<value = double {$(0|2.5)}>() "
     "z = Pad<mode = \"$(constant|reflect|edge|wrap)\">(x, p, c)"},
    {"Reshape", "x[$a, $b, 4]", "s = Constant<value = int64[2] {2, -1}>() z = Reshape(x, s)"},
    {"ReverseSequence", "x[4, 4, $a]",
     "l = Constant<value = int64[4] {1, 4, 3, 2}>() "
     "z = ReverseSequence<batch_axis = $(0, time_axis = 1|1, time_axis = 0)>(x, l)"},
    {"SequenceAt", "x[$a, $b], w[$a, $b]", "s = SequenceConstruct(x, w, x) z = SequenceAt(s, $(one_s|last_s))"},
    {"SequenceConstruct", "x[$a, $b], w[$a, $b]", "s = SequenceConstruct(x, w) z = ConcatFromSequence<axis = 0>(s)"},
    {"SequenceEmpty", "x[$a, $b], w[$a, $b]",
     "s = SequenceEmpty<dtype = 11>() q = SequenceInsert(s, x) r = SequenceInsert(q, w) z = ConcatFromSequence<axis = "
     "0>(r)"},
    {"SequenceErase", "x[$a, $b], w[$a, $b]",
     "s = SequenceConstruct(x, w, x) r = SequenceErase(s, one_s) "
     "z = ConcatFromSequence<axis = 0>(r)"},
    {"SequenceInsert", "x[$a, $b], w[$a, $b]",
     "s = SequenceConstruct(x) r = SequenceInsert(s, w) "
     "z = ConcatFromSequence<axis = 0>(r)"},
    {"SequenceMap", "x[$a, $b], w[$a, $b]",
     "s = SequenceConstruct(x, w) r = SequenceMap(s)<body = b (double[$a, $b] e) "
     "=> (double[$a, $b] f) { f = Tanh(e) }> z = ConcatFromSequence<axis = 0>(r)"},
    {"Slice", "x[4, $b]",
     "e = Constant<value = int64[1] {$(3|4)}>() "
     "f = Constant<value = int64[1] {-9}>() u = Slice(x, one_i, e, zero_i, $(one_i|two_i)) "
     "v = Slice(x, last_i, f, zero_i, last_i) z = Concat<axis = 0>(u, v)"},
    {"SpaceToDepth", "x[$a, $b, 4, 2]", "z = SpaceToDepth<blocksize = 2>(x)"},
    {"Split", "x[4, $b]", "p = Constant<value = int64[2] {1, 3}>() u, v = Split<axis = 0>(x, p) z = Mul(u, v)"},
    {"SplitToSequence", "x[4, $b]",
     "s = SplitToSequence<axis = 0, keepdims = 0>(x) u = SequenceAt(s, one_s) "
     "v = SequenceAt(s, last_s) z = Mul(u, v)"},
    {"Squeeze", "x[$a, 1, $b]", "z = Squeeze(x, one_i)"},
    {"Tile", "x[$a, $b]", "r = Constant<value = int64[2] {$(1|2|3), $(2|3)}>() z = Tile(x, r)"},
    {"Transpose", "x[$a, $b, $c]", "z = Transpose<perm = [$(0, 2, 1|2, 0, 1|1, 2, 0)]>(x)"},
    {"Trilu", "x[$a, $b, 3]", "k = Constant<value = int64 {$(-1|0|1)}>() z = Trilu<upper = $(0|1)>(x, k)"},
    {"Unsqueeze", "x[$a, $b]", "z = Unsqueeze(x, $(zero_i|one_i|last_i))"},

    // Reductions, scans and what normalizes
    {"BatchNormalization", "x[2, 3, $a], w[3], v[3], u[3], t[3]",
     "e = Exp(t) z = BatchNormalization<epsilon = 0.1>(x, w, v, u, e)"},
    {"BatchNormalization", "x[2, 3, $a], w[3], v[3], double u[3], double t[3]",
     "z, p, q = BatchNormalization<epsilon = 0.1, training_mode = 1>(x, w, v, u, t)"},
    {"CumProd", "x[$a, $b]", "z = CumProd<exclusive = $(0|1), reverse = $(0|1)>(x, $(zero_s|one_s))"},
    {"CumSum", "x[$a, $b]", "z = CumSum<exclusive = $(0|1), reverse = $(0|1)>(x, $(zero_s|one_s))"},
    {"EmbedLayerNormalization", "w[3, 4], v[2, 4], u[3, 4], x[4], t[4]",
     "i = Constant<value = int32[2, 2] {0, 2, 1, 2}>() s = Constant<value = int32[2, 2] {0, 0, 1, 0}>() "
     "z, n = com.microsoft.EmbedLayerNormalization<epsilon = 0.01>(i, s, w, u, v, x, t)"},
    {"GlobalAveragePool", "x[$a, $b, 3, 2]", "z = GlobalAveragePool(x)"},
    {"GlobalLpPool", "x[$a, $b, 3, 2]", "z = GlobalLpPool<p = $(1|2|3)>(x)"},
    {"GlobalMaxPool", "x[$a, $b, 3, 2]", "z = GlobalMaxPool(x)"},
    {"GroupNormalization", "x[2, 4, $a], w[4], v[4]",
     "z = GroupNormalization<num_groups = $(1|2|4), epsilon = 0.01>(x, w, v)"},
    {"InstanceNormalization", "x[2, 3, 4], w[3], v[3]", "z = InstanceNormalization<epsilon = 0.1>(x, w, v)"},
    {"LRN", "x[2, 4, 2, 2]", "z = LRN<size = $(1|3), alpha = 0.5, beta = 0.75, bias = 1.0>(x)"},
    {"LayerNormalization", "x[$a, $b, 4], w[4], v[4]", "z = LayerNormalization<epsilon = 0.01>(x, w$(|, v))"},
    {"LogSoftmax", "x[$a, $b, $c]", "z = LogSoftmax<axis = $(0|1|-1)>(x)"},
    {"LpNormalization", "x[$a, $b]", "z = LpNormalization<axis = $(0|1), p = $(1|2)>(x)"},
    {"MeanVarianceNormalization", "x[2, 3, 3, 2]", "z = MeanVarianceNormalization(x)"},
    {"NegativeLogLikelihoodLoss", "x[3, 4]",
     "l = Constant<value = int64[3] {1, 3, 0}>() c = Constant<value = double[4] {0.5, 1, 2, 1.5}>() "
     "z = NegativeLogLikelihoodLoss<reduction = \"$(mean|sum|none)\", ignore_index = $(0|9)>(x, l$(|, c))"},
    {"Normalizer", "x[$a, $b]", "z = ai.onnx.ml.Normalizer<norm = \"$(MAX|L1|L2)\">(x)", true},
    {"RMSNormalization", "x[$a, $b, 4], w[4]", "z = RMSNormalization<epsilon = 0.01>(x, w)"},
    {"ReduceL1", "x[$a, $b, $c]", "z = ReduceL1<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceL2", "x[$a, $b, $c]", "z = ReduceL2<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceLogSum", "x[$a, $b, $c]", "e = Exp(x) z = ReduceLogSum<keepdims = $(0|1)>(e, $(zero_i|one_i|last_i))"},
    {"ReduceLogSumExp", "x[$a, $b, $c]", "z = ReduceLogSumExp<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceMax", "x[$a, $b, $c]", "z = ReduceMax<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceMean", "x[$a, $b, $c]", "z = ReduceMean<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceMin", "x[$a, $b, $c]", "z = ReduceMin<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceProd", "x[$a, $b, $c]", "z = ReduceProd<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceSum", "x[$a, $b, $c]", "z = ReduceSum<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"ReduceSumSquare", "x[$a, $b, $c]", "z = ReduceSumSquare<keepdims = $(0|1)>(x, $(zero_i|one_i|last_i))"},
    {"SimplifiedLayerNormalization", "x[$a, $b, 4], w[4]",
     "z = com.microsoft.SimplifiedLayerNormalization<epsilon = 0.01>(x, w)"},
    {"SkipLayerNormalization", "x[$a, $b, 4], w[$a, $b, 4], v[4], u[4], t[4]",
     "n, , , s = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, w, v, u, t) z = Mul(n, $(s|n))"},
    {"SkipSimplifiedLayerNormalization", "x[$a, $b, 4], w[$a, $b, 4], v[4], u[4]",
     "n, , , s = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>(x, w, v, u) z = Mul(n, $(s|n))"},
    {"Softmax", "x[$a, $b, $c]", "z = Softmax<axis = $(0|1|-1)>(x)"},
    {"SoftmaxCrossEntropyLoss", "x[3, 4]",
     "l = Constant<value = int64[3] {1, 3, 0}>() c = Constant<value = double[4] {0.5, 1, 2, 1.5}>() "
     "z = SoftmaxCrossEntropyLoss<reduction = \"$(mean|sum|none)\", ignore_index = $(0|9)>(x, l$(|, c))"},
    {"TopK", "x[$a, 4]", "z, i = TopK<axis = 1, largest = $(0|1)>(x, two_i)"},

    // Contractions
    {"AveragePool", "x[2, 2, 5, 4]",
     "z = AveragePool<kernel_shape = [$(2|3), 2], pads = [1, 0, $(0|1), 1], "
     "strides = [$(1|2), 1], count_include_pad = $(0|1), ceil_mode = $(0|1)>(x)"},
    {"CausalConvWithState", "x[2, 3, 4], w[3, 1, 3], v[3], u[2, 3, 2]",
     "o, p = CausalConvWithState<activation = \"$(none|silu)\">(x, w, v, u) a = ReduceSum<keepdims = 0>(p) z = Add(o, "
     "a)"},
    {"Col2Im", "x[2, 8, 6]",
     "i = Constant<value = int64[2] {3, 4}>() b = Constant<value = int64[2] {2, 2}>() z = Col2Im(x, i, b)"},
    {"Conv", "x[2, 4, 5, 4], w[4, 2, 3, 2], v[4]",
     "z = Conv<group = 2, strides = [$(1|2), 1], pads = [0, 1, $(0|1), 0], "
     "dilations = [1, $(1|2)]>(x, w, v)"},
    {"ConvTranspose", "x[2, 4, 3, 4], w[4, 2, 3, 2], v[4]",
     "z = ConvTranspose<group = 2, strides = [$(1|2), 1], "
     "pads = [0, 1, $(0|1), 0], dilations = [1, $(1|2)]>(x, w, v)"},
    {"DFT", "x[2, 5, $(1|2)]", "z = DFT<inverse = 0>(x, , one_s)"},
    {"DFT", "x[2, 5, 2]", "z = DFT<inverse = 1>(x, , one_s)"},
    {"DeformConv", "x[1, 2, 4, 4], w[2, 2, 2, 2], v[1, 8, 3, 3], u[2], t[1, 4, 3, 3]",
     "o = Mul(v, half) z = DeformConv<kernel_shape = [2, 2]>(x, w, o, u$(|, t))"},
    {"Det", "x[2, $(2, 2|3, 3)]", "z = Det(x)"},
    {"Einsum", "x[$a, 3, 2], w[$a, 2, 4]", "z = Einsum<equation = \"$(bij,bjk->bik|bij,bjk->k|bij,bjk->ijk)\">(x, w)"},
    {"Einsum", "x[2, 3], w[3, 4], v[4, 2]",
     "z = Einsum<equation = \"$(ij,jk,kl->il|ij,jk,ki->|ij,jk,kl->jil)\">(x, w, v)"},
    {"Einsum", "x[3, 3]", "z = Einsum<equation = \"$(ii->i|ii->|ij->ji|ij->j)\">(x)"},
    {"FusedConv", "x[2, 2, 4, 4], w[3, 2, 3, 3], v[3]",
     "z = com.microsoft.FusedConv<activation = \"$(Relu|Tanh|Sigmoid)\", pads = [1, 1, 0, 0]>(x, w, v)"},
    {"FusedGemm", "x[3, 2], w[2, 4], v[4]",
     "z = com.microsoft.FusedGemm<activation = \"$(Relu|Tanh)\", alpha = 0.5>(x, w, v)"},
    {"FusedMatMul", "x[2, 3, 3], w[2, 3, 3]",
     "z = com.microsoft.FusedMatMul<alpha = 0.5, transA = $(0|1), transB = $(0|1)>(x, w)"},
    {"Gemm", "x[3, 3], w[3, 3], v[$(3|1, 3|3, 1|1)]",
     "z = Gemm<alpha = 0.5, beta = $(1.0|2.0), transA = $(0|1), transB = $(0|1)>(x, w, v)"},
    {"LinearClassifier", "x[$a, 2]",
     "l, z = ai.onnx.ml.LinearClassifier<coefficients = [0.5, -1.0, 1.0, 0.25, 2.0, -0.5], "
     "intercepts = [0.5, 0.0, 0.25], classlabels_ints = [0, 1, 2], post_transform = \"$(NONE|SOFTMAX|LOGISTIC)\">(x)",
     true},
    {"LinearRegressor", "x[$a, 2]", "z = ai.onnx.ml.LinearRegressor<coefficients = [0.5, -1.0], intercepts = [0.5]>(x)",
     true},
    {"LpPool", "x[2, 2, 4, 4]", "z = LpPool<kernel_shape = [2, 2], p = $(1|2|3), strides = [$(1|2), 1]>(x)"},
    {"MatMul", "x[$a, 3, $b], w[$b, 2]", "z = MatMul(x, w)"},
    {"MatMul", "x[$b], w[$a, $b, 2]", "z = MatMul(x, w)"},
    {"MaxPool", "x[2, 2, 5, 4]",
     "z = MaxPool<kernel_shape = [$(2|3), 2], pads = [1, 0, $(0|1), 1], strides = [$(1|2), 1]>(x)"},
    {"MoE", "x[4, 4], w[4, 3], v[3, 5, 4], u[3, 4, 5], t[3, 5]",
     "r = MatMul(x, w) z = com.microsoft.MoE<k = $(1|2), activation_type = \"$(gelu|silu)\", normalize_routing_weights "
     "= 1>(x, r, v, t, u)"},
    {"NhwcConv", "x[2, 4, 4, 2], w[3, 2, 2, 2], v[3]", "z = com.microsoft.NhwcConv(x, w, v)"},
    {"Resize", "x[1, 2, 4, 4]",
     "n = Constant<value = int64[2] {$(2, 3|5, 7|4, 2)}>() z = Resize<mode = \"$(linear|cubic)\", antialias = 1, axes "
     "= [2, "
     "3]>(x, , , n)"},
    {"SVMClassifier", "x[$a, 2], w[2]",
     "l, s = ai.onnx.ml.SVMClassifier<classlabels_ints = [0, 1], coefficients = [0.5, -1.0], "
     "vectors_per_class = [1, 1], support_vectors = [0.5, 1.0, -1.0, 0.25], rho = [0.25], kernel_type = "
     "\"$(RBF|LINEAR)\", kernel_params = [0.5, 0.25, 2.0]>(x) c = Cast<to = 11>(s) z = Mul(c, w)",
     true},
    {"STFT", "x[2, 8, 1], w[4]", "f = Constant<value = int64 {2}>() z = STFT<onesided = $(0|1)>(x, f, w)"},
    {"SVMRegressor", "x[$a, 2]",
     "z = ai.onnx.ml.SVMRegressor<coefficients = [0.5, -1.0], support_vectors = [0.5, 1.0, -1.0, 0.25], "
     "n_supports = 2, rho = [0.25], kernel_type = \"$(RBF|POLY|SIGMOID|LINEAR)\", kernel_params = [0.5, 0.25, 2.0]>(x)",
     true},

    // Ops that read and write by indices
    {"Gather", "x[4, $a]", "i = Constant<value = int64[2, 2] {3, -1, 0, 3}>() z = Gather<axis = 0>(x, i)"},
    {"GatherElements", "x[4, 2]",
     "i = Constant<value = int64[3, 2] {3, -1, 0, 3, 0, 1}>() z = GatherElements<axis = 0>(x, i)"},
    {"GatherND", "x[3, 4, $a]", "i = Constant<value = int64[3, 2] {0, 3, 2, -1, 0, 3}>() z = GatherND(x, i)"},
    {"MaxUnpool", "x[1, 1, 2, 2]",
     "i = Constant<value = int64[1, 1, 2, 2] {5, 7, 13, 15}>() "
     "z = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)"},
    {"ScatterElements", "x[3, 2], w[2, 2]",
     "i = Constant<value = int64[2, 2] {2, 0, 0, -2}>() "
     "z = ScatterElements<axis = 0, reduction = \"$(none|add)\">(x, i, w)"},
    {"ScatterND", "x[4, $a], w[2, $a]",
     "i = Constant<value = int64[2, 1] {2, -4}>() z = ScatterND<reduction = \"$(none|add)\">(x, i, w)"},
    {"TensorScatter", "x[2, 1, 4, $a], w[2, 1, 2, $a]",
     "i = Constant<value = int64[2] {1, 2}>() z = TensorScatter(x, w, i)"},

    // Ops that sample images
    {"AffineGrid", "x[1, 2, 3]",
     "s = Constant<value = int64[4] {1, 1, 3, 4}>() z = AffineGrid<align_corners = $(0|1)>(x, s)"},
    {"GridSample", "x[1, 2, 4, 4], w[1, 3, 2, 2]",
     "z = GridSample<mode = \"$(linear|cubic|nearest)\", "
     "padding_mode = \"$(zeros|border|reflection)\", align_corners = $(0|1)>(x, w)"},
    {"MaxRoiPool", "x[1, 2, 4, 4]",
     "r = Constant<value = double[1, 5] {0, 0, 0, 3, 2}>() z = MaxRoiPool<pooled_shape = [2, 2]>(x, r)"},
    {"Resize", "x[1, 2, 3, 4]",
     "s = Constant<value = float[4] {1, 1, $(2|1.5), $(0.5|2)}>() "
     "z = Resize<mode = \"$(nearest|linear|cubic)\", coordinate_transformation_mode = "
     "\"$(half_pixel|align_corners|asymmetric)\">(x, , s)"},
    {"RoiAlign", "x[1, 2, 4, 4], w[2, 4]",
     "b = Constant<value = int64[2] {0, 0}>() k = Constant<value = double[2, 4] {0, 0, 3, 3, 1, 0, 2, 3}>() "
     "q = Mul(w, quarter) r = Add(q, k) z = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 2, mode = "
     "\"$(avg|max)\">(x, r, b)"},

    // Attention
    {"Attention", "x[2, 2, 3, 4], w[2, 2, 3, 4], v[2, 2, 3, 4], u[3, 3]",
     "z = Attention<is_causal = $(0|1), softcap = $(0.0|2.0)>(x, w, v, $(u|))"},
    {"Attention", "x[2, 4, 3, 4], w[2, 2, 3, 4], v[2, 2, 3, 4], u[2, 2, 2, 4], t[2, 2, 2, 4]",
     "z, p, q = Attention<is_causal = 1, scale = 0.7>(x, w, v, , u, t)"},
    {"Attention", "x[2, 3, 8], w[2, 3, 4], v[2, 3, 4], u[2, 1, 3, 3], bool c[3, 3]",
     "y, p, q, s = Attention<q_num_heads = 4, kv_num_heads = 2, qk_matmul_output_mode = $(0|1|2|3)>(x, w, v, u) "
     "a = ReduceSum<keepdims = 0>(s) b = ReduceL2<keepdims = 0>(p) d = Mul(a, b) z = Add(y, d)"},
    {"AttentionMix", "x[2, 2, 3, 4], w[2, 2, 3, 4], v[2, 2, 3, 4]",
     "s = weft.AttentionScores(x, w) p = Softmax(s) z = weft.AttentionMix(p, v)"},
    {"AttentionScores", "x[2, $(2|4), 3, 4], w[2, 2, 3, 4]", "z = weft.AttentionScores<scale = 0.5>(x, w)"},
    {"GroupQueryAttention", "x[2, 3, 8], w[2, 3, 4], v[2, 3, 4]",
     "l = Constant<value = int32[2, 1] {2, 2}>() t = Constant<value = int32[1] {3}>() "
     "z, p, q = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>(x, w, v, , , l, t)"},
    {"GroupQueryAttention", "x[1, 2, 16], w[1, 2, 8], v[1, 2, 8], u[1, 1, 3, 8], t[1, 1, 3, 8], r[8, 4], s[8, 4]",
     "l = Constant<value = int32[1, 1] {4}>() n = Constant<value = int32[1] {5}>() z, p, q = "
     "com.microsoft.GroupQueryAttention<num_heads = 2, kv_num_heads = 1, do_rotary = 1, local_window_size = $(-1|3)>"
     "(x, w, v, u, t, l, n, r, s)"},
    {"LinearAttention", "x[2, 3, 4], w[2, 3, 4], v[2, 3, 4], u[2, 3, 2], t[2, 2, 2, 2]",
     "z, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = \"linear\">(x, w, v$(|, t))", true},
    {"LinearAttention", "x[2, 3, 4], w[2, 3, 4], v[2, 3, 4], u[2, 3, 2], t[2, 3, 2]",
     "z, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = \"gated_delta\">(x, w, v, , u, t)", true},
    {"MicrosoftAttention", "x[2, 3, 4], w[4, 12], v[12]",
     "z = com.microsoft.Attention<num_heads = 2, unidirectional = $(0|1)>(x, w, v)"},
    {"MicrosoftRotaryEmbedding", "x[2, 3, 8], w[5, 2], v[5, 2]",
     "i = Constant<value = int64[1] {1}>() z = com.microsoft.RotaryEmbedding<num_heads = 2, interleaved = $(0|1)>(x, "
     "i, w, v)"},
    {"MultiHeadAttention", "x[2, 3, 4], w[2, 3, 4], v[2, 3, 4], u[12]",
     "z = com.microsoft.MultiHeadAttention<num_heads = 2>(x, w, v$(|, u))"},
    {"MultiHeadAttention", "x[2, 3, 4], w[2, 2, 3, 2], v[2, 2, 3, 2], u[2, 2, 3, 3], t[2, 3, 4]",
     "z = com.microsoft.MultiHeadAttention<num_heads = 2, unidirectional = $(0|1)>(x, w, v, , , u)"},
    {"RotaryEmbedding", "x[2, 2, 3, 4], w[2, 3, 2], v[2, 3, 2]", "z = RotaryEmbedding<interleaved = $(0|1)>(x, w, v)"},

    // Weights of few bits: the derivative by what they are multiplied with
    {"GatherBlockQuantized", "x[2, 1]",
     "q = Constant<value = uint8[2, 8] {1, 35, 69, 103, 137, 171, 205, 239, 16, 50, 84, 118, 152, 186, 220, 254}>() "
     "i = Constant<value = int64[2] {1, 0}>() z = com.microsoft.GatherBlockQuantized<block_size = 16>(q, i, x)"},
    {"MatMulNBits", "x[$a, 16]",
     "q = Constant<value = uint8[2, 1, 8] {1, 35, 69, 103, 137, 171, 205, 239, 16, 50, 84, 118, 152, 186, 220, 254}>() "
     "s = Constant<value = double[2] {0.25, 0.5}>() z = com.microsoft.MatMulNBits<K = 16, N = 2, block_size = 16>(x, "
     "q, s)"},

    {"MatMulIntegerToFloat", "x[1], w[1], v[2]",
     "a = Constant<value = uint8[2, 3] {1, 2, 3, 4, 5, 6}>() b = Constant<value = int8[3, 2] {1, -2, 1, 0, 2, 1}>() "
     "s = Mul(x, quarter) z = com.microsoft.MatMulIntegerToFloat(a, b, s, w, , , v)",
     true},

    // Steps of optimizers
    {"Adagrad", "x[$a], w[$a], v[$a]",
     "e = Exp(v) r = Constant<value = double {0.1}>() t = Constant<value = int64 {2}>() "
     "n, a = ai.onnx.preview.training.Adagrad<epsilon = 0.1>(r, t, x, w, e) z = Mul(n, a)"},
    {"Adam", "x[$a], w[$a], v[$a], u[$a]",
     "e = Exp(u) r = Constant<value = double {0.1}>() t = Constant<value = int64 {2}>() "
     "n, a, b = ai.onnx.preview.training.Adam<epsilon = 0.1, norm_coefficient = 0.1>(r, t, x, w, v, e) c = Mul(n, a) z "
     "= Mul(c, b)"},
    {"Momentum", "x[$a], w[$a], v[$a]",
     "r = Constant<value = double {0.1}>() t = Constant<value = int64 {2}>() "
     "n, a = ai.onnx.preview.training.Momentum<alpha = 0.9, beta = 0.5, norm_coefficient = 0.1, mode = "
     "\"$(nesterov|standard)\">(r, t, x, w, v) "
     "z = Mul(n, a)"},

    // Derivatives and steps of ONNX Runtime's training graphs
    {"AdamWOptimizer", "x[$a], w[$a], v[$a], u[$a]",
     "e = Exp(u) r = Constant<value = float {0.1}>() t = Constant<value = int64 {2}>() "
     "i = SequenceConstruct(x) g = SequenceConstruct(w) m = SequenceConstruct(v) q = SequenceConstruct(e) "
     "f, n, a, b = com.microsoft.AdamWOptimizer<adam_mode = $(0|1), correct_bias = $(0|1), epsilon = 0.1>"
     "(r, t, i, g, m, q) n0 = SequenceAt(n, zero_s) a0 = SequenceAt(a, zero_s) b0 = SequenceAt(b, zero_s) "
     "c = Mul(n0, a0) z = Mul(c, b0)"},
    {"GeluGrad", "x[$a, $b], w[$a, $b]", "z = com.microsoft.GeluGrad(x, w)"},
    {"InPlaceAccumulatorV2", "x[$a], w[$a]",
     "t = Constant<value = bool[1] {$(0|1)}>() f, z = com.microsoft.InPlaceAccumulatorV2(x, w$(|, t))"},
    {"LayerNormalizationGrad", "x[3, 4], w[3, 4], v[4], u[3, 1], t[3, 1]",
     "d, s, b = com.microsoft.LayerNormalizationGrad(x, w, v, u, t) q = Mul(d, s) z = Add(q, b)"},
    {"LogSoftmaxGrad", "x[2, $a, $b], w[2, $a, $b]", "z = com.microsoft.LogSoftmaxGrad<axis = $(1|2)>(x, w)"},
    {"LogSoftmaxGrad_13", "x[2, $a, $b], w[2, $a, $b]", "z = com.microsoft.LogSoftmaxGrad_13<axis = $(1|-1)>(x, w)"},
    {"ReluGrad", "x[$a, $b], w[$a, $b]", "z = com.microsoft.ReluGrad(x, w)"},
    {"SGDOptimizerV2", "x[$a], w[$a], v[$a], u[$a]",
     "r = Constant<value = float[1] {0.1}>() t = Constant<value = bool[1] {$(0|1)}>() "
     "i = SequenceConstruct(x, v) g = SequenceConstruct(w, u) "
     "f, n = com.microsoft.SGDOptimizerV2(r, i, g$(|, t)) n0 = SequenceAt(n, zero_s) n1 = SequenceAt(n, one_s) "
     "z = Mul(n0, n1)"},
    {"SoftmaxCrossEntropyLossGrad", "x[], w[2, 3], v[3]",
     "e = Exp(v) l = Constant<value = int64[2] {1, 0}>() "
     "z = com.microsoft.SoftmaxCrossEntropyLossGrad<reduction = \"$(mean|sum)\">(x, w, l$(|, e))"},
    {"SoftmaxGrad", "x[2, $a, $b], w[2, $a, $b]", "z = com.microsoft.SoftmaxGrad<axis = $(1|2)>(x, w)"},
    {"SoftmaxGrad_13", "x[2, $a, $b], w[2, $a, $b]", "z = com.microsoft.SoftmaxGrad_13<axis = $(1|-1)>(x, w)"},

    // Ops with subgraphs, and recurrent ops
    {"GRU", "x[3, 2, 2], w[1, 9, 2], v[1, 9, 3], u[1, 18], t[1, 2, 3]",
     "y, h = GRU<hidden_size = 3, linear_before_reset = $(0|1), direction = \"$(forward|reverse)\">(x, w, v, u, , t) "
     "q = Squeeze(y, one_i) z = Add(q, h)"},
    {"GRU", "x[3, 2, 2], w[2, 9, 2], v[2, 9, 3], u[2, 18], t[2, 2, 3]",
     "l = Constant<value = int32[2] {3, 2}>() "
     "z, h = GRU<hidden_size = 3, direction = \"bidirectional\">(x, w, v, u, $(|l), t)"},
    {"If", "x[$a, $b], w[$a, $b], bool c[1], bool d[1]",
     "z, y2 = If(c)<then_branch = t () => (double[$a, $b] p, double[$a, $b] p2) { q = Mul(x, w) p = Tanh(q) p2 = "
     "Exp(x) }, "
     "else_branch = e () => (double[$a, $b] r, double[$a, $b] r2) { r = If(d)<then_branch = f () => (double[$a, $b] s) "
     "{ s "
     "= Mul(x, x) }, else_branch = g () => (double[$a, $b] m) { n = Sin(w) m = Mul(n, x) }> r2 = Identity(w) }>"},
    {"LSTM", "x[3, 2, 2], w[1, 12, 2], v[1, 12, 3], u[1, 24], t[1, 2, 3], r[1, 2, 3], p[1, 9]",
     "y, h, c = LSTM<hidden_size = 3, direction = \"$(forward|reverse)\">(x, w, v, u, , t, r, p) q = Squeeze(y, one_i) "
     "s = "
     "Mul(h, c) z = Add(q, s)"},
    {"LSTM", "x[3, 2, 2], w[2, 12, 2], v[2, 12, 3], u[2, 24]",
     "z, h, c = LSTM<hidden_size = 3, direction = \"bidirectional\">(x, w, v, u)"},
    {"Loop", "x[$a, $b], w[$a, $b], v[4, $a, $b]",
     "n = Constant<value = int64 {4}>() f, s = Loop(n, , x)<body = b (int64 i, bool c, double[$a, $b] h) => (bool d, "
     "double[$a, $b] next, double[$a, $b] out) { d = Identity(c) e = Gather<axis = 0>(v, i) m = Mul(h, w) a = Add(m, "
     "e) "
     "next = Tanh(a) out = Mul(next, h) }> z = Add(s, f)"},
    {"Loop", "x[$a, $b], w[$b]",
     "n = Constant<value = int64 {3}>() z, k = Loop(n, , x, zero_s)<body = b (int64 i, bool c, double[$a, $b] h, int64 "
     "j) => "
     "(bool d, double[$a, $b] next, int64 l) { d = Identity(c) l = Add(j, i) t = Cast<to = 11>(l) g = Loop(n, , "
     "h)<body = e "
     "(int64 i2, bool c2, double[$a, $b] h2) => (bool d2, double[$a, $b] next2) { d2 = Identity(c2) m = Mul(h2, w) s = "
     "Sin(m) next2 = Mul(s, t) }> next = Add(g, h) }>"},
    {"RNN", "x[3, 2, 2], w[1, 3, 2], v[1, 3, 3], u[1, 6], t[1, 2, 3]",
     "y, h = RNN<hidden_size = 3, activations = [\"$(Tanh|Sigmoid|Softsign)\"], direction = \"$(forward|reverse)\">(x, "
     "w, v, "
     "u, , t) q = Squeeze(y, one_i) z = Add(q, h)"},
    {"RNN", "x[3, 2, 2], w[2, 3, 2], v[2, 3, 3]",
     "z, h = RNN<hidden_size = 3, direction = \"bidirectional\">(x, w, v)"},
    {"Scan", "x[$a], w[4, $a], v[$a]",
     "f, s = Scan<num_scan_inputs = 1, scan_input_directions = [$(0|1)], scan_output_directions = [$(0|1)], body = b "
     "(double[$a] h, "
     "double[$a] e) => (double[$a] next, double[$a] out) { m = Mul(h, v) a = Add(m, e) next = Tanh(a) out = Mul(next, "
     "e) "
     "}>(x, w) z = Add(s, f)"},
};

}  // namespace weftc::test
