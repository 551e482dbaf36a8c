"""Writes what the tests compare with: states, embeddings and scores as PyTorch and Hugging Face's transformers compute them.

    python oracle.py tiny                 a random cross-encoder, as the folder tiny, with oracle.json
    python oracle.py embed FOLDER TEXTS   FOLDER/oracle.json for a model of sentence-transformers; TEXTS has a text in each line
"""

import json
import sys
from pathlib import Path

import torch


def tiny(folder):
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    folder.mkdir(exist_ok=True)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), *"?.,!", "the", "sea", "har", "##bour", "##ing"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = BertConfig(
        vocab_size=len(words), hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50, max_position_embeddings=40, num_labels=1,
    )
    torch.manual_seed(7)
    model = BertForSequenceClassification(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.25 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    oracle = {"texts": [], "pairs": []}
    with torch.no_grad():
        for text in ["", "sea", "The harbour, the sea!", "Seeing 東 the Café?", "sleeping " * 9]:
            ids = tokenizer(text, truncation=True, max_length=40)["input_ids"]
            states = model.bert(torch.tensor([ids])).last_hidden_state[0]
            oracle["texts"].append({"text": text, "ids": ids, "states": [round(x, 5) for x in states.flatten().tolist()]})
        query, text = "the harbour?", "sea, sea and the sleeping harbour. "
        for a, b, limit in [(query, text, 40), (query, "", 40), ("", text, 40), ("", "", 40), (query, 3 * text, 40), (3 * text, query, 40), (3 * text, 3 * text, 33), (text, 3 * query, 30), (query, text, 7)]:
            inputs = tokenizer([a], [b], truncation="longest_first", max_length=limit, return_tensors="pt")
            oracle["pairs"].append({"query": a, "text": b, "limit": limit, "score": model(**inputs).logits.item()})
    (folder / "oracle.json").write_text(json.dumps(oracle) + "\n")


def embed(folder, texts):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    texts = texts.read_text().splitlines()
    vectors = model.encode(texts, normalize_embeddings=True).tolist()
    oracle = [{"text": text, "v": [round(x, 7) for x in v]} for text, v in zip(texts, vectors)]
    (folder / "oracle.json").write_text(json.dumps(oracle) + "\n")


if sys.argv[1] == "tiny":
    tiny(Path("tiny"))
else:
    embed(Path(sys.argv[2]), Path(sys.argv[3]))
