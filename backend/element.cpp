// Elements of sources and pointwise ops, loads and stores, and common code: the search for known elements, rows whose
// values are kept, and indices that come from data.
#include "backend/element.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/base/contains.h"
#include "ir/gelu.h"
#include "ir/op_def.h"

namespace weftc {

/// True if the body needs the Gelu's erf or tanh, or what follows from it, for something else as well.
static bool shares_function(const Graph& body, const Gelu& gelu, OpKind by) {
  std::vector<OpId> known;
  for (const OpId id : gelu.ops) {
    const Op& op = body.op(id);
    const bool follows =
        std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) { return contains(known, body.producer(v)); });
    if (op.kind == by || follows) known.push_back(id);
  }
  return std::any_of(known.begin(), known.end(), [&](OpId id) {
    const std::vector<Use>& uses = body.value(body.result(id)).uses;
    return body.result(id) != gelu.result &&
           std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return !use.op || !contains(known, use.op); });
  });
}

/// The Gelus of a body. One function computes a Gelu faster than its ops do, and for tanh with less loss below 0. In
/// 16-bit floats its constants were rounded. A derivative needs the erf or tanh anyway: then a Gelu is a product more.
Elements::WholeGelus Elements::whole_gelus_of(const KernelContext& context) {
  WholeGelus found;
  const Graph& body = context.body;
  const std::vector<OpId> order = body.order();
  for (const auto& [by, function] : {std::pair(OpKind::Tanh, "weft::gelu_tanh"), {OpKind::Erf, "weft::gelu_erf"}}) {
    const bool has_kind =
        std::any_of(order.begin(), order.end(), [&, kind = by](OpId id) { return body.op(id).kind == kind; });
    if (context.facts().has_grid || !has_kind) continue;
    for (OpId id : order)
      for (ValueId x : body.op(id).outputs) {
        if (!x || body.type(x).dtype != DType::F32) continue;
        const auto gelu = find_gelu(body, *context.plan.constants, x, by);
        if (gelu && !shares_function(body, *gelu, by)) found.emplace(gelu->result, WholeGelu{x, function});
      }
  }
  return found;
}

Elements::Elements(KernelContext& context, Cuts& cuts)
    : scopes(context, cuts), context_(context), body_(context.body), gelus_(whole_gelus_of(context)) {}

Statements build_nest(KernelContext& context, const std::function<void(Elements& elements, Cuts& cuts)>& build) {
  Cuts cuts;
  // Whether a nest needs the digits of an axis is known only after its elements have been pulled through views,
  // reductions and look-ups. Knowing it before would need the same walk without its statements. Each iteration adds a
  // cut; an axis has at most as many as its extent has factors.
  while (true) {
    Elements elements(context, cuts);
    build(elements, cuts);
    Statements nest = elements.scopes.root.take_body();
    if (context.failed() || !elements.scopes.cut_digits(nest)) return nest;
  }
}

Element Elements::fail(const char* id, const Op& op, const std::string& what) {
  context_.refuse(id, op, what);
  return {literal("0"), scopes.floor};
}

static std::string key_of(ValueId value, const IndexList& index, const std::string& peer) {
  std::string key = std::to_string(value.index) + peer;
  // A loop variable of the same name may have a larger range in another loop.
  for (const IndexExpr& expr : index) key += ":" + expr.text() + "<" + std::to_string(expr.high());
  return key;
}

Element Elements::at(ValueId value, const IndexList& index) {
  const std::string key = key_of(value, index, peer);
  for (Scope* s = scopes.current; s; s = s->parent) {
    const auto known = s->known.find(key);
    if (known != s->known.end()) return {known->second, s};
    const auto row = s->row_values.find(key);
    if (row == s->row_values.end()) continue;
    if (const Expr place = kept(*row->second); !place.empty()) return {place, scopes.home(index)};
  }
  return compute(value, index, key);
}

void Elements::bind(ValueId value, const IndexList& index, const Expr& expr, Scope* scope) {
  scope->known[key_of(value, index, peer)] = expr;
}

