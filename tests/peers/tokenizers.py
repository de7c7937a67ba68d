"""sonde-engine's tokens beside those of Hugging Face's tokenizers and of sentencepiece, text for text.

usage: tokenizers.py BUILD        with the Python of a venv that has both packages

Hugging Face's gets the vocabulary and merges of real models from their GGUF files, and the pattern of
the original tokenizer. A sentencepiece model is trained on this repository and written as GGUF.

Left out, as they are meant to differ (where they do, we do as llama.cpp does): texts of tokens such as
<s> and <0x0A>, which llama.cpp may merge letters to, and the long s in 'ſ, which is an 's to a pattern
that ignores case.
"""
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[0] = os.path.join(SOURCE, "tests/llama")  # not here: this file has the package's name
import gguf
import gguf_vocab
import sentencepiece
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
failures = 0


def texts():
    out = subprocess.run([sys.executable, os.path.join(SOURCE, "tests/e2e/tokenizer_inputs.py"), "plain",
                          SOURCE, "6000"], capture_output=True, check=True).stdout
    every = [text.decode("utf-8", "replace") for text in out.split(b"\0")[:-1]]
    return [text for text in every if "ſ" not in text and "<0x" not in text and "<unk>" not in text]


def ours(build, path, inputs):
    out = subprocess.run([os.path.join(build, "sonde-engine"), "tokenize", "-m", path, "--lines", "--null",
                          "--no-bos"], input=b"".join(text.encode() + b"\0" for text in inputs),
                         capture_output=True, check=True).stdout
    return [[int(token) for token in line.split()] for line in out.split(b"\n")[:-1]]


def compare(name, inputs, mine, theirs):
    global failures
    wrong = [i for i in range(len(inputs)) if mine[i] != theirs[i]]
    tokens = sum(len(line) for line in theirs)
    print(f"{name}: {len(inputs)} texts, {tokens} tokens, {len(wrong)} differ")
    for i in wrong[:5]:
        print(f"  {inputs[i]!r}\n    ours   {mine[i]}\n    theirs {theirs[i]}")
    failures += len(wrong) + (len(mine) != len(inputs))


def hugging_face(path, pattern, ignore_merges):
    values = gguf_vocab.read(path)[0]
    tokens = [token.decode("utf-8", "replace") for token in values["tokenizer.ggml.tokens"]]
    merges = [tuple(merge.decode().split(" ", 1)) for merge in values["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges,
                                     ignore_merges=ignore_merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    tokenizer.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    return tokenizer


def sentencepiece_train(folder):
    corpus = os.path.join(folder, "corpus.txt")
    with open(corpus, "w", encoding="utf-8") as out:
        for root, folders, names in os.walk(SOURCE):
            folders[:] = sorted(f for f in folders if f not in ("build", "node_modules", ".git"))
            for name in sorted(names):
                if name.endswith((".md", ".c")):
                    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
                        out.write(f.read()[:20000])
    model = os.path.join(folder, "model")
    sentencepiece.SentencePieceTrainer.train(
        input=corpus, model_prefix=model, model_type="bpe", vocab_size=4000, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
        input_sentence_size=20000, num_threads=2)
    return sentencepiece.SentencePieceProcessor(model_file=model + ".model")


def sentencepiece_write(processor, path):
    """Its pieces as a GGUF file without tensors."""
    size = processor.get_piece_size()
    kinds = [gguf.UNKNOWN if processor.is_unknown(i) else gguf.CONTROL if processor.is_control(i) else
             gguf.BYTE if processor.is_byte(i) else gguf.NORMAL for i in range(size)]
    pairs = [
        gguf.pair("general.architecture", gguf.STRING, "llama"),
        gguf.pair("tokenizer.ggml.model", gguf.STRING, "llama"),
        gguf.pair("tokenizer.ggml.tokens", gguf.ARRAY,
                  (gguf.STRING, [processor.id_to_piece(i) for i in range(size)])),
        gguf.pair("tokenizer.ggml.scores", gguf.ARRAY,
                  (gguf.FLOAT32, [processor.get_score(i) for i in range(size)])),
        gguf.pair("tokenizer.ggml.token_type", gguf.ARRAY, (gguf.INT32, kinds)),
    ]
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs))


def main(build):
    inputs = texts()
    for name, pattern, ignore_merges in (("gpt-2", None, False), ("llama-bpe", LLAMA3, True),
                                         ("qwen2", QWEN2, False)):
        path = os.path.join(build, f"llama/vocab/ggml-vocab-{name}.gguf")
        tokenizer = hugging_face(path, pattern, ignore_merges)
        theirs = [e.ids for e in tokenizer.encode_batch(inputs, add_special_tokens=False)]
        compare(f"tokenizers, {name}", inputs, ours(build, path, inputs), theirs)
    with tempfile.TemporaryDirectory() as folder:
        processor = sentencepiece_train(folder)
        path = os.path.join(folder, "sentencepiece.gguf")
        sentencepiece_write(processor, path)
        compare("sentencepiece", inputs, ours(build, path, inputs), processor.encode(inputs))
    sys.exit(failures != 0)


main(*sys.argv[1:])
