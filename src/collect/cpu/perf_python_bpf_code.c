/* perf_python_bpf_code.c - the BPF program's instructions: see perf_python_bpf.h.
 *
 * This file, from which the program is made that the kernel runs, may be used under the GNU General
 * Public License, version 2, as well as under sonde's own.
 *
 * Registers that outlive calls: 6 the context, 7 the scratch, 8 the cursor, 9 a loop's counter.
 * What must outlive a program is in the scratch. A loop is of so many steps that the kernel's
 * check, which goes through each, is quick; the program then calls itself, up to 32 times. */
#include "collect/cpu/perf_python_bpf_private.h"

#include "base/hash.h"

enum {
    STEPS = 64,              /* frames, or threads, of one program */
    NOT_PYTHON_NS = 50000000 /* a thread without a state is looked for so seldom */
};

enum python_bpf_phase { PHASE_KNOWN, PHASE_BEGIN, PHASE_SEARCH, PHASE_FRAMES };

/* On the program's stack, from its end down. */
enum {
    FRAME = -72,             /* SONDE__PYTHON_FRAME_BYTES, or an anchor */
    CODE = FRAME - (int)SONDE__PYTHON_CODE_BYTES,
    WORD = CODE - 8,
    OBJECT = WORD - 8,       /* address of the code object */
    NUMBER = OBJECT - 8,     /* of the frame */
    KEY = NUMBER - 8,
    SLOT = KEY - (int)sizeof(struct python_bpf_slot)
};

enum {
    END, BEGIN, SEARCH, SEARCH_NEXT, SEARCH_LOOP, NONE, FRAMES, FRAMES_LOOP, FRAMES_LAST, FRAMES_ON,
    CUT, BROKEN, SEND, AT_START, AT_KNOWN, STARTED
};

#define FIELD(name) ((int)offsetof(struct python_bpf_scratch, name))

/* to = the address of what is at at on the stack. */
static void python_bpf_stack(struct sonde_bpf_code *c, uint8_t to, int at)
{
    sonde_bpf_move(c, to, BPF_REG_10);
    sonde_bpf_math(c, BPF_ADD, to, at);
}

/* r0 = what map has for the key of 4 bytes at KEY; to label when it has nothing. */
static void python_bpf_look(struct sonde_bpf_code *c, int map, uint32_t label)
{
    sonde_bpf_map_of(c, BPF_REG_1, map);
    python_bpf_stack(c, BPF_REG_2, KEY);
    sonde_bpf_call(c, BPF_FUNC_map_lookup_elem);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_0, 0, label);
}

/* bytes at the address in register from, plus off, to the stack; to label: they are not there. */
static void python_bpf_read(struct sonde_bpf_code *c, int to, uint32_t bytes, uint8_t from,
                            int32_t off, uint32_t label)
{
    sonde_bpf_move(c, BPF_REG_3, from);
    if (off) sonde_bpf_math(c, BPF_ADD, BPF_REG_3, off);
    sonde_bpf_number(c, BPF_REG_2, bytes);
    python_bpf_stack(c, BPF_REG_1, to);
    sonde_bpf_call(c, BPF_FUNC_probe_read_user);
    sonde_bpf_jump(c, BPF_JNE, BPF_REG_0, 0, label);
}

/* The word there into register to. */
static void python_bpf_word(struct sonde_bpf_code *c, uint8_t to, uint8_t from, int32_t off,
                            uint32_t label)
{
    python_bpf_read(c, WORD, 8, from, off, label);
    sonde_bpf_load(c, BPF_DW, to, BPF_REG_10, WORD);
}

/* r7 = this CPU's scratch. */
static void python_bpf_scratch(struct sonde_bpf_code *c, const struct python_bpf_maps *m)
{
    sonde_bpf_call(c, BPF_FUNC_get_smp_processor_id);
    sonde_bpf_store(c, BPF_W, BPF_REG_10, KEY, BPF_REG_0);
    python_bpf_look(c, m->scratch, END);
    sonde_bpf_move(c, BPF_REG_7, BPF_REG_0);
}

