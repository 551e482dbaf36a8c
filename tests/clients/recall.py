"""Stores a memory and recalls it. Usage: recall.py HOST:PORT"""

import sys

from triskele import Client


def main(address: str) -> None:
    with Client(address) as client:
        stored = client.remember("python", "Deploys are frozen from Thursday noon.", tags=["release"])

        answer = client.recall(
            "python", "are deploys frozen on Friday?", limit=3, at_least=[stored.revision_token],
            timeout=0.5)  # the budget: legs that need longer are left out
        for hit in answer.hits:
            print(hit.rank, round(hit.score, 3), hit.memory.content)
        if answer.degraded:
            print(answer.degraded_reason)


if __name__ == "__main__":
    main(sys.argv[1])