Element Elements::compute(ValueId value, const IndexList& index, const std::string& key) {
  const Op& op = body_.producer_op(value);
  if (const auto gelu = gelus_.find(value); gelu != gelus_.end()) return whole_gelu(value, gelu->second, index, key);
  switch (category(op)) {
    case Category::Source:
      return source(value, op, index);
    case Category::Pointwise:
      return pointwise(value, op, index, key);
    case Category::View:
      return view(value, op, index);
    case Category::Reduction:
      if (op.kind == OpKind::ArgMax || op.kind == OpKind::ArgMin) return arg_reduction(value, op, index);
      if (op.kind != OpKind::TopK) return reduction(value, op, index);
      break;
    case Category::Contraction:
      if (op.kind == OpKind::BlockMatMul) return block_product(value, op, index);
      return op.kind == OpKind::MatMul || op.kind == OpKind::MatMulInteger ? product(value, op, index)
                                                                           : window(value, op, index);
    case Category::Index:
      return index_op(value, op, index);
    case Category::Scan:
      return scan(value, op, index);
    case Category::Collective:
      return collective(value, op, index);
    case Category::Region:
    case Category::Composite:
      break;
  }
  return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
}

Element Elements::named(ValueId value, Element element) {
  const std::string local = scopes.names.unique(last_component(body_.value(value).name));
  // Quantized numbers stay as wide as their sources, in vectors with as many elements.
  const DType dtype = body_.type(value).dtype;
  const bool is_quantized =
      body_.producer_op(value).kind == OpKind::Saturate && dtype_bytes(dtype) <= 2 && !is_small_int(dtype);
  element.scope->put(Let{is_quantized ? "int32_t" : compute_type(dtype), local, element.expr});
  return {name(local), element.scope};
}

Expr converted(const Expr& loaded, DType dtype) {
  const bool is_converted = is_16_bit_float(dtype) || is_small_float(dtype) || is_small_int(dtype);
  return is_converted ? call(compute_type(dtype), {loaded}) : loaded;
}

// An element of an operand. It gets a name if its scope is further out than the current one, so that it is loaded once,
// before the inner loops.
Element Elements::load(ValueId value, const IndexList& index) {
  const size_t number = context_.input_parameter(value);
  const Parameter& parameter = context_.kernel.parameters[number];
  const IndexExpr offset = context_.offset(parameter, index);
  std::string base = context_.parameter_name(static_cast<size_t>(number));
  if (parameter.window && context_.reads_peers())
    base = context_.peer_copy(static_cast<size_t>(number), peer.empty() ? -1 : std::stoll(peer));
  const DType dtype = parameter.type.dtype;
  const Expr loaded = is_vector(offset) ? vector_load(base, offset) : weftc::element(base, offset);
  Element result{converted(loaded, dtype), scopes.home({offset}), loaded};
  if (result.scope == scopes.current || !peer.empty()) return result;
  result = named(value, result);
  bind(value, index, result.expr, result.scope);
  return result;
}

/// True if the offset moves by one element in each iteration of the open vector loop, and its first value is a multiple
/// of the vector's width. One access of the whole width is aligned then.
bool Elements::is_vector(const IndexExpr& offset) const {
  if (!scopes.vector.scope) return false;
  const Stride stride = stride_of(offset, scopes.vector.variable);
  if (!stride.affine || !(stride.coefficient == 1)) return false;
  const IndexExpr first = substitute(offset, scopes.vector.variable, 0);
  if (scopes.home({first})->depth >= scopes.vector.scope->depth) return false;  // loaded before the loop
  return first.constant() % scopes.vector.width == 0 &&
         std::all_of(first.terms().begin(), first.terms().end(), [&](const IndexExpr::Term& t) {
           return t.scale.number * t.atom->step % scopes.vector.width == 0;
         });
}

