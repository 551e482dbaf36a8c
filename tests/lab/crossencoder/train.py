"""Trains the cross-encoder, packs it for the program, and judges what it adds to the fused order: docs/adr/0065-built-in-reranker.md.

    train.py train --start DIR --text DIR --out DIR
    train.py pack --model DIR --out DIR
    train.py judge --model DIR --data DIR --runs DIR --sets NAME,...

START is a BERT model of Hugging Face, such as all-MiniLM-L6-v2. TEXT has the training pairs. DATA has sets in the BEIR layout, and RUNS is
what `triskele eval --configs A-all --out RUNS` wrote for them.

The process is:

 1. Read pairs of a question and its answer, and stores: memories, and questions with the numbers of the memories that answer them.
 2. Find near misses. For a pair, these are answers to other questions, close by START's vectors or by shared word pieces. For a store,
    these are its other memories, the closest first.
 3. Draw groups: an answer first, if there is one, then near misses. The share of groups from stores grows from a quarter to nine tenths.
 4. Train all layers on the sum of two losses. A softmax over a group that has an answer cares for the order. A logistic loss over all
    texts teaches that there may be no answer. The table of words stays as it is. The learning rate falls to zero when time is over.
 5. Judge the model by the stores that are held out of training, and write it as Hugging Face does.
 6. Pack it: tables and matrices become eight-bit integers, with a scale for each row. The program embeds this folder.

A judgement adds W times the sigmoid of the score to the fused log-odds of the first ten candidates.
"""

import argparse
import collections
import gzip
import json
import math
import pathlib
import queue
import random
import threading
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification, logging

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CUDA = DEVICE == "cuda"
CLS, SEP = 101, 102
QT, TT = 32, 176  # tokens of a question and of a text, in training
GROUP, NEG = 8, 16  # texts of a group; near misses of a question of a pair
TOKENS = 65536 if CUDA else 2048  # of a batch
STEP = 1024 if CUDA else 32  # pairs scored at once, in judgements
POOL = 4096  # questions drawn at once, for batches of similar length
RATE, HEAD_RATE, DROPOUT, WARM_UP = 1.5e-4, 2, 0.1, 200  # HEAD_RATE multiplies the rate of the two last layers
LOGISTIC, OF_PAIRS = 0.2, 0.3  # weight of the logistic loss; a pair's near miss may be right, so it counts less
NO_ANSWER = 0.05  # share of pairs whose answer is left out
# How many pairs are taken of each kind. The answers to other questions of a kind are near misses.
MOST = {"question-answer": 19000, "title-para": 16900, "heading-para": 50000, "rule-question": 20000, "term-definition": 11700, "title-desc": 6700,
        "desc-para": 4800, "dialog-reply": 3400, "same-intent": 12000, "wn-lemma-gloss": 20000, "paraphrase": 4000, "adjacent-sentence": 20000}
TEN, WEIGHTS = 10, [1, 2, 3]
FIRST_WORD = 1996  # BERT's words have the order of their frequency from here on
JUDGED_QT, WIN, BEGIN, STRIDE = 48, 160, 20, 20  # tokens of a judged question, of a passage, of a text's begin in it, between passages
CONFIG = "model_type hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings type_vocab_size layer_norm_eps hidden_act"
FAST = torch.autocast(DEVICE, torch.bfloat16, enabled=CUDA)
START = time.time()

Store = collections.namedtuple("Store", "file held_out memories questions")
Question = collections.namedtuple("Question", "text answers wrong of_store")  # texts are numbers


def say(*words):
    print(f"[{time.time() - START:6.1f}]", *words, flush=True)


def read_model(folder):
    """Returns BERT with one score. The table of words is frozen, since training sees too few of the words. Dropout is in the layers only."""
    model = BertForSequenceClassification.from_pretrained(
        folder, num_labels=1, dtype=torch.float32, hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=0, classifier_dropout=0
    )
    model.bert.embeddings.dropout.p = 0
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return model.to(DEVICE).eval()


