# names.py ROOT: what test_names.sh counts in the tree ROOT, as lines of COUNT, WHERE and WHAT with tabs between.
#
# No compiler: a definition begins in column 0 and its brace follows the parameters, as .clang-format has it.
import collections
import os
import re
import sys

COLUMNS = 100
WORDS = ("static_names_shared", "static_names_one_word", "file_names_shared", "tags_shared", "long_lines")

# Comments, strings and directives become blank; lines stay where they are.
NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n\\]|\\.)*', re.S | re.M)
DEFINITION = re.compile(r'^((?!typedef\b|struct \w+\s*\{)[A-Za-z_][^;{}=]*?)\b([A-Za-z_]\w*)\((?:[^;{}]*)\)\s*\{', re.M)
ATTRIBUTE = re.compile(r'__attribute__\s*\((?:[^()]|\((?:[^()]|\((?:[^()])*\))*\))*\)')
TAG = re.compile(r'\b(?:struct|union|enum)\s+([A-Za-z_]\w*)\s*\{')


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


# An attribute may be what stands in column 0.
def word(match):
    return re.sub(r"[^\n]", "A", match.group())


def sources(root, *tops):
    for top in tops:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


# What a file is called. A room's name is part of its files' names, which do not repeat it: so collect/perf/event.c and
# collect/uprobe/event.c are two names, and so are the rows of routes/ and formats/; cli/profile.c and profile/profile.c
# are one.
def called(path):
    parts = path.split("/")
    return "/".join(parts[-2:]) if len(parts) > 3 else parts[-1]


def gather(root):
    found = {word: [] for word in WORDS}
    functions = collections.defaultdict(set)
    statics, files, tags = [], collections.defaultdict(list), collections.defaultdict(list)
    for path in sources(root, "src", "include", "engine"):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > COLUMNS:
                found["long_lines"].append((path, number, "%d columns" % len(line)))
        if path.startswith("engine/"):
            continue
        code = NOISE.sub(blank, text)
        for match in TAG.finditer(ATTRIBUTE.sub(blank, code)):
            tags[match.group(1)].append((path, code.count("\n", 0, match.start()) + 1))
        if not path.startswith("src/"):
            continue
        files[called(path)].append(path)
        code = ATTRIBUTE.sub(word, code)
        for match in DEFINITION.finditer(code):
            name = match.group(2)
            functions[name].add(path)
            if re.search(r"\bstatic\b", match.group(1)) and path.endswith(".c") and not name.isupper():
                statics.append((path, code.count("\n", 0, match.start(2)) + 1, name))
    for path, line, name in statics:
        others = sorted(functions[name] - {path})
        if others:
            found["static_names_shared"].append((path, line, "%s() is also in %s" % (name, others[0])))
        if "_" not in name:
            found["static_names_one_word"].append((path, line, name + "()"))
    for name, paths in files.items():
        found["file_names_shared"] += [(path, 0, "also " + paths[0]) for path in paths[1:]]
    for name, places in tags.items():
        first = places[0][0]
        found["tags_shared"] += [(path, line, "%s is also in %s" % (name, first)) for path, line in places[1:] if path != first]
    return found


def main():
    found = gather(sys.argv[1])
    for word in WORDS:
        for path, line, what in found[word]:
            print("%s\t%s\t%s" % (word, "%s:%d" % (path, line) if line else path, what))


main()
