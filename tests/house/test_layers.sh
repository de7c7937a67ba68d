#!/usr/bin/env bash
# A folder includes only what ARCHITECTURE.md allows it, and ARCHITECTURE.md names exactly the
# folders there are. The tables in its section "Layers" are the only place that says so:
#
#   | `src/serve/` | `sonde_server_` … | `include/` `base/` `collect/` `analyze/` | the agent |
#   | `src/record/` | `sonde_`          | `include/` `segment/` `base/utf8.h`     | … |
#
# First column: the folder. Third: folders, or single headers, that it may include from.
. "$(dirname "$0")/common.sh"
cd "$SONDE_SOURCE"

awk '/^## /{ inside = /Layers/ } inside && /^\| *`/' ARCHITECTURE.md >"$scratch/rows"
[ -s "$scratch/rows" ] || complain "ARCHITECTURE.md: no table rows in a section named Layers"

# ---- The folders named are the folders there are ------------------------------------------
sed -n 's/^| *`\([^`]*\)\/`.*/\1/p' "$scratch/rows" | sort >"$scratch/named"
repository_files | awk -F / 'NF > 1 { print $1 } NF > 2 && $1 == "src" { print $1 "/" $2 }' | sort -u >"$scratch/real"
for folder in $(comm -23 "$scratch/named" "$scratch/real"); do
    complain "ARCHITECTURE.md names $folder/, which does not exist"
done
for folder in $(comm -13 "$scratch/named" "$scratch/real"); do
    complain "$folder/ is not named in the layer tables of ARCHITECTURE.md"
done

# ---- Includes go the allowed way -----------------------------------------------------------
# "layer allowed" lines, allowed without backticks and a trailing slash.
awk -F '|' '$2 ~ /`src\// {
    layer = $2; gsub(/[` ]/, "", layer); sub(/^src\//, "", layer); sub(/\/$/, "", layer)
    n = split($4, piece, "`")
    for (i = 2; i <= n; i += 2) { sub(/\/$/, "", piece[i]); print layer, piece[i] }
}' "$scratch/rows" >"$scratch/allowed"

repository_files | grep -E '^(src|include)/.*\.[ch]$' >"$scratch/sources"
while read -r file; do
    [ -e "$file" ] || continue  # deleted but not yet committed
    case $file in
    include/*) layer=include ;;
    *) layer=${file#src/} layer=${layer%%/*} ;;
    esac
    while IFS=: read -r line included; do
        case $included in
        sonde/*) target=include ;;
        */*) target=${included%%/*} ;;
        *)
            [ -e "$(dirname "$file")/$included" ] ||
                complain "$file:$line: \"$included\" is not in $(dirname "$file"): write it with its folder"
            continue
            ;;
        esac
        [ "$target" = "$layer" ] && continue
        grep -qxF -e "$layer $target" -e "$layer $included" "$scratch/allowed" ||
            complain "$file:$line: $layer/ may not include \"$included\" (see the layer table in ARCHITECTURE.md)"
    done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/;T;=;p' "$file" | paste -d : - -)
done <"$scratch/sources"

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
