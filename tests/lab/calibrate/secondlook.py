"""Compares questions with the texts of the fusion's first candidates once more, and writes what that gives and takes.

The process is:

 1. Read what fusionfeatures recorded with --texts, and the fusion's models that have not seen one set each.
 2. For the first candidates of each answered question compute MaxSim (Khattab and Zaharia, ColBERT, SIGIR 2020): the sum over the
    question's tokens of the best cosine with a token of the candidate, each weighted by its idf in the namespace, the weights'
    sum being 1. Tokens have the vectors of a sentence-transformers model in ONNX, or those of the built-in embedder.
 3. Add it, times a weight, to the fusion's log-odds of the first 5, 10, 20 or 30 candidates, which stay before the others.
    The weight is chosen on the other development sets of the same kind, with or without threads; LoCoMo chooses nothing.
 4. Time what a question costs on one core, and write the report.
"""

import argparse
import json
import pathlib
import re
import time

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import train

SETS = ["brainbench-world", "factconsolidation-64k", "friendsqa-turn", "musique-train100-openie", "qmsum-turn", "scifact-test", "locomo-turn"]
DEPTHS, WEIGHTS = [5, 10, 20, 30], [0, 1, 2, 5, 10, 15, 20]
LONGEST = 192  # tokens of a text
BATCH = 1536  # tokens
TIMED = 10  # questions


class Encoder:
    """A transformer. Each token of a text gets a vector that depends on the tokens around it."""

    def __init__(self, folder):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        model = next(f for f in (folder / "model_int8.onnx", folder / "model.onnx") if f.exists())
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def tokens(self, texts):
        return [np.array(e.ids[1:-1], np.int64) for e in self.tokenizer.encode_batch(texts)]

    def vectors(self, texts):
        ids = [e.ids for e in self.tokenizer.encode_batch(texts)]
        out, order, i = [None] * len(ids), sorted(range(len(ids)), key=lambda k: len(ids[k])), 0
        while i < len(order):
            j = i + 1
            while j < len(order) and (j - i + 1) * len(ids[order[j]]) <= BATCH:
                j += 1
            part = order[i:j]
            given = np.zeros((len(part), len(ids[part[-1]])), np.int64)
            mask = np.zeros_like(given)
            for row, k in enumerate(part):
                given[row, :len(ids[k])], mask[row, :len(ids[k])] = ids[k], 1
            hidden = self.session.run(None, {"input_ids": given, "attention_mask": mask, "token_type_ids": np.zeros_like(given)})[0]
            for row, k in enumerate(part):
                v = hidden[row, 1:len(ids[k]) - 1]
                out[k] = (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float16)
            i = j
        return out


class Words:
    """The built-in embedder's words. A word without a row is like itself alone: its spelling is not compared."""

    def __init__(self, file):
        data = file.read_bytes()
        words, columns = np.frombuffer(data[4:12], "<u4").tolist()
        lengths = np.frombuffer(data[20:20 + words], np.uint8)
        ends, at = np.cumsum(lengths), 20 + words + int(lengths.sum())
        text = data[20 + words:at]
        self.known = {text[e - n:e].decode(): i for i, (e, n) in enumerate(zip(ends.tolist(), lengths.tolist()))}
        rows = np.frombuffer(data[at + 4 * words:], np.int8).reshape(words, columns).astype(np.float32)
        self.rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def tokens(self, texts):
        return [np.array([self.known.setdefault(w, len(self.known)) for w in map(stem, re.findall("[a-z0-9]+", t.lower()))], np.int64) for t in texts]

    def cosines(self, asked, told):
        """The cosines of two texts' words."""
        n = len(self.rows)
        similar = np.where(told < n, 1, 0)[:, None] * self.rows[np.minimum(told, n - 1)] @ (np.where(asked < n, 1, 0)[:, None] * self.rows[np.minimum(asked, n - 1)]).T
        return np.where(told[:, None] == asked, 1, np.clip(similar, 0, 1))