static void python_bpf_go(struct sonde_bpf_code *c, const struct python_bpf_maps *m)
{
    sonde_bpf_move(c, BPF_REG_1, BPF_REG_6);
    sonde_bpf_map_of(c, BPF_REG_2, m->programs);
    sonde_bpf_call(c, BPF_FUNC_tail_call); /* which returns if there is no such program */
}

/* r0 = the slot of the thread in the scratch; to label: cannot be. */
static void python_bpf_slot(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                            uint32_t label)
{
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_7, FIELD(tid));
    sonde_bpf_math(c, BPF_AND, BPF_REG_1, PYTHON_BPF_SLOTS - 1);
    sonde_bpf_store(c, BPF_W, BPF_REG_10, KEY, BPF_REG_1);
    python_bpf_look(c, m->slots, label);
}

/* ---- Whose thread ---------------------------------------------------------------------------- */

/* Two words at WORD: the thread's number and its process's, in a namespace. r0: 0 or an error. */
static void python_bpf_ids_in(struct sonde_bpf_code *c)
{
    python_bpf_stack(c, BPF_REG_3, WORD);
    sonde_bpf_number(c, BPF_REG_4, sizeof(struct bpf_pidns_info));
    sonde_bpf_call(c, BPF_FUNC_get_ns_current_pid_tgid);
}

/* r8 = the thread's number as the agent sees it, and its process's at KEY. */
static void python_bpf_ids(struct sonde_bpf_code *c, uint64_t own_dev, uint64_t own)
{
    if (own) {
        sonde_bpf_number(c, BPF_REG_1, own_dev);
        sonde_bpf_number(c, BPF_REG_2, own);
        python_bpf_ids_in(c);
        sonde_bpf_jump(c, BPF_JNE, BPF_REG_0, 0, END);
        sonde_bpf_load(c, BPF_W, BPF_REG_8, BPF_REG_10, WORD);
        sonde_bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_10, WORD + 4);
    } else {
        sonde_bpf_call(c, BPF_FUNC_get_current_pid_tgid);
        sonde_bpf_move(c, BPF_REG_1, BPF_REG_0);
        sonde_bpf_math(c, BPF_RSH, BPF_REG_1, 32);
        sonde_bpf_move(c, BPF_REG_8, BPF_REG_0);
        sonde_bpf_math(c, BPF_LSH, BPF_REG_8, 32);
        sonde_bpf_math(c, BPF_RSH, BPF_REG_8, 32);
    }
    sonde_bpf_store(c, BPF_W, BPF_REG_10, KEY, BPF_REG_1);
}

/* What is known of the thread: phase and cursor. */
static void python_bpf_begin(struct sonde_bpf_code *c, const struct python_bpf_maps *m)
{
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(phase), PHASE_BEGIN);
    python_bpf_slot(c, m, END);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_0, (int)offsetof(struct python_bpf_slot, tid));
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(tid));
    sonde_bpf_jump_reg(c, BPF_JNE, BPF_REG_1, BPF_REG_2, AT_START);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_0, (int)offsetof(struct python_bpf_slot, state));
    sonde_bpf_jump(c, BPF_JNE, BPF_REG_1, 0, AT_KNOWN);
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_0,
                   (int)offsetof(struct python_bpf_slot, until_ns));
    sonde_bpf_call(c, BPF_FUNC_ktime_get_ns);
    sonde_bpf_jump_reg(c, BPF_JGT, BPF_REG_8, BPF_REG_0, END);
    sonde_bpf_jump(c, BPF_JA, 0, 0, AT_START);
    sonde_bpf_label(c, AT_KNOWN);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(cursor), BPF_REG_1);
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(phase), PHASE_KNOWN);
    sonde_bpf_label(c, AT_START);
}