// Loads the neighbours before the vector loop, once, and reads element i of them inside.
Expr Elements::vector_load(const std::string& base, const IndexExpr& offset) {
  Scope& around = *scopes.vector.scope->parent;
  const IndexExpr first = substitute(offset, scopes.vector.variable, 0);
  Expr& vector = around.known["vector:" + base + "+" + first.text()];
  if (vector.empty()) {
    const std::string width = std::to_string(scopes.vector.width);
    vector = name(scopes.names.unique(base + "_" + width));
    around.put(Let{"auto", vector.node().text, call("weft::load<" + width + ">", {address(base, first)})});
  }
  return weftc::element(vector.node().text, name(scopes.vector.variable));
}

/// The loop fills a vector, which is stored after the loop.
void Elements::vector_store(const std::string& base, DType dtype, const IndexExpr& offset, const Element& element) {
  const std::string width = std::to_string(scopes.vector.width), vector = scopes.names.unique(base + "_" + width);
  const std::string type = "weft::Vector<" + std::string(memory_type(dtype)) + ", " + width + ">";
  scopes.vector.scope->parent->put(Let{type, vector, {}, true});
  scopes.vector.scope->put(Store{weftc::element(vector, name(scopes.vector.variable)), element.expr});
  const IndexExpr first = substitute(offset, scopes.vector.variable, 0);
  scopes.vector.scope->put_after(Call{call("weft::store", {address(base, first), name(vector)})});
}

void Elements::store(size_t number, const IndexList& index, const Element& element) {
  const size_t at_parameter = static_cast<size_t>(context_.output_parameter(number));
  const Parameter& parameter = context_.kernel.parameters[at_parameter];
  const std::string& base = context_.parameter_name(at_parameter);
  const IndexExpr offset = context_.offset(parameter, index);
  if (is_vector(offset)) return vector_store(base, parameter.type.dtype, offset, element);
  const Expr at = offset;
  // One lane stores a value that all lanes of a row share.
  const bool is_common = scopes.current->uniform && scopes.lanes != Lanes::Host;
  const auto put = [&](const std::string& to) {
    Store store{weftc::element(to, at), element.expr};
    scopes.current->put(is_common ? Statement(OneLane{lanes_loop(scopes.lanes), {store}}) : Statement(store));
  };
  if (!parameter.window || !context_.reads_peers()) return put(base);
  for (int64_t p = 0; p < context_.ranks(); ++p) put(context_.peer_copy(at_parameter, p));
}

Scope::RowValue* Elements::storable(size_t number, const IndexList& index, Scope& row, int loop) {
  const ValueId value = context_.computed_value(number);
  const size_t parameter = static_cast<size_t>(context_.output_parameter(number));
  const auto found = row.row_values.find(key_of(value, index, peer));
  if (found == row.row_values.end() || found->second->array.number != loop || !found->second->place.empty()) return {};
  if (!scopes.ends.contains(loop)) return {};
  const bool is_plain = context_.body.outputs()[number].value == value && !context_.kernel.parameters[parameter].window;
  return is_plain && scopes.lanes == Lanes::Host ? found->second.get() : nullptr;
}

void Elements::store_there(size_t number, const IndexList& index, Scope::RowValue& value) {
  const size_t parameter = static_cast<size_t>(context_.output_parameter(number));
  const IndexExpr at = context_.offset(context_.kernel.parameters[parameter], index);
  value.place = weftc::element(context_.parameter_name(parameter), at);
  scopes.ends.at(value.array.number).statements->push_back(Store{value.place, value.value});
}

// A constant of one element becomes a literal.
static std::string constant_literal(const Tensor& tensor) {
  return tensor.is_real() ? real_literal(tensor.real[0], tensor.dtype) : int_literal(tensor.integers[0], tensor.dtype);
}

/// "start + step * i" of an Iota, in its own dtype.
static Expr iota(const Op& op, DType dtype, const Expr& index) {
  const double start = op.real("start"), step = op.real("step");
  const std::string type = is_float(dtype) ? compute_type(dtype) : memory_type(dtype);
  const auto number = [&](double value) {
    return literal(is_float(dtype) ? shortest(value) : std::to_string(static_cast<int64_t>(value)));
  };
  const Expr i = is_float(dtype) ? call("double", {index}) : index;
  return call(type, {binary(number(start), "+", binary(number(step), "*", i))});
}

