// Scatter: the data is copied, then elements go where the indices say, in the order of the updates.
#include <algorithm>

#include "backend/kernel_text.h"
#include "backend/nest.h"
#include "ir/op_def.h"

namespace weft {

namespace {

/// "y[at] += update;" for the op's reduction.
std::string combine(const std::string& reduction, const std::string& place, const std::string& update) {
  if (reduction == "add") return place + " = " + place + " + " + update + ";";
  if (reduction == "mul") return place + " = " + place + " * " + update + ";";
  if (reduction == "max") return place + " = weft::maximum<decltype(+" + update + ")>(" + place + ", " + update + ");";
  if (reduction == "min") return place + " = weft::minimum<decltype(+" + update + ")>(" + place + ", " + update + ");";
  return place + " = " + update + ";";
}

class ScatterWriter {
 public:
  ScatterWriter(KernelContext& context, const Op& op) : context_(context), body_(context.body), op_(op) {}

  std::vector<std::string> run() {
    const size_t output = 0;
    const Formal& formal = context_.kernel.formals[static_cast<size_t>(context_.output_formal(output))];
    name_ = context_.formal_name(static_cast<size_t>(context_.output_formal(output)));
    std::vector<std::string> lines = copy_lines();
    const std::vector<std::string> updates = update_lines(formal);
    lines.insert(lines.end(), updates.begin(), updates.end());
    return lines;
  }

 private:
  /// All elements of a value, one nest; `store` gives the statement.
  template <class Store>
  std::vector<std::string> nest(const TensorType& type, const Dims& dims, Store&& store) {
    Attempt attempt;
    std::vector<std::string> lines;
    bool again = true;
    for (int round = 0; again && round < 8 && !context_.failed(); ++round) {
      Elements elements(context_, attempt);
      IndexList index;
      std::vector<LoopScopes::Open> loops;
      for (size_t d = 0; d < dims.size(); ++d) {
        Scope* under = loops.empty() ? &elements.scopes.root : &loops.back().inner();
        const std::string bound = context_.run_extent(type, static_cast<int>(d));
        loops.push_back(elements.scopes.open(under, elements.scopes.fresh_axis("i", dims[d], bound, under)));
        index.push_back(loops.back().index);
      }
      store(elements, index);
      for (auto loop = loops.rbegin(); loop != loops.rend(); ++loop) elements.scopes.close(*loop);
      again = elements.again();
      lines = elements.scopes.root.lines;
    }
    return lines;
  }

  std::vector<std::string> copy_lines() {
    const ValueId data = op_.inputs[0];
    return nest(body_.type(data), context_.dims(data), [&](Elements& elements, const IndexList& index) {
      elements.store(0, index, elements.at(data, index));
    });
  }

  /// The rank-local index of an entry, -1 where this rank does not hold it.
  std::string held_index(Elements& elements, const Element& raw, int dim) {
    const TensorType& type = body_.type(op_.inputs[0]);
    LoopScopes& scopes = elements.scopes;
    Scope* scope = scopes.current;
    const std::string extent = std::to_string(type.shape[static_cast<size_t>(dim)].bound);
    const std::string entry = scopes.names.unique("entry"), global = scopes.names.unique("at");
    scope->put("const int64_t " + entry + " = " + raw.text + ";");
    scope->put("const int64_t " + global + " = " + entry + " < 0 ? " + entry + " + " + extent + " : " + entry + ";");
    std::string held = global + " >= 0 && " + global + " < " + extent;
    const std::vector<Digit> digits = context_.digits(type, dim);
    const IndexExpr at = index_variable(global, 0, type.shape[static_cast<size_t>(dim)].bound - 1);
    const std::vector<IndexExpr> coordinates = digits_at(at, digits);
    for (size_t i = 0; i < digits.size(); ++i)
      held += " && " + coordinates[i].text() + " == " + context_.coordinate(digits[i].axis).text();
    const std::string local = scopes.names.unique("place");
    scope->put("const int64_t " + local + " = " + held + " ? " + without_digits(at, digits).text() + " : -1;");
    return local;
  }

  std::vector<std::string> update_lines(const Formal& formal) {
    const ValueId indices = op_.inputs[1], updates = op_.inputs[2];
    const bool nd = op_.kind == OpKind::ScatterND;
    const Dims dims = context_.dims(updates), index_dims = context_.dims(indices),
               data_dims = context_.dims(op_.inputs[0]);
    const std::string reduction = op_.has("reduction") ? op_.text("reduction") : "none";
    return nest(body_.type(updates), dims, [&](Elements& elements, const IndexList& index) {
      IndexList to = index;
      std::vector<std::string> places;
      if (nd) {
        const size_t tuple = static_cast<size_t>(index_dims.back()), lead = index_dims.size() - 1;
        to.assign(data_dims.size(), 0);
        for (size_t t = 0; t < tuple; ++t) {
          IndexList at(index.begin(), index.begin() + static_cast<long>(lead));
          at.push_back(static_cast<int64_t>(t));
          places.push_back(held_index(elements, elements.at(indices, at), static_cast<int>(t)));
          to[t] = index_variable(places.back(), 0, data_dims[t] - 1);
        }
        for (size_t d = tuple; d < data_dims.size(); ++d) to[d] = index[lead + d - tuple];
      } else {
        const size_t axis = static_cast<size_t>(op_.integer("axis"));
        places.push_back(held_index(elements, elements.at(indices, index), static_cast<int>(axis)));
        to[axis] = index_variable(places.back(), 0, data_dims[axis] - 1);
      }
      std::string held;
      for (const std::string& place : places) held += (held.empty() ? "" : " && ") + place + " >= 0";
      const std::string type = compute_type(formal.type.dtype);
      const std::string update = elements.scopes.names.unique("update");
      elements.scopes.current->put("const " + type + " " + update + " = " + elements.at(updates, index).text + ";");
      const std::string place = name_ + "[" + elements.scopes.text(context_.offset(formal, to)) + "]";
      elements.scopes.current->put("if (" + held + ") " + combine(reduction, place, update));
    });
  }

  KernelContext& context_;
  const Graph& body_;
  const Op& op_;
  std::string name_;
};

}  // namespace

std::vector<std::string> write_scatter(KernelContext& context) {
  const Graph& body = context.body;
  OpId scatter;
  for (OpId id : body.order())
    if (body.op(id).kind == OpKind::ScatterElements || body.op(id).kind == OpKind::ScatterND) scatter = id;
  const Op& op = body.op(scatter);
  if (body.outputs().size() != 1 || body.outputs()[0].value != op.outputs[0]) {
    context.refuse("kernel-scatter-unsupported", op, "a scatter whose result is used in the same kernel");
    return {};
  }
  return ScatterWriter(context, op).run();
}

}  // namespace weft