void sonde__python_bpf_entry(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                             uint64_t own_dev, uint64_t own)
{
    static const struct { int from, to; } words[] = {
        { (int)offsetof(struct python_bpf_process, runtime), FIELD(runtime) },
        { (int)offsetof(struct python_bpf_process, type_code), FIELD(type_code) },
    };
    sonde_bpf_move(c, BPF_REG_6, BPF_REG_1);
    python_bpf_ids(c, own_dev, own);
    python_bpf_look(c, m->processes, END);
    sonde_bpf_move(c, BPF_REG_9, BPF_REG_0);
    python_bpf_scratch(c, m);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(tid), BPF_REG_8);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_9,
                   (int)offsetof(struct python_bpf_process, space_dev));
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_9,
                   (int)offsetof(struct python_bpf_process, space));
    python_bpf_ids_in(c);
    sonde_bpf_jump(c, BPF_JNE, BPF_REG_0, 0, END);
    sonde_bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_10, WORD);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(native), BPF_REG_1);
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_9, words[i].from);
        sonde_bpf_store(c, BPF_DW, BPF_REG_7, words[i].to, BPF_REG_1);
    }
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(count), 0); /* and flags */
    python_bpf_begin(c, m);
    sonde_bpf_load(c, BPF_DW, BPF_REG_3, BPF_REG_9,
                   (int)offsetof(struct python_bpf_process, layout));
    python_bpf_go(c, m);
    sonde_bpf_label(c, END);
    sonde_bpf_exit(c, 1); /* 0 would be: no sample */
}

/* ---- The thread's state ---------------------------------------------------------------------- */

/* r8: a state, of this thread. r9 = its first frame, whose anchor is in the scratch; to label when
 * it runs no Python. */
static void python_bpf_first(struct sonde_bpf_code *c, const struct sonde__python_layout *l,
                             uint32_t label)
{
    python_bpf_word(c, BPF_REG_9, BPF_REG_8, l->thread_top, label);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_9, 0, label);
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(outer), 0);
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(anchor), 0);
    if (!l->chained) return;
    python_bpf_read(c, FRAME, SONDE__PYTHON_ANCHOR_BYTES, BPF_REG_9, 0, label);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(anchor), BPF_REG_9);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_10, FRAME + l->anchor_previous);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(outer), BPF_REG_1);
    sonde_bpf_load(c, BPF_DW, BPF_REG_9, BPF_REG_10, FRAME + l->anchor_frame);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_9, 0, label);
}

/* The program again from the cursor (r8) on, in this phase. */
static void python_bpf_again(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                             uint32_t index, enum python_bpf_phase phase)
{
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(cursor), BPF_REG_8);
    sonde_bpf_store_number(c, BPF_DW, BPF_REG_7, FIELD(phase), (int32_t)phase);
    sonde_bpf_number(c, BPF_REG_3, index);
    python_bpf_go(c, m);
}

/* Where it was the last time, if it is this thread's still. */
static void python_bpf_known(struct sonde_bpf_code *c, const struct sonde__python_layout *l)
{
    python_bpf_word(c, BPF_REG_1, BPF_REG_8, l->thread_id, BEGIN);
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(native));
    sonde_bpf_jump_reg(c, BPF_JNE, BPF_REG_1, BPF_REG_2, BEGIN);
    python_bpf_first(c, l, BEGIN);
    sonde_bpf_move(c, BPF_REG_8, BPF_REG_9);
    sonde_bpf_jump(c, BPF_JA, 0, 0, FRAMES);
}

/* The slot of this thread: state in r8, 0 = it has none. */
static void python_bpf_remember(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                                int found)
{
    const int slot = SLOT;
    sonde_bpf_call(c, BPF_FUNC_ktime_get_ns);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_0, NOT_PYTHON_NS);
    sonde_bpf_store(c, BPF_DW, BPF_REG_10, slot, BPF_REG_0);
    python_bpf_slot(c, m, END);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_7, FIELD(tid));
    sonde_bpf_store(c, BPF_DW, BPF_REG_0, (int)offsetof(struct python_bpf_slot, tid), BPF_REG_1);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_10, slot);
    sonde_bpf_store(c, BPF_DW, BPF_REG_0, (int)offsetof(struct python_bpf_slot, until_ns),
                    BPF_REG_1);
    if (!found) sonde_bpf_number(c, BPF_REG_8, 0);
    sonde_bpf_store(c, BPF_DW, BPF_REG_0, (int)offsetof(struct python_bpf_slot, state),
                    BPF_REG_8);
}

