"""Schemas of operators in ONNX and ONNX Runtime: operands with their types, and attributes, for each version."""

import collections
import functools

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as runtime

# kind: "single", "optional" or "variadic"; `variable` is the name of the type's constraint, or the type itself.
Operand = collections.namedtuple("Operand", "name kind variable types")
Attribute = collections.namedtuple("Attribute", "name type required default")
Version = collections.namedtuple("Version", "since inputs outputs attributes")

NEWEST_OPSET = 28
# Domains whose schemas the onnx package has, and the one that ONNX Runtime has.
DOMAINS = ["", "ai.onnx.ml", "com.microsoft"]


def kind_of(option):
    return str(option).rsplit(".", 1)[-1].rstrip(">").split(":")[0].lower()


def operand_of(parameter):
    return Operand(parameter.name, kind_of(parameter.option), getattr(parameter, "type_str", None) or parameter.typeStr,
                   frozenset(str(kind) for kind in parameter.types))


def attribute_of(attribute):
    default = None
    if isinstance(attribute, onnx.defs.OpSchema.Attribute):
        if attribute.default_value.name:
            default = onnx.helper.get_attribute_value(attribute.default_value)
            default = default.decode() if isinstance(default, bytes) else default
    return Attribute(attribute.name, str(attribute.type).rsplit(".", 1)[-1].lower(), attribute.required, default)


def version_of(schema):
    attributes = {name: attribute_of(attribute) for name, attribute in schema.attributes.items()}
    return Version(schema.since_version, [operand_of(p) for p in schema.inputs], [operand_of(p) for p in schema.outputs],
                   attributes)


@functools.cache
def all_schemas():
    """{(domain, name): versions, the oldest first}, without those newer than what Weft reads."""
    found = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS and schema.since_version <= NEWEST_OPSET and not schema.deprecated:
            found[schema.domain, schema.name].append(version_of(schema))
    for schema in runtime.get_all_operator_schema():
        if schema.domain == "com.microsoft":
            found[schema.domain, schema.name].append(version_of(schema))
    return {key: sorted(versions, key=lambda version: version.since) for key, versions in found.items()}


def version_at(versions, opset):
    """The version that a model of this opset means; None where the operator is not there yet."""
    return next((version for version in reversed(versions) if version.since <= opset), None)
