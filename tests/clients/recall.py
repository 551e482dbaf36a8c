"""Stores a memory and recalls it. Usage: recall.py HOST:PORT"""

import sys

import grpc

from triskele.v1 import memory_pb2, memory_pb2_grpc, recall_pb2, recall_pb2_grpc


def main(address):
    with grpc.insecure_channel(address) as channel:
        memories = memory_pb2_grpc.MemoryServiceStub(channel)
        recalls = recall_pb2_grpc.RecallServiceStub(channel)

        stored = memories.Remember(memory_pb2.RememberRequest(memory=memory_pb2.Memory(
            namespace="python", content="Deploys are frozen from Thursday noon.", tags=["release"])), timeout=10)

        answer = recalls.Recall(recall_pb2.RecallRequest(
            namespaces=["python"], query="are deploys frozen on Friday?",
            at_least=[stored.revision_token]), timeout=0.5)  # the budget: legs that need longer are left out
        for hit in answer.hits:
            print(hit.rank, round(hit.score, 3), hit.memory.content)
        if answer.degraded:
            print(answer.degraded_reason)


if __name__ == "__main__":
    main(sys.argv[1])