/* In the list of the main interpreter's threads, which begins with the newest. */
static void python_bpf_search(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                              const struct sonde__python_layout *l, uint32_t index)
{
    sonde_bpf_label(c, BEGIN);
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_7, FIELD(runtime));
    python_bpf_word(c, BPF_REG_8, BPF_REG_8, l->runtime_interpreter + 8, NONE);
    python_bpf_word(c, BPF_REG_8, BPF_REG_8, l->interpreter_thread, NONE);
    sonde_bpf_label(c, SEARCH);
    sonde_bpf_number(c, BPF_REG_9, 0);
    sonde_bpf_store(c, BPF_DW, BPF_REG_10, NUMBER, BPF_REG_9);
    sonde_bpf_label(c, SEARCH_LOOP);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_8, 0, NONE);
    python_bpf_word(c, BPF_REG_1, BPF_REG_8, l->thread_id, NONE);
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(native));
    sonde_bpf_jump_reg(c, BPF_JNE, BPF_REG_1, BPF_REG_2, SEARCH_NEXT);
    python_bpf_first(c, l, SEARCH_NEXT);
    python_bpf_remember(c, m, 1);
    sonde_bpf_move(c, BPF_REG_8, BPF_REG_9);
    sonde_bpf_jump(c, BPF_JA, 0, 0, FRAMES);
    sonde_bpf_label(c, SEARCH_NEXT);
    python_bpf_word(c, BPF_REG_8, BPF_REG_8, l->thread_next, NONE);
    sonde_bpf_load(c, BPF_DW, BPF_REG_9, BPF_REG_10, NUMBER);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_9, 1);
    sonde_bpf_store(c, BPF_DW, BPF_REG_10, NUMBER, BPF_REG_9);
    sonde_bpf_jump(c, BPF_JLT, BPF_REG_9, STEPS, SEARCH_LOOP);
    python_bpf_again(c, m, index, PHASE_SEARCH);
    sonde_bpf_label(c, NONE);
    python_bpf_remember(c, m, 0);
    sonde_bpf_jump(c, BPF_JA, 0, 0, END);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* r1 = place of frame number count in the scratch, and the count is one more; to CUT when there is
 * no room: the last place is kept for an anchor. */
static void python_bpf_place(struct sonde_bpf_code *c, int32_t max, uint32_t label)
{
    sonde_bpf_load(c, BPF_W, BPF_REG_1, BPF_REG_7, FIELD(count));
    sonde_bpf_jump(c, BPF_JGE, BPF_REG_1, max, label);
    sonde_bpf_move(c, BPF_REG_2, BPF_REG_1);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_2, 1);
    sonde_bpf_store(c, BPF_W, BPF_REG_7, FIELD(count), BPF_REG_2);
    sonde_bpf_math(c, BPF_MUL, BPF_REG_1, (int32_t)sizeof(struct sonde_python_bpf_frame));
    sonde_bpf_math_reg(c, BPF_ADD, BPF_REG_1, BPF_REG_7);
}

static void python_bpf_put(struct sonde_bpf_code *c, size_t member, uint8_t from)
{
    sonde_bpf_store(c, BPF_DW, BPF_REG_1, FIELD(frames) + (int)member, from);
}

/* r3 = sonde_python_bpf_key of the code object at CODE, whose address is in r2. */
static void python_bpf_key_of(struct sonde_bpf_code *c, const struct sonde__python_layout *l)
{
    const uint16_t words[] = { l->code_name, l->code_file, l->code_lines };
    sonde_bpf_number(c, BPF_REG_3, 0);
    sonde_bpf_number(c, BPF_REG_4, SONDE_HASH_MUL);
    for (uint32_t i = 0; i < 4; i++) {
        if (i) sonde_bpf_load(c, BPF_DW, BPF_REG_5, BPF_REG_10, CODE + words[i - 1]);
        sonde_bpf_math_reg(c, BPF_XOR, BPF_REG_3, i ? BPF_REG_5 : BPF_REG_2);
        sonde_bpf_math_reg(c, BPF_MUL, BPF_REG_3, BPF_REG_4);
        sonde_bpf_move(c, BPF_REG_5, BPF_REG_3);
        sonde_bpf_math(c, BPF_RSH, BPF_REG_5, 29);
        sonde_bpf_math_reg(c, BPF_XOR, BPF_REG_3, BPF_REG_5);
    }
    sonde_bpf_math(c, BPF_OR, BPF_REG_3, 1);
}

