#!/usr/bin/env bash
# The documents are true where a script can tell: C samples compile, links lead somewhere,
# commands and make targets they name exist.
. "$(dirname "$0")/common.sh"
cd "$SONDE_SOURCE" || exit

# The anchors that a page's headings have, as GitHub makes them.
anchors() {
    sed -n '/^```/,/^```/!s/^##* //p' "$1" |
        sed 's/\[\([^]]*\)\]([^)]*)/\1/g' | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

for page in *.md docs/*.md docs/design/*.md docs/design/*/*.md; do
    [ -e "$page" ] || continue
    samples=$scratch/${page//\//_}
    awk -v out="$samples" '
        /^```c$/ { inside = 1; file = out "." ++n ".c"; next }
        /^```/ { inside = 0 }
        inside { print > file }' "$page"
    for sample in "$samples".*.c; do
        [ -e "$sample" ] || continue
        gcc -std=c11 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$sample" >"$scratch/out" 2>&1 ||
            complain "$page: a C sample does not compile:" "$(cat "$scratch/out")"
    done
    for link in $(grep -oE '\]\([^): ]+\)' "$page" | sed 's/^](//; s/)$//' | sort -u); do
        file=${link%%#*}
        if [ -n "$file" ]; then file=$(dirname "$page")/$file; else file=$page; fi
        if [ ! -e "$file" ]; then
            complain "$page: links to $link, which does not exist"
        elif [[ $link == *.md#* || $link == "#"* ]]; then
            anchors "$file" | grep -qxF -e "${link#*#}" || complain "$page: links to $link: no heading is called that"
        fi
    done
    for target in $(sed -n '/^```sh/,/^```$/p' "$page" | grep -oE '\bmake [a-z]+' | awk '{ print $2 }' | sort -u); do
        grep -q "^$target:" Makefile || complain "$page: there is no \`make $target\`"
    done
done

for command in $(grep -oE '^\| `sonde [a-z]+' README.md | awk '{ print $3 }' | sort -u); do
    "$SONDE_BUILD/sonde" help "$command" >"$scratch/out" 2>&1 ||
        complain "README.md: \`sonde $command\`:" "$(cat "$scratch/out")"
done
finish
