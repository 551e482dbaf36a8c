"""Trains a small cross-encoder and judges what it adds to the fused order: the trial in docs/adr/0062-cross-encoder.md.

    trial.py train --teacher DIR --data DIR --runs DIR --text DIR --out DIR [--minutes 45]
    trial.py judge --model DIR --data DIR --runs DIR --sets NAME,...

DATA has sets in the BEIR layout, RUNS is what `triskele eval --configs A-all --out RUNS` wrote for them, TEXT has the training pairs, and
TEACHER is a BERT model of Hugging Face, such as all-MiniLM-L6-v2, whose first layers are the start.

The process of training is:

 1. Make groups: a question, a text that answers it if there is one, and near misses. These are the best wrong candidates of the fused
    order, other memories of the same store, and answers to similar questions.
 2. Add two losses: a softmax over a group that has an answer, which cares for the order, and a logistic loss over all texts, which
    teaches that there may be no answer.
 3. Save the model as Hugging Face does. `--reranker transformer:OUT` runs it.

A judgement adds the score, times a weight, to the fused log-odds of the first ten candidates.
"""

import argparse
import collections
import gzip
import json
import math
import pathlib
import random
import time

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.feature_extraction.text import TfidfVectorizer
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

CLS, SEP = 101, 102
LAYERS, QUESTION_TOKENS, BATCH_TOKENS = 3, 48, 2400
TEN = 10
WEIGHTS = [0, 0.25, 0.5, 0.75, 1, 2]
# How many questions are taken of each kind of pair. The texts of other questions of a kind are near misses.
PAIRS = {"question-answer": 9000, "dialog-reply": 2000, "rule-question": 3000, "term-definition": 1500, "heading-para": 2500, "title-para": 800, "same-intent": 1200}
LEARNED = ["friendsqa-turn", "qmsum-turn", "musique-train100-openie"]


def read_lines(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


def read_set(data, runs, name):
    """Returns texts by id, questions by id, the ids of the answers, and the fused candidates with their probabilities."""
    docs = {d["_id"]: ". ".join(filter(None, [d.get("title"), d["text"]])) for d in read_lines(data / name / "corpus.jsonl")}
    questions = {q["_id"]: q["text"] for q in read_lines(data / name / "queries.jsonl")}
    relevant, run = collections.defaultdict(set), collections.defaultdict(list)
    for line in (data / name / "qrels.tsv").read_text().splitlines()[1:]:
        question, doc, grade = line.split("\t")[:3]
        if float(grade) > 0:
            relevant[question].add(doc)
    for line in (runs / "runs" / name / "A-all.trec").open():
        question, _, doc, _, score, _ = line.split()
        run[question].append((doc, float(score)))
    return docs, questions, relevant, run


def groups_of_set(rng, data, runs, name):
    docs, questions, relevant, run = read_set(data, runs, name)
    for question, candidates in sorted(run.items()):
        answers = sorted(d for d in relevant[question] if d in docs)
        wrong = [d for d, _ in candidates[:25] if d not in relevant[question]]
        if answers:
            texts = [rng.choice(answers)] + rng.sample(wrong, min(6, len(wrong)))
            yield questions[question], [docs[d] for d in texts], [1] + [0] * (len(texts) - 1)


def similar(texts, asked):
    """Returns, for each question, the numbers of the texts that share words with it, the most similar first."""
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english", max_features=60000)
    columns = vectors.fit_transform(texts).T.tocsr()
    for start in range(0, len(asked), 500):
        for row in vectors.transform(asked[start : start + 500]) @ columns:
            yield row.indices[np.argsort(-row.data)]


def groups_of_stores(rng, folder):
    """Stores are in the format of tests/lab/calibrate/stores. Their memories are near misses for each other."""
    stores = []
    for file in sorted(folder.glob("*.txt")):
        memories, questions = file.read_text(encoding="utf-8").strip().split("\n\n", 1)
        stores.append((memories.split("\n"), [line.split("\t", 1) for line in questions.split("\n")]))
    for at, (memories, questions) in enumerate(stores):
        other = stores[(at + 1) % len(stores)][0]
        for (numbers, question), near in zip(questions, similar(memories, [q for _, q in questions])):
            answers = [] if numbers == "-" else [int(n) - 1 for n in numbers.split(",")]
            near = [i for i in near if i not in answers][:4]
            rest = [i for i in range(len(memories)) if i not in answers and i not in near]
            wrong = near + rng.sample(rest, min(3, len(rest)))
            texts = rng.sample(answers, min(1, len(answers))) + wrong
            yield question, [memories[i] for i in texts], [1] * bool(answers) + [0] * len(wrong)
            if answers and rng.random() < 0.3:  # nothing answers it in another store
                yield question, rng.sample(other, 4), [0] * 4


def groups_of_pairs(rng, folder):
    kinds = collections.defaultdict(list)
    for file in sorted(folder.glob("pairs-*.jsonl.gz")):
        for pair in map(json.loads, gzip.open(file, "rt", encoding="utf-8")):
            if pair["k"] in PAIRS and len(pair["a"]) < 300 and 20 < len(pair["b"]) < 1200:
                kinds[pair["k"]].append((pair["a"], pair["b"]))
    for kind, most in PAIRS.items():
        pool = rng.sample(kinds[kind], min(40_000, len(kinds[kind])))
        for (asked, answer), near in zip(pool, similar([b for _, b in pool], [a for a, _ in pool[:most]])):
            wrong = [pool[i][1] for i in near[:12] if pool[i][0].lower() != asked.lower() and pool[i][1][:60] != answer[:60]]
            wrong = rng.sample(wrong, min(4, len(wrong))) + [rng.choice(pool)[1]]
            if rng.random() < 0.1:  # the answer is taken out
                yield asked, wrong, [0] * len(wrong)
            else:
                yield asked, [answer] + wrong, [1] + [0] * len(wrong)


class Pairs:
    """Turns questions with texts into token ids and segments, and these into padded tensors."""

    def __init__(self, folder, text_tokens):
        self.tokenizer, self.text_tokens = Tokenizer.from_file(str(folder / "tokenizer.json")), text_tokens
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, question, text):
        q = self.tokenizer.encode(question, add_special_tokens=False).ids[:QUESTION_TOKENS]
        t = self.tokenizer.encode(text, add_special_tokens=False).ids[: self.text_tokens]
        return [CLS, *q, SEP, *t, SEP], [0] * (len(q) + 2) + [1] * (len(t) + 1)

    @staticmethod
    def tensors(rows):
        ids = torch.zeros(len(rows), max(len(ids) for ids, _ in rows), dtype=torch.long)
        segments, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        for i, (row, segment) in enumerate(rows):
            ids[i, : len(row)], segments[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), torch.tensor(segment), 1
        return {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}


