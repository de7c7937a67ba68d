#!/usr/bin/env bash
# A folder includes only what ARCHITECTURE.md allows it, and ARCHITECTURE.md names exactly the
# folders there are. The tables in its section "Layers" are the only place that says so:
#
#   | `src/serve/` | `sonde_server_` … | `include/` `base/` `model/` `analyze/` | the agent |
#   | `src/record/` | `sonde_`          | `include/` `segment/` `base/utf8.h`    | … |
#   | `src/collect/cpu/` | … | `collect/perf/` `collect/tick_clock.h` | … |
#
# First column: a layer, or a room of one. Third: folders, or single headers, that it may include
# from. A room may also include what its layer may, but of its own layer only what its row says;
# files of the layer that are in no room may include all of its rooms.
. "$(dirname "$0")/common.sh"
cd "$SONDE_SOURCE"

awk '/^## /{ inside = /Layers/ } inside && /^\| *`/' ARCHITECTURE.md >"$scratch/rows"
[ -s "$scratch/rows" ] || complain "ARCHITECTURE.md: no table rows in a section named Layers"

# ---- The folders named are the folders there are ------------------------------------------
sed -n 's/^| *`\([^`]*\)\/`.*/\1/p' "$scratch/rows" | sort >"$scratch/named"
repository_files | while read -r file; do
    [ -e "$file" ] && echo "$file"  # not deleted, yet uncommitted
done | awk -F / 'NF > 1 { print $1 } NF > 2 && $1 == "src" { print $1 "/" $2 }
    NF > 3 && $1 == "src" { print $1 "/" $2 "/" $3 }' | sort -u >"$scratch/real"
for folder in $(comm -23 "$scratch/named" "$scratch/real"); do
    complain "ARCHITECTURE.md names $folder/, which does not exist"
done
for folder in $(comm -13 "$scratch/named" "$scratch/real"); do
    complain "$folder/ is not named in the layer tables of ARCHITECTURE.md"
done

# ---- Includes go the allowed way -----------------------------------------------------------
# "folder allowed" lines, allowed without backticks and a trailing slash.
awk -F '|' '$2 ~ /`src\// {
    layer = $2; gsub(/[` ]/, "", layer); sub(/^src\//, "", layer); sub(/\/$/, "", layer)
    n = split($4, piece, "`")
    for (i = 2; i <= n; i += 2) { sub(/\/$/, "", piece[i]); print layer, piece[i] }
}' "$scratch/rows" >"$scratch/allowed"

repository_files | grep -E '^(src|include)/.*\.[ch]$' | while read -r file; do
    [ -e "$file" ] && echo "$file"
done >"$scratch/sources"
# One pass over all of them: "file:line:included".
xargs grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' <"$scratch/sources" |
    sed -E 's/^([^:]*:[0-9]+:)[^"]*"([^"]*)".*/\1\2/' >"$scratch/includes"
awk -F : -v sources="$scratch/sources" -v allowed="$scratch/allowed" '
    function folder_of(path) { return sub(/\/[^\/]*$/, "", path) ? path : "" }
    function layer_of(path) { sub(/\/.*/, "", path); return path }
    # May a file of folder include target, a path below src/ or "include"?
    function may(folder, target,    dir) {
        if ((folder SUBSEP target) in permits) return 1
        for (dir = folder_of(target); dir != ""; dir = folder_of(dir))
            if ((folder SUBSEP dir) in permits) return 1
        return 0
    }
    BEGIN {
        while ((getline line < sources) > 0) exists[line] = 1
        while ((getline line < allowed) > 0) { split(line, word, " "); permits[word[1], word[2]] = 1 }
    }
    {
        file = $1; included = $3
        folder = file ~ /^include\// ? "include" : folder_of(substr(file, 5))
        if (included ~ /^sonde\//) target = "include"
        else if (included ~ /\//) target = included
        else {
            if (!((folder_of(file) "/" included) in exists))
                print file ":" $2 ": \"" included "\" is not in its folder: write it with its folder"
            next
        }
        layer = layer_of(folder)
        if (target != "include" && folder != "include" && !(("src/" target) in exists)) {
            print file ":" $2 ": there is no src/" target
            next
        }
        if (folder_of(target) == folder || (target == "include" && folder == "include")) next
        if (layer_of(target) == layer) {
            if (folder == layer || may(folder, target)) next
        } else if (may(layer, target) || may(folder, target)) next
        print file ":" $2 ": " folder "/ may not include \"" included "\" (see the layer table in ARCHITECTURE.md)"
    }' "$scratch/includes" >"$scratch/wrong"
while read -r line; do complain "$line"; done <"$scratch/wrong"

# ---- What runs in the user's process sees nothing of the agent ------------------------------
# (So that no later row of the table can allow it by mistake.)
for layer in segment record unwind preload; do
    sed -n "s/^$layer //p" "$scratch/allowed" | while read -r target; do
        case $target in
        include | segment | unwind | record | base/utf8.h | base/hot_banned.h) ;;
        *) echo "$target" ;;
        esac
    done >"$scratch/wrong"
    [ -s "$scratch/wrong" ] &&
        complain "ARCHITECTURE.md lets $layer/ include $(tr '\n' ' ' <"$scratch/wrong"): it runs in the user's process"
done

# ---- Nothing in the repository knows the machine it was written on --------------------------
repository_files | while read -r file; do
    [ -e "$file" ] && grep -HnIE '(^|[^A-Za-z0-9_.-])/(work|root)/' "$file" || true
done >"$scratch/paths"
[ -s "$scratch/paths" ] && complain "paths of one machine:" "$(head -n 20 "$scratch/paths")"

finish