/* The frame at FRAME, which is a function's. */
static void python_bpf_function(struct sonde_bpf_code *c, const struct sonde__python_layout *l)
{
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_10, FRAME + l->frame_code);
    sonde_bpf_store(c, BPF_DW, BPF_REG_10, OBJECT, BPF_REG_1);
    python_bpf_read(c, CODE, SONDE__PYTHON_CODE_BYTES, BPF_REG_1, 0, BROKEN);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_10, CODE + l->object_type);
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(type_code));
    sonde_bpf_jump_reg(c, BPF_JNE, BPF_REG_1, BPF_REG_2, BROKEN);
    python_bpf_place(c, SONDE_PYTHON_BPF_FRAMES_MAX - 1, CUT);
    sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_10, OBJECT);
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, code), BPF_REG_2);
    python_bpf_key_of(c, l);
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, key), BPF_REG_3);
    sonde_bpf_load(c, BPF_DW, BPF_REG_3, BPF_REG_10, FRAME + l->frame_instruction);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_2, l->code_start);
    /* One that has just begun stands before its first instruction. */
    sonde_bpf_jump_reg(c, BPF_JGE, BPF_REG_3, BPF_REG_2, STARTED);
    sonde_bpf_move(c, BPF_REG_3, BPF_REG_2);
    sonde_bpf_label(c, STARTED);
    sonde_bpf_math_reg(c, BPF_SUB, BPF_REG_3, BPF_REG_2);
    sonde_bpf_math(c, BPF_RSH, BPF_REG_3, 1);
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, at), BPF_REG_3);
}

/* Behind a run: its anchor, and on to the next one. r8: its last frame. */
static void python_bpf_run(struct sonde_bpf_code *c, const struct sonde__python_layout *l)
{
    python_bpf_place(c, SONDE_PYTHON_BPF_FRAMES_MAX, CUT);
    sonde_bpf_number(c, BPF_REG_2, 0);
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, code), BPF_REG_2);
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, at), BPF_REG_2);
    if (l->chained) sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(anchor));
    python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, key),
                   l->chained ? BPF_REG_2 : BPF_REG_8);
    if (!l->chained) {
        sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_10, FRAME + l->frame_previous);
        sonde_bpf_jump(c, BPF_JEQ, BPF_REG_8, 0, SEND);
        return;
    }
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_7, FIELD(outer));
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_8, 0, SEND);
    python_bpf_read(c, FRAME, SONDE__PYTHON_ANCHOR_BYTES, BPF_REG_8, 0, BROKEN);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(anchor), BPF_REG_8);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_10, FRAME + l->anchor_previous);
    sonde_bpf_store(c, BPF_DW, BPF_REG_7, FIELD(outer), BPF_REG_1);
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_10, FRAME + l->anchor_frame);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_8, 0, SEND); /* the outermost is part of the state */
}

static void python_bpf_frames(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                              const struct sonde__python_layout *l, uint32_t index)
{
    sonde_bpf_label(c, FRAMES);
    sonde_bpf_number(c, BPF_REG_9, 0);
    sonde_bpf_label(c, FRAMES_LOOP);
    python_bpf_read(c, FRAME, SONDE__PYTHON_FRAME_BYTES, BPF_REG_8, 0, BROKEN);
    if (!l->last_is_real) { /* one that only marks the end is no function's */
        sonde_bpf_load(c, BPF_B, BPF_REG_1, BPF_REG_10, FRAME + l->frame_flag);
        sonde_bpf_jump(c, BPF_JEQ, BPF_REG_1, l->frame_last, FRAMES_LAST);
    }
    python_bpf_function(c, l);
    if (l->last_is_real) {
        sonde_bpf_load(c, BPF_B, BPF_REG_1, BPF_REG_10, FRAME + l->frame_flag);
        sonde_bpf_jump(c, BPF_JEQ, BPF_REG_1, l->frame_last, FRAMES_LAST);
    }
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_10, FRAME + l->frame_previous);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_8, 0, BROKEN);
    sonde_bpf_jump(c, BPF_JA, 0, 0, FRAMES_ON);
    sonde_bpf_label(c, FRAMES_LAST);
    python_bpf_run(c, l);
    sonde_bpf_label(c, FRAMES_ON);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_9, 1);
    sonde_bpf_jump(c, BPF_JLT, BPF_REG_9, STEPS, FRAMES_LOOP);
    python_bpf_again(c, m, index, PHASE_FRAMES);
    sonde_bpf_jump(c, BPF_JA, 0, 0, CUT); /* that was the last call */
}