def batches(rng, groups):
    """Puts groups of similar length together, as many as BATCH_TOKENS allows."""
    out = []
    for start in range(0, len(groups), 256):
        part, batch, texts = [], [], 0
        for group in sorted(groups[start : start + 256], key=lambda g: max(len(ids) for ids, _ in g[0])):
            longest = max(len(ids) for ids, _ in group[0])
            if batch and (texts + len(group[0])) * longest > BATCH_TOKENS:
                part.append(batch)
                batch, texts = [], 0
            batch.append(group)
            texts += len(group[0])
        part.append(batch)
        rng.shuffle(part)
        out += part
    return out


def group_loss(scores, labels):
    y = torch.tensor(labels, dtype=torch.float)
    loss = 0.7 * F.binary_cross_entropy_with_logits(scores, y, reduction="sum") / (1 + math.sqrt(len(y)))
    if 0 < y.sum() < len(y):
        loss = loss + torch.logsumexp(scores, 0) - torch.logsumexp(scores[y > 0], 0)
    return loss


def train(args):
    torch.manual_seed(args.seed)
    rng = random.Random(args.seed)
    groups = list(groups_of_pairs(rng, args.text))
    for name in LEARNED:
        groups += groups_of_set(rng, args.data, args.runs, name)
    for folder in args.stores:
        groups += groups_of_stores(rng, folder)
    rng.shuffle(groups)
    pairs = Pairs(args.teacher, text_tokens=112)
    todo = batches(rng, [([pairs.encode(question, text) for text in texts], labels) for question, texts, labels in groups])
    print(f"{len(groups)} questions, {sum(len(g[1]) for g in groups)} texts, {len(todo)} steps", flush=True)
    model = BertForSequenceClassification.from_pretrained(args.teacher, num_labels=1)
    model.bert.encoder.layer = model.bert.encoder.layer[:LAYERS]
    model.config.num_hidden_layers = LAYERS
    model.train()
    head = [p for name, p in model.named_parameters() if "pooler" in name or "classifier" in name]
    body = [p for name, p in model.named_parameters() if "pooler" not in name and "classifier" not in name]
    rates = [args.rate, 3 * args.rate]
    optimizer = torch.optim.AdamW([{"params": body, "weight_decay": 0.01}, {"params": head, "weight_decay": 0}])
    began, total = time.time(), 0.0
    for step, batch in enumerate(todo, 1):
        done = max(step / len(todo), (time.time() - began) / (60 * args.minutes))
        if done >= 1:
            break
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate * min(1, step / 100) * (1 - done)
        scores = model(**pairs.tensors([row for rows, _ in batch for row in rows])).logits[:, 0]
        parts = scores.split([len(labels) for _, labels in batch])
        loss = sum(group_loss(part, labels) for part, (_, labels) in zip(parts, batch)) / len(batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        if step % 50 == 0:
            print(f"step {step} of {len(todo)}, {time.time() - began:.0f} s, loss {total / 50:.3f}", flush=True)
            total = 0.0
    model.save_pretrained(args.out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (args.out / name).write_bytes((args.teacher / name).read_bytes())


def scored(model, pairs, rows):
    """Returns the score of each row, texts of similar length together."""
    out = np.zeros(len(rows), np.float32)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]))
    with torch.no_grad():
        for start in range(0, len(order), 40):
            part = order[start : start + 40]
            out[part] = model(**pairs.tensors([rows[i] for i in part])).logits[:, 0].numpy()
    return out


