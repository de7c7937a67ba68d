/* Functions with the names of llama.cpp's and parameters of all kinds: what stands in front of them
 * must not mind. Only names whose arguments nobody looks behind. */
#ifndef THUNK_CALLS_H
#define THUNK_CALLS_H

#include <stddef.h>
#include <stdint.h>

struct large { int64_t v[40]; };                        /* 320 bytes, on the stack */
struct __attribute__((aligned(64))) wide { double v[8]; };
struct small { int64_t a; double b; };                  /* rax and xmm0 */
struct pair { double a, b; };                           /* xmm0 and xmm1 */
struct longs { int64_t a, b; };                         /* rax and rdx */

#ifdef __cplusplus
extern "C" {
#endif

/* Integers beyond six and doubles beyond eight are on the stack. */
double llama_synchronize(int a, int64_t b, int c, int64_t d, int e, int64_t f, int g, int64_t h,
                         int i, double k, double l, double m, double n, double o, double p,
                         double q, double r, double s, double t);
struct large llama_memory_clear(int a, struct large in, double b); /* returned in memory */
int64_t llama_perf_context_reset(int count, ...);
struct small llama_get_logits(struct small in, long double x);
struct pair llama_get_embeddings_ith(struct pair in);
struct longs llama_get_embeddings_seq(struct longs in);
long double llama_get_memory(long double x, int y);
int llama_model_free(struct wide in, int align);        /* 1: it is where it has to be */
int llama_set_warmup(int depth);                        /* calls itself */
void llama_sampler_apply(int what);                     /* 1 throws, 2 longjmp, 3 a thread's end, 0
                                                         * nothing */
void *llama_free(void *(*call)(void *), void *arg);     /* calls that */
int llama_vocab_is_eog(void *p, int x);

extern void *thunk_jump;                                /* jmp_buf of llama_sampler_apply(2) */

#ifdef __cplusplus
}
#endif

#endif
