#!/usr/bin/env bash
# Names that others choose (commands, files, functions, labels) reach a terminal without anything that
# it would obey, in messages and in text that is exported.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

esc=$'\033[31m'$'\302\233'2J$'\a'
# plain WHAT FILE: no control characters but newlines, and the name was there
plain() {
    has "$1: the name" '\?\[31m' "$2"
    python3 - "$2" <<'END' || complain "$1: control characters: $(od -c "$2" | head -3)"
import sys
text = open(sys.argv[1], encoding="utf-8").read()
sys.exit(any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in text))
END
}

status 2 "$sonde" "no$esc"
plain "unknown command" err
status 2 "$sonde" "-$esc"
plain "option before a command" err
status 2 "$sonde" report "--no$esc"
plain "unknown option" err
status 2 "$sonde" report "no$esc"
plain "no such file" err
"$sonde" run -v --no-http -- "./no$esc" >out 2>err
plain "run: no such command" err
"$sonde" record -o "no$esc/x.run" -- true >out 2>err
plain "record: no such folder" err
printf 'main;f%s 3\n' "$esc" >names.folded
status 0 "$sonde" import names.folded -o "n$esc.run"
plain "import" err
status 0 "$sonde" export --format folded names.folded
plain "folded" out

printf 'name,type,time_ms,value,labels\nx_total,counter,1000,5,"a=""%s"""\n' "$esc" >series.csv
status 0 "$sonde" import series.csv -o series.db
for format in csv openmetrics prometheus; do
    status 0 "$sonde" export --format $format series.db
    plain "series as $format" out
done
finish