def read_tokens(folder, texts):
    """Returns the ids of each text's tokens."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    parts = (texts[s : s + 10_000] for s in range(0, len(texts), 10_000))
    return [e.ids for part in parts for e in tokenizer.encode_batch(part, add_special_tokens=False)]


def read_pairs(folder, rng):
    """Returns, by kind, pairs of a question and an answer."""
    kinds = collections.defaultdict(list)
    for file in sorted(folder.glob("pairs-*.jsonl.gz")):
        for pair in map(json.loads, gzip.open(file, "rt", encoding="utf-8")):
            if pair["k"] in MOST and len(pair["a"]) < 300 and len(pair["b"]) > 20:
                kinds[pair["k"]].append((pair["a"], pair["b"][:450]))
    return {kind: sorted(rng.sample(kinds[kind], min(most, len(kinds[kind])))) for kind, most in MOST.items() if kinds[kind]}


def read_stores(folder):
    """Yields the stores of a folder. A file has one store, or several that begin with a line "= NAME" or "= NAME held out"."""
    for file in sorted(folder.glob("*.txt")):
        text = file.read_text(encoding="utf-8")
        if not text.startswith("= "):
            text = f"= {file.stem}\n{text}"
        for store in ("\n" + text).split("\n= ")[1:]:
            name, rest = store.split("\n", 1)
            memories, lines = rest.strip().split("\n\n", 1)
            questions = [line.split("\t", 1) for line in lines.split("\n")]
            answers = [[] if numbers == "-" else [int(n) - 1 for n in numbers.split(",")] for numbers, _ in questions]
            yield Store(file.stem, name.endswith(" held out"), memories.split("\n"), list(zip(answers, (q for _, q in questions))))


class Texts:
    """The tokens of all texts, on the device. A text is a number."""

    def __init__(self, tokens, question_tokens):
        self.question_tokens, self.sizes = question_tokens, np.array([min(len(t), TT) for t in tokens])
        ids = np.zeros((len(tokens), TT), np.int32)
        for row, text in zip(ids, tokens):
            row[: len(text)] = text[:TT]
        self.ids, self.device_sizes = torch.tensor(ids, device=DEVICE), torch.tensor(self.sizes, device=DEVICE)
        often = torch.bincount(self.ids[self.ids > 0].long()).float().clamp(min=1)
        self.rarity = torch.log(len(tokens) / often).clamp(min=0)

    def longest(self, questions, texts):
        return np.minimum(self.sizes[questions], self.question_tokens) + self.sizes[texts].max(1) + 3

    def words(self, numbers):
        """Returns a unit vector of each text's word pieces, rare ones weighing more."""
        out = torch.zeros(len(numbers), len(self.rarity), device=DEVICE).scatter_(1, self.ids[numbers].long(), 1.0)
        out[:, 0] = 0
        return F.normalize(out * self.rarity, dim=1)

    @torch.no_grad()
    def vectors(self, model):
        """Returns the mean of the model's vectors of each text's tokens, as a unit vector."""
        out = torch.zeros(len(self.sizes), model.config.hidden_size, device=DEVICE)
        for part in torch.tensor(np.argsort(self.sizes, kind="stable"), device=DEVICE).split(2048 if CUDA else 64):
            size = self.device_sizes[part]
            ids = F.pad(self.ids[part, : int(size.max())].long(), (1, 1))
            ids[:, 0] = CLS
            ids[torch.arange(len(part), device=DEVICE), size + 1] = SEP
            valid = torch.arange(ids.shape[1], device=DEVICE)[None] < (size + 2)[:, None]
            with FAST:
                x = model.bert(ids, attention_mask=valid.long()).last_hidden_state
            out[part] = F.normalize((x.float() * valid[:, :, None]).sum(1), dim=1)
        return out

    def score(self, model, questions, texts):
        """Returns the scores of each question [n] with each of its texts [n, g]."""
        q = torch.tensor(questions, device=DEVICE).repeat_interleave(texts.shape[1])
        t = torch.tensor(texts, device=DEVICE).flatten()
        middle = self.device_sizes[q].clamp(max=self.question_tokens)[:, None] + 1  # where the first SEP is
        end = middle + self.device_sizes[t][:, None] + 1
        at = torch.arange(-(-(int(end.max()) + 1) // 8) * 8, device=DEVICE).expand(len(q), -1)
        of_question = self.ids[q].gather(1, (at - 1).clamp(0, TT - 1))
        of_text = self.ids[t].gather(1, (at - middle - 1).clamp(0, TT - 1))
        ids = torch.where(at < middle, of_question, torch.where(at < end, of_text, 0)).long()
        ids[:, 0] = CLS
        ids[(at == middle) | (at == end)] = SEP
        segments = ((at > middle) & (at <= end)).long()
        with FAST:
            return model(ids, attention_mask=(at <= end).long(), token_type_ids=segments).logits.float().view(texts.shape)

    @torch.no_grad()
    def scores(self, model, questions, texts):
        """Returns the score of each question [n] with its text [n]. Pairs of similar length are scored together."""
        out, order = np.zeros(len(texts), np.float32), np.argsort(self.longest(questions, texts[:, None]), kind="stable")
        for part in np.split(order, range(STEP, len(order), STEP)):
            out[part] = self.score(model, questions[part], texts[part, None])[:, 0].cpu().numpy()
        return out


def near_misses(texts, vectors, asked, answers):
    """Returns, for each pair of a kind, NEG answers to other questions: half close by their vectors, half by shared word pieces.

    An answer about as close to the question as its own may be right as well. It is no near miss, nor is an answer to the same question.
    """
    asked, answers, out = torch.tensor(asked, device=DEVICE), torch.tensor(answers, device=DEVICE), []
    shelves = [texts.words(part).to_sparse_csr() for part in answers.split(4096)]
    for own in torch.arange(len(asked), device=DEVICE).split(256):
        near = vectors[asked[own]] @ vectors[answers].T
        words = texts.words(asked[own]).T.contiguous()
        shared = torch.cat([shelf @ words for shelf in shelves]).T
        right = near >= near.gather(1, own[:, None]) * 0.95 + 0.02
        right |= (answers[None] == answers[own][:, None]) | (asked[None] == asked[own][:, None])
        closest = [by.masked_fill(right, -9).topk(min(NEG // 2, len(asked)), 1).indices for by in (near, shared)]
        out += list(answers[torch.cat(closest, 1)].cpu().numpy())
    return out


def forever(rng, items):
    """Yields each item once, in random order, before any comes again."""
    while True:
        for i in rng.permutation(len(items)):
            yield items[i]


def group(rng, question):
    """Returns GROUP texts, and whether the first is an answer. Most wrong texts of a store are of its ten closest, and some are not."""
    answer = bool(question.answers) and (question.of_store or rng.random() >= NO_ANSWER)
    take = [question.answers[rng.integers(len(question.answers))]] if answer else []
    near, far = np.split(question.wrong, [10 if question.of_store else len(question.wrong)])
    take += list(rng.choice(near, min(len(near), GROUP - len(take) - 2 * question.of_store), replace=False))
    take += list(rng.choice(far, min(len(far), GROUP - len(take)), replace=False))
    take += [question.wrong[rng.integers(len(question.wrong))] for _ in range(GROUP - len(take))]
    return take, answer


def batches(rng, texts, questions, pool, done):
    """Yields questions [n], texts [n, GROUP], labels and kinds for ever. `done` says how far the training is, from 0 to 1."""
    kinds = [forever(rng, [q for q in questions if q.of_store == kind]) for kind in (False, True)]
    while True:
        share = 0.25 + 0.65 * min(1, done())
        drawn = [next(kinds[rng.random() < share]) for _ in range(pool)]
        rows, labels = map(np.array, zip(*(group(rng, q) for q in drawn)))
        asked, of_store = np.array([q.text for q in drawn]), np.array([q.of_store for q in drawn])
        longest, parts = texts.longest(asked, rows), [[]]
        for i in np.argsort(longest):
            if parts[-1] and (len(parts[-1]) + 1) * GROUP * longest[i] > TOKENS:
                parts.append([])
            parts[-1].append(i)
        for i in rng.permutation(len(parts)):
            yield asked[parts[i]], rows[parts[i]], labels[parts[i]], of_store[parts[i]]


def ahead(items):
    """Yields the items. A thread makes them ahead, so that the device need not wait."""
    ready = queue.Queue(16)
    threading.Thread(target=lambda: [ready.put(item) for item in items], daemon=True).start()
    while True:
        yield ready.get()


def losses(scores, labels, of_store):
    y = torch.zeros_like(scores)
    y[:, 0] = labels
    logistic = F.binary_cross_entropy_with_logits(scores, y, reduction="none").sum(1) * torch.where(of_store, 1.0, OF_PAIRS)
    softmax = -F.log_softmax(scores, 1)[:, 0]
    return LOGISTIC * logistic.mean() + (softmax * labels).sum() / labels.sum().clamp(min=1)


def fit(model, texts, questions, args):
    model.train()
    head = [p for name, p in model.named_parameters() if name.startswith(("bert.pooler", "classifier"))]
    body = [p for name, p in model.named_parameters() if not name.startswith(("bert.pooler", "classifier")) and p.requires_grad]
    parts = [{"params": body, "times": 1}, {"params": head, "times": HEAD_RATE}]
    optimizer = torch.optim.AdamW(parts, lr=RATE, weight_decay=0.01, betas=(0.9, 0.98), fused=CUDA)
    began, step, seen, total, every = time.time(), 0, 0, torch.zeros((), device=DEVICE), 200 if CUDA else 5
    draw = batches(np.random.default_rng(args.seed), texts, questions, 64 if args.small else POOL, lambda: (time.time() - began) / args.seconds)
    for asked, others, labels, of_store in ahead(draw):
        done = (time.time() - began) / args.seconds
        if done >= 1:
            break
        step += 1
        for part in optimizer.param_groups:
            part["lr"] = RATE * part["times"] * min(1, step / WARM_UP) * (1 - done)
        labels, of_store = torch.tensor(labels, device=DEVICE).float(), torch.tensor(of_store, device=DEVICE)
        loss = losses(texts.score(model, asked, others), labels, of_store)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(body + head, 1.0)
        optimizer.step()
        total += loss.detach()
        seen += others.size
        if step % every == 0:
            say(f"step {step}, {done:.0%} of the time, {seen} texts, loss {total.item() / every:.3f}")
            total.zero_()
    say(step, "steps,", seen, "texts")


def judge_held_out(name, held_out, score):
    """Prints MRR and the share of answers in first place, and how well a question's best score says that there is an answer.

    The AUC is for all limits. "Said at 5 %" is the share of answered questions above a limit that 5 % of the unanswered ones exceed.
    """
    ranks, yes, no = collections.defaultdict(list), [], []
    for store in held_out:
        asked = np.array([q for _, q in store.questions])
        scores = score(asked.repeat(len(store.memories)), np.tile(store.memories, len(asked))).reshape(len(asked), -1)
        for (answers, _), row in zip(store.questions, scores):
            (yes if answers else no).append(row.max())
            if answers:
                ranks[store.file].append(1 / (1 + (np.delete(row, answers) >= row[answers].max()).sum()))
    mrr, yes, no = np.concatenate(list(ranks.values())), np.array(yes), np.array(no)
    auc = (yes[:, None] > no).mean() + 0.5 * (yes[:, None] == no).mean()
    said = (yes > np.quantile(no, 0.95)).mean()
    by_file = ", ".join(f"{file} {np.mean(r):.3f}" for file, r in ranks.items())
    say(f"held out, by {name}: MRR {mrr.mean():.3f}, first {(mrr == 1).mean():.3f}, AUC {auc:.3f}, said at 5 % {said:.3f}. MRR by file: {by_file}")


def train(args):
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    warnings.filterwarnings("ignore", "Sparse CSR")
    pairs, stores = read_pairs(args.text, random.Random(args.seed)), [s for folder in args.stores for s in read_stores(folder)]
    held_out, stores = [s for s in stores if s.held_out], [s for s in stores if not s.held_out]
    if not (pairs and stores and held_out):
        raise SystemExit("train needs pairs, stores, and stores that are held out")
    if args.small:
        pairs, stores, held_out = {kind: pairs[kind][:60] for kind in list(pairs)[:3]}, stores[::32], held_out[::32]
    number = collections.defaultdict(lambda: len(number))
    pairs = [([number[a] for a, _ in kind], [number[b] for _, b in kind]) for kind in pairs.values()]
    for part in (stores, held_out):
        part[:] = [s._replace(memories=np.array([number[m] for m in s.memories]), questions=[(a, number[q]) for a, q in s.questions]) for s in part]
    texts, model = Texts(read_tokens(args.start, list(number)), QT), read_model(args.start)
    say(f"{len(texts.sizes)} texts, {texts.sizes.sum()} tokens, {len(stores)} stores, {len(held_out)} stores held out")
    vectors = texts.vectors(model)
    questions = []
    for asked, answers in pairs:
        questions += [Question(q, [a], wrong, False) for q, a, wrong in zip(asked, answers, near_misses(texts, vectors, asked, answers))]
    say(f"{len(questions)} questions of pairs")
    for store in stores:
        for answers, q in store.questions:
            near = (vectors[store.memories] @ vectors[q]).cpu().numpy()
            near[answers] = -9
            wrong = store.memories[np.argsort(-near)[: len(near) - len(set(answers))]]
            questions.append(Question(q, list(store.memories[answers]), wrong, True))
    say(f"{len(questions)} questions of pairs and stores")
    judge_held_out("vectors", held_out, lambda q, m: (vectors[q] * vectors[m]).sum(1).cpu().numpy())
    fit(model, texts, questions, args)
    model.eval().half().save_pretrained(args.out)
    (args.out / "tokenizer.json").write_bytes((args.start / "tokenizer.json").read_bytes())
    judge_held_out("the model", held_out, lambda q, m: texts.scores(model.float(), q, m))


def pack(args):
    """Writes the same bytes for the same model: the writer of safetensors sorts by type, then by name."""
    args.out.mkdir(parents=True, exist_ok=True)
    packed = {}
    for name, array in sorted(load_file(args.model / "model.safetensors").items()):
        array = array.astype(np.float32)
        if array.ndim == 2:
            scale = np.abs(array).max(1) / np.float32(127)
            packed[name + ".scale"] = scale
            array = np.rint(array / np.where(scale > 0, scale, 1)[:, None]).astype(np.int8)
        packed[name] = array
    save_file(packed, args.out / "model.safetensors")
    config = json.loads((args.model / "config.json").read_text())
    (args.out / "config.json").write_text(json.dumps({key: config[key] for key in CONFIG.split()}, indent=1) + "\n")
    ids = json.loads((args.model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    (args.out / "vocab.txt").write_text("".join(token + "\n" for token in sorted(ids, key=ids.get)), encoding="utf-8")


def read_set(data, runs, name):
    """Returns texts by id, questions by id, the grades of the answers, and the first ten fused candidates with their probabilities."""
    corpus, queries = ([json.loads(line) for line in (data / name / f"{x}.jsonl").open(encoding="utf-8")] for x in ("corpus", "queries"))
    docs, questions = {d["_id"]: ". ".join(filter(None, [d.get("title"), d["text"]])) for d in corpus}, {q["_id"]: q["text"] for q in queries}
    grades, run = collections.defaultdict(dict), collections.defaultdict(list)
    for line in (data / name / "qrels.tsv").read_text().splitlines()[1:]:
        question, doc, grade = line.split("\t")[:3]
        if float(grade) > 0:
            grades[question][doc] = float(grade)
    for line in (runs / "runs" / name / "A-all.trec").open():
        question, _, doc, _, score, _ = line.split()
        if len(run[question]) < TEN:
            run[question].append((doc, float(score)))
    return docs, questions, grades, run


def window(question, text):
    """Returns a text's tokens. A long text gives its first tokens, and the passage that shares most rare tokens with the question."""
    if len(text) <= WIN:
        return text
    best, at, last = -1, 0, 0
    for start in range(0, len(text) - WIN // 2, STRIDE):
        shared = sum(math.log(max(token - FIRST_WORD, 0) + 2) for token in set(question) & set(text[start : start + WIN - BEGIN] if start else text[:WIN]))
        if shared > best + 1e-9:
            best, at, last = shared, start, start
        elif shared > best - 1e-9 and start == last + STRIDE:
            last = start
    if at:
        at += (last - at) // 2
    return text[:BEGIN] + text[at : at + WIN - BEGIN] if at >= BEGIN else text[:WIN]


def measures(grades, order):
    """Returns the reciprocal rank of the first answer, and nDCG, of ten places."""
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:TEN], 1))
    gain = sum(grades.get(doc, 0) / math.log2(rank + 1) for rank, doc in enumerate(order, 1))
    return next((1 / rank for rank, doc in enumerate(order, 1) if doc in grades), 0), gain / ideal


def judge(args):
    model = read_model(args.model)
    print("set", "questions", "measure", "fused", *(f"+{w} sigmoid(score)" for w in WEIGHTS), "score alone", sep=" | ")
    for name in args.sets.split(","):
        docs, questions, grades, run = read_set(args.data, args.runs, name)
        asked = sorted(q for q in run if grades[q])
        tokens = dict(zip(docs, read_tokens(args.model, list(docs.values()))))
        of = read_tokens(args.model, [questions[q] for q in asked])
        rows = [(i, window(of[i][:JUDGED_QT], tokens[doc])) for i, q in enumerate(asked) for doc, _ in run[q]]
        texts = Texts(of + [passage for _, passage in rows], JUDGED_QT)
        scores = texts.scores(model, np.array([i for i, _ in rows]), np.arange(len(of), len(texts.sizes)))
        columns = [[] for _ in range(len(WEIGHTS) + 2)]
        for q in asked:
            ids, p = [doc for doc, _ in run[q]], np.clip([p for _, p in run[q]], 1e-6, 1 - 1e-6)
            fused, score, scores = np.log(p / (1 - p)), scores[: len(ids)], scores[len(ids) :]
            ways = [fused, *(fused + w / (1 + np.exp(-score)) for w in WEIGHTS), score]
            for column, way in zip(columns, ways):
                column.append(measures(grades[q], [ids[i] for i in np.argsort(-way, kind="stable")]))
        columns = np.array(columns)  # ways, questions, measures
        for at, measure in enumerate(["MRR@10", "nDCG@10"]):
            cells = [f"{columns[0, :, at].mean():.3f}"]
            for column in columns[1:, :, at]:  # with the 95 % interval of the difference, by a bootstrap
                change = column - columns[0, :, at]
                low, high = np.quantile(change[np.random.default_rng(1).integers(0, len(change), (2000, len(change)))].mean(axis=1), [0.025, 0.975])
                cells.append(f"{change.mean():+.3f} [{low:+.3f}, {high:+.3f}]")
            print(name, len(asked), measure, *cells, sep=" | ", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    here = pathlib.Path(__file__).resolve().parent
    helps = {"start": "folder of the model to start from", "text": "folder with pairs-*.jsonl.gz", "model": "folder that train wrote",
             "out": "folder for the model", "data": "folder of sets", "runs": "folder that triskele eval wrote for them"}
    whats = {train: "train a model", pack: "write the folder that the program embeds", judge: "say what a model adds to the fused order"}
    t, _, j = made = [commands.add_parser(run.__name__, help=what) for run, what in whats.items()]
    for command, run, folders in zip(made, whats, ["start text out", "model out", "model data runs"]):
        command.set_defaults(run=run)
        for folder in folders.split():
            command.add_argument("--" + folder, type=pathlib.Path, required=True, help=helps[folder])
    stores = [here / "stores", here.parent / "calibrate" / "stores"]
    t.add_argument("--stores", type=pathlib.Path, nargs="+", default=stores, help="folders of stores (default: those of this laboratory)")
    t.add_argument("--seconds", type=float, default=340, help="time for the steps, without what comes before and after (default: 340)")
    t.add_argument("--seed", type=int, default=1)
    t.add_argument("--small", action="store_true", help="take few pairs and stores, to try the script on a CPU")
    j.add_argument("--sets", required=True, help="names of sets, with commas between")
    args = parser.parse_args()
    logging.set_verbosity_error()  # no report that the classifier is new
    logging.disable_progress_bar()
    args.run(args)


if __name__ == "__main__":
    main()
