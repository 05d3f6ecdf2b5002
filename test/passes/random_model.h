// Random small models with random meshes, layouts and transforms, for property tests of the passes.
#pragma once
#include <random>

#include "ir/builder.h"
#include "ir/text/text_form.h"
#include "test/scheduled.h"

namespace weftc::test {

/// Deterministic choices from a seed.
class Dice {
 public:
  explicit Dice(uint32_t seed) : engine_(seed) {}
  /// 0 .. n-1
  int roll(int n) { return static_cast<int>(engine_() % static_cast<uint32_t>(n)); }
  bool chance(int percent) { return roll(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(roll(static_cast<int>(from.size())))];
  }

 private:
  std::mt19937 engine_;
};

/// Grows a typed module op by op; values stay small, so that sums cut by ranks agree within rounding.
class RandomModel {
 public:
  RandomModel(Dice& dice, int ops) : dice_(dice) {
    module_.name = "random";
    module_.places.push_back({"all", {0}, {}});
    const std::vector<Dims> shapes = {{8, 4, 12}, {4, 24}, {2, 8, 8}, {12, 8}, {8, 16}};
    const int inputs = 1 + dice.roll(2);
    for (int i = 0; i < inputs; ++i) add_input(dice.pick(shapes));
    for (int i = 0; i < ops; ++i) add_op();
    int outputs = 0;
    for (ValueId v : values_)
      if (module_.graph.value(v).uses.empty()) module_.graph.add_output(v, "out" + std::to_string(outputs++));
  }
  Module take() { return std::move(module_); }

 private:
  const Dims dims(ValueId v) const { return module_.graph.type(v).dims(); }
  std::string next_name(const char* stem) { return stem + std::to_string(counter_++); }

  void add_input(Dims shape) {
    const std::string name = next_name("in");
    const OpId id =
        module_.graph.add({OpKind::Input, {}, {{DType::F32, shape_of(shape), {}}}, {}, {}, {}, name, {}, {}, {name}});
    values_.push_back(module_.graph.result(id));
  }
  ValueId constant(const Tensor& t, const char* stem) {
    const std::string name = next_name(stem);
    const ConstantId c = module_.constants.add(name, t);
    return module_.graph.result(module_.graph.add(
        {OpKind::Constant, {}, {{t.dtype, shape_of(t.dims), {}}}, {{"value", c}}, {}, {}, name, {}, {}, {name}}));
  }
  ValueId weight(Dims shape) {
    Tensor t(DType::F32, shape);
    for (double& x : t.real) x = static_cast<float>((dice_.roll(2001) - 1000) / 1500.0);
    return constant(t, "w");
  }
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const std::string name = next_name("n");
    module_.origins.push_back(
        {name, op_def(kind).name, counter_, Loc::in_node("random", name, op_def(kind).name, counter_)});
    const OriginId origin{static_cast<uint32_t>(module_.origins.size() - 1)};
    const OpId id =
        module_.graph.add({kind, std::move(inputs), {{}}, std::move(attrs), {}, {}, name, {origin}, {}, {name}});
    Diags diags;
    const bool typed = infer_op(module_, module_.graph, id, &diags);
    INFO(diags.text());
    REQUIRE(typed);
    return module_.graph.result(id);
  }
  ValueId any() { return dice_.pick(values_); }

