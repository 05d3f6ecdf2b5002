#include "backend/element.h"

#include <algorithm>

#include "ir/base/check.h"
#include "ir/op_def.h"

namespace weftc {

Elements::Elements(KernelContext& context, Attempt& attempt)
    : scopes(context, attempt.cuts), context_(context), body_(context.body), attempt_(attempt) {}

Element Elements::fail(const char* id, const Op& op, const std::string& what) {
  context_.refuse(id, op, what);
  return {"0", scopes.floor};
}

static std::string key_of(ValueId value, const IndexList& index, const std::string& peer) {
  std::string key = std::to_string(value.index) + peer;
  for (const IndexExpr& expr : index) key += ":" + expr.text();
  return key;
}

Element Elements::at(ValueId value, const IndexList& index) {
  const std::string key = key_of(value, index, peer);
  for (Scope* s = scopes.current; s; s = s->parent) {
    const auto known = s->known.find(key);
    if (known != s->known.end()) return {known->second, s};
    const auto array = s->arrays.find(key);
    if (array != s->arrays.end()) return {array->second, scopes.home(index)};
  }
  return compute(value, index, key);
}

void Elements::bind(ValueId value, const IndexList& index, const std::string& name, Scope* scope) {
  scope->known[key_of(value, index, peer)] = name;
}

Element Elements::compute(ValueId value, const IndexList& index, const std::string& key) {
  const Op& op = body_.producer_op(value);
  switch (category(op)) {
    case Category::Source:
      return source(value, op, index);
    case Category::Pointwise:
      return pointwise(value, op, index, key);
    case Category::View:
      return view(value, op, index);
    case Category::Reduction:
      if (op.kind == OpKind::ArgMax || op.kind == OpKind::ArgMin) return arg_reduction(value, op, index);
      return reduction(value, op, index);
    case Category::Contraction:
      return op.kind == OpKind::MatMul ? product(value, op, index) : window(value, op, index);
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

/// Whether a local of this name could be taken for a loop variable: letters and digits of "c2_0", "row".
static bool looks_like_loop(const std::string& name) {
  static constexpr std::string_view kAxes[] = {"i", "c", "k", "row", "x", "j", "tap", "peer", "p"};
  const size_t letters = name.find_first_of("0123456789_");
  return std::find(std::begin(kAxes), std::end(kAxes), std::string_view(name).substr(0, letters)) != std::end(kAxes) &&
         name.find_first_not_of("0123456789_", std::min(letters, name.size())) == std::string::npos;
}

Element Elements::named(ValueId value, Element element) {
  std::string name = identifier(last_component(body_.value(value).name));
  if (looks_like_loop(name)) name += "_value";
  name = scopes.names.unique(name);
  element.scope->put("const " + std::string(compute_type(body_.type(value).dtype)) + " " + name + " = " + element.text +
                     ";");
  return {name, element.scope};
}

static bool is_word(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

Element Elements::load(ValueId value, const IndexList& index) {
  const size_t number = context_.input_parameter(value);
  const Parameter& parameter = context_.kernel.parameters[number];
  const IndexExpr offset = context_.offset(parameter, index);
  std::string base = context_.parameter_name(static_cast<size_t>(number));
  if (parameter.window && context_.reads_peers())
    base = context_.peer_copy(static_cast<size_t>(number), peer.empty() ? -1 : std::stoll(peer));
  const DType dtype = parameter.type.dtype;
  std::string text = is_vector(offset) ? vector_load(base, offset) : base + "[" + scopes.text(offset) + "]";
  const std::string loaded = text;
  if (is_16_bit_float(dtype)) text = "float(" + text + ")";
  Element element{text, scopes.home({offset}), loaded};
  if (element.scope == scopes.current || !peer.empty()) return element;
  element = named(value, element);
  bind(value, index, element.text, element.scope);
  return element;
}

/// The neighbours lie side by side from an address on that is a multiple of their size.
bool Elements::is_vector(const IndexExpr& offset) const {
  if (!scopes.vector.scope) return false;
  const Stride stride = stride_of(offset, scopes.vector.variable);
  if (!stride.affine || stride.coefficient != 1) return false;
  const IndexExpr first = substitute(offset, scopes.vector.variable, 0);
  if (scopes.home({first})->depth >= scopes.vector.scope->depth) return false;  // loaded in front of the loop
  return first.constant() % scopes.vector.width == 0 &&
         std::all_of(first.terms().begin(), first.terms().end(),
                     [&](const IndexExpr::Term& t) { return t.coefficient * t.atom->step % scopes.vector.width == 0; });
}

std::string Elements::vector_load(const std::string& base, const IndexExpr& offset) {
  Scope& around = *scopes.vector.scope->parent;
  const std::string first = scopes.text(substitute(offset, scopes.vector.variable, 0));
  std::string& name = around.known["vector:" + base + "+" + first];
  if (name.empty()) {
    name = scopes.names.unique(base + "_" + std::to_string(scopes.vector.width));
    around.put("const auto " + name + " = weft::load<" + std::to_string(scopes.vector.width) + ">(" + base + " + " +
               first + ");");
  }
  return name + "[" + scopes.vector.variable + "]";
}

/// The element goes into a vector that is stored behind the loop.
void Elements::vector_store(const std::string& base, DType dtype, const IndexExpr& offset, const Element& element) {
  const std::string width = std::to_string(scopes.vector.width), name = scopes.names.unique(base + "_" + width);
  scopes.vector.scope->parent->put("weft::Vector<" + std::string(memory_type(dtype)) + ", " + width + "> " + name +
                                   ";");
  scopes.vector.scope->put(name + "[" + scopes.vector.variable + "] = " + element.text + ";");
  const std::string first = scopes.text(substitute(offset, scopes.vector.variable, 0));
  scopes.vector.scope->behind.push_back("weft::store(" + base + " + " + first + ", " + name + ");");
}

void Elements::store(size_t number, const IndexList& index, const Element& element) {
  const size_t at_parameter = static_cast<size_t>(context_.output_parameter(number));
  const Parameter& parameter = context_.kernel.parameters[at_parameter];
  const std::string& name = context_.parameter_name(at_parameter);
  const IndexExpr offset = context_.offset(parameter, index);
  if (is_vector(offset)) return vector_store(name, parameter.type.dtype, offset, element);
  const std::string at = "[" + scopes.text(offset) + "] = " + element.text + ";";
  // What all lanes of a row have, one of them stores.
  const std::string who = !scopes.current->uniform || scopes.lanes == Lanes::Host ? ""
                          : scopes.lanes == Lanes::Warp                           ? "if (weft::lane() == 0) "
                                                                                  : "if (threadIdx.x == 0) ";
  if (!parameter.window || !context_.reads_peers()) return scopes.current->put(who + name + at);
  for (int64_t p = 0; p < context_.ranks(); ++p) scopes.current->put(who + context_.peer_copy(at_parameter, p) + at);
}

static std::string constant_literal(const Tensor& tensor) {
  return tensor.is_real() ? real_literal(tensor.real[0], tensor.dtype) : int_literal(tensor.integers[0], tensor.dtype);
}

/// "start + step * i" of an Iota, in its own dtype.
static std::string iota_text(const Op& op, DType dtype, const std::string& index) {
  const double start = op.real("start"), step = op.real("step");
  if (is_float(dtype)) {
    const std::string type = compute_type(dtype);
    return type + "(" + shortest(start) + " + " + shortest(step) + " * double(" + index + "))";
  }
  return std::string(memory_type(dtype)) + "(" + std::to_string(static_cast<int64_t>(start)) + " + " +
         std::to_string(static_cast<int64_t>(step)) + " * (" + index + "))";
}

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
    return {constant_literal(context_.plan.constants->tensor(op.constant("value"))), scopes.floor};
  }
  if (op.kind == OpKind::Iota) {
    const IndexExpr at = global(static_cast<int>(op.integer("axis")));
    return {iota_text(op, type.dtype, scopes.text(at)), scopes.home({at})};
  }
  if (op.kind != OpKind::RandomUniform)
    return fail("kernel-op-unsupported", op, std::string(op_def(op).name) + " has no lowering inside a kernel");
  context_.need({Argument::Kind::Invocation});
  context_.need({Argument::Kind::Trip});
  IndexExpr element;
  const Dims strides = strides_of(type.dims());
  for (int d = 0; d < type.ndim(); ++d) element = element + global(d) * strides[d];
  const double low = op.real("low"), width = op.real("high") - low;
  const std::string draw = "weft::Random{.seed = " + std::to_string(static_cast<uint32_t>(context_.plan.seed)) +
                           "u, .node = " + std::to_string(op.integer("node")) +
                           "u, .trip = trip, .invocation = invocation}.uniform(" + scopes.text(element) + ")";
  const std::string text = real_literal(low, type.dtype) + " + " + real_literal(width, type.dtype) + " * " + draw;
  return named(value, {text, scopes.home({element})});
}

/// The index of an operand that is broadcast to the result.
static IndexList broadcast_index(const IndexList& index, const Dims& operand) {
  IndexList at(operand.size());
  const size_t offset = index.size() - operand.size();
  for (size_t d = 0; d < operand.size(); ++d) at[d] = operand[d] == 1 ? IndexExpr(0) : index[offset + d];
  return at;
}

namespace {
/// What the placeholders of a scalar expression stand for.
struct ScalarText {
  const Op& op;
  std::vector<std::string> operands;
  DType compute, result;

  std::string attribute(const std::string& name) const {
    const AttrValue* value = op.find(name);
    if (const int64_t* whole = value ? std::get_if<int64_t>(value) : nullptr) return std::to_string(*whole);
    const double* real = value ? std::get_if<double>(value) : nullptr;
    WEFT_CHECK(real, "'$" + name + "' in the scalar text of " + op_def(op).name + " is no number of the op");
    return real_literal(*real, DType::F64);
  }
  std::string placeholder(const std::string& word) const {
    if (word == "T") return compute_type(compute);
    if (word == "R") return memory_type(result);
    if (isdigit(static_cast<unsigned char>(word[0]))) return operands[static_cast<size_t>(std::stoi(word))];
    return attribute(word);
  }
  std::string fill(std::string_view pattern) const {
    std::string text;
    for (size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] != '$') {
        text += pattern[i];
        continue;
      }
      std::string word;
      const bool number = i + 1 < pattern.size() && isdigit(static_cast<unsigned char>(pattern[i + 1]));
      while (i + 1 < pattern.size() &&
             (number ? isdigit(static_cast<unsigned char>(pattern[i + 1])) != 0
                     : isalpha(static_cast<unsigned char>(pattern[i + 1])) || pattern[i + 1] == '_'))
        word += pattern[++i];
      text += placeholder(word);
    }
    return text;
  }
};
}  // namespace

