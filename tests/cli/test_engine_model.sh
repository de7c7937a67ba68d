#!/usr/bin/env bash
# sonde-engine make-model and quantize: the same bytes each time, every type, and what goes wrong.
. "$(dirname "$0")/common.sh"
engine=$SONDE_BUILD/sonde-engine
cd "$scratch" || exit 1
mkdir models
models() { ls models; }

# make NAME OPTIONS…
make() {
    local name=$1
    shift
    status 0 "$engine" make-model --size tiny -o "models/$name" "$@"
}

# ---- Each kind, twice ------------------------------------------------------------------------------
for arch in llama bitnet; do
    for type in F32 F16 Q8_0 Q4_0 TQ2_0 I2_S; do
        make a.gguf --arch $arch --type $type --force
        make b.gguf --arch $arch --type $type --force
        cmp -s models/a.gguf models/b.gguf || complain "$arch $type: two runs differ"
        grep -qa "$arch-tiny-$type" models/a.gguf || complain "$arch $type: is another model"
    done
done
make a.gguf --tokenizer spm --force
make b.gguf --tokenizer spm --force
cmp -s models/a.gguf models/b.gguf || complain "spm: two runs differ"
make b.gguf --tokenizer spm --seed 2 --force
! cmp -s models/a.gguf models/b.gguf || complain "another seed gives the same model"
yes 'zyzzogeton quux' | head -n 3000 >words.txt
make b.gguf --tokenizer spm --text words.txt --force
grep -qa zyzzogeton models/b.gguf || complain "--text is not trained on"
! grep -qa zyzzogeton models/a.gguf || complain "the word is there without --text too"
make a.gguf --type f32 --force # any case

# ---- Converting ------------------------------------------------------------------------------------
rm models/*
make f32.gguf --type F32
for type in F16 Q8_0 Q4_0; do # is the same as being made so
    make made.gguf --type $type --force
    status 0 "$engine" quantize models/f32.gguf models/q.gguf $type
    has "quantize $type" 'q.gguf: [0-9]+ of [0-9]+ tensors converted' out
    size=$(stat -c %s models/made.gguf)
    cmp -s <(tail -c $((size - 65536)) models/made.gguf) <(tail -c $((size - 65536)) models/q.gguf) ||
        complain "F32 quantized to $type is not what is made as $type"
done
for type in TQ2_0 I2_S; do
    status 0 "$engine" quantize models/f32.gguf models/q.gguf $type
    status 0 "$engine" quantize models/q.gguf models/back.gguf F16
done
rm models/*

# ---- What goes wrong: exit status 2, a message that names it, nothing left behind --------------------
make good.gguf
# bad WHAT PATTERN COMMAND…
bad() {
    local what=$1 pattern=$2
    shift 2
    status 2 "$engine" "$@"
    has "$what" "$pattern" err
    has "$what: how to get help" "Try: sonde-engine $1 --help" err
    same "$what: nothing is left" good.gguf "$(models)"
}
head -c 100000 models/good.gguf >truncated.gguf
head -c 3000 models/good.gguf >short.gguf
echo 'not a model' >text.gguf
: >empty.gguf
out=models/out.gguf
bad 'missing' 'missing.gguf: cannot open: No such file' quantize missing.gguf $out F16
bad 'truncated' 'truncated.gguf: tensor .* reaches beyond the end' quantize truncated.gguf $out F16
bad 'truncated metadata' 'short.gguf: truncated' quantize short.gguf $out F16
bad 'not GGUF' 'text.gguf: is not a GGUF file' quantize text.gguf $out F16
bad 'empty' 'empty.gguf: is not a GGUF file' quantize empty.gguf $out F16
bad 'a folder' 'models: is not a regular file' quantize models $out F16
bad 'unknown type' "the type is 'Q5_1', but there are F32" quantize models/good.gguf $out Q5_1
bad 'itself' 'good.gguf would replace' quantize models/good.gguf models/../models/good.gguf Q8_0
bad 'no such folder' 'nowhere/out.gguf: cannot write: No such file' quantize models/good.gguf nowhere/out.gguf F32
bad 'to a folder' 'models: is not a regular file' quantize models/good.gguf models F32
bad 'to a device' '/dev/null: is not a regular file' quantize models/good.gguf /dev/null F32
bad 'too few' 'needs three arguments' quantize models/good.gguf $out
bad 'an option' "no option '--fast'" quantize --fast models/good.gguf $out F16
bad 'no size' '--size is missing' make-model -o $out
bad 'a size' "--size is 'huge'" make-model --size huge -o $out
bad 'no output' '-o is missing' make-model --size tiny
bad 'an arch' "--arch is 'gpt'" make-model --size tiny -o $out --arch gpt
bad 'a type' "--type is 'Q5_1'" make-model --size tiny -o $out --type Q5_1
bad 'a tokenizer' "--tokenizer is 'wpm'" make-model --size tiny -o $out --tokenizer wpm
bad 'a seed' "--seed is '-1'" make-model --size tiny -o $out --seed -1
bad 'a text' '--text missing.txt: No such file' make-model --size tiny -o $out --text missing.txt
bad 'is there' 'good.gguf is there already; --force' make-model --size tiny -o models/good.gguf
bad 'made in no folder' 'nowhere/out.gguf: cannot write' make-model --size tiny -o nowhere/out.gguf
if [ "$(id -u)" != 0 ]; then
    chmod 500 models
    bad 'unwritable' 'out.gguf: cannot write: Permission denied' make-model --size tiny -o $out
    chmod 700 models
fi

# A disk that is full, in a file system's stead: files may not be so large.
full() { (ulimit -f 1000 && trap '' XFSZ && exec "$@"); }
status 2 full "$engine" make-model --size tiny -o $out
has 'full' 'out.gguf: File too large' err
status 2 full "$engine" quantize models/good.gguf $out F32
has 'full' 'out.gguf: File too large' err
same 'full: nothing is left' good.gguf "$(models)"
finish