// Values without operands. Random numbers are counted by the global index of the element, so that they do not depend on
// the distribution of the model (weft/random.h).
Element Elements::source(ValueId value, const Op& op, const IndexList& index) {
  const TensorType& type = body_.type(value);
  const auto global = [&](int d) {
    return with_digits(
        index[d], context_.digits(type, d), [](int) { return true; }, context_.coordinates());
  };
  if (op.kind == OpKind::Input) return load(value, index);
  if (op.kind == OpKind::Constant) {
    if (type.count() != 1)
      return fail("kernel-constant-unsupported", op, "a constant of several elements inside a kernel");
    return {literal(constant_literal(context_.plan.constants->tensor(op.constant("value")))), scopes.floor};
  }
  if (op.kind == OpKind::Iota) {
    const IndexExpr at = global(static_cast<int>(op.integer("axis")));
    return {iota(op, type.dtype, at), scopes.home({at})};
  }
  if (op.kind == OpKind::LengthOf)
    return {name(context_.extent_argument(*context_.number_of_length(op.text("length")))), scopes.floor};
  if (op.kind != OpKind::RandomUniform)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
  context_.need({Argument::Kind::Invocation});
  context_.need({Argument::Kind::Trip});
  IndexExpr element = op.integer_or("first", 0);
  const Dims strides = strides_of(type.dims());
  for (int d = 0; d < type.ndim(); ++d) element = element + global(d) * strides[d];
  const double low = op.real("low"), width = op.real("high") - low;
  const std::string generator = "weft::Random{.seed = " + std::to_string(static_cast<uint32_t>(context_.plan.seed)) +
                                "u, .node = " + std::to_string(op.integer("node")) +
                                "u, .trip = trip, .invocation = invocation}.uniform";
  const Expr draw = call(generator, {element});
  const auto number = [&](double value) { return literal(real_literal(value, type.dtype)); };
  return named(value, {binary(number(low), "+", binary(number(width), "*", draw)), scopes.home({element})});
}

/// A number of the op as a literal: an attribute in its scalar expression.
static std::string attribute_literal(const Op& op, const std::string& word) {
  const AttrValue* value = op.find(word);
  if (const int64_t* integer = value ? std::get_if<int64_t>(value) : nullptr) return std::to_string(*integer);
  const double* real = value ? std::get_if<double>(value) : nullptr;
  WEFT_CHECK(real, "'$" + word + "' in the scalar text of " + op_def(op).name + " is no number of the op");
  return real_literal(*real, DType::F64);
}

std::string scalar_pattern(const Op& op, std::string_view scalar, DType compute, DType result) {
  std::string text;
  for (size_t i = 0; i < scalar.size(); ++i) {
    const char next = i + 1 < scalar.size() ? scalar[i + 1] : ' ';
    if (scalar[i] != '$' || isdigit(static_cast<unsigned char>(next))) {
      text += scalar[i];
      continue;
    }
    std::string word;
    while (i + 1 < scalar.size() && (isalpha(static_cast<unsigned char>(scalar[i + 1])) || scalar[i + 1] == '_'))
      word += scalar[++i];
    text += word == "T" ? compute_type(compute) : word == "R" ? memory_type(result) : attribute_literal(op, word);
  }
  return text;
}

// An operand that a scalar expression uses twice needs a name, else its text would be computed twice.
static size_t uses_of_operand(std::string_view pattern, size_t number) {
  const std::string word = "$" + std::to_string(number);
  size_t uses = 0;
  for (size_t at = pattern.find(word); at != std::string_view::npos; at = pattern.find(word, at + 1)) ++uses;
  return uses;
}

/// The maximum of the exponentials of a softmax, exp(x - max(x)), whose operands are at most 0; nullptr for other ops.
static const Op* maximum_of_exponentials(const Graph& body, const Op& op) {
  if (op.kind != OpKind::Exp) return nullptr;
  const Op& difference = body.producer_op(op.inputs[0]);
  if (difference.kind != OpKind::Sub) return nullptr;
  const Op& largest = body.producer_op(difference.inputs[1]);
  return largest.kind == OpKind::ReduceMax && largest.inputs[0] == difference.inputs[0] ? &largest : nullptr;
}

