#!/usr/bin/env python3
"""Ask for everyday memories in other forms of their words, and count what is found.

forms.tsv, beside this file, has a memory and its question in each line, by kind. All memories go into one new SQLite file.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import tempfile
import time

CUT = 0.08  # from which probability hooks speak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="bin/triskele", help="the program to try (default %(default)s)")
    parser.add_argument("--address", default="127.0.0.1:7499", help="loopback address for its gateway (default %(default)s)")
    parser.add_argument("--missed", action="store_true", help="also print each question whose answer is not first, or below the cut")
    args = parser.parse_args()
    with open(pathlib.Path(__file__).with_suffix(".tsv"), newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, HOME=folder, TRISKELE_CONFIG="off")

        def call(*arguments: str, text: str = "") -> str:
            command = [args.program, *arguments, "--address", args.address]
            return subprocess.run(command, env=env, input=text, capture_output=True, text=True, check=True, timeout=60).stdout

        command = [args.program, "up", "--sqlite", f"{folder}/forms.db", "--listen", args.address]
        gateway = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 10
            while subprocess.run([args.program, "namespace", "list", "--address", args.address], env=env, capture_output=True).returncode != 0:
                if gateway.poll() is not None or time.monotonic() > until:
                    raise SystemExit("the gateway does not start")
                time.sleep(0.1)
            call("import", "--wait", "-", text="".join(json.dumps({"content": row["memory"]}) + "\n" for row in rows))
            counts: dict[str, list[int]] = {}
            for row in rows:
                hits = json.loads(call("recall", "--json", row["question"])).get("hits", [])
                found = [hit["memory"]["content"] for hit in hits]
                first = found[:1] == [row["memory"]]
                said = any(hit["memory"]["content"] == row["memory"] and hit.get("score", 0) >= CUT for hit in hits)
                count = counts.setdefault(row["kind"], [0, 0, 0])
                for i, value in enumerate((1, first, said)):
                    count[i] += value
                if args.missed and not (first and said):
                    print(f"{row['question']}: {row['memory']}")
        finally:
            gateway.terminate()
            gateway.wait()
    print("| kind | questions | first | 8 % or more |\n|---|---|---|---|")
    for kind, count in counts.items():
        print(f"| {kind} | {' | '.join(map(str, count))} |")


if __name__ == "__main__":
    main()
