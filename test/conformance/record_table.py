"""A table of what records promise: each value of an attribute that has a few, each optional operand, each listed type of an
operand. An entry is covered by a case that has it, or by one that is made of such a case."""

import collections
import multiprocessing
import os
import re
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from op_schemas import NEWEST_OPSET, all_schemas

# `key` is (domain, operator); `kind` is "value", "operand" or "type". `part` is the attribute, the operand's number or the
# number of the first operand of a type variable; `value` is what it is to be.
Entry = collections.namedtuple("Entry", "key kind part value text")
# A model of one node with its inputs by name.
Base = collections.namedtuple("Base", "name key model feeds")

GIVEN, LEFT_OUT = "given", "left out"
# An evaluation that takes longer counts as missing.
SECONDS = 20
TYPES = {name: number for name, number in (
    ("float", 1), ("uint8", 2), ("int8", 3), ("uint16", 4), ("int16", 5), ("int32", 6), ("int64", 7), ("string", 8),
    ("bool", 9), ("float16", 10), ("double", 11), ("uint32", 12), ("uint64", 13), ("complex64", 14), ("complex128", 15),
    ("bfloat16", 16), ("float8e4m3fn", 17), ("float8e4m3fnuz", 18), ("float8e5m2", 19), ("float8e5m2fnuz", 20),
    ("uint4", 21), ("int4", 22), ("float4e2m1", 23), ("float8e8m0", 24), ("uint2", 25), ("int2", 26),
    ("float6e2m3", 27), ("float6e3m2", 28))}


def full_name(key):
    return f"{key[0]}.{key[1]}" if key[0] else key[1]


def records_by_key(rows):
    return {("" if row["domain"] == "ai.onnx" else row["domain"], row["name"]): row for row in rows}


def entries_of(key, record):
    """The table's entries of one operator, by its record and the newest of its schemas."""
    version = all_schemas()[key][-1]
    made = []
    for name, attribute in record["attributes"].items():
        if name in version.attributes:
            made += [(("value", name, "" if choice == "''" else choice), f"{name} = {choice}")
                     for choice in attribute.get("choices", [])]
    for number, operand in enumerate(version.inputs):
        if operand.kind == "optional":
            made += [(("operand", number, state), f"operand {operand.name} {state}") for state in (GIVEN, LEFT_OUT)]
    seen = set()
    for number, operand in enumerate(version.inputs):
        if operand.variable not in seen:
            seen.add(operand.variable)
            made += [(("type", number, kind), f"{operand.name} {kind}") for kind in sorted(operand.types)]
    return [Entry(key, *what, f"{full_name(key)} {text}") for what, text in made]


def read_base(name, path, data):
    """The case as a Base; None for models of several nodes and for inputs that are no tensors."""
    model = onnx.load(path)
    if len(model.graph.node) != 1:
        return None
    node = model.graph.node[0]
    weights = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for index, value in enumerate(value for value in model.graph.input if value.name not in weights):
        if not value.type.HasField("tensor_type"):
            return None
        array, message = data / f"input_{index}.npy", data / f"input_{index}.pb"
        feed = np.load(array) if array.exists() else numpy_helper.to_array(onnx.load_tensor(message))
        feeds[value.name] = feed.astype(object) if feed.dtype.kind == "U" else feed
    return Base(name, (node.domain, node.op_type), model, feeds)


def flags_of(base):
    """The compiler's flag for an open dim without another bound."""
    dims = [dim for value in base.model.graph.input for dim in value.type.tensor_type.shape.dim]
    return "--dim=rows<=8" if any(dim.dim_param == "rows" for dim in dims) else ""


def types_of(base):
    """{name: ONNX type} of the node's operands."""
    graph = base.model.graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    return {**types, **{tensor.name: tensor.data_type for tensor in graph.initializer}}


def operand_name(base, number):
    inputs = base.model.graph.node[0].input
    return inputs[number] if number < len(inputs) else ""


def attribute_of(base, name):
    found = [attribute for attribute in base.model.graph.node[0].attribute if attribute.name == name]
    value = helper.get_attribute_value(found[0]) if found else None
    return value.decode() if isinstance(value, bytes) else value


def has(base, entry):
    """Whether the case has what the entry asks for."""
    if entry.kind == "value":
        given = attribute_of(base, entry.part)
        attribute = all_schemas()[entry.key][-1].attributes[entry.part]
        return str(attribute.default if given is None else given) == entry.value
    name = operand_name(base, entry.part)
    if entry.kind == "operand":
        return bool(name) == (entry.value == GIVEN)
    return bool(name) and entry.value == f"tensor({dict((v, k) for k, v in TYPES.items()).get(types_of(base).get(name))})"


def copy_of(base):
    model = onnx.ModelProto()
    model.CopyFrom(base.model)
    return Base(base.name, base.key, model, dict(base.feeds))


def with_attribute(base, name, value):
    """The attribute may be one of a later opset than the case has."""
    made = copy_of(base)
    for opset in made.model.opset_import:
        if opset.domain == base.key[0]:
            opset.version = max(opset.version, all_schemas()[base.key][-1].since)
    node = made.model.graph.node[0]
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])
    return made


def without_operand(base, number):
    made = copy_of(base)
    node, graph = made.model.graph.node[0], made.model.graph
    name = node.input[number]
    node.input[number] = ""
    while node.input and not node.input[-1]:
        node.input.pop()
    if name not in node.input:
        made.feeds.pop(name, None)
        for values in (graph.input, graph.initializer):
            for index in reversed([i for i, value in enumerate(values) if value.name == name]):
                del values[index]
    return made


