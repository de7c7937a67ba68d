"""Texts that tokenizers trip over, the same on every run, each ended by a NUL byte.

usage: tokenizer_inputs.py plain|broken|special SOURCE_DIRECTORY [COUNT]

plain    lines and pieces of the repository's own files; white space, digits, scripts, emoji and marks;
         random strings over small alphabets of what rules look at
broken   bytes that are not UTF-8, or not quite
special  texts of special tokens, between all sorts of things
"""
import os
import random
import sys

FOLDERS = ("engine", "src", "web", "docs", "tests/e2e", "include", "perf")
KINDS = (".c", ".h", ".ts", ".md", ".py", ".sh", ".css", ".json")

WRITTEN = [
    "", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\n \n", " \n", "\n ", "\t\n\t ", "\v\f", "\x85",
    "Hello", " Hello", "  Hello", "Hello  ", "Hello\n", "Hello World", "Hello, y'all! How's it going?",
    "I'm we're they've you'll he'd she's can't", "I'M WE'RE THEY'VE YOU'LL HE'D SHE'S CAN'T",
    "'s't're've'm'll'd", "'S'T'RE'VE'M'LL'D", "'ſ 'ſ'ſ", "’s ’t", "''s '' ' '' '''", " 's 't", "x'reX'lly",
    "1", "12", "123", "1234", "12345", "123456", "1234567890", "1 12 123 1234", "3.14159", "0x1F", "1e-9",
    "١٢٣٤٥٦", "१२३", "Ⅷ ½ ²³ ₁₂ ①②③", "12a34b", "a1b2", "v1.2.3-rc4", "2024-01-31T23:59:59Z",
    "the quick brown fox", "THE QUICK", "camelCaseAndPascalCase", "snake_case __init__ kebab-case",
    "if (x == 0) { return *p++; } // done", "#include <stdio.h>\n\nint main(void)\n{\n\treturn 0;\n}\n",
    "def f(x):\n    if x:\n        return x\n\n\n    return None", "a&&b||c<<=1>>2!=3", "$x += ${y}`z`~^|",
    "{{[[((<<>>))]]}}", "...!!!???,,,;;;:::", "/* */ // -- ++ ** ## @@", "http://a.b/c?d=e&f=g#h",
    "Grüße, Größe, Straße", "naïve café résumé", "cafe\u0301 re\u0301sume\u0301", "a\u0300\u0301\u0302\u0303b",
    "\u0301", " \u0301", "x \u0301y", "\u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f", "สวัสดีครับ", "ကြောင်း",
    "Привет, мир!", "Ёлка ЁЛКА", "Γειά σου Κόσμε", "שלום עולם", "مرحبا بالعالم", "สวัสดี ชาวโลก",
    "你好，世界！", "中文和English混合123", "日本語のテキスト、カタカナ。ひらがな", "한국어 텍스트 입니다", "㐀㐁㐂 豈更 𠀀𠀁",
    "　全角　スペース　", "！？。，、；：", "「引用」『二重』", "‘single’ “double” ‟", "…—–‐", "ｆｕｌｌｗｉｄｔｈ　１２３",
    "🙂", "🙂🙂", " 🙂 ", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "1️⃣2️⃣", "❤️", "a🙂b", "☃ ★ ☂", "🦙.cpp", "✅ done",
    "\u00a0", "a\u00a0b", "\u2003em\u2003", "\u2028line\u2029", "\u200b\u200c\u200d\ufeff", "\u1680x\u3000y\u202fz",
    "\ufffd", "\ue000\uf8ff", "\U000e0001\U000e0020", "\u0378\u0530", "\U0001f6dc\U00011f02\u2ffc",
    "\x01\x02\x1b[31mred\x1b[0m\x7f", "tab\tbetween\t\ttabs", "trailing spaces   ", "   leading", "\r", "\r\r\n\n\r",
    "a\r\nb\r\n\r\nc", "  \n  \n  x", "x  \n  \n  ", "\n\n\nx", "x\n\n\n", " \t \t ", "\t\t\tx", "word \n word",
    "ĠĊċ Ġthe", "▁the ▁▁▁ x▁y", "Ā ā Ń ń", "<0x0A><0x41>", "[UNK] <unk> <pad>", "ﬁ ﬂ ﬆ Ǆ ǅ ǆ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ab" * 300, "=" * 200, "-" * 77, " " * 100, "\n" * 50, "\t" * 33,
    "ÀÁÂÃÄÅ" * 30, "文" * 300, "🙂" * 60, "x" * 3000, "0" * 1000, "Lorem" + "ipsum" * 100, "𝒳𝓎𝓏 𝟘𝟙𝟚 ℕℤℝ",
    "SGVsbG8gV29ybGQhIFRoaXMgaXMgYmFzZTY0IGVuY29kZWQgdGV4dCwgbG9uZyBlbm91Z2g=", "deadbeefcafebabe0123456789abcdef",
]

