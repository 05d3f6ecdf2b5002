// Random graphs of what the rules of `simplify` look for: simplified or not, they compute the same.
#include <algorithm>

#include "passes/simplify/rules.h"
#include "test/passes/random_model.h"
#include "test/passes/simplify_cases.h"

using namespace weftc;
using namespace weftc::test;

namespace {

/// Grows a typed module of matrices and images, in which neutral operands, pairs of views, casts, borders and
/// normalisations are frequent.
class SimplifiableModel {
 public:
  explicit SimplifiableModel(uint32_t seed) : dice_(seed) {
    module_.name = "random";
    module_.places.push_back({"all", {0}, {}});
    add_input("x", {4, 6});
    add_input("image", {1, 4, 6, 6});
    for (int i = 0; i < 10; ++i) add_op();
    int outputs = 0;
    for (ValueId v : values_)
      if (module_.graph.value(v).uses.empty() || dice_.chance(5))
        module_.graph.add_output(v, "out" + std::to_string(outputs++));
  }
  Module take() { return std::move(module_); }

 private:
  void add_input(const std::string& name, const Dims& dims) {
    values_.push_back(module_.graph.result(
        module_.graph.add({OpKind::Input, {}, {{DType::F32, shape_of(dims), {}}}, {}, {}, {}, name, {}, {}, {name}})));
  }

  /// Appends an op, with a node of its own.
  ValueId op(OpKind kind, const std::vector<ValueId>& inputs, const Attrs& attrs = {}) {
    Op like;
    like.name = "n" + std::to_string(counter_++);
    module_.origins.push_back({like.name, op_def(kind).name, counter_, {}});
    like.origins = {{static_cast<uint32_t>(module_.origins.size() - 1)}};
    Builder build(module_, module_.graph, {}, like);
    const int results = kind == OpKind::BatchNormalization ? 5 : 1;
    return build.ops(kind, inputs, attrs, results)[0];
  }
  ValueId constant(const Tensor& tensor) {
    Op like;
    like.name = "c" + std::to_string(counter_++);
    return Builder(module_, module_.graph, {}, like).constant(tensor);
  }
  ValueId filled(DType dtype, const Dims& dims, double value) {
    Tensor tensor(dtype, dims);
    std::fill(tensor.real.begin(), tensor.real.end(), value);
    return constant(tensor);
  }
  ValueId drawn(DType dtype, const Dims& dims, double low, double high) {
    Tensor tensor(dtype, dims);
    for (double& x : tensor.real) x = round_to(dtype, low + (high - low) * dice_.roll(1001) / 1000);
    return constant(tensor);
  }

  void add_op() {
    const ValueId x = dice_.chance(75) ? values_.back() : dice_.pick(values_);
    const TensorType type = module_.graph.type(x);
    switch (dice_.roll(type.ndim() == 4 ? 12 : 7)) {
      case 0:
        return keep(op(dice_.pick<OpKind>({OpKind::Neg, OpKind::Relu, OpKind::Identity}), {x}));
      case 1:
        return add_cast(x);
      case 2:
      case 3:
        return add_arithmetic(x, type);
      case 4:
        return add_transpose(x, type.ndim());
      case 5:
        return add_reshape(x, type.dims());
      case 6:
        return type.ndim() == 2 ? add_product(x, type) : add_transpose(x, type.ndim());
      case 7:
      case 8:
        return keep(normalized(x, type));
      case 9:
        return add_border(x);
      default:
        return add_window(x, type);
    }
  }
  void keep(ValueId v) {
    if (module_.graph.type(v).count() <= 4000 && module_.graph.type(v).count() > 0) values_.push_back(v);
  }