/// True for the shares of a softmax, exp(x - max(x)) / sum(exp(x - max(x))). The sum is at least 1 or NaN. Its
/// reciprocal is computed once a row. Multiplying by it has a relative error below 1.3e-7, a division 0.6e-7.
static bool is_share_of_row(const Graph& body, const Op& op) {
  if (op.kind != OpKind::Div) return false;
  const Op* const largest = maximum_of_exponentials(body, body.producer_op(op.inputs[0]));
  const Op& sum = body.producer_op(op.inputs[1]);
  return largest && sum.kind == OpKind::ReduceSum && sum.inputs[0] == op.inputs[0] &&
         sum.ints("axes") == largest->ints("axes");
}

// The op's scalar expression with the operands' elements filled in.
Element Elements::pointwise(ValueId value, const Op& op, const IndexList& index, const std::string& key) {
  const OpDef& def = op_def(op);
  DType compute = DType::Bool;
  for (ValueId input : op.inputs)
    if (compute == DType::Bool) compute = body_.type(input).dtype;
  const bool is_integer = !is_float(compute) && def.scalar_int;
  const char* scalar = is_integer ? def.scalar_int : def.scalar;
  if (!context_.facts().has_grid && maximum_of_exponentials(body_, op)) scalar = "weft::exp_of_negative($0)";
  if (!context_.facts().has_grid && is_share_of_row(body_, op)) scalar = "$0 * (1 / $1)";
  if (!scalar)
    return fail("kernel-op-unsupported", op, std::string(def.name) + " has no scalar expression for this type");
  Scope* scope = scopes.floor;
  std::vector<Expr> operands;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Element operand = at(op.inputs[i], broadcast_index(index, context_.dims(op.inputs[i])));
    if (!operand.expr.is_simple() && uses_of_operand(scalar, i) > 1) operand = named(op.inputs[i], operand);
    scope = scopes.deeper(scope, operand.scope);
    operands.push_back(operand.expr);
  }
  // The 16-bit floats are computed in float and rounded when stored; integers wrap to their width.
  const std::string text = scalar_pattern(op, scalar, compute, body_.type(value).dtype);
  const Element result = named(value, {pattern(text, operands, Binding::Choice), scope});
  bind(value, index, result.expr, result.scope);
  if (def.cost != ScalarCost::Cheap) offer(key, result, body_.type(value).dtype);
  return result;
}

Element Elements::whole_gelu(ValueId value, const WholeGelu& gelu, const IndexList& index, const std::string& key) {
  const Element operand = at(gelu.x, index);
  const Element result =
      named(value, {call(gelu.function, {operand.expr}), scopes.deeper(scopes.floor, operand.scope)});
  bind(value, index, result.expr, result.scope);
  offer(key, result, body_.type(value).dtype);
  return result;
}

void Elements::offer(const std::string& key, const Element& element, DType dtype) {
  if (dtype == DType::String) return;  // a row of strings would fill the stack
  Scope& scope = *element.scope;
  if (element.scope != scopes.current || !scope.keeping) return;
  const int64_t bytes = is_float(dtype) && dtype_bytes(dtype) < 4 ? 4 : dtype_bytes(dtype);  // as computed
  const auto value =
      std::make_shared<Scope::RowValue>(Scope::RowValue{element.expr, compute_type(dtype), bytes, *scope.keeping});
  scope.keeping->loop->parent->put(value->declaration);
  scope.put(value->store);
  scope.keeping->loop->computed[key] = value;
}