static size_t uses_of_operand(std::string_view pattern, size_t number) {
  const std::string word = "$" + std::to_string(number);
  size_t uses = 0;
  for (size_t at = pattern.find(word); at != std::string_view::npos; at = pattern.find(word, at + 1)) ++uses;
  return uses;
}

Element Elements::pointwise(ValueId value, const Op& op, const IndexList& index, const std::string& key) {
  const OpDef& def = op_def(op);
  ScalarText text{op, {}, DType::Bool, body_.type(value).dtype};
  for (ValueId input : op.inputs)
    if (text.compute == DType::Bool) text.compute = body_.type(input).dtype;
  const bool whole = !is_float(text.compute) && def.scalar_int;
  const char* pattern = whole ? def.scalar_int : def.scalar;
  if (!pattern)
    return fail("kernel-op-unsupported", op, std::string(def.name) + " has no scalar expression for this type");
  Scope* scope = scopes.floor;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Element operand = at(op.inputs[i], broadcast_index(index, context_.dims(op.inputs[i])));
    if (!is_word(operand.text) && uses_of_operand(pattern, i) > 1) {
      operand = named(op.inputs[i], operand);
    }
    const bool bare = is_word(operand.text) || operand.text.find(' ') == std::string::npos;
    scope = scopes.deeper(scope, operand.scope);
    text.operands.push_back(bare ? operand.text : "(" + operand.text + ")");
  }
  // The 16-bit floats are computed in float and rounded when stored; integers wrap to their width.
  const Element result = named(value, {text.fill(pattern), scope});
  bind(value, index, result.text, result.scope);
  if (def.cost != ScalarCost::Cheap) keep(key, result, body_.type(value).dtype);
  return result;
}