static void python_bpf_send(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                            const struct sonde__python_layout *l)
{
    sonde_bpf_label(c, CUT);
    sonde_bpf_store_number(c, BPF_W, BPF_REG_7, FIELD(flags), SONDE_PYTHON_BPF_CUT);
    if (l->chained) { /* whose frame they stand for is known from the beginning */
        python_bpf_place(c, SONDE_PYTHON_BPF_FRAMES_MAX, SEND);
        sonde_bpf_number(c, BPF_REG_2, 0);
        python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, code), BPF_REG_2);
        python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, at), BPF_REG_2);
        sonde_bpf_load(c, BPF_DW, BPF_REG_2, BPF_REG_7, FIELD(anchor));
        python_bpf_put(c, offsetof(struct sonde_python_bpf_frame, key), BPF_REG_2);
    }
    sonde_bpf_jump(c, BPF_JA, 0, 0, SEND);
    sonde_bpf_label(c, BROKEN);
    sonde_bpf_store_number(c, BPF_W, BPF_REG_7, FIELD(flags), SONDE_PYTHON_BPF_BROKEN);
    sonde_bpf_label(c, SEND);
    sonde_bpf_load(c, BPF_W, BPF_REG_5, BPF_REG_7, FIELD(count));
    sonde_bpf_jump(c, BPF_JGT, BPF_REG_5, SONDE_PYTHON_BPF_FRAMES_MAX, END);
    sonde_bpf_math(c, BPF_MUL, BPF_REG_5, (int32_t)sizeof(struct sonde_python_bpf_frame));
    sonde_bpf_math(c, BPF_ADD, BPF_REG_5, (int32_t)sizeof(struct sonde_python_bpf_record));
    sonde_bpf_move(c, BPF_REG_4, BPF_REG_7);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_4, FIELD(count));
    sonde_bpf_number(c, BPF_REG_3, BPF_F_CURRENT_CPU);
    sonde_bpf_map_of(c, BPF_REG_2, m->outputs);
    sonde_bpf_move(c, BPF_REG_1, BPF_REG_6);
    sonde_bpf_call(c, BPF_FUNC_perf_event_output);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_0, 0, END);
    sonde_bpf_call(c, BPF_FUNC_get_smp_processor_id);
    sonde_bpf_store(c, BPF_W, BPF_REG_10, KEY, BPF_REG_0);
    python_bpf_look(c, m->lost, END);
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_0, 0);
    sonde_bpf_math(c, BPF_ADD, BPF_REG_1, 1);
    sonde_bpf_store(c, BPF_DW, BPF_REG_0, 0, BPF_REG_1);
}

void sonde__python_bpf_walk(struct sonde_bpf_code *c, const struct python_bpf_maps *m,
                            const struct sonde__python_layout *l, uint32_t index)
{
    sonde_bpf_move(c, BPF_REG_6, BPF_REG_1);
    python_bpf_scratch(c, m);
    sonde_bpf_load(c, BPF_DW, BPF_REG_8, BPF_REG_7, FIELD(cursor));
    sonde_bpf_load(c, BPF_DW, BPF_REG_1, BPF_REG_7, FIELD(phase));
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_1, PHASE_FRAMES, FRAMES);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_1, PHASE_SEARCH, SEARCH);
    sonde_bpf_jump(c, BPF_JEQ, BPF_REG_1, PHASE_BEGIN, BEGIN);
    python_bpf_known(c, l);
    python_bpf_search(c, m, l, index);
    python_bpf_frames(c, m, l, index);
    python_bpf_send(c, m, l);
    sonde_bpf_label(c, END);
    sonde_bpf_exit(c, 1);
}