/// The lane that stores a value into the array is the one that reads it later, since both loops share the row among
/// lanes in the same way. A lane of a warp keeps its values in registers, a block keeps them in shared memory.
Expr Elements::kept(Scope::RowValue& value) {
  if (!value.place.empty() || !value.array.has_room) return value.place;
  // A kernel has 48 KiB; in a loop over chunks they also hold the tiles of products (weft::step_room).
  const int64_t most_shared_bytes = (context_.is_in_chunks() ? 8 : 40) * int64_t{1024};
  const Scope::RowArray& array = value.array;
  const bool in_warp = scopes.lanes == Lanes::Warp, in_block = scopes.lanes == Lanes::Block;
  const int64_t first = shared_bytes_, bytes = in_block ? (array.count * value.element_bytes + 15) / 16 * 16 : 0;
  if (first + bytes > most_shared_bytes) return {};
  shared_bytes_ += bytes;
  const std::string local = scopes.names.unique(value.value.node().text + "_row");
  const Statement declaration =
      in_block
          ? Statement(Let{
                value.type + "* const", local,
                literal(context_.shared_array(value.type, std::to_string(array.count), shared_arrays_++, first)), true})
          : Statement(LocalArray{value.type, local, in_warp ? array.lane_count : array.count, !in_warp});
  value.place = weftc::element(local, in_warp ? array.lane_at : array.at);
  value.declaration.statements->push_back(declaration);
  value.store.statements->push_back(Store{value.place, value.value});
  return value.place;
}

IndexExpr Elements::data_index(const Element& element, const std::string& wanted, int64_t extent) {
  const std::string variable = scopes.names.unique(wanted + "_index");
  element.scope->put(Let{"int64_t", variable, element.expr});
  scopes.own(variable, element.scope);
  return index_variable(variable, 0, std::max<int64_t>(extent - 1, 0));
}

IndexExpr Elements::clamped(const IndexExpr& index, const Scale& extent, std::vector<Expr>& inside) {
  const int64_t most = extent.high();
  const bool is_in_memory = index.low() >= 0 && index.high() < most;
  if (is_in_memory && extent.is_number()) return index;
  if (index.is_constant() && !is_in_memory) {  // never inside
    inside.push_back(literal("false"));
    return std::clamp<int64_t>(index.constant(), 0, most - 1);
  }
  const Expr at = index;
  if (index.low() < 0) inside.push_back(binary(at, ">=", 0));
  const IndexExpr end = IndexExpr::of(extent);
  context_.need_lengths(end);
  if (index.high() >= most || !extent.is_number()) inside.push_back(binary(at, "<", end));
  if (is_in_memory) return index;
  // An element after a run-time length is still in the tensor's memory, which has room for the bound.
  return data_index({call("std::clamp<int64_t>", {at, 0, most - 1}), scopes.home({index})}, "inner", most);
}

Elements::Inner Elements::open_dims(Scope* under, const TensorType& type, const std::vector<int64_t>& dims,
                                    const For& like) {
  Inner inner;
  inner.at.resize(type.shape.size());
  const Dims local = context_.dims(type);
  // Neighbouring static dimensions share one loop.
  std::vector<std::vector<int64_t>> runs;
  bool was_static = false;
  for (int64_t d : dims) {
    const bool is_static = context_.run_extent(type, static_cast<int>(d)).empty();
    if (is_static && was_static && runs.back().back() + 1 == d)
      runs.back().push_back(d);
    else
      runs.push_back({d});
    was_static = is_static;
  }
  for (size_t r = 0; r < runs.size(); ++r) {
    Dims extents;
    for (int64_t d : runs[r]) extents.push_back(local[d]);
    const Expr bound = run_bound(context_, type, static_cast<size_t>(runs[r][0]));
    Scope* parent = inner.loops.empty() ? under : &inner.loops.back().inner();
    const Scale below = bound.empty() ? Scale(0) : run_scale(context_, type, static_cast<size_t>(runs[r][0]));
    const LoopAxis axis = scopes.fresh_axis("c", element_count(extents), bound, parent, below);
    inner.loops.push_back(scopes.open(parent, axis, r + 1 == runs.size() ? like : For{}, true));
    const IndexList at = unravel(inner.loops.back().index, extents);
    for (size_t i = 0; i < runs[r].size(); ++i) inner.at[runs[r][i]] = at[i];
  }
  return inner;
}

void Elements::close(Inner& inner) {
  for (auto loop = inner.loops.rbegin(); loop != inner.loops.rend(); ++loop) scopes.close(*loop);
}

}  // namespace weftc