def log_odds(p):
    p = min(max(p, 1e-6), 1 - 1e-6)
    return math.log(p / (1 - p))


def judge(args):
    pairs, model = Pairs(args.model, text_tokens=200), BertForSequenceClassification.from_pretrained(args.model).eval()
    print("MRR@10 by the weight of the score:", *WEIGHTS, sep=" | ")
    for name in args.sets.split(","):
        docs, questions, relevant, run = read_set(args.data, args.runs, name)
        asked = sorted(q for q in run if relevant[q])
        if args.limit:
            asked = random.Random(1).sample(asked, min(args.limit, len(asked)))
        of = [(q, d, log_odds(p)) for q in asked for d, p in run[q][:TEN]]
        scores = scored(model, pairs, [pairs.encode(questions[q], docs[d]) for q, d, _ in of])
        columns = []
        for weight in WEIGHTS:
            ranked = collections.defaultdict(list)
            for (q, d, fused), score in zip(of, scores):
                ranked[q].append((fused + weight * float(score), d))
            columns.append(np.array([
                next((1 / rank for rank, (_, d) in enumerate(sorted(ranked[q], reverse=True), 1) if d in relevant[q]), 0) for q in asked
            ]))
        cells = [f"{columns[0].mean():.3f}"]
        for column in columns[1:]:  # with the 95 % interval of the difference, by a bootstrap
            change = column - columns[0]
            low, high = np.quantile(change[np.random.default_rng(1).integers(0, len(change), (2000, len(change)))].mean(axis=1), [0.025, 0.975])
            cells.append(f"{change.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
        print(name, len(asked), *cells, sep=" | ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    here = pathlib.Path(__file__).parent
    t = commands.add_parser("train", help="train a model")
    t.set_defaults(run=train)
    t.add_argument("--teacher", type=pathlib.Path, required=True, help="folder of the model to start from")
    t.add_argument("--text", type=pathlib.Path, required=True, help="folder with pairs-*.jsonl.gz")
    t.add_argument("--stores", type=pathlib.Path, nargs="*", default=[here / "stores", here.parent / "calibrate" / "stores"], help="folders of stores to learn from")
    t.add_argument("--out", type=pathlib.Path, required=True, help="folder for the model")
    t.add_argument("--minutes", type=float, default=45, help="when to end at the latest")
    t.add_argument("--rate", type=float, default=8e-5, help="learning rate")
    t.add_argument("--seed", type=int, default=1)
    j = commands.add_parser("judge", help="say what a model adds to the fused order")
    j.set_defaults(run=judge)
    j.add_argument("--model", type=pathlib.Path, required=True, help="folder that train wrote")
    j.add_argument("--sets", required=True, help="names of sets, with commas between")
    j.add_argument("--limit", type=int, default=0, help="questions of a set; 0 means all")
    for command in (t, j):
        command.add_argument("--data", type=pathlib.Path, required=True, help="folder of sets")
        command.add_argument("--runs", type=pathlib.Path, required=True, help="folder that triskele eval wrote for them")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