void Elements::keep(const std::string& key, const Element& element, DType dtype) {
  if (element.scope != scopes.current || element.scope == scopes.floor) return;
  if (scopes.lanes == Lanes::Host)
    keep_on_host(key, element, dtype);
  else if (element.scope->keeping && is_kept(key))
    keep_on_lanes(key, element, dtype);
}

/// What several loops over a row compute; that is known only in the next attempt.
bool Elements::is_kept(const std::string& key) {
  if (++computed_[key] == 2 && attempt_.kept.insert(key).second) scopes.ask_again();
  return attempt_.kept.contains(key);
}

void Elements::keep_on_host(const std::string& key, const Element& element, DType dtype) {
  const Scope& loop = *element.scope;
  // Only a plain loop over a row: `for (int64_t c = 0; c < 768; ++c) {` directly inside the row's scope.
  const size_t from = loop.open.find("< ");
  if (from == std::string::npos) return;
  const std::string bound = loop.open.substr(from + 2, loop.open.find(';', from) - from - 2);
  if (bound.find_first_not_of("0123456789") != std::string::npos || bound.size() > 4 || !is_kept(key)) return;
  const std::string variable = loop.open.substr(13, loop.open.find(' ', 13) - 13);
  if (variable.find('_') != std::string::npos) return;  // one of several loops of an axis
  const std::string array = scopes.names.unique(element.text + "_row");
  loop.parent->put("alignas(64) " + std::string(compute_type(dtype)) + " " + array + "[" + bound + "];");
  element.scope->put(array + "[" + variable + "] = " + element.text + ";");
  element.scope->filled[key] = array + "[" + variable + "]";
}