  void add_op() {
    const ValueId x = dice_.chance(60) ? values_.back() : any();
    const Dims d = dims(x);
    const int n = static_cast<int>(d.size());
    switch (dice_.roll(15)) {
      case 0:
        return keep(op(dice_.pick<OpKind>({OpKind::Neg, OpKind::Relu, OpKind::Tanh, OpKind::Sigmoid}), {x}));
      case 1:
        return add_binary(x);
      case 2:
      case 3:
        return keep(
            op(OpKind::Tanh, {op(OpKind::MatMul, {x, weight({d.back(), dice_.pick<int64_t>({4, 8, 12, 16})})})}));
      case 4:
        return add_transpose(x);
      case 5:
        return add_reshape(x);
      case 6:
        return keep(op(OpKind::Softmax, {x}, {{"axis", int64_t{dice_.roll(n)}}}));
      case 7:
        return keep(op(OpKind::LayerNormalization, {x, weight({d.back()})}, {{"axis", int64_t{-1}}}));
      case 8:
        return keep(op(OpKind::Tanh, {op(OpKind::ReduceSum, {x},
                                         {{"axes", std::vector<int64_t>{dice_.roll(n)}}, {"keepdims", int64_t{1}}})}));
      case 9:
        return add_slice(x);
      case 10:
        return add_concat(x);
      case 11:
        return add_gather(x);
      case 12:
      case 13:
        return add_side(x);
      default:
        return keep(op(OpKind::Add, {x, weight({d.back()})}));
    }
  }
  void keep(ValueId v) {
    if (module_.graph.type(v).ndim() >= 1 && module_.graph.type(v).count() <= 4096) values_.push_back(v);
  }
  void add_binary(ValueId x) {
    std::vector<ValueId> alike;
    for (ValueId v : values_)
      if (dims(v) == dims(x)) alike.push_back(v);
    const ValueId y = dice_.pick(alike);
    keep(op(dice_.pick<OpKind>({OpKind::Add, OpKind::Sub, OpKind::Mul}), {x, y}));
  }
  /// Something of x's shape, or that of a part of it, which depends on no input: a draw or an index pattern, and an op
  /// or view on it.
  void add_side(ValueId x) {
    Dims d = dims(x);
    if (dice_.chance(30)) d[static_cast<size_t>(dice_.roll(static_cast<int>(d.size())))] = 1;
    const bool flat = dice_.chance(30);
    const std::vector<int64_t> shape = flat ? std::vector<int64_t>{element_count(d)} : d;
    const Attrs attrs = {{"dtype", dtype_attr(DType::F32)}, {"shape", shape}};
    ValueId side = dice_.chance(70) ? op(OpKind::RandomUniform, {}, attrs) : op(OpKind::Iota, {}, attrs);
    if (flat) side = op(OpKind::Reshape, {side}, {{"shape", std::vector<int64_t>(d)}});
    if (dice_.chance(60)) side = op(dice_.pick<OpKind>({OpKind::Tanh, OpKind::Sigmoid}), {side});
    if (dice_.chance(20)) side = op(OpKind::Softmax, {side}, {{"axis", int64_t{-1}}});
    keep(op(dice_.pick<OpKind>({OpKind::Add, OpKind::Mul}), {x, side}));
    if (dice_.chance(20)) keep(side);
  }
  void add_transpose(ValueId x) {
    std::vector<int64_t> perm;
    for (size_t i = 0; i < dims(x).size(); ++i) perm.push_back(static_cast<int64_t>(i));
    for (size_t i = perm.size(); i > 1; --i)
      std::swap(perm[i - 1], perm[static_cast<size_t>(dice_.roll(static_cast<int>(i)))]);
    keep(op(OpKind::Transpose, {x}, {{"perm", perm}}));
  }
  void add_reshape(ValueId x) {
    Dims d = dims(x);
    if (d.size() >= 2 && dice_.chance(50)) {
      const size_t at = static_cast<size_t>(dice_.roll(static_cast<int>(d.size()) - 1));
      d[at] *= d[at + 1];
      d.erase(d.begin() + static_cast<long>(at) + 1);
    } else if (d.size() <= 3) {
      const size_t at = static_cast<size_t>(dice_.roll(static_cast<int>(d.size())));
      const int64_t part = dice_.pick<int64_t>({2, 4});
      if (d[at] % part) return;
      d[at] /= part;
      d.insert(d.begin() + static_cast<long>(at) + dice_.roll(2), part);
    }
    keep(op(OpKind::Reshape, {x}, {{"shape", std::vector<int64_t>(d)}}));
  }
  void add_slice(ValueId x) {
    const Dims d = dims(x);
    const int64_t axis = dice_.roll(static_cast<int>(d.size()));
    if (d[static_cast<size_t>(axis)] < 4) return;
    const int64_t half = d[static_cast<size_t>(axis)] / 2;
    const int64_t start = dice_.chance(50) ? 0 : half, step = dice_.chance(20) ? 2 : 1;
    keep(op(OpKind::Slice, {x},
            {{"starts", std::vector<int64_t>{start}},
             {"ends", std::vector<int64_t>{start + half}},
             {"axes", std::vector<int64_t>{axis}},
             {"steps", std::vector<int64_t>{step}}}));
  }
  void add_concat(ValueId x) {
    keep(op(OpKind::Concat, {x, op(OpKind::Neg, {x})},
            {{"axis", int64_t{dice_.roll(static_cast<int>(dims(x).size()))}}}));
  }
  void add_gather(ValueId x) {
    const Dims d = dims(x);
    const int64_t axis = dice_.roll(static_cast<int>(d.size()));
    Tensor indices(DType::I64, {dice_.pick<int64_t>({2, 4, 6})});
    for (int64_t i = 0; i < indices.size(); ++i)
      indices.put_int(i, dice_.roll(static_cast<int>(d[static_cast<size_t>(axis)])));
    keep(op(OpKind::Gather, {x, constant(indices, "i")}, {{"axis", axis}}));
  }

