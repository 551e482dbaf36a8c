"""A plugin for buf that writes the messages, their types and the gRPC stubs with grpcio-tools, which has no such plugin."""

import pathlib
import sys
import tempfile

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


def main() -> None:
    request = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    response = plugin_pb2.CodeGeneratorResponse(supported_features=plugin_pb2.CodeGeneratorResponse.FEATURE_PROTO3_OPTIONAL)
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder, "files.binpb")
        files.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out = pathlib.Path(folder, "out")
        out.mkdir()
        status = protoc.main(
            [
                "protoc",
                f"--descriptor_set_in={files}",
                f"--python_out={out}",
                f"--pyi_out={out}",
                f"--grpc_python_out={out}",
                *request.file_to_generate,
            ]
        )
        if status != 0:
            sys.exit(status)
        for path in sorted(out.rglob("*.py*")):
            response.file.add(name=str(path.relative_to(out)), content=path.read_text())
    sys.stdout.buffer.write(response.SerializeToString())


main()