def stem(word):
    """As services/embed/tokens cuts endings."""
    if len(word) < 4 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4 or word.endswith(("sses", "xes", "ches", "shes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in () if word.endswith("eed") else ("ing", "ed"):
        cut = word.removesuffix(ending)
        if 3 <= len(cut) < len(word) and re.search("[aeiouy]", cut):
            word = cut[:-1] if cut[-1] == cut[-2] and cut[-1] not in "aeiouls" else cut
            break
    return word[:-1] if len(word) > 3 and word[-1] in "eyi" else word


class Set:
    """The answered questions of a set, with the first candidates by a fusion that has not seen it."""

    def __init__(self, features, models, name):
        self.name, self.source = name, train.Source(features, name)
        self.memories = [json.loads(line) for line in (features / f"{name}.memories.jsonl").open()]
        self.texts = [f"{m['title']}\n{m['text']}" if m["title"] else m["text"] for m in self.memories]
        self.threaded = bool(self.memories[0]["thread"])
        self.log_odds = log_odds(self.source, json.loads((models / f"{name}.json").read_text()))
        self.questions = []  # text, namespace, rows and memories of the first candidates, the best one first
        for i, q in enumerate(self.source.questions):
            if q["legs"] == "ldg" and q["sort"] == "answered" and q["relevant"] > 0 and q["rows"] > 0:
                rows = self.source.ends[i] + np.argsort(-self.log_odds[self.source.ends[i]:self.source.ends[i + 1]], kind="stable")[:DEPTHS[-1]]
                self.questions.append((q["text"], q["namespace"], rows, [q["candidates"][r - self.source.ends[i]] for r in rows]))

    def weights_of(self, tokens):
        """The idf of every token, by namespace."""
        inside = {}
        for m, ids in zip(self.memories, tokens):
            inside.setdefault(m["namespace"], []).append(np.unique(ids))
        size = 1 + max(ids.max(initial=0) for ids in tokens)
        counts = {name: (len(lists), np.bincount(np.concatenate(lists), minlength=size)) for name, lists in inside.items()}
        return {name: np.log(1 + (n - c + 0.5) / (c + 0.5)) for name, (n, c) in counts.items()}

    def similarities(self, tokens, cosines):
        """MaxSim by row, and 0 where there is none. cosines(question, memory) has a row for each token of the memory."""
        told = tokens(self.texts)
        idf, asked = self.weights_of(told), tokens([q[0] for q in self.questions])
        out = np.zeros(len(self.source.rows))
        for k, (_, namespace, rows, memories) in enumerate(self.questions):
            rare = idf[namespace]
            weight = np.where(asked[k] < len(rare), rare[np.minimum(asked[k], len(rare) - 1)], rare.max())
            for row, memory in zip(rows, memories):
                if len(asked[k]) and len(told[memory]):
                    out[row] = cosines(k, memory, asked[k], told[memory]).max(axis=0) @ weight / weight.sum()
        return out

    def measure(self, similarity, depth, weight):
        """The metrics by question when the first depth candidates get similarity times weight more."""
        score = self.log_odds.copy()
        for _, _, rows, _ in self.questions:
            first = rows[:depth]
            score[first] += weight * similarity[first]
            rest = rows[depth:]
            score[rest] += min(score[first].min() - score[rest].max(initial=-np.inf), 0) - 1e-6
        return train.measure(self.source, score)


def log_odds(source, model):
    out = np.full(len(source.rows), float(model["bias"]))
    for t in model["terms"]:
        present, low, high = t.get("present"), t.get("low"), t.get("high")
        term = (t["feature"], None if present else low, high, t.get("with", ""))
        out += t["weight"] * source.design([term], source.rows)[:, 0]
    return out


def by_transformer(encoder, one):
    needed = sorted({m for q in one.questions for m in q[3]})
    at = {m: i for i, m in enumerate(needed)}
    asked, told = encoder.vectors([q[0] for q in one.questions]), encoder.vectors([one.texts[m] for m in needed])
    return one.similarities(encoder.tokens, lambda k, m, _a, _t: told[at[m]].astype(np.float32) @ asked[k].astype(np.float32).T)


def milliseconds(encoder, one, depth):
    """Processor time of a question and its candidates on one core: the median, and the tokens."""
    spent, tokens = [], []
    for text, _, _, memories in one.questions[::max(1, len(one.questions) // TIMED)][:TIMED]:
        texts = [text] + [one.texts[m] for m in memories[:depth]]
        began = time.process_time()
        encoder.vectors(texts)
        spent.append(1000 * (time.process_time() - began))
        tokens.append(sum(map(len, encoder.tokens(texts))))
    return float(np.median(spent)), int(np.median(tokens))


def choose(sets, judged, similarity, depth):
    """The weight that is best on the other development sets of the same kind."""
    others = [s for s in sets if s is not judged and s.name not in train.JUDGES_ONLY and s.threaded == judged.threaded]
    return max(WEIGHTS, key=lambda w: np.mean([s.measure(similarity[s.name], depth, w)[:, 0].mean() for s in others]) if others else -w)


def table(sets, similarity):
    lines = []
    for one in sets:
        plain = one.measure(similarity[one.name], DEPTHS[-1], 0)
        lines.append(f"| {one.name} | {len(plain)} | as fused | | {plain[:, 0].mean():.3f} | | {plain[:, 1].mean():.3f} | {plain[:, 4].mean():.3f} |")
        for depth in DEPTHS:
            weight = choose(sets, one, similarity, depth)
            with_it = one.measure(similarity[one.name], depth, weight)
            low, high = train.interval(with_it[:, 0] - plain[:, 0])
            lines.append(f"| | | first {depth} | {weight} | {with_it[:, 0].mean():.3f} | {low:+.3f} … {high:+.3f} | {with_it[:, 1].mean():.3f} | {with_it[:, 4].mean():.3f} |")
    print("\n".join(lines), flush=True)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=pathlib.Path, required=True, help="folder that fusionfeatures --texts wrote")
    parser.add_argument("--models", type=pathlib.Path, required=True, help="folder with the fusion's models that have not seen one set each")
    parser.add_argument("--encoder", type=pathlib.Path, required=True, help="folder with model.onnx or model_int8.onnx, and tokenizer.json")
    parser.add_argument("--words", type=pathlib.Path, default="services/embed/static/model.bin", help="the built-in embedder")
    parser.add_argument("--sets", default=",".join(SETS), help="sets to judge")
    parser.add_argument("--report", type=pathlib.Path, required=True, help="file for the report")
    args = parser.parse_args()
    sets = [Set(args.features, args.models, name) for name in args.sets.split(",")]
    words, encoder = Words(args.words), Encoder(args.encoder)
    static = {s.name: s.similarities(words.tokens, lambda _k, _m, a, t: words.cosines(a, t)) for s in sets}
    cells = {"static": table(sets, static)}
    transformer = {s.name: by_transformer(encoder, s) for s in sets}
    cells["transformer"] = table(sets, transformer)
    cells["costs"] = "\n".join(
        f"| {s.name} | " + " | ".join("%.0f ms, %d" % milliseconds(encoder, s, depth) for depth in DEPTHS) + " |" for s in sets
    )
    args.report.write_text(REPORT.format(**cells))


HEAD = "| set | questions | | weight | nDCG@10 | difference | recall@5 | MRR@10 |\n|---|---|---|---|---|---|---|---|"
REPORT = f"""# A second look, measured

`make second-look` wrote this, by [a plan](plans/second-look.md). MaxSim times a weight is added to the fusion's log-odds of the first candidates. The
fusion has not seen the set, and the weight is the best of the other development sets of its kind, with or without threads. The interval is the 95 %
bootstrap of the difference in nDCG@10.

## Word vectors of the built-in embedder
{HEAD}
{{static}}

## Token vectors of the transformer
{HEAD}
{{transformer}}

Processor time of the transformer for a question and its first 5, 10, 20 and 30 candidates, on one core, and how many tokens these are (medians):

| set | 5 | 10 | 20 | 30 |
|---|---|---|---|---|
{{costs}}
"""

if __name__ == "__main__":
    main()