  void add_arithmetic(ValueId x, const TensorType& type) {
    Dims dims = dice_.pick<Dims>({{}, {1}, type.dims(), Dims(type.shape.size(), 1)});
    if (dice_.chance(10)) {  // makes x larger
      dims = Dims(type.shape.size() + 1, 1);
      dims[0] = 2;
    }
    const OpKind kind = dice_.pick<OpKind>({OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::Div});
    const double neutral = kind == OpKind::Add || kind == OpKind::Sub ? 0 : 1;
    const ValueId other = dice_.chance(70) ? filled(type.dtype, dims, neutral) : drawn(type.dtype, dims, 0.5, 1.5);
    const bool in_front = kind == OpKind::Div || dice_.chance(70);  // 1 / x has no bound
    keep(in_front ? op(kind, {x, other}) : op(kind, {other, x}));
  }
  void add_cast(ValueId x) {
    for (int n = 1 + dice_.roll(3); n > 0; --n)
      x = op(OpKind::Cast, {x}, {{"to", dtype_attr(dice_.pick<DType>({DType::F32, DType::F64, DType::F16}))}});
    keep(x);
  }
  void add_transpose(ValueId x, int ndim) {
    std::vector<int64_t> perm;
    for (int d = 0; d < ndim; ++d) perm.push_back(d);
    if (dice_.chance(80)) std::swap(perm[static_cast<size_t>(dice_.roll(ndim))], perm.front());
    keep(op(OpKind::Transpose, {x}, {{"perm", perm}}));
  }
  void add_rows(ValueId x, const Dims& dims) {
    const size_t axis = static_cast<size_t>(dice_.roll(static_cast<int>(dims.size())));
    const int64_t first = dice_.roll(2), count = std::max<int64_t>(1, dims[axis] - first - dice_.roll(2));
    const ValueId at = op(OpKind::Iota, {}, {{"shape", Dims{count}}, {"start", static_cast<double>(first)}});
    if (first + count <= dims[axis]) keep(op(OpKind::Gather, {x, at}, {{"axis", static_cast<int64_t>(axis)}}));
  }
  void add_reshape(ValueId x, Dims dims) {
    if (dice_.chance(10)) return add_rows(x, dims);
    if (dice_.chance(20)) return keep(op(OpKind::Expand, {x}, {{"shape", dims}}));
    if (dice_.chance(30)) return keep(op(OpKind::Unsqueeze, {x}, {{"axes", std::vector<int64_t>{0}}}));
    if (dice_.chance(30)) return keep(op(OpKind::Flatten, {x}, {{"axis", int64_t{dice_.roll(2)}}}));
    std::reverse(dims.begin(), dims.end());
    keep(op(OpKind::Reshape, {x}, {{"shape", dims}}));
  }
  void add_product(ValueId x, const TensorType& type) {
    const int64_t depth = type.shape[1].bound;
    ValueId y = dice_.chance(50)
                    ? op(OpKind::MatMul, {x, drawn(type.dtype, {depth, 6}, -0.5, 0.5)})
                    : op(OpKind::Gemm, {x, drawn(type.dtype, {6, depth}, -0.5, 0.5), drawn(type.dtype, {6}, -1, 1)},
                         {{"transB", int64_t{1}}, {"alpha", 0.5}});
    if (dice_.chance(50)) y = normalized(y, module_.graph.type(y));
    keep(dice_.chance(50) ? op(OpKind::Mul, {y, drawn(type.dtype, dice_.pick<Dims>({{}, {6}}), -2, 2)}) : y);
  }
  ValueId normalized(ValueId x, TensorType type) {  // by value: values move while ops are added
    const Dims channels{type.shape[1].bound};
    const auto vector = [&](double low, double high) { return drawn(type.dtype, channels, low, high); };
    return op(OpKind::BatchNormalization, {x, vector(-1, 1), vector(-1, 1), vector(-1, 1), vector(0.1, 2)});
  }
  void add_border(ValueId x) {
    std::vector<int64_t> pads(8, 0);
    const Dims dims = module_.graph.type(x).dims();
    for (const size_t d : {2, 3, 6, 7}) pads[d] = dice_.roll(3) - (dice_.chance(10) && dims[d % 4] > 2 ? 1 : 0);
    if (dice_.chance(10)) pads[0] = 1;
    const double value = dice_.pick<double>({0, 0, 0, -std::numeric_limits<double>::infinity(), 1});
    keep(op(OpKind::Pad, {x}, {{"pads", pads}, {"value", value}}));
  }
  void add_window(ValueId x, const TensorType& type) {
    const int64_t height = type.shape[2].bound, width = type.shape[3].bound, channels = type.shape[1].bound;
    const std::vector<int64_t> kernel{std::min<int64_t>(2, height), std::min<int64_t>(3, width)};
    const std::vector<int64_t> pads{dice_.roll(2), 0, 0, dice_.roll(2)};
    Attrs attrs{{"kernel_shape", kernel}, {"pads", dice_.chance(50) ? pads : std::vector<int64_t>(4, 0)}};
    if (dice_.chance(30)) attrs.push_back({"strides", std::vector<int64_t>{2, 1}});
    const int how = dice_.roll(4);
    if (how < 2) {
      attrs.push_back({"ceil_mode", int64_t{dice_.roll(2)}});
      if (how == 0) attrs.push_back({"count_include_pad", int64_t{dice_.roll(2)}});
      return keep(op(how == 0 ? OpKind::AveragePool : OpKind::MaxPool, {x}, attrs));
    }
    if (how == 3) attrs.erase(attrs.begin() + 1);  // pads of a transposed convolution cut
    const OpKind kind = how == 2 ? OpKind::Conv : OpKind::ConvTranspose;
    std::vector<ValueId> operands{x, drawn(type.dtype, {channels, channels, kernel[0], kernel[1]}, -0.3, 0.3)};
    if (dice_.chance(50)) operands.push_back(drawn(type.dtype, {channels}, -1, 1));
    ValueId y = op(kind, operands, attrs);
    if (dice_.chance(60)) y = normalized(y, module_.graph.type(y));
    keep(dice_.chance(30) ? op(OpKind::Mul, {drawn(type.dtype, {channels, 1, 1}, -2, 2), y}) : y);
  }