  Dice& dice_;
  Module module_;
  std::vector<ValueId> values_;
  int counter_ = 0;
};

/// A module with a graph and constants of its own.
inline Module source_copy(const Module& module) {
  Module copy;
  copy.name = module.name;
  copy.file = module.file;
  copy.graph = module.graph;
  copy.places = module.places;
  copy.origins = module.origins;
  for (uint32_t c = 0; c < module.constants.size(); ++c)
    copy.constants.add(module.constants[ConstantId{c}].name, module.constants.tensor({c}));
  return copy;
}

/// The metric, with sums that cancel to rounding noise counted as equal.
inline bool agree(const Tensor& a, const Tensor& b) {
  if (relative_error(a, b) < 2e-5) return true;
  double largest = 0;
  for (int64_t i = 0; a.dims == b.dims && i < a.size(); ++i)
    largest = std::max({largest, std::fabs(a.at(i)), std::fabs(b.at(i))});
  return a.dims == b.dims && largest < 1e-9;
}

/// A mesh of 2 to 4 ranks and layouts for some of the model's values, all of them legal by themselves.
inline Schedule random_schedule(Dice& dice, const Module& module) {
  Schedule schedule;
  schedule.file = "random";
  schedule.mesh = dice.pick<Mesh>({{{"tp", 2}}, {{"tp", 4}}, {{"tp", 3}}, {{"a", 2}, {"b", 2}}});
  for (OpId id : module.graph.order())
    for (ValueId v : module.graph.op(id).outputs) {
      const TensorType& type = module.graph.type(v);
      if (!dice.chance(20) || type.shape.empty() || type.dtype != DType::F32) continue;
      ShardEntry entry{{Selector::Kind::Name, module.graph.value(v).name, {}}, dice.chance(20), {}};
      std::map<int, int64_t> cut;
      for (const MeshAxis& axis : schedule.mesh) {
        if (dice.chance(40)) continue;
        const int dim = dice.roll(type.ndim());
        const int64_t extent = type.shape[static_cast<size_t>(dim)].bound / std::max<int64_t>(1, cut[dim]);
        const int64_t parts = dice.chance(20) ? 2 : 1;
        const bool even = extent % (axis.size * parts) == 0;
        const bool ragged = parts == 1 && !cut[dim] && extent > axis.size && !entry.use && dice.chance(30);
        if (!even && !ragged) continue;
        entry.axes.push_back({{axis.name}, dice.chance(15), dim, parts, {}});
        if (!even) break;
        cut[dim] = std::max<int64_t>(1, cut[dim]) * axis.size * parts;
      }
      if (!entry.axes.empty()) schedule.shard.push_back(entry);
    }
  return schedule;
}

}  // namespace weftc::test
