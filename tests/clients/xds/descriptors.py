"""Compares the messages that the program declares with those that Envoy publishes: descriptors.py FILE

FILE is a set of descriptors. Those of Polaris, which are not Envoy's, are left out: its SDKs read them in tests/it/polaris.
Every message, field, value of an enumeration and method in it has to be among the published
ones, with the same number, type, cardinality and choice. Each difference is a line; the last line counts what was compared.
"""

import importlib
import os
import sys

from google.protobuf import descriptor_pb2, descriptor_pool

SITE = os.path.dirname(os.path.dirname(os.path.dirname(descriptor_pb2.__file__)))
POOL = descriptor_pool.Default()


# Packages whose messages Envoy does not publish.
NOT_OF_ENVOY = ("google.protobuf", "v1")


class Comparison:
    def __init__(self):
        self.compared, self.differences = 0, []

    def expect(self, what, ours, published):
        self.compared += 1
        if ours != published:
            self.differences.append(f"{what}: {ours} here, {published} published")

    def file(self, file):
        load(file.package)
        for message in file.message_type:
            self.message(f"{file.package}.{message.name}", message)
        for enum in file.enum_type:
            self.enum(f"{file.package}.{enum.name}", enum)
        for service in file.service:
            self.service(f"{file.package}.{service.name}", service)

    def message(self, name, ours):
        try:
            published = proto_of(POOL.FindMessageTypeByName(name), descriptor_pb2.DescriptorProto())
        except KeyError:
            self.expect(name, "a message", "nothing")
            return
        self.expect(f"{name} is a map's entry", ours.options.map_entry, published.options.map_entry)
        fields = {field.name: field for field in published.field}
        for field in ours.field:
            known = fields.get(field.name)
            shape = None if known is None else shape_of(known, published)
            self.expect(f"{name}.{field.name}", shape_of(field, ours), shape)
        for inner in ours.nested_type:
            self.message(f"{name}.{inner.name}", inner)
        for enum in ours.enum_type:
            self.enum(f"{name}.{enum.name}", enum)

    def enum(self, name, ours):
        try:
            published = {value.name: value.number for value in POOL.FindEnumTypeByName(name).values}
        except KeyError:
            published = {}
        for value in ours.value:
            self.expect(f"{name}.{value.name}", value.number, published.get(value.name))

    def service(self, name, ours):
        try:
            published = proto_of(POOL.FindServiceByName(name), descriptor_pb2.ServiceDescriptorProto())
        except KeyError:
            self.expect(name, "a service", "nothing")
            return
        methods = {method.name: way_of(method) for method in published.method}
        for method in ours.method:
            self.expect(f"{name}/{method.name}", way_of(method), methods.get(method.name))


def proto_of(descriptor, into):
    descriptor.CopyToProto(into)
    return into


def shape_of(field, message):
    """All that decides about its bytes."""
    is_in_choice = field.HasField("oneof_index") and not field.proto3_optional
    choice = message.oneof_decl[field.oneof_index].name if is_in_choice else ""
    kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
    is_repeated = field.label == descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED
    return (field.number, kind, field.type_name, is_repeated, choice)


def way_of(method):
    return (method.input_type, method.output_type, method.client_streaming, method.server_streaming)


def load(package):
    """All modules of a package, into the pool."""
    folder = os.path.join(SITE, *package.split("."))
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith("_pb2.py"):
            importlib.import_module(f"{package}.{name.removesuffix('.py')}")


def main(path):
    with open(path, "rb") as file:
        declared = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    comparison = Comparison()
    for file in declared.file:
        if file.package not in NOT_OF_ENVOY:
            comparison.file(file)
    print("\n".join(comparison.differences))
    print(comparison.compared)
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
