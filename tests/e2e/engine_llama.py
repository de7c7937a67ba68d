"""engine_llama.py ENGINE LLAMA_LOGITS ENGINE_BATCH MODEL…: the tokens of the engine beside llama.cpp's.

Both go on greedily with the same prompts for 128 tokens, on the same file; llama.cpp does it twice, with
and without flash attention, whose sums are in f16. Where they part, llama.cpp's tokens are fed to both,
and at each position where they would choose differently it is printed how far apart the two logits are,
and how far its own kernels are apart on this sequence: it evaluates the same tokens one by one and in one
batch, with and without flash attention. Two logits that are closer than that have no order that an engine
could be right or wrong about. Anything else fails. Random weights make that happen: there is no token
that such a model is sure of, and one number that is rounded to the next int8 changes all that follow.

The engine alone has to agree with itself to the bit: in other batches, with other threads, with others
in the same passes, and with what a slot still holds."""
import array
import os
import subprocess
import sys
import tempfile

TOKENS, PLAIN = 128, ("--flash", 0)
engine, logits_tool, batch_tool, *models = sys.argv[1:]
scratch = tempfile.mkdtemp(dir=os.environ.get("scratch"))
failures = 0


def prompts(vocab):
    """A short one, one that fills a page of the cache and more, and two that begin like it."""
    def ids(seed, count):
        return [(seed + 37 * i * i + 11 * i) % vocab for i in range(count)]
    long = ids(5, 90)
    return [ids(3, 4), long, long[:70] + ids(9, 5), long[:33]]


def words(ids):
    return " ".join(map(str, ids))


def run(*command, stdin=""):
    done = subprocess.run(list(map(str, command)), input=stdin, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout.splitlines()


def fail(text):
    global failures
    failures += 1
    print("FAILED: " + text)


def ours(model, prompt, *options, tokens=TOKENS):
    return [int(line) for line in run(engine, "run", "-m", model, "--ids", "-p", words(prompt), "-n", tokens,
                                      "--ignore-end", "--ctx", 512, *options)]


def theirs(model, prompt, *options, tokens=TOKENS):
    lines = run(logits_tool, "--model", model, "--ids", words(prompt), "--tokens", tokens, "--ctx", 512,
                *options)
    return [int(line.split()[0]) for line in lines]


def rows(ask, model, sequence, *options):
    """The logits of every position."""
    path = os.path.join(scratch, "logits")
    ask(model, sequence, "--logits", path, *options, tokens=0)
    numbers = array.array("f")
    with open(path, "rb") as file:
        numbers.frombytes(file.read())
    width = len(numbers) // len(sequence)
    return [numbers[i * width:(i + 1) * width] for i in range(len(sequence))]


def apart(some, others):
    return max(max(map(abs, map(float.__sub__, a, b))) for a, b in zip(some, others))


def compare_fed(name, model, sequence, begin):
    """What each would choose behind every token of llama.cpp's own sequence."""
    one = rows(theirs, model, sequence, *PLAIN, "--batch", 1)
    own = max(apart(one, rows(theirs, model, sequence, *options))
              for options in (PLAIN, (), ("--batch", 1)))
    mine = rows(ours, model, sequence)
    most = apart(one, mine)
    parted = 0
    for at in range(begin, len(sequence)):
        theirs_best = max(one[at])
        chosen = max(range(len(mine[at])), key=mine[at].__getitem__)
        gap = theirs_best - one[at][chosen]
        if gap == 0:
            continue
        parted += 1
        print(f"  {name}, position {at}: the two are {gap:.2g} apart, its own kernels {own:.2g}")
        if gap > own:
            fail(f"{name}: another token at position {at}, {gap:.3g} below the best")
    if most > 2 * own:
        fail(f"{name}: a logit is {most:.3g} from llama.cpp's, whose own kernels are {own:.3g} apart")
    return f"logits at most {most:.2g} from llama.cpp's, its own kernels {own:.2g} apart; " + \
        (f"{parted} choices within that" if parted else "every choice the same")


def alike(some, others):
    return next((i for i, (a, b) in enumerate(zip(some, others)) if a != b), TOKENS)


def check(model):
    name = os.path.basename(model)
    given = prompts(256)  # any vocabulary is larger
    expected = []
    for number, prompt in enumerate(given):
        mine, real = ours(model, prompt), theirs(model, prompt, *PLAIN)
        flash = theirs(model, prompt)
        expected.append(mine)
        if {len(mine), len(real), len(flash)} != {TOKENS}:
            fail(f"{name}: {len(mine)} and {len(real)} tokens, not {TOKENS}")
        print(f"{name}, prompt of {len(prompt)}, of {TOKENS} tokens equal: {alike(mine, real)}, with flash "
              f"attention {alike(mine, flash)}, llama.cpp with and without it {alike(real, flash)}")
        if number < 2 or mine != real:
            print("  " + compare_fed(name, model, prompt + real[:-1], len(prompt) - 1), flush=True)
    for options in (("--batch", 1), ("--batch", 7, "--threads", 2), ("--batch", 64, "--threads", 3)):
        if ours(model, given[1], *options) != expected[1]:
            fail(f"{name}: other tokens with {words(options)}")
    # Together in the same passes; the second round finds prompts that are still in slots.
    for slots, threads, batch in ((4, 1, 256), (3, 2, 24)):
        lines = run(batch_tool, model, TOKENS, slots, threads, batch,
                    stdin="".join(words(p) + "\n" for p in given))
        got = [[int(x) for x in line.split(":")[1].split()] for line in lines]
        cached = [int(line.split(":")[0].split()[1]) for line in lines]
        if got != expected * 2:
            fail(f"{name}: other tokens in a batch with {slots} slots")
        if not any(cached[len(given):]):
            fail(f"{name}: nothing was reused")


for path in models:
    check(path)
sys.exit(1 if failures else 0)