SPECIAL = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|user|>",
           "<|end|>", "<|assistant|>", "<fim_prefix>", "<fim_middle>", "<|begin_of_text|>", "<EOS_TOKEN>",
           "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<BOS_TOKEN>", "<PAD>", "<｜begin▁of▁sentence｜>",
           "<｜fim▁hole｜>", "<｜end▁of▁sentence｜>", "<|EOT|>", ">>TITLE<<", ">>ABSTRACT<<", "<|padding|>",
           "<|startofpiece|>", "[CLS]", "[MASK]", "<gh_stars>", "<file_sep>", "<|reserved_special_token_7|>",
           "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>", "<reserved_100>", "<|system|>",
           "</s", "<|", "|>", "<", "<s><s", "<<s>>", "<|end|><|end|>", "  ", "        ", "\u2581<s>"]

ALPHABETS = [
    " \t\n\r", " \n", " a", "  a1.", "aA'sStTrReEvVmMlLdD ", "0123456789 .", "١٢٣0129½Ⅷ a", "aéÀzZßΩя中ー한\u0301 ",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ a1", "中文字。，、！？ a\n　", "かなカナー漢字aA1 ", "🙂👍\U0001f3fd\u200d\ufe0f👩🏳🌈 a",
    "\u0300\u0301\u093f\u094d\u0e34ae ", "\u00a0\u2003\u3000\u2028\x85 a\n", "\x01\x1f\x7f\u0378\ue000 a",
    "abcdefghijklmnopqrstuvwxyz ", "the and ing er on  ", "ĠĊ▁ aÃ©", "/\\\n\r a.", "ǅſKÅ sS'",
    "＄＋＜＝＞￥€$+<=> `^~|´¨a", "\U00011f02\U0001e4d0\U0001f6dc\u2ffc\u0cf3a1 .",
]


def repository_texts(source, rng):
    files = []
    for folder in FOLDERS:
        for root, folders, names in os.walk(os.path.join(source, folder)):
            folders[:] = sorted(f for f in folders if f not in ("node_modules", "__pycache__"))
            files += [os.path.join(root, n) for n in sorted(names) if n.endswith(KINDS)]
    texts = []
    for name in rng.sample(files, min(len(files), 160)):
        with open(name, "rb") as f:
            text = f.read(200000).replace(b"\0", b"")
        lines = text.split(b"\n")
        for _ in range(8):
            at = rng.randrange(len(lines))
            texts.append(lines[at])
        at = rng.randrange(len(lines))
        texts.append(b"\n".join(lines[at:at + rng.randrange(2, 12)]))
    return texts


def random_text(rng):
    alphabet = rng.choice(ALPHABETS)
    if rng.random() < 0.3:
        alphabet += rng.choice(ALPHABETS)
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 40))).encode()


def broken_text(rng):
    """Bytes; none of those that would start a character beyond U+10FFFF, which llama.cpp dies of."""
    if rng.random() < 0.5:
        text = bytearray(rng.randrange(1, 256) for _ in range(rng.randrange(1, 24)))
    else:
        text = bytearray(rng.choice(WRITTEN[40:]).encode()[:60])
        for _ in range(rng.randrange(1, 5)):
            if text:
                text[rng.randrange(len(text))] = rng.randrange(1, 256)
        text = text[:rng.randrange(len(text) + 1)]
    return bytes(0xF3 if 0xF4 <= b <= 0xF7 else b for b in text)


def special_text(rng):
    parts = []
    for _ in range(rng.randrange(1, 7)):
        parts.append(rng.choice(SPECIAL).encode() if rng.random() < 0.6 else
                     rng.choice([b" ", b"  ", b"\n", b"x", b" x", b"x ", b"\t\n ", random_text(rng)]))
    return b"".join(parts)


def main(kind, source, count="3000"):
    rng = random.Random(20240611)
    if kind == "plain":
        texts = [t.encode() for t in WRITTEN] + repository_texts(source, rng)
        texts += [random_text(rng) for _ in range(int(count))]
    else:
        texts = [(broken_text if kind == "broken" else special_text)(rng) for _ in range(int(count))]
    sys.stdout.buffer.write(b"".join(t + b"\0" for t in texts))


main(*sys.argv[1:])
