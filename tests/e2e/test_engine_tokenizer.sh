#!/usr/bin/env bash
# sonde-engine's tokenizer beside the real llama.cpp's, with the vocabularies of real models: the same
# tokens for thousands of texts, the same pieces and ends; and back to the text where that is possible.
. "$(dirname "$0")/../cli/common.sh"
engine=$SONDE_BUILD/sonde-engine
[ -x "$engine" ] || exit 0
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
e2e=$SONDE_SOURCE/tests/e2e
cd "$scratch" || exit

for kind in plain broken special; do
    python3 "$e2e/tokenizer_inputs.py" $kind "$SONDE_SOURCE" 1000 >$kind.in || complain "no inputs: $kind"
done
cat plain.in broken.in >text.in
{ head -z -n 150 plain.in; tail -z -n 1000 plain.in; head -z -n 300 broken.in; } >few.in

# agree WHAT VOCAB INPUTS [--special]: their tokens, a line for each input; leaves their listing in listed
agree() {
    local what=$1 vocab=$2 inputs=$3
    shift 3
    "$engine" tokenize -m "$vocab" --lines --null "$@" <"$inputs" >ours 2>bad &
    "$llama/llama_tokenize" --model "$vocab" --vocab listed "$@" <"$inputs" >theirs 2>worse ||
        complain "$what: llama.cpp:" "$(cat worse)"
    wait $! || complain "$what:" "$(cat bad)"
    [ "$(wc -l <ours)" -eq "$(tr -cd '\0' <"$inputs" | wc -c)" ] || complain "$what: lines are missing"
    cmp -s ours theirs || complain "$what: of $inputs $(diff ours theirs | grep -c '^<') differ:" \
        "$(diff ours theirs | head -n 4)"
}

# listings_agree WHAT VOCAB: with listed. Of characters that stand for no byte llama.cpp writes
# [UNK_BYTE_…], where we write what they are.
listings_agree() {
    "$engine" tokenize -m "$2" --vocab >ours
    grep UNK_BYTE_ listed | cut -d ' ' -f 1 >strange
    for file in ours listed; do
        awk 'FILENAME == "strange" { skip[$1]; next } !($1 in skip)' strange $file >$file.known
    done
    cmp -s ours.known listed.known || complain "$1: the vocabulary differs:" \
        "$(diff ours.known listed.known | head -n 4)"
}

# back WHAT VOCAB [SCRIPT]: the text of the tokens is the input, after a script for sed
back() {
    "$engine" tokenize -m "$2" --lines --null --text --no-bos <plain.in | sed -z "${3:-}" >text
    sed -z "${3:+s/▁/ /g}" plain.in | cmp -s - text || complain "$1: the text does not come back"
}

for vocab in "$llama"/vocab/ggml-vocab-*.gguf; do
    name=${vocab##*/ggml-vocab-}
    name=${name%.gguf}
    case $name in
    bert-bge | gemma-4 | nomic-bert-moe)
        status 2 "$engine" tokenize -m "$vocab" text
        has "$name" "are not supported; 'llama' \(SentencePiece\) and 'gpt2' \(byte-level BPE\) are" err
        continue
        ;;
    esac
    agree "$name" "$vocab" text.in
    agree "$name" "$vocab" special.in --special
    listings_agree "$name" "$vocab"
    case $name in
    llama-spm | phi-3 | baichuan) back "$name" "$vocab" 's/^ //' ;;
    falcon) ;; # has no token for a vertical tab
    *) back "$name" "$vocab" ;;
    esac
done

# Pre-tokenizers that none of these has.
for pre in dbrx bailingmoe laguna seed-coder deepseek-v3 gpt-4o tekken bloom viking default; do
    python3 "$SONDE_SOURCE/tests/llama/gguf_vocab.py" "$llama/vocab/ggml-vocab-gpt-2.gguf" $pre pre.gguf
    agree "gpt-2 with $pre" pre.gguf few.in
done
python3 "$SONDE_SOURCE/tests/llama/gguf_vocab.py" "$llama/vocab/ggml-vocab-gpt-2.gguf" no-such pre.gguf
status 2 "$engine" tokenize -m pre.gguf text
has no-such "the pre-tokenizer 'no-such' \(tokenizer.ggml.pre\) is not supported" err
finish
