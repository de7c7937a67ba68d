/* chat.c - a chat as a prompt, by the templates that are most common.
 *
 * A template is a program in a language of its own (Jinja). Instead of an interpreter there are the
 * formats that it would produce, recognised by strings that occur in it, as llama.cpp does it
 * without --jinja: the outcome is the same as its llama_chat_apply_template. A file without a
 * template, or with one that is not known, gets plain text: "user: …" and a line for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/encode.h"

/* before role between content after; then before "assistant" between. */
struct chat_format {
    const char *marks[2];        /* that the template has: both, where there are two */
    const char *without;         /* that it must not have, or NULL */
    const char *before, *between, *after;
    int trims;                   /* white space around a content */
};

static const struct chat_format formats[] = { /* the first that fits counts */
    { { "<|im_start|>", "<|im_sep|>" }, NULL, "<|im_start|>", "<|im_sep|>", "<|im_end|>", 0 },
    { { "<|im_start|>" }, "<end_of_utterance>", "<|im_start|>", "\n", "<|im_end|>\n", 0 },
    { { "<|assistant|>", "<|end|>" }, "[INST]", "<|", "|>\n", "<|end|>\n", 0 },
    { { "<|user|>", "<|endoftext|>" }, "<|assistant|>", "<|", "|>\n", "<|endoftext|>\n", 0 },
    { { "<|start_header_id|>", "<|end_header_id|>" }, "[INST]", "<|start_header_id|>",
      "<|end_header_id|>\n\n", "<|eot_id|>", 1 },
};
static const struct chat_format plain = { .before = "", .between = ": ", .after = "\n" };

static int template_has(const char *text, const char *mark) { return !mark || strstr(text, mark); }

static const struct chat_format *tokenizer_chat_format_of(const char *text)
{
    for (size_t i = 0; text && i < sizeof(formats) / sizeof(formats[0]); i++) {
        const struct chat_format *f = &formats[i];
        if (template_has(text, f->marks[0]) && template_has(text, f->marks[1]) &&
            !(f->without && strstr(text, f->without))) return f;
    }
    return &plain;
}

/* Llama 2 and not one of Mistral's, which have [INST], too. */
static int template_is_llama2(const char *text)
{
    return text && strstr(text, "[INST]") && !strstr(text, "<|im_start|>") &&
           !strstr(text, "[SYSTEM_PROMPT]") && !strstr(text, "' [INST] ' + system_message") &&
           !strstr(text, "[AVAILABLE_TOOLS]");
}

static int tokenizer_chat_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void content_write(FILE *out, const char *content, int trims)
{
    size_t bytes = strlen(content);
    while (trims && bytes && tokenizer_chat_is_space(content[0])) {
        content++;
        bytes--;
    }
    while (trims && bytes && tokenizer_chat_is_space(content[bytes - 1])) bytes--;
    fwrite(content, 1, bytes, out);
}

static void llama2_write(FILE *out, const char *text, const struct chat_message *messages,
                         size_t count)
{
    const int trims = strstr(text, "content.strip()") != NULL;
    const int inner_bos = !trims && strstr(text, "bos_token + '[INST]");
    const int systems = trims || inner_bos || strstr(text, "<<SYS>>");
    int inside = 1;
    fputs("[INST] ", out);
    for (size_t i = 0; i < count; i++) {
        if (!inside) fputs(inner_bos ? "<s>[INST] " : "[INST] ", out);
        inside = 1;
        if (!strcmp(messages[i].role, "system")) {
            if (systems) fputs("<<SYS>>\n", out);
            content_write(out, messages[i].content, trims);
            fputs(systems ? "\n<</SYS>>\n\n" : "\n", out);
        } else if (!strcmp(messages[i].role, "user")) {
            content_write(out, messages[i].content, trims);
            fputs(" [/INST]", out);
        } else {
            content_write(out, messages[i].content, trims);
            fputs("</s>", out);
            inside = 0;
        }
    }
}

static void format_write(FILE *out, const struct chat_format *f,
                         const struct chat_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s%s%s", f->before, messages[i].role, f->between);
        content_write(out, messages[i].content, f->trims);
        fputs(f->after, out);
    }
    fprintf(out, "%sassistant%s", f->before, f == &plain ? ":" : f->between);
}

char *tokenizer_chat(const struct tokenizer *t, const struct chat_message *messages, size_t count)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return NULL;
    if (template_is_llama2(t->chat_template)) {
        llama2_write(out, t->chat_template, messages, count);
    } else {
        format_write(out, tokenizer_chat_format_of(t->chat_template), messages, count);
    }
    const int failed = ferror(out);
    if (fclose(out) || failed) {
        free(text);
        return NULL;
    }
    return text;
}