/// The lane that keeps an element is the one that reads it: a warp has registers for it, a block shared memory.
void Elements::keep_on_lanes(const std::string& key, const Element& element, DType dtype) {
  // Of the 48 KiB that a kernel has; in a loop over chunks it holds the tiles of products too (weft::step_room).
  const int64_t most_shared_bytes = (context_.is_in_chunks() ? 8 : 40) * int64_t{1024};
  const Scope::RowArray& keeping = *element.scope->keeping;
  const std::string type = compute_type(dtype), count = std::to_string(keeping.count);
  const bool in_warp = scopes.lanes == Lanes::Warp;
  const int64_t element_bytes = is_16_bit_float(dtype) ? 4 : dtype_bytes(dtype);  // as computed
  const int64_t first = shared_bytes_, bytes = in_warp ? 0 : (keeping.count * element_bytes + 15) / 16 * 16;
  if (first + bytes > most_shared_bytes) return;
  shared_bytes_ += bytes;
  const std::string array = scopes.names.unique(element.text + "_row");
  keeping.loop->parent->put(in_warp ? type + " " + array + "[" + std::to_string(keeping.lane_count) + "];"
                                    : type + "* const " + array + " = " +
                                          context_.shared_array(type, count, shared_arrays_++, first) + ";");
  const std::string place = array + "[" + (in_warp ? keeping.lane_at : keeping.at) + "]";
  element.scope->put(place + " = " + element.text + ";");
  keeping.loop->filled[key] = place;
}

IndexExpr Elements::data_index(const Element& element, const std::string& name, int64_t extent) {
  const std::string variable = scopes.names.unique(name + "_index");
  element.scope->put("const int64_t " + variable + " = " + element.text + ";");
  scopes.own(variable, element.scope);
  return index_variable(variable, 0, std::max<int64_t>(extent - 1, 0));
}

IndexExpr Elements::clamped(const IndexExpr& index, int64_t extent, std::string& inside) {
  if (index.low() >= 0 && index.high() < extent) return index;
  if (index.is_constant()) {  // never inside
    inside += inside.empty() ? "false" : " && false";
    return std::clamp<int64_t>(index.constant(), 0, extent - 1);
  }
  const std::string text = scopes.text(index);
  Scope* scope = scopes.home({index});
  if (index.low() < 0) inside += (inside.empty() ? "" : " && ") + std::string("(") + text + ") >= 0";
  if (index.high() >= extent)
    inside += (inside.empty() ? "" : " && ") + std::string("(") + text + ") < " + std::to_string(extent);
  const std::string limited = "std::clamp<int64_t>(" + text + ", 0, " + std::to_string(extent - 1) + ")";
  return data_index({limited, scope}, "inner", extent);
}

Elements::Inner Elements::open_dims(Scope* under, const TensorType& type, const std::vector<int64_t>& dims,
                                    const std::string& pragma) {
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
    const std::string bound = context_.run_extent(type, static_cast<int>(runs[r][0]));
    Scope* parent = inner.loops.empty() ? under : &inner.loops.back().inner();
    const LoopAxis axis = scopes.fresh_axis("c", element_count(extents), bound, parent);
    inner.loops.push_back(scopes.open(parent, axis, r + 1 == runs.size() ? pragma : "", true));
    const IndexList at = unravel(inner.loops.back().index, extents);
    for (size_t i = 0; i < runs[r].size(); ++i) inner.at[runs[r][i]] = at[i];
  }
  return inner;
}

void Elements::close(Inner& inner) {
  for (auto loop = inner.loops.rbegin(); loop != inner.loops.rend(); ++loop) scopes.close(*loop);
}

}  // namespace weftc
