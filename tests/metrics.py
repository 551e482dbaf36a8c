#!/usr/bin/env python3
"""Compute the measures of an evaluation from its run files and qrels alone, and compare them with its report.

usage: tests/metrics.py DIR     the folder that `triskele eval --out DIR` wrote

It shares no code with the program: the definitions are those of trec_eval (recall, ndcg_cut with linear gains, recip_rank,
success), applied to each run sorted by score, as trec_eval does. Exits with 1 if any mean differs by more than 1e-6.
"""
import json
import math
import pathlib
import sys
from collections import defaultdict

TOLERANCE = 1e-6


def read_qrels(path):
    qrels = defaultdict(dict)
    for line in path.read_text().splitlines():
        query, _, document, grade = line.split()
        qrels[query][document] = int(grade)
    return qrels


def read_run(path):
    run = defaultdict(list)
    for line in path.read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        run[query].append((-float(score), document))
    return {query: [document for _, document in sorted(hits)] for query, hits in run.items()}


def measure(ranking, grades):
    relevant = {document for document, grade in grades.items() if grade > 0}
    hits = [document in relevant for document in ranking]
    first = next((i for i, hit in enumerate(hits[:10]) if hit), None)
    gains = [max(grades.get(document, 0), 0) / math.log2(i + 2) for i, document in enumerate(ranking[:10])]
    ideal = sorted((max(grade, 0) for grade in grades.values()), reverse=True)[:10]
    best = sum(gain / math.log2(i + 2) for i, gain in enumerate(ideal))
    out = {f"recall_at_{k}": sum(hits[:k]) / len(relevant) for k in (1, 5, 10, 50)}
    out["ndcg_at_10"] = sum(gains) / best
    out["mrr_at_10"] = 0 if first is None else 1 / (first + 1)
    out.update({f"success_at_{k}": float(any(hits[:k])) for k in (5, 10)})
    return out


def main():
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    folder = pathlib.Path(sys.argv[1])
    compared, wrong = 0, 0
    for part in json.loads((folder / "report.json").read_text())["sets"]:
        qrels = read_qrels(folder / "qrels" / f"{part['name']}.qrels")
        for config in part["configs"]:
            run = read_run(folder / "runs" / part["name"] / f"{config['name']}.trec")
            each = [measure(run.get(query, []), grades) for query, grades in qrels.items()]
            for name, reported in config["strata"][0]["metrics"].items():
                mean = sum(m[name] for m in each) / len(each)
                compared += 1
                if abs(mean - reported) > TOLERANCE:
                    wrong += 1
                    print(f"{part['name']} {config['name']} {name}: {mean:.9f}, reported {reported:.9f}")
    print(f"{compared} means compared, {wrong} differ by more than {TOLERANCE}")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
