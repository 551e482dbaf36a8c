#!/usr/bin/env python3
"""Copy a folder of evaluation sets, with one word of each question misspelt.

The word has five letters or more, and keeps its first one. One letter is swapped with the next, left out, put in, or another.
`triskele eval` then measures what misspelt words cost.
"""

import argparse
import json
import pathlib
import random

COMMON = set("""about after again also among before being between could does doing during every from have having
    her here him his how into its just like more most much only other over said same should since some such than that
    their them then there these they this those through under until upon very want were what when where which while
    who whom whose why will with would your""".split())


def misspell(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    letter = rng.choice("etaoinshrdlu")
    return rng.choice([
        word[:at] + word[at + 1] + word[at] + word[at + 2:],
        word[:at] + word[at + 1:],
        word[:at] + letter + word[at:],
        word[:at] + letter + word[at + 1:],
    ])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path, help="folder with a sub-folder for each set")
    parser.add_argument("out", type=pathlib.Path, help="new folder for the copies")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    for queries in sorted(args.data.glob("*/queries.jsonl")):
        to = args.out / queries.parent.name
        to.mkdir(parents=True)
        for file in queries.parent.iterdir():
            if file.name != queries.name:
                (to / file.name).symlink_to(file.resolve())
        rng = random.Random(args.seed)
        changed, lines = 0, []
        for line in queries.open(encoding="utf-8"):
            query = json.loads(line)
            words = query["text"].split(" ")
            cores = [word.strip("?.,!:;\"'()") for word in words]
            places = [i for i, core in enumerate(cores) if len(core) >= 5 and core.isalpha() and core.lower() not in COMMON]
            if places:
                at = rng.choice(places)
                words[at] = words[at].replace(cores[at], misspell(cores[at], rng), 1)
                changed += words[at] != query["text"].split(" ")[at]
                query["text"] = " ".join(words)
            lines.append(json.dumps(query, ensure_ascii=False) + "\n")
        (to / queries.name).write_text("".join(lines), encoding="utf-8")
        print(f"{to.name}: {changed} of {len(lines)} questions are misspelt", flush=True)


if __name__ == "__main__":
    main()