def converted(array, number):
    """Small whole numbers for integers, and what there is for floats."""
    dtype = helper.tensor_dtype_to_np_dtype(number)
    if number == TYPES["string"]:
        return array.astype(str).astype(object)
    if number == TYPES["bool"]:
        return array.astype(np.float64) > 0
    whole = array.astype(np.float64)
    if number in (TYPES[name] for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4",
                                           "uint4", "int2", "uint2")):
        if array.dtype.kind == "f":
            whole = np.round(whole * 4)
        whole = np.abs(whole) if "uint" in str(np.dtype(dtype)) else whole
        limit = {TYPES["int4"]: 7, TYPES["uint4"]: 15, TYPES["int2"]: 1, TYPES["uint2"]: 3}.get(number, 100)
        whole = np.clip(whole, -limit, limit)
    return whole.astype(dtype)


def with_type(base, entry):
    """The same case with another type wherever the schema has this type variable."""
    number = TYPES.get(entry.value.removeprefix("tensor(").removesuffix(")"))
    if number is None:
        return None
    made = copy_of(base)
    graph, version = made.model.graph, all_schemas()[entry.key][-1]
    node, variable = graph.node[0], version.inputs[entry.part].variable
    names = [name for name, operand in zip(node.input, along(version.inputs, len(node.input))) if operand.variable == variable]
    results = [name for name, operand in zip(node.output, along(version.outputs, len(node.output)))
               if operand.variable == variable]
    for value in [*graph.input, *graph.output]:
        if value.name in [*names, *results]:
            value.type.tensor_type.elem_type = number
    for tensor in graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(numpy_helper.from_array(converted(numpy_helper.to_array(tensor), number), tensor.name))
    for name in made.feeds:
        if name in names:
            made.feeds[name] = converted(made.feeds[name], number)
    return made


def along(operands, count):
    """The schema's operands for so many of a node: the last one may be variadic."""
    return [operands[min(index, len(operands) - 1)] for index in range(count)]


def mutant(base, entry):
    """A case that has what the entry asks for, made of one that has not; None where that is not possible."""
    if entry.kind == "value":
        kind = all_schemas()[entry.key][-1].attributes[entry.part].type
        return with_attribute(base, entry.part, int(entry.value) if kind == "int" else entry.value)
    if not operand_name(base, entry.part):
        return None
    if entry.kind == "operand":
        return without_operand(base, entry.part) if entry.value == LEFT_OUT else None
    return with_type(base, entry)


def by_runtime(base):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(base.model.SerializeToString(), options, ["CPUExecutionProvider"])
    return session.run(None, base.feeds)


def apart(evaluate, base):
    """The results of a process of its own: ONNX Runtime ends the process on some models, and the onnx package's
    evaluator does not end on some. None if there are no results."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def work():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        theirs.send(evaluate(base))

    process = context.Process(target=work)
    process.start()
    theirs.close()
    try:
        results = ours.recv() if ours.poll(SECONDS) else None
    except EOFError:
        results = None
    process.kill()
    process.join()
    return results


def by_evaluator(base):
    return ReferenceEvaluator(base.model).run(None, base.feeds)


def results_of(base):
    """By the onnx package's evaluator or ONNX Runtime, which is asked first of the domains where it sets the standard; None
    where neither computes it."""
    for evaluate in (by_runtime, by_evaluator) if base.key[0] else (by_evaluator, by_runtime):
        results = apart(evaluate, base)
        if results and all(map(is_array, results)):
            return [as_declared(result, value) for result, value in zip(results, base.model.graph.output)]
    return None


def as_declared(result, value):
    """The evaluator computes some results in another type than the schema gives them."""
    number = value.type.tensor_type.elem_type
    return result if number in (0, TYPES["string"]) else result.astype(helper.tensor_dtype_to_np_dtype(number))


def is_array(result):
    """False for sequences, and for arrays of objects that are no strings."""
    is_tensor = isinstance(result, np.ndarray)
    return is_tensor and (result.dtype != object or all(isinstance(item, str) for item in result.flat))


def write(base, results, folder):
    """The case as files that verify-many reads."""
    folder.mkdir(parents=True)
    onnx.save(base.model, folder / "model.onnx")
    for kind, arrays in (("input", base.feeds.values()), ("output", results)):
        for index, array in enumerate(arrays):
            (folder / f"{kind}_{index}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())


def draw(text, parts):
    """True for one of so many parts of all texts."""
    return zlib.crc32(text.encode()) % parts == 0


def one_node_with(key, record, name, attribute, version):
    """A model of this version's opset whose node has the attribute; whether it means anything does not matter."""
    value = {"int": 1, "float": 1.0, "string": "a", "ints": [1], "floats": [1.0], "strings": ["a"],
             "tensor": numpy_helper.from_array(np.zeros(1, np.float32))}[attribute["type"]]
    operands = [f"x{i}" for i in range(max(record["inputs"]["min"], 1))]
    node = helper.make_node(key[1], operands, ["y"], domain=key[0], **{name: value})
    inputs = [helper.make_tensor_value_info(operand, 1, [1, 1, 2, 2]) for operand in operands]
    graph = helper.make_graph([node], "one_node", inputs, [helper.make_tensor_value_info("y", 1, None)])
    opsets = {"": NEWEST_OPSET, key[0]: version.since}
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid(*item) for item in opsets.items()])
    return Base(name, key, model, {})


def read_reasons(path):
    """Lines `PATTERN: reason` as pairs, in order; those that begin with # are comments."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(": ", 1)) for line in lines]


def reason_of(entry, reasons):
    """Why nothing shows the entry, or None: the first pattern that its text fits."""
    text = entry if isinstance(entry, str) else entry.text
    return next((why for pattern, why in reasons if fits(text, pattern)), None)


def fits(text, pattern):
    """`*` stands for anything, everything else for itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