  Dice dice_;
  Module module_;
  std::vector<ValueId> values_;
  int counter_ = 0;
};

/// The reference rounds only in casts: where a pair of casts through 16 bits is gone, so is a rounding.
double tolerance(const Module& module) {
  for (OpId id : module.graph.order())
    if (module.graph.type(module.graph.op(id).outputs[0]).dtype == DType::F16) return 1e-2;
  return 0;
}

}  // namespace

TEST_CASE("random graphs compute the same when they are simplified") {
  std::map<std::string, int> fired;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    CAPTURE(seed);
    const Module source = SimplifiableModel(seed).take();
    Module plain = source_copy(source), simple = source_copy(source);
    clean_up(simple);  // as the runner does after each pass: a dead op would count as a reader
    run_pass(simple, simplify);
    for (const std::string& remark : simple.remarks) ++fired[remark.substr(0, remark.find(" ("))];
    CHECK(verify(simple, Form::Typed).empty());
    INFO(print_module(source));
    INFO(print_module(simple));
    const size_t remarks = simple.remarks.size();
    run_pass(simple, simplify);
    CHECK(simple.remarks.size() == remarks);  // the first run came to an end
    run_pass(plain, decompose);
    run_pass(simple, decompose);
    const std::vector<Tensor> inputs = seeded_inputs(plain);
    const EvalResult a = evaluate(simple, inputs), b = evaluate(plain, inputs);
    REQUIRE(a.error == "");
    REQUIRE(b.error == "");
    REQUIRE(a.outputs.size() == b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i)
      CHECK((agree(a.outputs[i], b.outputs[i]) || relative_error(a.outputs[i], b.outputs[i]) < tolerance(source)));
  }
  for (const std::span<const Rule> rules : {arithmetic_rules(), view_rules(), window_rules(), weight_rules()})
    for (const Rule& rule : rules) {
      CAPTURE(std::string(rule.name));
      CHECK(fired.contains("simplify: " + std::string(rule.name)));
    }
}
